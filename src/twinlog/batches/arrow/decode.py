"""Turns fetched record batches into Arrow record batches, as a consumer of the topic would see their records.

Batches of old formats, and batches that the fast decoder rejects, are read record by record with the decoder of the
copier. This decoder also decides whether a batch is damaged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from twinlog.batches.arrow.arrays import (
    MOST_MILLISECONDS,
    Cells,
    Fields,
    UnusualError,
    find_starts,
    gather,
    header_lists,
    laid_out,
    microseconds,
    numbers,
    per_record,
    read_fields,
    read_headers,
    schema,
)
from twinlog.batches.vectors import Longs
from twinlog.errors import CopyError, CorruptBatchError
from twinlog.kafka.record.batch import HEADER_SIZE, LOG_APPEND_TIME, AbortedFilter, Batch, check_crc, read_batch
from twinlog.kafka.record.compression import NONE
from twinlog.kafka.record.records import decode_records, is_abort_marker, records_block
from twinlog.model.types import TopicPartition

NO_TIMESTAMP_TYPE, CREATE_TIME, APPEND_TIME = -1, 0, 1
"""Kafka's numbers of a timestamp's type, as in the column `timestampType`."""


def timestamp_type(batch: Batch) -> int:
    """The origin of the timestamps of a batch: none before format 1, the producer, or the broker."""
    if not batch.magic:
        return NO_TIMESTAMP_TYPE
    return APPEND_TIME if batch.attributes & LOG_APPEND_TIME else CREATE_TIME


def decode_exactly(buffer: memoryview, batch: Batch) -> list[tuple[int, int, int, Any, Any, Any]]:
    """Offset, timestamp in ms, its type, key, value and headers of each record; an empty list of headers is None.

    Raises CorruptBatchError.
    """
    kind = timestamp_type(batch)
    return [
        (
            _as_long(record.offset),
            _as_long(record.timestamp),
            kind,
            record.key,
            record.value,
            [{"key": name, "value": content} for name, content in record.headers] or None,
        )
        for record in decode_records(buffer, batch)
    ]


def _as_long(number: int) -> int:
    """The value that a Java consumer gets for a number that is too large: the number wraps around."""
    return (number + 2**63) % 2**64 - 2**63


__all__ = ["NO_TIMESTAMP_TYPE", "RowRules", "Rows", "decode"]

MOST_BYTES = 32 << 20
"""Bytes of records, decompressed, from which on the next batch begins another Arrow record batch."""

MOST_TOGETHER = 2**31 - 1
"""The most bytes of records whose places fit into the 32 bits of Arrow's bounds.

