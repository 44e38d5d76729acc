"""Compares a range of a remote log with its source record by record, both read again from their leaders."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from twinlog.batches.arrow.bodies import Bodies, fill_batches, first_changed, runs_from
from twinlog.copier.proof.link import decode_all, visible_batches, within_spans
from twinlog.copier.proof.notes import Note
from twinlog.errors import CorruptBatchError
from twinlog.kafka.consumer.leader_fetch import LeaderFetch
from twinlog.kafka.record.batch import Batch, check_crc, scan
from twinlog.model.types import SourceOffset, TargetOffset, TopicPartition

_ANY_OFFSET = -(1 << 62), 1 << 62
"""The offsets of a damaged batch may be in any order."""


class FirstDifference(NamedTuple):
    """The offsets of the first different record on both sides; `missing` if the target lacks the record."""

    source: SourceOffset
    target: TargetOffset
    missing: bool = False


class OddCopyError(Exception):
    """The records of a remote batch are unlike the records of any batch that a broker accepts.

    `target` is the offset of the first odd record; of an unreadable batch, its first offset.
    """

    def __init__(self, target: TargetOffset) -> None:
        super().__init__(target)
        self.target = target


class _Answer(NamedTuple):
    """The visible batches of an answer that end at offset `start` or later."""

    start: int
    records: memoryview
    batches: Sequence[Batch]


async def _answers(
    fetch: LeaderFetch,
    partition: TopicPartition,
    start: int,
    end: int,
    *,
    committed: bool,
) -> AsyncIterator[_Answer]:
    at = start
    while at < end:
        answer = await fetch.fetch_allowed(partition, at)
        if answer.error:
            return
        before = at
        for batch in scan(answer.records):
            at = max(at, batch.last_offset + 1)
        batches = [
            batch
            for batch in visible_batches(answer.records, answer.aborted if committed else None, end)
            if batch.last_offset >= before
        ]
        if batches:
            yield _Answer(before, answer.records, batches)
        if at == before:
            return


async def read_originals(
    fetch: LeaderFetch,
    partition: TopicPartition,
    start: int,
    end: int,
    *,
    committed: bool,
) -> AsyncIterator[Bodies]:
    """The visible records of a source partition with offsets from `start` to below `end`, answer by answer.

    With `committed` aborted records are left out. Ends before `end` at the end of the log, and at deleted records.
    Raises ClusterError, and CorruptBatchError for a wrong checksum.
    """
    async for answer in _answers(fetch, partition, start, end, committed=committed):
        for batch in answer.batches:
            check_crc(answer.records, batch)
        yield decode_all(answer.records, answer.batches, answer.start, end)


async def read_copies(fetch: LeaderFetch, remote: TopicPartition, start: int, end: int) -> AsyncIterator[Bodies]:
    """The committed records of a remote partition, in the batches with offsets from `start` to below `end`.

    Ends as `read_originals`. Raises ClusterError, and OddCopyError after the records before an odd record.
    """
    async for answer in _answers(fetch, remote, start, end, committed=True):
        found = _regular(answer.records, answer.batches)
        if found is not None:
            yield found
            continue
        for batch in answer.batches:
            found = _regular(answer.records, [batch])
            if found is None:
                part, odd = _regular_part(answer.records, batch)
                yield part
                raise OddCopyError(odd)
            yield found


def _regular(records: memoryview, batches: Sequence[Batch]) -> Bodies | None:
    """The records of some batches, None if some batch is damaged, or has a record in the place of another record."""
    found = _decoded(records, batches)
    return found if found is not None and fill_batches(found, batches) else None


def _decoded(records: memoryview, batches: Sequence[Batch]) -> Bodies | None:
    try:
        for batch in batches:
            check_crc(records, batch)
        return decode_all(records, batches, *_ANY_OFFSET)
    except CorruptBatchError:
        return None


def _regular_part(records: memoryview, batch: Batch) -> tuple[Bodies, TargetOffset]:
    """The records of an odd batch before the first odd record, and the offset of the place of the odd record."""
    found = _decoded(records, [batch])
    if found is None:
        return decode_all(records, (), 0, 0), TargetOffset(batch.base_offset)
    first = runs_from(found, batch.base_offset)
    return found.part(0, first), TargetOffset(batch.base_offset + first)


async def find_first_difference(
    source: AsyncIterator[Bodies], target: AsyncIterator[Bodies], note: Note
) -> FirstDifference | None:
    """The offsets of the first different record of a note, or None if both sides have the same records.

    A side that ends early gets the offset after its last record.
    """
    ours: Bodies | None = None
    theirs: Bodies | None = None
    last, placed = note.first_source, note.base
    gapless = note.end - note.base == note.records
    while True:
        # Empty parts are false.
        while not ours:
            found = await anext(source, None)
            if found is None:
                break
            ours = within_spans(found, note.spans)
        try:
            while not theirs:
                theirs = await anext(target, None)
                if theirs is None:
                    break
        except OddCopyError as error:
            return FirstDifference(_first_offset(ours, last), error.target)
        if not ours or not theirs:
            if not ours and not theirs:
                return None
            there = TargetOffset(int(theirs.offsets[0])) if theirs else placed
            return FirstDifference(_first_offset(ours, last), there, missing=not theirs)
        count = min(len(ours), len(theirs))
        same = first_changed(ours.part(0, count), theirs.part(0, count))
        if gapless and (gap := runs_from(theirs.part(0, count), placed)) <= same and gap < count:
            there = TargetOffset(placed + gap)
            return FirstDifference(SourceOffset(int(ours.offsets[gap])), there, missing=True)
        if same < count:
            return FirstDifference(SourceOffset(int(ours.offsets[same])), TargetOffset(int(theirs.offsets[same])))
        last = SourceOffset(int(ours.offsets[count - 1]) + 1)
        placed = TargetOffset(int(theirs.offsets[count - 1]) + 1)
        ours, theirs = ours.part(count, len(ours)), theirs.part(count, len(theirs))


def _first_offset(ours: Bodies | None, past: SourceOffset) -> SourceOffset:
    return SourceOffset(int(ours.offsets[0])) if ours else past


async def count_records(source: AsyncIterator[Bodies], note: Note) -> int:
    """The number of records of a note that the source still has: it may have deleted or compacted the others."""
    return sum([len(within_spans(found, note.spans)) async for found in source])
