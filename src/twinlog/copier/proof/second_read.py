"""Reads the logs of a proof a second time, from their present leaders.

The prover reads the remote logs by fetch sessions. It reports a difference only if a second read has it, too: the
network may have damaged the first answer. Records of foreign transactions that were open at the begin of a proof lie
before its first record, so that only this read finds them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Literal

from twinlog.copier.proof.comparing import ProofCursor, ProofDifference, ReadableLog, RemoteBatch, read_stored
from twinlog.copier.proof.notes import Note
from twinlog.errors import ClusterError, CorruptBatchError
from twinlog.kafka.admin.topics import describe_configs
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.consumer.leader_fetch import LeaderFetch
from twinlog.kafka.coordinator.transactions import find_transactional_ids
from twinlog.kafka.protocol.error_codes import refused
from twinlog.kafka.protocol.offsets import EARLIEST
from twinlog.model.topics import is_compacted
from twinlog.model.types import TargetOffset, TopicPartition
from twinlog.settings.client import ConsumerSettings

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


class OpenBefore:
    """Transactions of other programs that were open before a partition's proof.

    The copier has noted them in the proof of `cursor`, which has begun. `ended` is set once no record can come: the
    transactions have ended, or the target has deleted their records.

    With `own_ids` the copiers of the flow append in transactions whose ids begin so, and the marker of an earlier
    copier may be late: these transactions are left out, and all of them where brokers hide the owners.
    """

    def __init__(self, cursor: ProofCursor, own_ids: str | None = None) -> None:
        proof = cursor.proof
        assert proof.begin is not None
        self._remote = cursor.remote
        self._source = proof.proven.source
        self._begin = proof.begin
        self._opened: Mapping[int, TargetOffset] = proof.opened
        self._own_ids = own_ids
        self._start: TargetOffset | None = None
        self.ended = False

    async def find_committed(self, logs: SecondRead) -> ProofDifference | None:
        """Returns the first committed record of the transactions, or None. Raises ClusterError."""
        if self._own_ids is not None:
            self._opened = await self._find_foreign(logs, self._own_ids)
            self._own_ids = None
        if self._start is None:
            self._start = min(self._opened.values(), default=self._begin)
        while self._start < self._begin:
            batches, log = await logs.read_batches(self._remote, self._start, self._begin)
            for one in batches:
                first = self._opened.get(one.producer_id)
                if first is not None and one.base >= first:
                    self.ended = True
                    return ProofDifference("foreign", self._source, one.base)
            if log.start > self._start:
                self._start = log.start
            elif log.stable_end >= self._begin:
                break
            else:
                # Before the stable end nothing is undecided.
                self._start = max(self._start, log.stable_end)
                return None
        self.ended = True
        return None

    async def _find_foreign(self, logs: SecondRead, own_ids: str) -> dict[int, TargetOffset]:
        ids = await find_transactional_ids(logs.target, self._opened)
        if ids is None:
            return {}
        return {one: first for one, first in self._opened.items() if not ids.get(one, "").startswith(own_ids)}
