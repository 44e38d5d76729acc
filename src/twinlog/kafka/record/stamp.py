"""Makes a fetched batch a batch of twinlog's producer: the header before an append, its sequence number and checksum.

A CRC is linear: the effect of a changed header on the checksum depends on the header and on the number of bytes behind
it. So a batch that was damaged by the network keeps a wrong checksum, and the target's broker refuses the batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from struct import Struct

from google_crc32c import value

from twinlog.kafka.record.batch import (
    ATTRIBUTES,
    BASE_OFFSET,
    CODEC_MASK,
    CRC,
    CRC_START,
    HEADER_SIZE,
    LEADER_EPOCH,
    PRODUCER,
    TRANSACTIONAL,
    checksum_of,
)

LARGEST = 0x7FFFFFFF

_POLYNOMIAL = 0x82F63B78  # CRC32C, bits reflected (RFC 3720, appendix B.4)

_PRODUCER = Struct(">qhi")

_CRC = Struct(">I")

_NO_OFFSET = bytes(8)

_HIGH, _LOW = range(ATTRIBUTES.start, ATTRIBUTES.stop)
"""The two bytes of the attributes."""

_NO_EPOCH = b"\xff\xff\xff\xff"

_SHORT = 2_048
"""The checksums of so many zero bytes are computed in the time of a step through the tables."""


def sequence_after(sequence: int, count: int) -> int:
    """The sequence number `count` records after `sequence` (Kafka's DefaultRecordBatch.incrementSequence)."""
    return (sequence + count) & LARGEST


def records_between(sequence: int, later: int) -> int:
    """The number of records from a sequence number up to a later sequence number."""
    return (later - sequence) & LARGEST


_Tables = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def replace_head(crc: int, old: bytes, new: bytes, rest: int) -> int:
    """Return the CRC32C of `new` + tail, given `crc` of `old` + tail.

    The tail has `rest` bytes; `old` and `new` have the same length.
    """
    if rest <= _SHORT:
        zeros = bytes(rest)
        return int(crc ^ value(old + zeros) ^ value(new + zeros))
    return crc ^ past_zeros(value(old) ^ value(new), rest)


def past_zeros(crc: int, zeros: int) -> int:
    """Return the effect of some bytes with this CRC32C on the CRC32C of these bytes and `zeros` bytes after them."""
    place = 0
    while zeros:
        if digit := zeros & 15:
            first, second, third, fourth = _tables_past(digit, place)
            crc = first[crc & 255] ^ second[crc >> 8 & 255] ^ third[crc >> 16 & 255] ^ fourth[crc >> 24]
        zeros >>= 4
        place += 1
    return crc


@cache
def _tables_past(digit: int, place: int) -> _Tables:
    """Tables that move a checksum past `digit` * 16**`place` zero bytes: a table for each of its four bytes.

    A batch of a megabyte takes up to five steps through these tables, which have 40 KB each.
    """
    images = []
    for bit in range(32):
        image = 1 << bit
        if digit > 1:
            image = past_zeros(past_zeros(image, digit - 1 << 4 * place), 1 << 4 * place)
        elif place:
            image = past_zeros(past_zeros(image, 8 << 4 * (place - 1)), 8 << 4 * (place - 1))
        else:
            for _ in range(8):
                image = image >> 1 ^ (_POLYNOMIAL if image & 1 else 0)
        images.append(image)
    first, second, third, fourth = (_table(images[byte * 8 : byte * 8 + 8]) for byte in range(4))
    return first, second, third, fourth


def _table(images: list[int]) -> tuple[int, ...]:
    table = [0]
    for image in images:
        table += [entry ^ image for entry in table]
    return tuple(table)


def stamp(
    batch: bytearray | memoryview,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    *,
    transactional: bool = False,
) -> None:
    """Set the producer fields of a v2 batch in place, with base offset 0, leader epoch -1 and a matching CRC32C.

    Of the attributes only the codec stays; `transactional` sets its bit. A CRC of 0 marks a batch that was made here:
    its CRC is computed over the whole batch. Any other CRC is corrected for the changed header only, so that a damaged
    batch stays recognisable. Stamping again, for another producer or sequence, is allowed.
    """
    view = memoryview(batch)
    old = bytes(view[CRC_START:HEADER_SIZE])
    (crc,) = _CRC.unpack_from(view, CRC.start)
    view[BASE_OFFSET] = _NO_OFFSET
    view[LEADER_EPOCH] = _NO_EPOCH
    view[_HIGH] = 0
    view[_LOW] = view[_LOW] & CODEC_MASK | (TRANSACTIONAL if transactional else 0)
    _PRODUCER.pack_into(view, PRODUCER.start, producer_id, producer_epoch, base_sequence)
    if crc:
        crc = replace_head(crc, old, bytes(view[CRC_START:HEADER_SIZE]), len(view) - HEADER_SIZE)
    else:
        crc = checksum_of(view[CRC_START:])
    _CRC.pack_into(view, CRC.start, crc)


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """The identity that appends: an idempotent producer's id and epoch.

    A `transactional` producer appends within transactions only.
    """

    producer_id: int
    epoch: int
    transactional: bool = False

    def stamp_batch(self, batch: bytearray | memoryview, sequence: int, count: int) -> int:
        """Write the producer and a sequence number into a batch of `count` records; returns the next sequence number.

        Every batch of an idempotent or transactional producer gets its number here.
        """
        stamp(batch, self.producer_id, self.epoch, sequence, transactional=self.transactional)
        return sequence_after(sequence, count)
