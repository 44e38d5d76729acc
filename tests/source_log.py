"""Writes the log of a source partition as brokers keep it, and knows what its consumers see.

Batches come from kafka-python's own builders, so that reading and writing them here is checked against other code. What
those cannot write (holes, control batches, append time) is patched into the header, with a new checksum.
"""

from __future__ import annotations

import struct
import warnings
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import google_crc32c

from twinlog.kafka.record.compression import CODECS, compress, decompress
from twinlog.kafka.record.records import Record

with warnings.catch_warnings():
    # kafka-python reads its message schemas in a way that Python 3.11 calls deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
    from kafka.record.legacy_records import LegacyRecordBatchBuilder

NO_LIMIT = 1 << 30


class New(NamedTuple):
    """A record before it has an offset."""

    timestamp: int
    value: bytes | None = b""
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class Visible(NamedTuple):
    """A record in the log; `transaction` is the number of its transaction, None outside one."""

    record: Record
    transaction: int | None


class Ended(NamedTuple):
    """A transaction as a broker returns it to consumers; `marker` is the offset of its end."""

    producer_id: int
    first_offset: int
    marker: int
    aborted: bool


class SourceLog:
    """A log that grows batch by batch; `data` is what a fetch of all of it returns.

    Batch number n begins at `starts[n]` in `data`, has the leader epoch `leader_epochs[n]`, and `ends[n]` is the source
    offset after it. `open_transactions` holds (number, first offset) by producer id.
    """

    def __init__(self, next_offset: int = 0) -> None:
        self.next_offset = next_offset
        self.data = bytearray()
        self.starts: list[int] = []
        self.transactions: list[Ended] = []
        self.ends: list[int] = []
        self.leader_epochs: list[int] = []
        self._visible: list[Visible] = []
        self.open_transactions: dict[int, tuple[int, int]] = {}
        self._numbers = 0

    def batch(
        self,
        records: Sequence[New],
        *,
        codec: str = "none",
        deltas: Sequence[int] | None = None,
        last_delta: int | None = None,
        append_time: int | None = None,
        delete_horizon: int | None = None,
        producer_id: int = -1,
        transactional: bool = False,
        leader_epoch: int = 0,
    ) -> None:
        """Add a v2 batch; `deltas` are the offset deltas that compaction left, `last_delta` is the batch's own."""
        if deltas is None:
            deltas = range(len(records))
        if last_delta is None:
            last_delta = deltas[-1] if records else 0
        base = self.next_offset
        in_builder = records or [New(-1)]
        first = delete_horizon if delete_horizon is not None else in_builder[0].timestamp
        builder = DefaultRecordBatchBuilder(
            2, 0, transactional, producer_id, 0, 0 if producer_id >= 0 else -1, NO_LIMIT
        )
        if delete_horizon is not None:
            builder._first_timestamp = builder._max_timestamp = delete_horizon
        for delta, record in zip(deltas or [0], in_builder, strict=True):
            builder.append(delta, record.timestamp, record.key, record.value, list(record.headers))
        batch = bytearray(builder.build())
        times = [record.timestamp for record in records] or [-1]
        flags = (0x08 if append_time is not None else 0) | (0x40 if delete_horizon is not None else 0)
        struct.pack_into(">q", batch, 27, first)
        struct.pack_into(">q", batch, 35, max(times) if append_time is None else append_time)
        if not records:
            del batch[61:]
            struct.pack_into(">i", batch, 57, 0)
        self._add(batch, CODECS[codec], flags, last_delta, leader_epoch)
        number = None
        if transactional:
            if producer_id not in self.open_transactions:
                self.open_transactions[producer_id] = (self._numbers, base)
                self._numbers += 1
            number = self.open_transactions[producer_id][0]
        for delta, record in zip(deltas, records, strict=False):
            timestamp = record.timestamp if append_time is None else append_time
            seen = Record(base + delta, timestamp, record.key, record.value, record.headers)
            self._visible.append(Visible(seen, number))

    def end_transaction(self, producer_id: int, *, abort: bool, append_time: int | None = None) -> None:
        """Add the control batch that commits or aborts, also if nothing was written in the transaction."""
        number, first_offset = self.open_transactions.pop(producer_id, (-1, self.next_offset))
        self.transactions.append(Ended(producer_id, first_offset, self.next_offset, abort and number >= 0))
        builder = DefaultRecordBatchBuilder(2, 0, True, producer_id, 0, 0, NO_LIMIT)
        key = struct.pack(">hh", 0, 0 if abort else 1)
        builder.append(0, 5, key, struct.pack(">hi", 0, 1), [])
        batch = bytearray(builder.build())
        struct.pack_into(">i", batch, 53, -1)
        self._add(batch, 0, 0x20 | (0x08 if append_time is not None else 0), 0, 0)
        if abort:
            self._visible = [
                seen._replace(transaction=-1) if seen.transaction == number else seen for seen in self._visible
            ]

    def message(self, magic: int, record: New, *, append_time: bool = False) -> None:
        """Add one v0 or v1 message; under `append_time` its timestamp was set by the broker."""
        offset = self.next_offset
        builder = LegacyRecordBatchBuilder(magic, 0, NO_LIMIT)
        builder.append(offset, record.timestamp, record.key, record.value)
        message = bytearray(builder.build())
        if append_time:
            message[17] |= 0x08
        self._add_legacy(message, offset)
        timestamp = record.timestamp if magic else -1
        self._visible.append(Visible(Record(offset, timestamp, record.key, record.value, ()), None))

    def wrapper(
        self,
        magic: int,
        records: Sequence[New],
        codec: str,
        *,
        deltas: Sequence[int] | None = None,
        append_time: int | None = None,
    ) -> None:
        """Add a compressed v0 or v1 message with `records` inside."""
        base = self.next_offset
        deltas = range(len(records)) if deltas is None else deltas
        inner = bytearray()
        for delta, record in zip(deltas, records, strict=True):
            builder = LegacyRecordBatchBuilder(magic, 0, NO_LIMIT)
            builder.append(delta if magic else base + delta, record.timestamp, record.key, record.value)
            inner += builder.build()
        block = compress(CODECS[codec], bytes(inner))
        if codec == "lz4" and magic == 0:
            block = block[:6] + b"\x00" + block[7:]  # what the old clients' checksum came to does not matter
        builder = LegacyRecordBatchBuilder(magic, 0, NO_LIMIT)
        last = base + deltas[-1]
        newest = max(record.timestamp for record in records)
        builder.append(last, newest if append_time is None else append_time, None, block)
        message = bytearray(builder.build())
        message[17] |= CODECS[codec] | (0x08 if append_time is not None else 0)
        self._add_legacy(message, last)
        for delta, record in zip(deltas, records, strict=True):
            timestamp = -1 if not magic else record.timestamp if append_time is None else append_time
            self._visible.append(Visible(Record(base + delta, timestamp, record.key, record.value, ()), None))

    def gap(self, offsets: int) -> None:
        """Leave offsets out between two batches, as compaction does."""
        self.next_offset += offsets

    def fetch(self, position: int | None = None) -> memoryview:
        """The bytes a fetch at `position` returns: from the batch that holds it, to the end."""
        return memoryview(bytearray(self.data[self._place(position) :]))

    def aborted(self, position: int = 0) -> list[tuple[int, int]]:
        """The aborted transactions a broker names in that fetch, as (producer id, first offset)."""
        return [
            (end.producer_id, end.first_offset) for end in self.transactions if end.aborted and end.marker >= position
        ]

    def visible(self, position: int = 0, *, read_committed: bool = False) -> list[Record]:
        """The records a consumer sees from `position` on."""
        return [
            seen.record
            for seen in self._visible
            if seen.record.offset >= position and not (read_committed and seen.transaction == -1)
        ]

    def outside_transactions(self) -> list[Record]:
        """The records of no transaction."""
        return [seen.record for seen in self._visible if seen.transaction is None]

    def _place(self, position: int | None) -> int:
        if position is None:
            return 0
        found = len(self.data)
        for start, past in zip(reversed(self.starts), reversed(self.ends), strict=True):
            if past <= position:
                break
            found = start
        return found

    def _add(self, batch: bytearray, codec: int, flags: int, last_delta: int, leader_epoch: int) -> None:
        if codec:
            batch[61:] = compress(codec, bytes(batch[61:]))
        struct.pack_into(">qii", batch, 0, self.next_offset, len(batch) - 12, leader_epoch)
        batch[22] |= codec | flags
        struct.pack_into(">i", batch, 23, last_delta)
        struct.pack_into(">I", batch, 17, google_crc32c.value(bytes(batch[21:])))
        self.starts.append(len(self.data))
        self.data += batch
        self.next_offset += last_delta + 1
        self.ends.append(self.next_offset)
        self.leader_epochs.append(leader_epoch)

    def _add_legacy(self, message: bytearray, last_offset: int) -> None:
        struct.pack_into(">I", message, 12, zlib.crc32(message[16:]))
        self.starts.append(len(self.data))
        self.data += message
        self.next_offset = last_offset + 1
        self.ends.append(self.next_offset)
        self.leader_epochs.append(-1)


def read_back(batch: bytes | bytearray | memoryview) -> tuple[DefaultRecordBatch, list[Record]]:
    """Read one stamped batch with kafka-python's reader, its checksum included."""
    data = bytes(batch)
    header = DefaultRecordBatch(data)
    assert header.validate_crc()
    assert header.size_in_bytes == len(data)
    codec = header.compression_type
    if codec > 1:
        # kafka-python has no other codec without more libraries.
        block = decompress(codec, data[61:])
        length = struct.pack(">i", 49 + len(block))
        data = data[:8] + length + data[12:22] + bytes((data[22] & ~7,)) + data[23:61] + block
    return header, [
        Record(record.offset, record.timestamp, record.key, record.value, tuple(record.headers))
        for record in DefaultRecordBatch(data)
    ]
