"""Recognizes the copies of source records among the records that arrived on the target after a stored position.

A matcher reads the source from the position on, and compares the contents of its records with the arrived records: a
copier appends in the source's order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from twinlog.batches.prepare import prepare as unchanged
from twinlog.copier.start.first_look import LogBounds
from twinlog.copier.start.log_reader import RemoteLogBatches, chunks
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.producer.appends import ADDED, Append, CopyRules, Prepare
from twinlog.kafka.protocol.fetch import PartitionResponse
from twinlog.kafka.record.batch import BASE_TIMESTAMP, HEADER_SIZE, MAX_TIMESTAMP, Batch, scan
from twinlog.kafka.record.records import record_bodies
from twinlog.lease.messages import Grant
from twinlog.mirror.offsets.exact_map import CopiedRuns
from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import SourceOffset, TargetOffset, TopicPartition

MOST_LEFT_OUT = 20_000
"""The most source records in a row that may be missing on the target because a policy left them out. After more missing
records, the following remote records count as records of another program."""

_TIMESTAMPS = slice(BASE_TIMESTAMP.start, MAX_TIMESTAMP.stop)

Body = tuple[int, bytes]
"""The compared parts of a record: its timestamp in ms, and its bytes after the offset."""


class ForeignRecord(NamedTuple):
    """The first record of another program after a stored position, at target offset `target`.

    `source` is the source offset after the copies before it.
    """

    source: SourceOffset
    target: TargetOffset


class ExpectedAppends:
    """The appends that a copier would make of the remaining source records from a source offset on."""

    def __init__(
        self,
        client: ClusterClient,
        partition: TopicPartition,
        start: SourceOffset,
        rules: CopyRules,
        prepare: Prepare = unchanged,
        first: PartitionResponse | None = None,
    ) -> None:
        self._chunks = chunks(
            client, partition, start, committed=rules.read_committed, known=False, begun=True, first=first
        )
        self._prepare = prepare
        self._appends: deque[Append] = deque()
        self._rules = rules
        self._position = self._read_to = start
        self.whole = True
        """Whether the source has every record of the read offsets; compaction removes some."""
        self.leader_epoch = -1
        """The leader epoch of the last batch read, at least as new as the epoch of the last append from `next`."""

    async def next(self) -> Append | None:
        while not self._appends:
            try:
                fetched, go_on = await anext(self._chunks)
            except StopAsyncIteration:
                return None
            for batch in scan(fetched.records):
                if batch.record_count <= batch.last_offset_delta or batch.base_offset > self._read_to:
                    self.whole = False
                self._read_to = SourceOffset(batch.last_offset + 1)
            prepared = self._prepare(fetched.records, self._position, self._rules, fetched.aborted)
            self._position = prepared.position
            self.leader_epoch = max(self.leader_epoch, prepared.leader_epoch)
            self._appends.extend(prepared.appends)
            go_on(self._position)
        return self._appends.popleft()


class CopyMatcher:
    """Follows the appends that a copier would make: `next_source` is after the last source record found on the target.

    `runs` are the found records, with their offsets on the target.
    """

    def __init__(
        self,
        client: ClusterClient,
        grant: Grant,
        position: Position,
        logs: LogBounds,
        rules: CopyRules,
        prepare: Prepare,
        *,
        in_transactions: bool = False,
    ) -> None:
        self._client = client
        self._grant = grant
        self._rules = rules
        self._prepare = prepare
        begin = logs.source_begin(position)
        self._source_start = logs.source_start
        self._expected = ExpectedAppends(client, grant.source, begin, rules, prepare, logs.source_read)
        self._expected.whole = position.next_source >= logs.source_start
        self._here: deque[tuple[SourceOffset, Body]] = deque()
        self._met = False
        self._writer = position.writer
        self._certain = in_transactions or position.writer is not None
        """Whether the producer of a batch shows that another program wrote it."""
        self._epoch = position.leader_epoch
        self.next_source = position.next_source
        self.runs = CopiedRuns()
        self.foreign: ForeignRecord | None = None
        self._strange = False
        self._looks_ahead = prepare is unchanged and rules.leave_out
        self._begin: TargetOffset | None = TargetOffset(0)
        """The first remote offset to compare; None when all arrived records are skipped."""

    @property
    def leader_epoch(self) -> int:
        # With an epoch older than the position's, the source would report a truncation.
        return self._expected.leader_epoch if self._met else self._epoch

    async def pass_over(self, count: int) -> None:
        """Pass over the first `count` records, because the target had them."""
        left, begin = count, self.next_source
        while left and await self._fill():
            for _ in range(min(left, len(self._here))):
                self._met_next()
                left -= 1
        if not self._expected.whole:
            # The source deleted some of these records, too, so fewer of them are left to pass over. At least `count`
            # offsets were copied. Copying a record twice is better than losing a record.
            self.next_source, self._epoch = SourceOffset(begin + count), -1
            start = max(self.next_source, self._source_start)
            self._expected = ExpectedAppends(self._client, self._grant.source, start, self._rules, self._prepare)
            self._here.clear()

    async def pass_deleted(self, arrived: RemoteLogBatches) -> None:
        """Leave out of `arrived`, which is read here, possible copies of records that the source has deleted.

        The n-th arrived record came from the n-th offset after the position, or from a later offset. So the copy of the
        first remaining source record has a last possible place. Of equal arrived records up to this place, the last
        record counts as the copy: with an earlier record, missing records would count as copied. If fewer records
        arrived, none of them is a copy of a remaining record.
        """
        left = self._here[0][0] if await self._fill() else self._source_start
        most = left - self.next_source
        count = 0
        place: TargetOffset | None = None
        while count <= most and (found := await arrived.read_batch()) is not None:
            view, batch = found
            if not self._is_ours(batch):
                continue
            for at, timestamp, body in _records(view)[: most + 1 - count]:
                count += 1
                if self._here and self._is_next(timestamp, body, stamped=batch.is_log_append_time):
                    place = TargetOffset(at)
        self._begin = place if count > most else None
        if self._begin is None:
            # At least this many offsets were copied. The leader epoch at the new offset is unknown.
            self.next_source, self._epoch = SourceOffset(min(self.next_source + count, left)), -1

    async def find_first_left(self, arrived: RemoteLogBatches) -> None:
        """Leave out possible copies of deleted records if a transform changes records.

        A transform makes any number of rows of a record, so counts are useless. Copies of the remaining records begin
        at the first row of the first remaining record, if this row arrived once. If equal rows arrived, some of them
        may come from deleted records; then no row counts as a copy of a remaining record.
        """
        self._begin = None
        if not await self._fill():
            return
        if len(self._here) == 1:
            following = await self._expected.next()
            if following is not None:
                self._here.extend(_with_offsets(following))
        rows = [body for _, body in self._here]
        places: list[TargetOffset] = []
        while len(places) < 2 and (found := await arrived.read_batch()) is not None:
            view, batch = found
            if self._is_of_another(batch):
                continue
            stamped = batch.is_log_append_time
            if any(self._is_next(*row, stamped=stamped) for row in rows[1:]):
                return
            places += [
                TargetOffset(at)
                for at, timestamp, body in _records(view)
                if self._is_next(timestamp, body, stamped=stamped)
            ]
        if len(places) == 1:
            (self._begin,) = places

    async def follow(self, view: memoryview, batch: Batch) -> tuple[int, int]:
        """Compare the records of a batch; returns the number of copies and the number of other records."""
        begin = self._begin
        if self._is_of_another(batch):
            self._strange = True
            self._note_foreign(batch.base_offset)
            return 0, batch.record_count
        if begin is None or batch.last_offset < begin:
            self._strange = True
            if self._is_ours(batch):
                # The producer id shows that the records are copies; the source has deleted their originals.
                return batch.record_count, 0
            self._note_strange(batch, batch.base_offset)
            return 0, batch.record_count
        if not self._here:
            append = await self._expected.next()
            if append is not None and _same(view, batch, append):
                self._note(append.spans, TargetOffset(batch.base_offset))
                self.next_source, self._met = append.next_source_offset, True
                return append.count, 0
            if append is not None:
                self._here.extend(_with_offsets(append))
        matched = strange = 0
        for place, timestamp, body in _records(view):
            if place >= begin and await self._fill() and await self._meets(batch, timestamp, body):
                self._note(((self._met_next(), 1),), TargetOffset(place))
                matched += 1
                continue
            self._strange = True
            if place < begin and self._is_ours(batch):
                matched += 1
            else:
                strange += 1
                self._note_strange(batch, place)
        return matched, strange

    def _note_strange(self, batch: Batch, place: int) -> None:
        """Note a record that is no copy: a record of the copier's own producer may be a copy of a compacted record."""
        if self._certain and not self._is_ours(batch):
            self._note_foreign(place)

    def _note_foreign(self, place: int) -> None:
        """Note a record of another program; the first one of the log counts."""
        if self.foreign is None:
            self.foreign = ForeignRecord(self.next_source, TargetOffset(place))

    async def _meets(self, batch: Batch, timestamp: int, body: bytes) -> bool:
        """Whether a record of the target is a copy of the next record, or of a later record.

        A later record counts if policies leave records out. A copier appends in the source's order, so the records of
        its producer are the source's records except the left-out records. The first equal record counts: a later record
        could be after missing records.
        """
        stamped = batch.is_log_append_time
        if self._is_next(timestamp, body, stamped=stamped):
            return True
        if not self._looks_ahead or not self._is_ours(batch):
            return False
        passed = 0
        # If the source has a hole, an arrived record may be a copy of a deleted source record.
        while self._expected.whole and passed < MOST_LEFT_OUT:
            for sent_at, sent in (row for _, row in islice(self._here, passed, None)):
                if sent == body and (stamped or sent_at == timestamp):
                    for _ in range(passed):
                        self._here.popleft()
                    return True
                passed += 1
            append = await self._expected.next()
            if append is None:
                break
            self._here.extend(_with_offsets(append))
        self._looks_ahead = False
        return False

    def _is_next(self, timestamp: int, body: bytes, *, stamped: bool) -> bool:
        """Whether a record of the target is the next record.

        In a `stamped` batch the target set the timestamps, so only the bodies are compared.
        """
        _, (sent_at, sent) = self._here[0]
        return sent == body and (stamped or sent_at == timestamp)

    def _is_of_another(self, batch: Batch) -> bool:
        """Whether another producer wrote a batch, as for records that a transform routed here.

        A position is stored before its writer changes. MirrorMaker 2's batches lack a producer id.
        """
        return self._writer is not None and batch.producer_id not in (-1, self._writer.producer_id)

    def _is_ours(self, batch: Batch) -> bool:
        return self._writer is not None and batch.producer_id == self._writer.producer_id

    def _note(self, spans: Sequence[tuple[SourceOffset, int]], place: TargetOffset) -> None:
        if self._strange:
            # The records before this record may be copies of records that the source has deleted.
            self.runs.add_jump(spans[0][0], place)
            self._strange = False
        self.runs.add(spans, place)

    def _met_next(self) -> SourceOffset:
        """Count the next record as found on the target; returns its source offset."""
        offset = self._here.popleft()[0]
        if offset != ADDED:
            self.next_source = SourceOffset(offset + 1)
        self._met = True
        return offset

    async def _fill(self) -> bool:
        """Read the next append after the last record; returns whether a record is left."""
        if not self._here:
            append = await self._expected.next()
            if append is not None:
                self._here.extend(_with_offsets(append))
        return bool(self._here)


def _same(arrived: memoryview, batch: Batch, append: Append) -> bool:
    return (
        batch.record_count == append.count
        and len(arrived) == len(append.data)
        # Compare base and max timestamp, unless the target stamped its own time.
        and (batch.is_log_append_time or bytes(arrived[_TIMESTAMPS]) == bytes(append.data[_TIMESTAMPS]))
        and bytes(arrived[HEADER_SIZE:]) == bytes(append.data[HEADER_SIZE:])
    )


def _records(view: bytearray | memoryview) -> list[tuple[int, int, bytes]]:
    """Offset, timestamp in ms and body of each record."""
    view = memoryview(view)
    return [(offset, sent_at, bytes(body)) for one in scan(view) for offset, sent_at, body in record_bodies(view, one)]


def _with_offsets(append: Append) -> list[tuple[SourceOffset, Body]]:
    offsets = (
        ADDED if first == ADDED else SourceOffset(first + index)
        for first, count in append.spans
        for index in range(count)
    )
    bodies = ((timestamp, body) for _, timestamp, body in _records(append.data))
    return list(zip(offsets, bodies, strict=True))
