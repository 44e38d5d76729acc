"""Makes the batches of the target out of the batches of a fetch: a batch is passed on, merged, joined or built again.

A batch with a hole, with the time of the source's broker, or of an old format is built again. Small neighbours are
merged, and large batches split, as `CopyRules` says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinlog.batches.array_merging import ManySmallBatches, Neighbours
from twinlog.batches.merge import take_records, take_row
from twinlog.batches.split import build_appends
from twinlog.errors import CorruptBatchError
from twinlog.kafka.producer.appends import Append, CopyRules, PreparedFetch, Road
from twinlog.kafka.record.batch import (
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    AbortedFilter,
    Batch,
    check_crc,
    read_batch,
)
from twinlog.kafka.record.builder import LARGEST_GROWTH, MAX_RECORDS, BatchBuilder
from twinlog.kafka.record.compression import CODECS, NONE, compress
from twinlog.kafka.record.records import corrupt, is_abort_marker, legacy_records, records_block
from twinlog.model.types import SourceOffset

if TYPE_CHECKING:
    from twinlog.batches.join import Block

_EMPTY = (0, 0)

_LARGEST_BLOCK = 16_777_216
"""Bytes that the records of a compressed batch may have before compression; more are split, to bound memory."""


def append_whole(batch: Batch, data: bytearray | memoryview) -> Append:
    """The append of a whole batch; `data` has the same records."""
    first, past = SourceOffset(batch.base_offset), SourceOffset(batch.last_offset + 1)
    return Append(data, batch.record_count, first, past, batch.max_timestamp, ((first, batch.record_count),))


class Rebatching:
    """The preparation of a fetch.

    `builder` collects records. `lone` is a small batch that waits for a second batch to be merged with. `builder` and
    `lone` are never set at the same time.
    """

    __slots__ = (
        "builder",
        "codec",
        "lone",
        "many",
        "neighbours",
        "past",
        "position",
        "prepared",
        "records",
        "road",
        "rules",
        "target",
    )

    def __init__(self, records: memoryview, position: int, rules: CopyRules) -> None:
        self.records = records
        self.rules = rules
        self.codec = None if rules.codec is None else CODECS[rules.codec]
        self.target = min(rules.merge_batch_bytes, rules.max_batch_bytes)
        self.position = position
        self.past = 0
        """The offset after the last v2 batch that was examined."""
        self.prepared = PreparedFetch(SourceOffset(position))
        self.many = ManySmallBatches(records, rules, self.target)
        self.neighbours = Neighbours(records, rules, min(rules.join_batch_bytes, rules.max_batch_bytes))
        self.builder: BatchBuilder | None = None
        self.lone: Batch | None = None
        self.road: Road = "merged"
        """The reason for the builder."""

    def run(self, hidden: AbortedFilter | None) -> None:
        """Take all complete batches, in order; `hidden` finds the aborted batches."""
        at = 0
        try:
            while (batch := read_batch(self.records, at)) is not None:
                at = self._next(batch, hidden)
        except CorruptBatchError:
            self._flush()
            raise
        self._flush()
        self.prepared.position = SourceOffset(self.position)

    def _next(self, batch: Batch, hidden: AbortedFilter | None) -> int:
        """Take a batch, or a row of small batches; return the first byte of the next batch."""
        rules, prepared = self.rules, self.prepared
        transactional = hidden is None and not rules.keep_offsets
        past = batch.last_offset + 1
        prepared.leader_epoch = batch.leader_epoch
        if rules.check_crcs:
            check_crc(self.records, batch)
        if batch.magic == 2:
            if batch.base_offset < self.past:
                prepared.appends.clear()
                self.builder = self.lone = None
                raise corrupt(batch, f"the batch before it ends at source offset {self.past - 1}")
            self.past = past
            aborted = hidden is not None and hidden.hides(batch, abort_marker=is_abort_marker(self.records, batch))
            if rules.keep_offsets and batch.is_transactional and past > self.position:
                # The caller prepares the fetch in another way.
                self.position = past
                return len(self.records)
            if aborted or batch.is_control or not batch.record_count:
                if past > self.position:
                    prepared.aborted += batch.record_count if aborted else 0
                    prepared.control += 0 if aborted else batch.record_count
                    self.position = past
                return batch.end
        if past <= self.position:
            return batch.end
        whole = (
            batch.magic == 2
            and batch.record_count == batch.last_offset_delta + 1
            and batch.base_offset >= self.position
            and not batch.is_log_append_time
        )
        if not whole:
            if not self._joins(batch):
                self._flush()
                self.builder, self.road = BatchBuilder(self._codec_for(batch)), _road(batch, self.position)
            self._take(batch, self.position)
        elif (
            rules.join_records
            and batch.codec == NONE
            and self._codec_for(batch) == NONE
            and not self.many.may_begin(batch)
            and self.neighbours.may_begin(batch)
            and (end := self._join_neighbours(batch, transactional=transactional))
        ):
            return end
        elif batch.size >= rules.small(batch.codec) or batch.record_count > rules.merge_records:
            self._flush()
            self._pass_on(batch)
        elif self.many.may_begin(batch) and (end := self._take_many(batch, transactional=transactional)):
            return end
        elif self._joins(batch):
            last = self._take_row(batch, transactional=transactional)
            if last is not None:
                self.past = self.position = last.last_offset + 1
                prepared.leader_epoch = last.leader_epoch
                return last.end
            self._take(batch, batch.base_offset)
        else:
            self._flush()
            self.lone = batch
        self.position = past
        return batch.end

    def _codec_for(self, batch: Batch) -> int:
        return batch.codec if self.codec is None else self.codec

    def _room(self, codec: int) -> int:
        return self.rules.max_batch_bytes - HEADER_SIZE if codec == NONE else _LARGEST_BLOCK

    def _joins(self, batch: Batch) -> bool:
        """Whether the batch can be merged with the records right before it; if so, a builder is ready for the batch."""
        lone = self.lone
        if lone is not None:
            if self._codec_for(lone) != self._codec_for(batch) or lone.size + batch.size > self.target:
                return False
            self.lone = None
            self.builder, self.road = BatchBuilder(self._codec_for(lone)), "merged"
            self._take(lone, lone.base_offset)
        builder = self.builder
        return (
            builder is not None
            and builder.codec == self._codec_for(batch)
            and builder.source_bytes + batch.size <= self.target
            and builder.count + batch.record_count <= MAX_RECORDS
        )

    def _take(self, batch: Batch, position: int) -> None:
        """Put a batch's records from `position` on into the builder; begin another builder as often as it is full."""
        if not self.rules.check_crcs:
            check_crc(self.records, batch)
        builder = self.builder
        assert builder is not None
        before = builder.mark
        room = self._room(builder.codec)
        try:
            if batch.magic < 2:
                for offset, timestamp, body in legacy_records(self.records, batch):
                    if offset >= position:
                        full = builder.size + len(body) + LARGEST_GROWTH > room or builder.count >= MAX_RECORDS
                        if full and builder.count:
                            builder, before = self._next_builder(builder), _EMPTY
                        builder.add(offset, timestamp, body)
                builder.next_offset = batch.last_offset + 1
            else:
                block = records_block(self.records, batch)
                at, taken = take_records(builder, block, batch, 0, 0, position=position, room=room)
                while taken < batch.record_count:
                    builder, before = self._next_builder(builder), _EMPTY
                    at, taken = take_records(builder, block, batch, at, taken, position=position, room=room)
        except CorruptBatchError:
            builder.drop_from(before)
            raise
        builder.source_bytes += batch.size

    def _next_builder(self, full: BatchBuilder) -> BatchBuilder:
        self._append_built(full)
        self.builder = BatchBuilder(full.codec)
        return self.builder

    def _take_row(self, batch: Batch, *, transactional: bool) -> Batch | None:
        """Take the batch and later batches as long as they are small and plain.

        Returns the last taken batch, None if the batch itself is unusual.
        """
        builder, rules = self.builder, self.rules
        assert builder is not None
        return take_row(
            builder,
            self.records,
            batch,
            room=min(self.target - builder.source_bytes, self._room(builder.codec) - builder.size),
            largest=rules.small(batch.codec),
            most=rules.merge_records,
            transactional=transactional,
        )

    def _take_many(self, batch: Batch, *, transactional: bool) -> int:
        """Take the batch and later small batches, if they are many; return the first byte of the next batch, or 0."""
        if not self._joins(batch):
            self._flush()
        room = self._room(self._codec_for(batch))
        return self._add_blocks(batch, self.many.blocks(batch, self.builder, room, transactional=transactional))

    def _join_neighbours(self, batch: Batch, *, transactional: bool) -> int:
        """Take the batch and its neighbours; return the first byte of the next batch, or 0."""
        builder = None if self.builder is None or self.builder.codec != NONE else self.builder
        joined = self.neighbours.join(batch, builder, self._room(NONE), transactional=transactional)
        if joined.blocks and not joined.follows:
            self._flush()
        return self._add_blocks(batch, joined.blocks)

    def _add_blocks(self, batch: Batch, blocks: list[Block]) -> int:
        """Add the records of the batch and of batches after it; return the first byte of the next batch, or 0."""
        codec = self._codec_for(batch)
        at = batch.start
        for number, block in enumerate(blocks):
            if number:
                self._flush()
            if self.builder is None and block.batches == 1:
                self.lone = read_batch(self.records, at)
            else:
                if self.builder is None:
                    self.builder, self.road = BatchBuilder(codec), "merged"
                self.builder.add_records(block.batch, block.count, block.base, block.newest, block.runs)
                self.builder.source_bytes += block.source_bytes
                self.builder.next_offset = block.next_offset
            at += block.source_bytes
            self.past = self.position = block.next_offset
        return at if blocks else 0

    def _flush(self) -> None:
        lone, self.lone = self.lone, None
        if lone is not None:
            self._pass_on(lone)
        builder, self.builder = self.builder, None
        if builder is not None:
            self._append_built(builder)

    def _pass_on(self, batch: Batch) -> None:
        """Append a whole batch unchanged, or with another codec; build it again if it is too large for that."""
        codec = self._codec_for(batch)
        as_it_is = codec == batch.codec
        data = self.records[batch.start : batch.end] if as_it_is else self._recompressed(batch, codec)
        if len(data) > self.rules.max_batch_bytes:
            self.builder, self.road = BatchBuilder(codec), "split"
            self._take(batch, batch.base_offset)
        else:
            self.prepared.count("as it is" if as_it_is else "recompressed")
            self.prepared.appends.append(append_whole(batch, data))

    def _recompressed(self, batch: Batch, codec: int) -> bytearray:
        if not self.rules.check_crcs:
            check_crc(self.records, batch)
        block = compress(codec, records_block(self.records, batch), self.rules.codec_level)
        data = bytearray(self.records[batch.start : batch.start + HEADER_SIZE])
        header = batch._replace(length=HEADER_SIZE - LOG_OVERHEAD + len(block), crc=0, attributes=codec)
        HEADER.pack_into(data, 0, *header[:-1])
        data += block
        return data

    def _append_built(self, builder: BatchBuilder) -> None:
        for part in build_appends(builder, self.rules):
            if isinstance(part, Append):
                self.prepared.appends.append(part)
                self.prepared.count(self.road)
            else:
                self.prepared.oversized.append(part)


def _road(batch: Batch, position: int) -> Road:
    """The reason why a batch must change."""
    if batch.magic < 2:
        return "old format"
    if batch.base_offset < position:
        return "position"
    return "log append time" if batch.is_log_append_time else "holes"
