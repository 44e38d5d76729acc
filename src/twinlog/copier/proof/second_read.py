"""Reads the logs of a proof a second time, from their present leaders.

The prover reads the remote logs by fetch sessions. It reports a difference only if a second read has it, too: the
network may have damaged the first answer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Literal

from twinlog.copier.proof.comparing import ReadableLog, RemoteBatch, read_stored
from twinlog.copier.proof.notes import Note
from twinlog.errors import ClusterError, CorruptBatchError
from twinlog.kafka.admin.topics import describe_configs
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.consumer.leader_fetch import LeaderFetch
from twinlog.kafka.protocol.error_codes import refused
from twinlog.kafka.protocol.offsets import EARLIEST
from twinlog.model.topics import is_compacted
from twinlog.model.types import TargetOffset, TopicPartition
from twinlog.settings.flow import ConsumerSettings

if TYPE_CHECKING:
    from twinlog.batches.arrow.bodies import Bodies
    from twinlog.copier.proof.difference import FirstDifference


class SecondRead:
    """The second reads of a prover.

    `remote_reading` are the settings of reads of the target, and `source_reading` of reads of the source.
    """

    def __init__(
        self,
        target: ClusterClient,
        source: ClusterClient,
        remote_reading: ConsumerSettings,
        source_reading: ConsumerSettings,
    ) -> None:
        self.target = target
        self._source = source
        self._remote_reading = remote_reading
        self._source_reading = source_reading

    async def find_first_difference(
        self, source: TopicPartition, remote: TopicPartition, note: Note
    ) -> FirstDifference | Literal["gone"] | None:
        """The offsets of the first different record of a note; "gone" if the source has deleted some record since.

        Raises ClusterError.
        """
        from twinlog.copier.proof.difference import (  # noqa: PLC0415 - numpy
            FirstDifference,
            count_records,
            find_first_difference,
            read_copies,
            read_originals,
        )

        committed = self._source_reading.isolation_level == "read_committed"
        theirs = LeaderFetch(self.target, self._remote_reading, read_committed=True)
        ours = LeaderFetch(self._source, self._source_reading, read_committed=committed)
        past = sum(note.spans[-1])

        def originals() -> AsyncIterator[Bodies]:
            return read_originals(ours, source, note.first_source, past, committed=committed)

        try:
            copies = read_copies(theirs, remote, note.base, note.end)
            first = await find_first_difference(originals(), copies, note)
            if first is not None and await count_records(originals(), note) != note.records:
                return "gone"
        except CorruptBatchError:
            return FirstDifference(note.first_source, note.base)
        return first

    async def is_deleted(self, remote: TopicPartition, offset: TargetOffset) -> bool:
        """Whether the target has deleted its records before a later offset. Raises ClusterError."""
        starts = await self.target.list_offsets([remote], EARLIEST)
        return remote in starts and starts[remote] > offset

    async def read_batches(
        self, remote: TopicPartition, start: TargetOffset, end: TargetOffset
    ) -> tuple[list[RemoteBatch], ReadableLog]:
        """The visible batches with offsets from `start` to below `end`, and the log's bounds. Raises ClusterError."""
        fetch = LeaderFetch(self.target, self._remote_reading, read_committed=True)
        found: list[RemoteBatch] = []
        at, bounds = start, ReadableLog(start, end, end)
        while at < end:
            answer = await fetch.fetch_allowed(remote, at)
            if answer.error:
                starts = await self.target.list_offsets([remote], EARLIEST)
                if remote not in starts:
                    raise ClusterError(f"cluster {self.target.alias}: {remote} reports no offsets")
                return found, ReadableLog(TargetOffset(starts[remote]), at, at)
            bounds = ReadableLog(
                TargetOffset(max(0, answer.log_start)),
                TargetOffset(answer.last_stable_offset),
                TargetOffset(answer.high_watermark),
            )
            part = read_stored(answer.records, answer.aborted, at, self.target.loop.clock.monotonic())
            found += [one for one in part.batches if one.base < end]
            if part.unreadable or part.position == at:
                break
            at = part.position
        return found, bounds

    async def is_compacted(self, remote: TopicPartition) -> bool:
        """Whether the remote topic may have lost records to its cleaner. Raises RefusedError and ClusterError."""
        found, codes = await describe_configs(self.target, [remote.topic])
        if refused(codes.get(remote.topic, 0)):
            raise self.target.lacks("DESCRIBE_CONFIGS", f"topic {remote.topic}", "the proof of equality")
        if remote.topic not in found:
            raise ClusterError(f"cluster {self.target.alias}: {remote.topic} reports no settings")
        return is_compacted(found[remote.topic])
