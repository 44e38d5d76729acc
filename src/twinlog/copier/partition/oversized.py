"""The messages about a record that the remote topic does not take, most of all one that no batch of it can hold."""

from __future__ import annotations

from twinlog.errors import RecordTooLargeError, RefusedRecordError, TwinlogError
from twinlog.model.types import SourceOffset, TopicPartition
from twinlog.settings.flow import FlowSettings
from twinlog.settings.written import key_of


def left_out(source: TopicPartition, offset: SourceOffset, why: str) -> str:
    """The event for a record that is left out by a policy."""
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
    """How a partition that is held for one record is copied further; None where it is held for another reason."""
    if isinstance(error, RecordTooLargeError):
        change, field = f"raise max.message.bytes of {remote.topic}", "oversized_record_policy"
    elif isinstance(error, RefusedRecordError):
        change, field = f"change the setting of {remote.topic} that refuses it", "refused_record_policy"
    else:
        return None
    policy = f"set {settings.key(field)}.{source.topic} = skip or dead-letter"
    if settings.kind is not None:
        return f"{change}; or, to leave such records out, {policy}"
    one = ""
    if error.source_offset >= 0:
        skip = f"twinlog topics skip-to FILE {source} --offset {error.source_offset + 1}"
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
