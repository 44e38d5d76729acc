"""Compares a range of a remote log with its source record by record, both read again from their leaders."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

from twinlog.arrow.bodies import Bodies, first_difference
from twinlog.copier.proof.link import decode_all, visible_batches, within_spans
from twinlog.copier.proof.notes import Note
from twinlog.errors import ClusterError
from twinlog.kafka.consumer.leader_fetch import LeaderFetch
from twinlog.kafka.protocol.error_codes import Code, explain
from twinlog.kafka.record.batch import check_crc, scan
from twinlog.model.types import SourceOffset, TargetOffset, TopicPartition

QUOTA_S = 0.1
"""The pause before a broker over its quota is asked again."""


async def read_bodies(
    fetch: LeaderFetch,
    partition: TopicPartition,
    start: int,
    end: int,
    topic_id: uuid.UUID | None,
    *,
    committed: bool,
) -> AsyncIterator[Bodies]:
    """The visible records of a partition with offsets from `start` to below `end`, answer by answer.

    With `committed` aborted records are left out. Ends before `end` at the end of the log, and at deleted records.
    Raises ClusterError, and CorruptBatchError for a wrong checksum.
    """
    at = start
    while at < end:
        answer = await fetch.fetch_answer(partition, at, topic_id)
        if answer is None:
            await fetch.client.loop.sleep(QUOTA_S)
            continue
        if answer.error == Code.OFFSET_OUT_OF_RANGE:
            return
        if answer.error:
            fetch.stale = True
            raise ClusterError(f"cluster {fetch.client.alias}: reading {partition}: {explain(answer.error)}")
        before = at
        for batch in scan(answer.records):
            at = max(at, batch.last_offset + 1)
        batches = [
            batch
            for batch in visible_batches(answer.records, answer.aborted if committed else None, end)
            if batch.last_offset >= before
        ]
        for batch in batches:
            check_crc(answer.records, batch)
        if batches:
            yield decode_all(answer.records, batches, before, end)
        if at == before:
            return


async def find_first_difference(
    source: AsyncIterator[Bodies], target: AsyncIterator[Bodies], note: Note
) -> tuple[SourceOffset, TargetOffset] | None:
    """The offsets of the first different record of a note, or None if both sides have the same records.

    A side that ends early gets the offset after its last record.
    """
    ours: Bodies | None = None
    theirs: Bodies | None = None
    last, placed, compared = note.first_source, note.base, 0
    while True:
        # Empty parts are false.
        while not ours:
            found = await anext(source, None)
            if found is None:
                break
            ours = within_spans(found, note.spans)
        while not theirs:
            theirs = await anext(target, None)
            if theirs is None:
                break
        if not ours or not theirs:
            if not ours and not theirs:
                return None
            return (
                SourceOffset(int(ours.offsets[0])) if ours else last,
                TargetOffset(int(theirs.offsets[0])) if theirs else placed,
            )
        count = min(len(ours), len(theirs))
        same = first_difference(ours.part(0, count), theirs.part(0, count))
        if same < count:
            offset = SourceOffset(int(ours.offsets[same]))
            # In a damaged batch the offsets may be damaged, too.
            alone = note.element is not None
            return offset, TargetOffset(note.base + compared + same if alone else int(theirs.offsets[same]))
        compared += count
        last = SourceOffset(int(ours.offsets[count - 1]) + 1)
        placed = TargetOffset(int(theirs.offsets[count - 1]) + 1)
        ours, theirs = ours.part(count, len(ours)), theirs.part(count, len(theirs))


async def count_records(source: AsyncIterator[Bodies], note: Note) -> int:
    """The number of records of a note that the source still has: it may have deleted or compacted the others."""
    return sum([len(within_spans(found, note.spans)) async for found in source])
