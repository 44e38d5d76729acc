"""Cuts a batch into smaller ones, when it turned out too large for the remote topic."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from twinlog.errors import RecordTooLargeError
from twinlog.read.batches import Batch, read_batch
from twinlog.read.records import records_block
from twinlog.types import SourceOffset
from twinlog.write.appends import Append, CopyRules, OversizedRecord
from twinlog.write.encode import BatchBuilder
from twinlog.write.merge import take_records


def build_appends(builder: BatchBuilder, rules: CopyRules) -> Iterator[Append | OversizedRecord]:
    """Build the batch; halve it as often as it is above `rules.max_batch_bytes`.

    A record too large alone comes as an `OversizedRecord`, or raises `RecordTooLargeError` under `oversized="stop"`.
    """
    count = len(builder.parts)
    if not count:
        return
    data = builder.build(rules.codec_level)
    spans = builder.spans()
    limit = rules.max_batch_bytes
    if len(data) <= limit:
        past = SourceOffset(max(builder.next_offset, sum(spans[-1])))
        yield Append(data, count, SourceOffset(spans[0][0]), past, builder.max_timestamp, spans)
    elif count > 1:
        block = b"".join(builder.parts)
        middle = count // 2
        at = sum(map(len, builder.parts[:middle]))
        first = _part(builder.codec, builder.base_timestamp, block[:at], spans, 0, middle)
        yield from build_appends(first, rules)
        second = _part(builder.codec, builder.base_timestamp, block[at:], spans, middle, count)
        second.next_offset = builder.next_offset
        yield from build_appends(second, rules)
    else:
        offset = SourceOffset(spans[0][0])
        if rules.oversized == "stop":
            raise RecordTooLargeError(
                f"the record at source offset {offset} needs a batch of {len(data)} bytes, the remote topic takes "
                f"{limit}; raise its max.message.bytes and the producer's max.request.size, or let the flow skip such "
                "records",
                source_offset=offset,
                size=len(data),
                limit=limit,
            )
        yield OversizedRecord(offset, len(data))


def split_append(append: Append, rules: CopyRules) -> list[Append]:
    """Cut an append that the target refused into appends of at most `rules.max_batch_bytes`, with the same codec.

    Raises `RecordTooLargeError` where one record alone is above it, also under `oversized="skip"`.
    """
    view = memoryview(append.data)
    batch = read_batch(view, 0)
    assert batch is not None
    block = records_block(view, batch)
    builder = _part(batch.codec, batch.base_timestamp, block, append.spans, 0, append.count)
    builder.next_offset = append.next_source_offset
    appends = []
    for part in build_appends(builder, rules):
        if isinstance(part, OversizedRecord):
            raise RecordTooLargeError(
                f"the record at source offset {part.source_offset} needs a batch of {part.size} bytes, "
                f"the target takes {rules.max_batch_bytes}",
                source_offset=part.source_offset,
                size=part.size,
                limit=rules.max_batch_bytes,
            )
        appends.append(part)
    return appends


def _part(
    codec: int, base_timestamp: int, block: bytes, spans: tuple[tuple[int, int], ...], first: int, end: int
) -> BatchBuilder:
    """Put the records numbered `first` to `end` of a batch into a builder of their own; `block` holds only those."""
    builder = BatchBuilder(codec)
    batch = Batch(0, 0, -1, 2, 0, codec, end - 1, base_timestamp, base_timestamp, -1, -1, -1, end - first, 0)
    take_records(builder, block, batch, 0, 0, position=0, room=sys.maxsize)
    builder.runs = []
    index = 0
    for offset, count in spans:
        if index < end and index + count > first:
            builder.runs.append((offset + max(0, first - index), max(0, index - first)))
        index += count
    builder.next_offset = -1
    return builder
