"""Recognises an appended batch in the remote log: by the header fields that brokers keep, and by a checksum.

A broker sets the offset, the leader epoch and the largest timestamp of a batch, and computes its checksum again (Kafka
class LogValidator). The stamp of an append sets the producer. The other fields of the header stay, and so does the
block of records behind the header.

A CRC is linear: the checksum of the block follows from the checksum of the batch, the header, and the size of the
block. So a batch that is copied as it is brings the checksum of its block from the source, and none of its records is
read for its element.
"""

from __future__ import annotations

from hashlib import sha256
from struct import Struct
from typing import NamedTuple

from google_crc32c import value

from twinlog.kafka.record.batch import (
    CODEC_MASK,
    CRC,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    Batch,
    checksum_of,
)
from twinlog.kafka.record.stamp import past_zeros

_PLACED = Struct(">qiiBqI")

EMPTY_CHAIN = bytes(32)
"""The chain before its first element."""


class Element(NamedTuple):
    """A batch without the fields that brokers or the stamp set; `crc` is the CRC32C of its block of records."""

    records: int
    length: int
    codec: int
    base_timestamp: int
    crc: int

    def encode(self, base: int) -> bytes:
        """The element of a batch at target offset `base`, as a part of a chain."""
        return _PLACED.pack(base, *self)


def block_crc(crc: int, head: bytes, rest: int) -> int:
    """Return the CRC32C of a tail of `rest` bytes, given `crc` of `head` + tail."""
    return crc ^ past_zeros(value(head), rest)


def element_of(data: bytearray | memoryview, start: int = 0) -> Element:
    """The element of the batch of format 2 that begins at `start`.

    Any checksum in the header counts as the checksum of the batch, also the wrong checksum of a damaged batch. A CRC of
    0 marks a batch that was made here, as in `stamp`: the checksum of its block is computed.
    """
    header = HEADER.unpack_from(data, start)
    length, crc = header[1], header[4]
    view = memoryview(data)[start : start + LOG_OVERHEAD + length]
    if crc:
        crc = block_crc(crc, bytes(view[CRC_START:HEADER_SIZE]), len(view) - HEADER_SIZE)
    else:
        crc = checksum_of(view[HEADER_SIZE:])
    return Element(header[12], length, header[5] & CODEC_MASK, header[7], crc)


def checked_element(buffer: memoryview, batch: Batch) -> Element | None:
    """The element of a batch of format 2 in the bytes of a fetch; None if its checksum is wrong."""
    block = batch.start + HEADER_SIZE
    crc = checksum_of(buffer[block : batch.end])
    if block_crc(crc, bytes(buffer[batch.start + CRC_START : block]), batch.end - block) != batch.crc:
        return None
    return Element(batch.record_count, batch.length, batch.attributes & CODEC_MASK, batch.base_timestamp, crc)


def identify_append(data: bytearray | memoryview) -> Element:
    """The element of a batch that is to be appended; a batch that was made here gets its checksum, too.

    `stamp` corrects this checksum, as the checksum of a batch of the source: the records are read once, and a later
    fault of this machine's memory is found by the target's broker.
    """
    found = element_of(data)
    if not any(data[CRC]):
        view = memoryview(data)
        crc = block_crc(found.crc, bytes(view[CRC_START:HEADER_SIZE]), len(view) - HEADER_SIZE)
        view[CRC] = crc.to_bytes(4, "big")
    return found


def extend_chain(chain: bytes, part: bytes) -> bytes:
    """The chain after another part: equal chains have equal parts in the same order."""
    return sha256(chain + part).digest()
