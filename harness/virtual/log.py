"""The log of one partition, as a leader keeps it: batches, offsets, producers, transactions."""

from __future__ import annotations

import struct
from bisect import bisect_left
from dataclasses import dataclass, field

import google_crc32c

from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.batch import CRC_START, HEADER, Batch, read_batch
from twinlog.kafka.record.builder import encode_batch, record_body
from twinlog.kafka.record.records import Record, decode_records
from twinlog.kafka.record.stamp import stamp

REMEMBERED = 5
"""Of so many batches of a producer a broker knows that it has them (Kafka class ProducerStateEntry)."""


def _last_offset(appended: tuple[Batch, bytes]) -> int:
    return appended[0].last_offset


def _last_sequence(batch: Batch) -> int:
    return (batch.base_sequence + batch.record_count - 1) & 0x7FFFFFFF


@dataclass(slots=True)
class _Producer:
    epoch: int
    last: list[tuple[int, int, int]] = field(default_factory=list)
    """(first sequence number, last one, base offset) of its newest batches."""

    @property
    def next_sequence(self) -> int:
        """After a marker alone, whose records the log has no more, a producer begins at 0."""
        return (self.last[-1][1] + 1) & 0x7FFFFFFF if self.last else 0


@dataclass(slots=True)
class VirtualLog:
    """One replica of the partition; `epoch` is that of its leader. Everything appended is on all replicas at once."""

    epoch: int = 0
    start: int = 0
    batches: list[tuple[Batch, bytes]] = field(default_factory=list)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    """(producer id, first offset, offset of the marker)."""
    open: dict[int, int] = field(default_factory=dict)
    """The first offset of each open transaction, by producer id."""
    _producers: dict[int, _Producer] = field(default_factory=dict)
    _decoded: dict[int, list[Record]] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """The high watermark."""
        return self.batches[-1][0].last_offset + 1 if self.batches else self.start

    @property
    def stable_end(self) -> int:
        return min(self.open.values(), default=self.end)

    def write(self, *values: bytes, at_ms: int = 0) -> None:
        """Append records as any producer would, in one batch."""
        data = bytearray(encode_batch([(at_ms, record_body(None, value)) for value in values], 0))
        stamp(data, -1, -1, -1)
        self.append(bytes(data))

    def append(self, data: bytes) -> tuple[int, int]:
        """Append a batch as it came; returns (error code, base offset)."""
        batch = read_batch(data, 0)
        assert batch is not None
        if batch.producer_id >= 0:
            known = self._producers.get(batch.producer_id)
            if known is not None and batch.producer_epoch < known.epoch:
                return Code.INVALID_PRODUCER_EPOCH, -1
            if known is not None and batch.producer_epoch > known.epoch:
                if batch.base_sequence:
                    return Code.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
                known = None
            for first, past, offset in known.last if known is not None else ():
                if (first, past) == (batch.base_sequence, _last_sequence(batch)):
                    return Code.NONE, offset
            if known is not None and batch.base_sequence != known.next_sequence:
                return Code.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        return Code.NONE, self._add(data)

    def mark(self, producer_id: int, epoch: int, *, commit: bool) -> None:
        """End the transaction of a producer, which no older epoch of its may append after."""
        first = self.open.get(producer_id)
        key = struct.pack(">hh", 0, int(commit))
        body = b"\x08" + key + b"\x0c" + struct.pack(">hi", 0, 0) + b"\x00"
        data = bytearray(encode_batch([(0, body)], 0))
        stamp(data, producer_id, epoch, -1, transactional=True)
        fields = list(HEADER.unpack_from(data, 0))
        fields[5] |= 0x20
        HEADER.pack_into(data, 0, *fields)
        struct.pack_into(">I", data, 17, google_crc32c.value(bytes(data[CRC_START:])))
        offset = self._add(bytes(data))
        if first is not None and not commit:
            self.aborted.append((producer_id, first, offset))

    def mark_by_client(self, producer_id: int, epoch: int, *, commit: bool) -> int:
        """Append a marker unless a later epoch of its producer is known (Kafka class ProducerAppendInfo)."""
        known = self._producers.get(producer_id)
        if known is not None and epoch < known.epoch:
            return Code.INVALID_PRODUCER_EPOCH
        self.mark(producer_id, epoch, commit=commit)
        return Code.NONE

    def producers(self) -> list[tuple[int, int, int]]:
        """Each known producer, its epoch and its last sequence number."""
        return [(who, one.epoch, one.last[-1][1] if one.last else -1) for who, one in self._producers.items()]

    def cut(self, end: int) -> None:
        """Lose everything from an offset on, as an unclean election does.

        What is known of producers comes from the batches that are left (Kafka class ProducerStateManager,
        truncateAndReload).
        """
        self.batches = [(batch, data) for batch, data in self.batches if batch.last_offset < end]
        self.aborted = [one for one in self.aborted if one[2] < end]
        self.open, self._producers = {}, {}
        for batch, _ in self.batches:
            self._note_producer(batch)

    def delete_before(self, offset: int) -> None:
        """DeleteRecords, or retention."""
        self.start = offset
        self.batches = [(batch, data) for batch, data in self.batches if batch.last_offset >= offset]

    def compact(self, offsets: set[int]) -> None:
        """Remove the batches with these base offsets, as the cleaner; their offsets stay taken, and the last stays."""
        last = self.batches[-1:]
        self.batches = [one for one in self.batches[:-1] if one[0].base_offset not in offsets] + last

    def read(self, offset: int, most_bytes: int, *, committed: bool, at_least_one: bool) -> bytes:
        """The batches from the one that holds an offset on, as far as a consumer may see them."""
        end, found = self.stable_end if committed else self.end, b""
        for number in range(bisect_left(self.batches, offset, key=_last_offset), len(self.batches)):
            batch, data = self.batches[number]
            if batch.base_offset >= end:
                break
            if (found or not at_least_one) and len(found) + len(data) > most_bytes:
                break
            found += data
        return found

    def first_since(self, timestamp: int, *, committed: bool = False) -> int:
        """The first offset of a record with this timestamp or a later one; -1 where there is none."""
        found = (one.offset for one in self.records(committed=committed) if one.timestamp >= timestamp)
        return next((offset for offset in found if offset >= self.start), -1)

    def newest(self) -> tuple[int, int]:
        """The offset and the timestamp of the record with the newest timestamp; both -1 where there is none."""
        found = [(one.timestamp, -one.offset) for one in self.records() if one.offset >= self.start]
        timestamp, offset = max(found, default=(-1, 1))
        return -offset, timestamp

    def records(self, *, committed: bool = False) -> list[Record]:
        """What a consumer sees."""
        seen = []
        # Tests look here at every turn of a loop.
        end = self.stable_end if committed else self.end
        for batch, _ in self.batches:
            if batch.base_offset >= end:
                break
            if batch.is_control or (committed and self._is_aborted(batch)):
                continue
            seen += self._decoded[batch.base_offset]
        return seen

    def _is_aborted(self, batch: Batch) -> bool:
        return any(
            producer == batch.producer_id and first <= batch.base_offset < marker
            for producer, first, marker in self.aborted
        )

    def values(self, *, committed: bool = False) -> list[bytes | None]:
        return [record.value for record in self.records(committed=committed)]

    def _add(self, data: bytes) -> int:
        fresh = bytearray(data)
        struct.pack_into(">q", fresh, 0, self.end)
        struct.pack_into(">i", fresh, 12, self.epoch)
        batch = read_batch(fresh, 0)
        assert batch is not None
        self.batches.append((batch, bytes(fresh)))
        self._note_producer(batch)
        self._decoded[batch.base_offset] = [] if batch.is_control else list(decode_records(bytes(fresh), batch))
        return batch.base_offset

    def _note_producer(self, batch: Batch) -> None:
        """What the newest batch tells of its producer: sequence numbers, and whether a transaction is open."""
        if batch.producer_id < 0:
            return
        known = self._producers.get(batch.producer_id)
        if known is None or batch.producer_epoch > known.epoch:
            known = self._producers[batch.producer_id] = _Producer(batch.producer_epoch)
        if batch.is_control:
            self.open.pop(batch.producer_id, None)
            return
        appended = (batch.base_sequence, _last_sequence(batch), batch.base_offset)
        known.last = [*known.last[1 - REMEMBERED :], appended]
        if batch.is_transactional:
            self.open.setdefault(batch.producer_id, batch.base_offset)
