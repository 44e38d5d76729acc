"""Finds the records to copy again when the target lost acknowledged records, as after an unclean leader election.

The exact map has the source offset of each record on the target (`mirror.offsets.maps`). The last remaining record is
compared with the source record that the map names. The comparison is needed for two reasons. The target may have lost a
part of the map as well. Also, other records may be at the offsets of the lost records. These are appends from before
the loss was seen, or the same records in a transaction that was aborted since.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from twinlog.copier.start.log_reader import chunks
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.producer.appends import CopyRules, Prepare
from twinlog.kafka.protocol.fetch import PartitionResponse
from twinlog.kafka.record.batch import AbortedFilter, scan
from twinlog.kafka.record.records import is_abort_marker, record_bodies
from twinlog.lease.messages import Grant
from twinlog.mirror.offsets.exact_map import ExactMap
from twinlog.model.types import AnyOffset, SourceOffset, TargetOffset, TopicPartition

ONE_BATCH = 1
"""Bytes in an answer: a broker returns the first batch of a log whole, however large the batch is."""

HOLE = 32
"""The most offsets in a row that a map names and that lack a record: offsets of transaction markers on both
clusters."""


class LoggedRecord(NamedTuple):
    """A record: whether its log stamped the time, its timestamp in ms, its body, and whether it is in a transaction."""

    stamped: bool
    timestamp: int
    body: bytes
    transactional: bool = False


class LastRecord(NamedTuple):
    """The last record of a log that the map names: its offsets on both clusters, and the answers from there.

    An answer is None if the cluster was not asked yet. The target answered as to a reader of committed records.
    """

    source: SourceOffset
    target: TargetOffset
    original: PartitionResponse | None = None
    copy: PartitionResponse | None = None


class TransformedAppends(NamedTuple):
    """The function and the rules that make appends of source records, if a transform changes records."""

    prepare: Prepare
    rules: CopyRules


class NoOriginal(Enum):
    """The reason why a place on the target has no original.

    The map names none, the log has no record there, or the log has a different record there.
    """

    NAME = 1
    RECORD = 2
    MATCH = 3


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """The source offset from which to copy on; unless `exact`, records around it may be missing or on the target twice.

    `end` is the offset on the target at which the remaining records end.
    """

    next_source: SourceOffset
    exact: bool
    end: TargetOffset


@dataclass(frozen=True, slots=True)
class _Originals:
    """Compares records of a remote log with the source records that its map names.

    `start` is the first offset of the log.
    """

    source: ClusterClient
    target: ClusterClient
    grant: Grant
    known: ExactMap
    start: TargetOffset
    transformed: TransformedAppends | None
    last: LastRecord | None

    @property
    def begin(self) -> TargetOffset:
        """The first target offset of the map; records before it are outside the map."""
        return self.known.points(0, 1)[0].target

    async def find_original(self, at: TargetOffset) -> SourceOffset | NoOriginal:
        """The source offset that the map names for the record at a target offset, or for the last record before.

        The two records must be equal and visible to readers. If the source deleted a record, the record before it is
        compared; if the source deleted all of these records, the records count as equal.
        """
        before, unknown = TargetOffset(at + 1), None
        for _ in range(HOLE):
            last = self.known.last_before(before)
            if last is None:
                if before > min(at, self.begin):
                    return NoOriginal.NAME
                # Only markers are at the offsets of the first records, as of a transaction that had just been
                # committed.
                break
            offset, before = last
            if before < self.start:
                break
            read = self.last if self.last is not None and self.last[:2] == last else LastRecord(*last)
            copy = await _copy(self.target, self.grant.remote, before, read.copy)
            if isinstance(copy, NoOriginal):
                return copy
            if copy is not None:
                original = await self._original(offset, read.original)
                if original is not None:
                    return offset if _same(original, copy) else NoOriginal.MATCH
                unknown = offset if unknown is None else unknown
        return NoOriginal.RECORD if unknown is None else unknown

    async def _original(self, offset: SourceOffset, read: PartitionResponse | None) -> LoggedRecord | None:
        """The record at a source offset as a copier appends it; or None."""
        if self.transformed is None:
            return await _record(self.source, self.grant.source, offset, read)
        prepare, rules = self.transformed
        fetched = read or await _answer(self.source, self.grant.source, offset, committed=rules.read_committed)
        if fetched is None:
            return None
        for append in prepare(fetched.records, offset, rules, fetched.aborted).appends[:1]:
            if append.spans[0][0] == offset:
                data = memoryview(append.data)
                (batch,) = scan(data)
                _, timestamp, body = next(record_bodies(data, batch))
                return LoggedRecord(False, timestamp, bytes(body))
        return None


class RemoteLogComparison:
    """Compares a remote log that now reaches from `start` to `end` with the source records that its map names.

    `known` is the stored map up to the acknowledged position, None if the map is missing. `last` is the last record of
    the map before `end`, if it was read already. All methods raise ClusterError.
    """

    def __init__(
        self,
        source: ClusterClient,
        target: ClusterClient,
        grant: Grant,
        known: ExactMap | None,
        start: TargetOffset,
        end: TargetOffset,
        transformed: TransformedAppends | None = None,
        last: LastRecord | None = None,
    ) -> None:
        self._originals = None if known is None else _Originals(source, target, grant, known, start, transformed, last)
        self._start = start
        self._end = end
        self._last: SourceOffset | NoOriginal | None = None

    async def is_whole(self) -> bool:
        """Whether the log still has the last record that its map names before the end; True if that is unknown."""
        return self._originals is None or await self._of_last(self._originals) is not NoOriginal.MATCH

    async def find_place(self) -> ResumePoint | None:
        """Find the source offset from which the lost records came; None if the map lacks a point there."""
        originals, start, end = self._originals, self._start, self._end
        if originals is None:
            return None
        known, last = originals.known, await self._of_last(originals)
        first = max(start, originals.begin)
        if last is NoOriginal.RECORD and end - first <= HOLE:
            begin = known.to_source(first)
            return None if begin is None else ResumePoint(begin.offset, begin.exact, min(first, end))
        newest = known.to_source(TargetOffset(end - 1))
        boundary = end
        if not isinstance(last, int) and last is not NoOriginal.RECORD and newest is not None and newest.exact:
            # Appends from before the loss was seen may be after the remaining records.
            low, high = start, TargetOffset(end - 1)
            while low < high:
                middle = TargetOffset((low + high) // 2)
                found = await originals.find_original(middle)
                if isinstance(found, int) or found is NoOriginal.RECORD:
                    low, last = TargetOffset(middle + 1), found
                else:
                    high = middle
            # If even the first record differs, the map belongs to another log.
            boundary = low if isinstance(last, int) or last is NoOriginal.RECORD else end
        if isinstance(last, int):
            return ResumePoint(SourceOffset(last + 1), True, boundary)
        begin = known.to_source(boundary)
        return None if begin is None else ResumePoint(begin.offset, False, boundary)

    async def _of_last(self, originals: _Originals) -> SourceOffset | NoOriginal:
        """The original of the last remaining record; the record is read and compared once."""
        if self._last is None:
            at = TargetOffset(self._end - 1)
            self._last = await originals.find_original(at) if self._end > self._start else NoOriginal.RECORD
        return self._last


def _same(original: LoggedRecord, copy: LoggedRecord) -> bool:
    return original.body == copy.body and (copy.stamped or original.timestamp == copy.timestamp)


async def _copy(
    client: ClusterClient, partition: TopicPartition, offset: TargetOffset, read: PartitionResponse | None
) -> LoggedRecord | NoOriginal | None:
    """The record at a target offset: `NoOriginal.MATCH` for an aborted transaction, or None for a hole.

    `read` is the answer to a reader of committed records from this offset on.
    """
    copy = await _record(client, partition, offset, read)
    if copy is not None and copy.transactional and await _is_aborted(client, partition, offset, read):
        return NoOriginal.MATCH
    return copy


async def _record(
    client: ClusterClient, partition: TopicPartition, offset: AnyOffset, read: PartitionResponse | None = None
) -> LoggedRecord | None:
    """The record at an offset, or None."""
    fetched = read or await _answer(client, partition, offset, committed=False)
    if fetched is None:
        return None
    for batch in scan(fetched.records):
        if batch.is_control or not batch.base_offset <= offset <= batch.last_offset:
            continue
        for at, timestamp, body in record_bodies(fetched.records, batch):
            if at == offset:
                return LoggedRecord(batch.is_log_append_time, timestamp, bytes(body), batch.is_transactional)
    return None


async def _is_aborted(
    client: ClusterClient, partition: TopicPartition, offset: TargetOffset, read: PartitionResponse | None
) -> bool:
    """Whether the record at an offset belongs to an aborted transaction; False while the transaction is open."""
    fetched = read or await _answer(client, partition, offset, committed=True)
    if fetched is None:
        return False
    aborted = AbortedFilter(fetched.aborted)
    for batch in scan(fetched.records):
        if aborted.hides(batch, abort_marker=is_abort_marker(fetched.records, batch)):
            return batch.last_offset >= offset >= batch.base_offset
        if batch.last_offset >= offset:
            return False
    return False


async def _answer(
    client: ClusterClient, partition: TopicPartition, offset: AnyOffset, *, committed: bool
) -> PartitionResponse | None:
    """The batch at an offset, or else the next batch; None after the log's end."""
    async for fetched, _ in chunks(client, partition, offset, committed=committed, known=False, most_bytes=ONE_BATCH):
        return fetched
    return None
