"""The largest batch that a remote topic takes, and the messages about a record that exceeds it."""

from __future__ import annotations

from dataclasses import replace

from twinlog.clock import LONG_AGO
from twinlog.errors import RecordTooLargeError, RefusedRecordError, TwinlogError
from twinlog.kafka.producer.appends import CopyRules
from twinlog.model.types import SourceOffset, TopicPartition
from twinlog.settings.flow import FlowSettings
from twinlog.settings.written import key_of


def left_out(source: TopicPartition, offset: SourceOffset, why: str) -> str:
    """The event for a record that a policy leaves out."""
    return f"{source}: record at source offset {offset} left out: {why}"


def refused_as_too_large(
    source: TopicPartition, remote: TopicPartition, offset: SourceOffset, size: int
) -> RecordTooLargeError:
    """The target refused the record at a source offset, alone in a batch of `size` bytes."""
    return RecordTooLargeError(
        f"{remote}: the target refuses the record at source offset {offset} of {source} as too large ({size} bytes)",
        source_offset=offset,
        size=size,
        way_out=_way_out(source, remote),
    )


def way_on(error: TwinlogError, source: TopicPartition, remote: TopicPartition, settings: FlowSettings) -> str | None:
    """The way to copy on for a partition that is held for a single record; None if it is held for another reason."""
    if isinstance(error, RecordTooLargeError):
        change, field = f"raise max.message.bytes of {remote.topic}", "oversized_record_policy"
        if settings.sync_topic_configs_interval_s is not None:
            change += f", or of {source.topic} if the sync of settings resets it"
    elif isinstance(error, RefusedRecordError):
        change, field = f"change the setting of {remote.topic} that refuses it", "refused_record_policy"
    else:
        return None
    if settings.keeps_offsets(source.topic):
        return change
    policy = f"set {settings.key(field)}.{source.topic} = skip or dead-letter"
    if settings.kind is not None:
        return f"{change}; or, to leave such records out, {policy}"
    one = ""
    if error.source_offset >= 0:
        skip = f"twinlog topics skip-to FILE {source} --flow {settings.as_option} --to-offset {error.source_offset + 1}"
        one = f"; or, to leave this record out, run {skip}"
    return f"{change}{one}; or, to leave such records out, {policy} and run twinlog reload FILE"


def naming(error: TwinlogError, source: TopicPartition, remote: TopicPartition) -> TwinlogError:
    """The error with the partition's name; for a record that is too large, also with the way out."""
    if isinstance(error, RecordTooLargeError):
        return RecordTooLargeError(
            f"{source}: the record at source offset {error.source_offset} needs {error.size} bytes, {remote} takes "
            f"{error.limit}",
            source_offset=error.source_offset,
            size=error.size,
            limit=error.limit,
            way_out=_way_out(source, remote),
        )
    error.message = f"{source}: {error.message}"
    error.args = (error.message,)
    return error


def _way_out(source: TopicPartition, remote: TopicPartition) -> str:
    return (
        f"raise max.message.bytes of {remote.topic}, or set "
        f"{key_of(FlowSettings, 'oversized_record_policy')}.{source.topic} = skip or dead-letter to leave such records "
        "out"
    )


SURE_S = 5.0
"""How long an answer about the remote topic's limit counts."""


class BatchLimit:
    """`topic_bytes` is the remote topic's `max.message.bytes`.

    `rules` are the flow's, limited to the largest batch of the target. The target may take less than its topic: a
    broker's own limit may be lower.
    """

    __slots__ = ("_most_bytes", "_sure_until", "rules", "topic_bytes")

    def __init__(self, rules: CopyRules, topic_bytes: int) -> None:
        self.topic_bytes = topic_bytes
        self.rules = replace(rules, max_batch_bytes=min(rules.max_batch_bytes, topic_bytes))
        self._most_bytes = rules.max_batch_bytes
        self._sure_until = LONG_AGO

    def sure(self, now: float) -> bool:
        """Whether the remote topic was asked lately (`now` in monotonic seconds)."""
        return now < self._sure_until

    def set_topic_bytes(self, topic_bytes: int | None, now: float) -> None:
        """Set the current limit of the remote topic, None if the limit is unknown."""
        if topic_bytes is not None and topic_bytes != self.topic_bytes:
            self.topic_bytes = topic_bytes
            self.rules = replace(self.rules, max_batch_bytes=min(self._most_bytes, topic_bytes))
        self._sure_until = now + SURE_S

    def lower_limit(self, limit_bytes: int) -> None:
        """The target refused a batch larger than `limit_bytes`."""
        if limit_bytes < self.rules.max_batch_bytes:
            self.rules = replace(self.rules, max_batch_bytes=limit_bytes)
