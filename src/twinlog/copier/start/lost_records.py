"""Finds what to copy again when the target lost acknowledged records, as after an unclean leader election.

The exact map has the source offset of each record on the target (`mirror.offsets.maps`). The last record that is left
is compared with the one that the map names, because the target may have lost a part of the map as well, and because
something else may stand where the lost records stood: appends that came before the loss was seen, or the same records
in a transaction that was aborted since.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from twinlog.copier.start.log_reader import chunks
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.producer.appends import CopyRules, Prepare
from twinlog.kafka.protocol.fetch_response import PartitionResponse
from twinlog.kafka.record.aborted import AbortedFilter
from twinlog.kafka.record.batch import scan
from twinlog.kafka.record.records import is_abort_marker, record_bodies
from twinlog.lease.grant import Grant
from twinlog.mirror.offsets.exact_map import ExactMap
from twinlog.model.types import AnyOffset, SourceOffset, TargetOffset, TopicPartition

ONE_BATCH = 1
"""Bytes in an answer: a broker returns the first batch of a log whole, however large."""

HOLE = 32
"""So many records in a row that a map names may be none of the log: markers of transactions on both sides."""


class LoggedRecord(NamedTuple):
    """A record: whether its log stamped the time, its timestamp in ms, its body, and whether a transaction holds it."""

    stamped: bool
    timestamp: int
    body: bytes
    transactional: bool = False


class LastRecord(NamedTuple):
    """Where the last record of a log is that its map names, on both clusters, and what these answered from there on,
    where they were asked already: the target as a reader of committed records."""

    source: SourceOffset
    target: TargetOffset
    original: PartitionResponse | None = None
    copy: PartitionResponse | None = None


class TransformedAppends(NamedTuple):
    """How appends are made of what the source has, where a transform changes it."""

    prepare: Prepare
    rules: CopyRules


class NoOriginal(Enum):
    """Why there is no original of a place on the target: the map does not name one, the log has no record there, or it
    has another one."""

    NAME = 1
    RECORD = 2
    MATCH = 3


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """The source offset to copy on from; unless `exact`, what lies around it may be missing or there twice.

    `end` is where on the target that ends which is left.
    """

    next_source: SourceOffset
    exact: bool
    end: TargetOffset


@dataclass(frozen=True, slots=True)
class _Originals:
    """Compares records of a remote log with those its map names; `start` is where the log begins."""

    source: ClusterClient
    target: ClusterClient
    grant: Grant
    known: ExactMap
    start: TargetOffset
    transformed: TransformedAppends | None
    last: LastRecord | None

    @property
    def begin(self) -> TargetOffset:
        """Where the map begins on the target: other records may be in front of that."""
        return self.known.points(0, 1)[0].target

    async def find_original(self, at: TargetOffset) -> SourceOffset | NoOriginal:
        """The source offset that the map names for the record at a target offset, or the last one before it, if the two
        are the same and readers see it.

        Where the source deleted a record, the one before it is compared; where it deleted all of them, they count as
        the same.
        """
        before, unknown = TargetOffset(at + 1), None
        for _ in range(HOLE):
            last = self.known.last_before(before)
            if last is None:
                if before > min(at, self.begin):
                    return NoOriginal.NAME
                # Only markers are where the first records were, as of a transaction that had just been committed.
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
        """The record at a source offset as it is appended; None when it is not there."""
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
    """A remote log that is now from `start` to `end`, compared with what its map names; all of it raises ClusterError.

    `known` is the stored map up to what was acknowledged, None when there is none. `last` is its last record before
    `end`, where that was looked at.
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
        """Whether the log still has the last record before its end that its map names; true where that is unknown."""
        return self._originals is None or await self._of_last(self._originals) is not NoOriginal.MATCH

    async def find_place(self) -> ResumePoint | None:
        """Where the records came from that the log lost; None when the map has no point there."""
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
            # After what is left there may be appends that came before the loss was seen.
            low, high = start, TargetOffset(end - 1)
            while low < high:
                middle = TargetOffset((low + high) // 2)
                found = await originals.find_original(middle)
                if isinstance(found, int) or found is NoOriginal.RECORD:
                    low, last = TargetOffset(middle + 1), found
                else:
                    high = middle
            # Where not even the first is the same, the map is of something else.
            boundary = low if isinstance(last, int) or last is NoOriginal.RECORD else end
        if isinstance(last, int):
            return ResumePoint(SourceOffset(last + 1), True, boundary)
        begin = known.to_source(boundary)
        return None if begin is None else ResumePoint(begin.offset, False, boundary)

    async def _of_last(self, originals: _Originals) -> SourceOffset | NoOriginal:
        """The original of the last record that is left, which is read and compared once."""
        if self._last is None:
            at = TargetOffset(self._end - 1)
            self._last = await originals.find_original(at) if self._end > self._start else NoOriginal.RECORD
        return self._last


def _same(original: LoggedRecord, copy: LoggedRecord) -> bool:
    return original.body == copy.body and (copy.stamped or original.timestamp == copy.timestamp)


async def _copy(
    client: ClusterClient, partition: TopicPartition, offset: TargetOffset, read: PartitionResponse | None
) -> LoggedRecord | NoOriginal | None:
    """The record at an offset of the target: `NoOriginal.MATCH` after an aborted transaction, None if none is there.

    `read` is what a reader of committed records gets from there on.
    """
    copy = await _record(client, partition, offset, read)
    if copy is not None and copy.transactional and await _is_aborted(client, partition, offset, read):
        return NoOriginal.MATCH
    return copy


async def _record(
    client: ClusterClient, partition: TopicPartition, offset: AnyOffset, read: PartitionResponse | None = None
) -> LoggedRecord | None:
    """The record at an offset; None when it is not there."""
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
    """Whether the record at an offset is one of an aborted transaction; not as long as that is open."""
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
    """The batch at an offset, or the next one where there is none; None after the log's end."""
    async for fetched, _ in chunks(client, partition, offset, committed=committed, known=False, most_bytes=ONE_BATCH):
        return fetched
    return None
