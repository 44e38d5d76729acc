"""Cuts a batch into smaller batches if it is too large for the remote topic, or the target refuses some records."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

from twinlog.batches.fillers import cut_fillers
from twinlog.batches.merge import take_records
from twinlog.errors import RecordTooLargeError
from twinlog.kafka.producer.appends import ADDED, Append, CopyRules, OversizedRecord
from twinlog.kafka.record.batch import Batch, read_batch
from twinlog.kafka.record.builder import BatchBuilder
from twinlog.kafka.record.records import records_block
from twinlog.kafka.record.varint import read_varint
from twinlog.model.types import SourceOffset


def build_appends(builder: BatchBuilder, rules: CopyRules) -> Iterator[Append | OversizedRecord]:
    """Build the batch; halve it as often as it is above `rules.max_batch_bytes`.

    A record too large alone comes as an `OversizedRecord` under `oversized="skip"`, as an append of its own under
    `dead-letter`, and raises `RecordTooLargeError` under `hold` and `stop`.
    """
    limit = rules.max_batch_bytes
    for append in _halved(builder, rules):
        if append.bytes <= limit:
            yield append
        elif rules.oversized == "dead-letter":
            # The target refuses this append, and the record is then written to the dead-letter topic.
            yield append
        elif rules.oversized != "skip":
            raise RecordTooLargeError(
                f"the record at source offset {append.first_source_offset} needs a batch of {append.bytes} bytes, the "
                f"remote topic takes {limit}",
                source_offset=append.first_source_offset,
                size=append.bytes,
                limit=limit,
                way_out="raise its max.message.bytes and the producer's max.request.size, or leave such records out",
            )
        else:
            yield OversizedRecord(append.first_source_offset, append.bytes)


def split_append(append: Append, rules: CopyRules) -> list[Append]:
    """Cut an append that the target refused into appends of at most `rules.max_batch_bytes`, with the same codec.

    A record above this limit gets an append of its own.
    """
    if append.fills:
        return cut_fillers(append, [0, append.count], rules.max_batch_bytes)
    batch, block = _opened(append)
    builder = _part(batch.codec, batch.base_timestamp, block, append.spans, 0, append.count)
    parts = list(_cut(builder, rules, append.first_source_offset, append.next_source_offset))
    for part in parts:
        part.route = append.route
    return parts


def isolate(append: Append, numbers: Sequence[int], rules: CopyRules) -> list[Append]:
    """Cut an append so that each record with a number in `numbers`, counted from 0, has its own append.

    With an empty list the append is cut into two halves. An append of a single record stays whole. The codec is kept.
    """
    bounds = {0, append.count, *numbers, *(number + 1 for number in numbers)}
    if not numbers:
        bounds.add(append.count // 2)
    return _cut_at(append, sorted(bounds), rules)


def split_at_holes(append: Append, rules: CopyRules) -> list[Append]:
    """Cut an append so that the source offsets of each part have no hole. A part ends after its last record."""
    parts = [append]
    if len(append.spans) > 1:
        parts = _cut_at(append, [0, *accumulate(count for _, count in append.spans)], rules)
    for part in parts:
        ((first, count),) = part.spans
        part.next_source_offset = SourceOffset(first + count)
    return parts


def _cut_at(append: Append, bounds: Sequence[int], rules: CopyRules) -> list[Append]:
    """Cut an append at the numbers of records in `bounds`, from 0 up to the count of its records."""
    if append.fills:
        return cut_fillers(append, bounds, rules.max_batch_bytes)
    batch, block = _opened(append)
    parts: list[Append] = []
    first_source, at = append.first_source_offset, 0
    for first, end in pairwise(bounds):
        past = _skip(block, end - first, at)
        builder = _part(batch.codec, batch.base_timestamp, block[at:past], append.spans, first, end)
        data, spans = builder.build(rules.codec_level), builder.spans()
        owner = _owner(spans, first_source)
        follows = _offset_of(append.spans, end) if end < append.count else None
        next_source = append.next_source_offset
        if follows is not None:
            next_source = owner if follows == ADDED else SourceOffset(owner + 1)
        part = Append(data, end - first, first_source, next_source, builder.max_timestamp, spans, append.route)
        parts.append(part)
        first_source, at = owner if follows in (ADDED, None) else follows, past
    return parts


def _opened(append: Append) -> tuple[Batch, bytes]:
    view = memoryview(append.data)
    batch = read_batch(view, 0)
    assert batch is not None
    return batch, records_block(view, batch)


def _offset_of(spans: tuple[tuple[SourceOffset, int], ...], number: int) -> SourceOffset:
    """The source offset of the record with a number, `ADDED` for a record that a transform added."""
    for offset, count in spans:
        if number < count:
            return offset if offset == ADDED else SourceOffset(offset + number)
        number -= count
    raise IndexError(number)


def _halved(builder: BatchBuilder, rules: CopyRules) -> Iterator[Append]:
    """The batch in pieces of at most `rules.max_batch_bytes`, or of a single record."""
    if builder.count:
        spans = builder.spans()
        past = SourceOffset(max(builder.next_offset, sum(spans[-1])))
        yield from _cut(builder, rules, spans[0][0], past)


def _cut(builder: BatchBuilder, rules: CopyRules, first_source: SourceOffset, past: SourceOffset) -> Iterator[Append]:
    """The batch in pieces, as in `_halved`; `past` is the position once all pieces are acknowledged.

    `first_source` is the source offset of the first record, or of the record that the first record was added to.
    """
    count = builder.count
    data = builder.build(rules.codec_level)
    spans = builder.spans()
    if len(data) <= rules.max_batch_bytes or count == 1:
        yield Append(data, count, first_source, past, builder.max_timestamp, spans)
        return
    block = b"".join(builder.parts)
    middle = count // 2
    at = _skip(block, middle)
    first = _part(builder.codec, builder.base_timestamp, block[:at], spans, 0, middle)
    second = _part(builder.codec, builder.base_timestamp, block[at:], spans, middle, count)
    owner, next_source = _owner(first.spans(), first_source), second.spans()[0][0]
    # If the second half begins with rows added to a record, the first half lacks some rows of that record.
    yield from _cut(first, rules, first_source, owner if next_source == ADDED else SourceOffset(owner + 1))
    yield from _cut(second, rules, owner if next_source == ADDED else next_source, past)


def _owner(spans: tuple[tuple[SourceOffset, int], ...], first_source: SourceOffset) -> SourceOffset:
    """The source offset of the last record, or of the record that the last record was added to."""
    own = [SourceOffset(offset + count - 1) for offset, count in spans if offset != ADDED]
    return own[-1] if own else first_source


def _skip(block: bytes, records: int, at: int = 0) -> int:
    """The place after so many records that begin at `at`."""
    for _ in range(records):
        size, at = read_varint(block, at)
        at += size
    return at


def _part(
    codec: int, base_timestamp: int, block: bytes, spans: tuple[tuple[SourceOffset, int], ...], first: int, end: int
) -> BatchBuilder:
    """Put the records numbered `first` to `end` of a batch into a builder of their own; `block` has only these."""
    builder = BatchBuilder(codec)
    batch = Batch(0, 0, -1, 2, 0, codec, end - 1, base_timestamp, base_timestamp, -1, -1, -1, end - first, 0)
    take_records(builder, block, batch, 0, 0, position=0, room=sys.maxsize)
    builder.runs = []
    index = 0
    for offset, count in spans:
        if index < end and index + count > first:
            inside = 0 if offset == ADDED else max(0, first - index)
            builder.runs.append((offset + inside, max(0, index - first)))
        index += count
    builder.next_offset = -1
    return builder