A single batch of zeros can have more bytes, decompressed.
"""


@dataclass(frozen=True, slots=True)
class RowRules:
    """A reader's choices: the column of headers; aborted transactions left out; checksums compared.

    `up_to_damage`: the records before a damaged batch are returned, and the next call raises. `bounded`: batches after
    the first `MOST_BYTES` are left for another call. `counts_only`: the records stay undecoded, and `Rows` has only the
    other values.
    """

    headers: bool = False
    read_committed: bool = False
    check_crcs: bool = True
    up_to_damage: bool = False
    bounded: bool = False
    counts_only: bool = False


@dataclass(slots=True)
class Rows:
    """The result of a fetch: Arrow record batches, each with rows, and the next offset to fetch.

    `aborted` and `control` records were left out. `leader_epoch` belongs to the last batch read, `codec` to the first
    decoded batch; -1 if there is none.
    """

    batches: list[Any]
    position: int
    aborted: int = 0
    control: int = 0
    leader_epoch: int = -1
    codec: int = -1


def decode(
    records: memoryview,
    partition: TopicPartition,
    position: int,
    end: int,
    rules: RowRules,
    aborted: Iterable[tuple[int, int]] | None = None,
) -> Rows:
    """Decode the records with offsets from `position` to below `end` out of the batches of a fetch.

    Control batches are left out, and so are aborted batches under `rules.read_committed`; `aborted` names these as
    (producer id, first offset). The result is independent of the memory of `records`. Raises CorruptBatchError for a
    damaged batch.
    """
    work = _Decoding(records, partition, position, end, rules)
    work.run(AbortedFilter(aborted or ()) if rules.read_committed else None)
    return Rows(work.found, min(work.position, end), work.aborted, work.control, work.leader_epoch, work.codec)


class _Decoding:
    """The decoding of a fetch; the batches of `section` will be decoded together."""

    def __init__(self, records: memoryview, partition: TopicPartition, position: int, end: int, rules: RowRules):
        self.records = records
        self.partition = partition
        self.first = position
        self.end = end
        self.rules = rules
        self.position = position
        self.found: list[Any] = []
        self.section: list[Batch] = []
        self.blocks: list[bytes | memoryview] = []
        self.bytes = 0
        self.compressed = False
        self.aborted = self.control = 0
        self.leader_epoch = self.codec = -1
        self.decoding = False
        self.taken = 0

    def run(self, hidden: AbortedFilter | None) -> None:
        at = 0
        while self.position < self.end and (batch := read_batch(self.records, at)) is not None:
            # A wrapper of the old formats has the offset of its last record.
            if batch.base_offset >= self.end and batch.magic == 2:
                self.position = self.end
                break
            try:
                self._take(batch, hidden)
            except CorruptBatchError:
                # The records before the damaged batch are whole, unless their decoding failed.
                if not self.rules.up_to_damage or self.position == self.first or self.decoding:
                    raise
                break
            at = batch.end
            if self.rules.bounded and self.taken >= MOST_BYTES:
                break
        self._flush()

    def _take(self, batch: Batch, hidden: AbortedFilter | None) -> None:
        if self.rules.check_crcs:
            check_crc(self.records, batch)
        past = batch.last_offset + 1
        if batch.magic < 2 and self.rules.counts_only:
            pass
        elif batch.magic < 2:
            self._flush()
            self.codec = batch.codec if self.codec < 0 else self.codec
            self._add(decode_exactly(self.records, batch))
            self.taken += batch.size
        else:
            aborted = hidden is not None and hidden.hides(batch, abort_marker=is_abort_marker(self.records, batch))
            if past > self.first:
                if not (aborted or batch.is_control or not batch.record_count):
                    if not self.rules.counts_only:
                        self._join(batch)
                elif aborted:
                    self.aborted += batch.record_count
                else:
                    self.control += batch.record_count
        self.leader_epoch = batch.leader_epoch
        self.position = max(self.position, past)

    def _join(self, batch: Batch) -> None:
        """Put a batch into the section; its records are decompressed here."""
        if batch.codec == NONE:
            block: bytes | memoryview = self.records[batch.start + HEADER_SIZE : batch.end]
        else:
            block = records_block(self.records, batch)
            self.compressed = True
        self.codec = batch.codec if self.codec < 0 else self.codec
        self.section.append(batch)
        self.blocks.append(block)
        self.bytes += len(block)
        self.taken += len(block)
        if self.bytes >= MOST_BYTES:
            self._flush()

    def _flush(self) -> None:
        """Decode the section."""
        batches, blocks, compressed = self.section, self.blocks, self.compressed
        self.section, self.blocks, self.bytes, self.compressed = [], [], 0, False
        if not batches:
            return
        self.decoding = True
        counts = [batch.record_count for batch in batches]
        data, begins, ends = laid_out(self.records, batches, blocks if compressed else None)
        try:
            if len(data) > MOST_TOGETHER:
                raise UnusualError("more bytes than places")
            array = np.frombuffer(data, dtype=np.uint8)
            fields = read_fields(array, find_starts(data, array, begins, ends, counts))
            self._add_fields(data, array, fields, batches, counts)
        except UnusualError:
            for batch in batches:
                self._add(decode_exactly(self.records, batch))
        self.decoding = False

    def _add_fields(self, data: Any, array: Any, fields: Fields, batches: list[Batch], counts: list[int]) -> None:
        offsets = per_record([batch.base_offset for batch in batches], counts) + fields.offset_deltas
        timestamps = per_record([batch.base_timestamp for batch in batches], counts) + fields.timestamp_deltas
        kinds = [timestamp_type(batch) for batch in batches]
        if any(kinds):
            stamped = per_record(kinds, counts) == 1
            timestamps[stamped] = per_record([batch.max_timestamp for batch in batches], counts)[stamped]
        inside = (offsets >= self.first) & (offsets < self.end)
        all_kinds = per_record(kinds, counts).astype(np.int32)
        if not inside.all():
            if self.rules.headers:
                # A damaged record is refused, even if its own offset is outside of the range.
                read_headers(array, fields)
            chosen = np.flatnonzero(inside)
            offsets, timestamps, all_kinds = offsets[chosen], timestamps[chosen], all_kinds[chosen]
            fields = _only(fields, chosen)
        if not len(offsets):
            return
        headers = read_headers(array, fields) if self.rules.headers else None
        try:
            times = microseconds(timestamps)
        except OverflowError:
            raise self._no_timestamp(offsets, timestamps) from None
        columns = [
            gather(data, fields.keys),
            gather(data, fields.values),
            *self._where(len(offsets)),
            numbers(pa.int64(), offsets),
            numbers(schema(headers=False).field("timestamp").type, times),
            numbers(pa.int32(), all_kinds),
        ]
        if self.rules.headers:
            columns.append(header_lists(data, len(offsets), headers))
        self.found.append(pa.RecordBatch.from_arrays(columns, schema=schema(headers=self.rules.headers)))

    def _add(self, records: list[tuple[int, int, int, Any, Any, Any]]) -> None:
        """Add records of the exact decoder."""
        inside = [record for record in records if self.first <= record[0] < self.end]
        for some in _in_portions(inside):
            self._add_portion(some)

    def _add_portion(self, inside: list[tuple[int, int, int, Any, Any, Any]]) -> None:
        offsets, timestamps, kinds, keys, values, headers = zip(*inside, strict=True)
        try:
            times = microseconds(np.asarray(timestamps, dtype=np.int64))
        except OverflowError:
            raise self._no_timestamp(offsets, timestamps) from None
        names = schema(headers=self.rules.headers)
        columns = [
            pa.array(keys, pa.binary()),
            pa.array(values, pa.binary()),
            *self._where(len(inside)),
            pa.array(offsets, pa.int64()),
            numbers(names.field("timestamp").type, times),
            pa.array(kinds, pa.int32()),
        ]
        if self.rules.headers:
            columns.append(pa.array(headers, names.field("headers").type))
        self.found.append(pa.RecordBatch.from_arrays(columns, schema=names))

    def _where(self, count: int) -> list[Any]:
        topic, number = self.partition
        return [pa.repeat(pa.scalar(topic, pa.string()), count), pa.repeat(pa.scalar(number, pa.int32()), count)]

    def _no_timestamp(self, offsets: Iterable[int], timestamps: Iterable[int]) -> CopyError:
        at, time = next(
            (at, time) for at, time in zip(offsets, timestamps, strict=True) if abs(time) > MOST_MILLISECONDS
        )
        return CopyError(
            f"{self.partition}: the record at offset {at} has the timestamp {time}, which does not fit into Spark's "
            "microseconds; a DataFrame can begin after it (startingOffsets, endingOffsets), and a flow copies it "
            "without a transform"
        )


def _in_portions(
    records: list[tuple[int, int, int, Any, Any, Any]],
) -> Iterator[list[tuple[int, int, int, Any, Any, Any]]]:
    """Records, in order, in lists of `MOST_BYTES` of keys and values, up to the record that reaches this limit."""
    portion, size = [], 0
    for record in records:
        portion.append(record)
        size += len(record[3] or b"") + len(record[4] or b"")
        if size >= MOST_BYTES:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


def _only(fields: Fields, chosen: Longs) -> Fields:
    def cells(all_of: Cells) -> Cells:
        return Cells(all_of.first[chosen], all_of.length[chosen])

    return Fields(
        fields.timestamp_deltas[chosen],
        fields.offset_deltas[chosen],
        cells(fields.keys),
        cells(fields.values),
        fields.header_counts[chosen],
        fields.headers_at[chosen],
        fields.ends[chosen],
    )
