"""The messages about a record that no batch of the remote topic can hold."""

from __future__ import annotations

from twinlog.errors import RecordTooLargeError, TwinlogError
from twinlog.model.types import SourceOffset, TopicPartition
from twinlog.settings.flow import FlowSettings
from twinlog.settings.written import key_of


def skipped(source: TopicPartition, offset: SourceOffset, size: int) -> str:
    """The event for a record that is left out by `twinlog.oversized.record.policy = skip`; `size` is in bytes."""
    return f"{source}: record at source offset {offset} left out: {size} bytes"


def refused_as_too_large(
    source: TopicPartition, remote: TopicPartition, offset: SourceOffset, size: int
) -> RecordTooLargeError:
    """The target refused the record at a source offset, alone in a batch of `size` bytes."""
    return RecordTooLargeError(
        f"{remote}: the target refuses the record at source offset {offset} of {source} as too large ({size} bytes); "
        f"{_way_out(remote)}",
        source_offset=offset,
        size=size,
    )


def naming(error: TwinlogError, source: TopicPartition, remote: TopicPartition) -> TwinlogError:
    """The error with the partition's name; for a record that is too large, also with the way out."""
    if isinstance(error, RecordTooLargeError):
        return RecordTooLargeError(
            f"{source}: the record at source offset {error.source_offset} needs {error.size} bytes, {remote} takes "
            f"{error.limit}; {_way_out(remote)}",
            source_offset=error.source_offset,
            size=error.size,
            limit=error.limit,
        )
    error.args = (f"{source}: {error}",)
    error.message = f"{source}: {error.message}"
    return error


def _way_out(remote: TopicPartition) -> str:
    return (
        f"raise max.message.bytes of {remote.topic}, or set "
        f"{key_of(FlowSettings, 'oversized_record_policy')} = skip to leave such records out"
    )
