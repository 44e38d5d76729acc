"""Makes a batch ours: the last change to its header before it is appended to the remote topic."""

from __future__ import annotations

from struct import Struct

from google_crc32c import value

from twinlog.kafka.record.batch import CODEC_MASK, CRC_START, HEADER_SIZE, TRANSACTIONAL
from twinlog.kafka.record.crc import replace_head

_PRODUCER = Struct(">qhi")
_PRODUCER_AT = 43
_CRC = Struct(">I")
_CRC_AT = 17
_BASE_OFFSET = bytes(8)
_NO_EPOCH = b"\xff\xff\xff\xff"


def stamp(
    batch: bytearray | memoryview,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    *,
    transactional: bool = False,
) -> None:
    """Set the producer fields of a v2 batch in place, with base offset 0, leader epoch -1 and a matching CRC32C.

    Of the attributes only the codec stays; `transactional` sets its bit. A CRC of 0 means that the batch was made here
    and has none yet: it is computed over the whole batch. Any other one is corrected for the changed header only, so
    that a damaged batch stays recognisable. Stamping again, for another producer or sequence, is allowed.
    """
    view = memoryview(batch)
    old = bytes(view[CRC_START:HEADER_SIZE])
    (crc,) = _CRC.unpack_from(view, _CRC_AT)
    view[0:8] = _BASE_OFFSET
    view[12:16] = _NO_EPOCH
    view[21] = 0
    view[22] = view[22] & CODEC_MASK | (TRANSACTIONAL if transactional else 0)
    _PRODUCER.pack_into(view, _PRODUCER_AT, producer_id, producer_epoch, base_sequence)
    if crc:
        crc = replace_head(crc, old, bytes(view[CRC_START:HEADER_SIZE]), len(view) - HEADER_SIZE)
    else:
        crc = value(bytes(view[CRC_START:]))
    _CRC.pack_into(view, _CRC_AT, crc)
