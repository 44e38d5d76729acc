"""A stamped batch has the header and the checksum that a producer would give it."""

from __future__ import annotations

import struct

import google_crc32c
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.source_log import New, SourceLog, read_back
from twinlog.errors import CorruptBatchError
from twinlog.kafka.record.batch import check_crc, scan
from twinlog.kafka.record.builder import encode_batch
from twinlog.kafka.record.stamp import replace_head, stamp


def stored_batch(codec: str = "none") -> bytearray:
    log = SourceLog(2**33)
    log.batch(
        [New(1_000 + number, b"value" * 90) for number in range(50)],
        codec=codec,
        producer_id=77,
        transactional=True,
        delete_horizon=900,
        leader_epoch=12,
    )
    return log.data


@pytest.mark.parametrize("codec", ["none", "gzip", "lz4"])
def test_makes_the_header_ours(codec: str) -> None:
    batch = stored_batch(codec)
    block = batch[61:]
    stamp(batch, 2**40, 7, 123_456)
    header, records = read_back(batch)
    assert header.base_offset == 0
    assert header.leader_epoch == -1
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (2**40, 7, 123_456)
    assert header.attributes == {"none": 0, "gzip": 1, "lz4": 3}[codec]
    assert batch[61:] == block
    # The delete horizon was the base of the record's timestamps; they must not change with its flag.
    assert [record.timestamp for record in records] == list(range(1_000, 1_050))


def test_can_mark_the_batch_as_part_of_a_transaction() -> None:
    batch = stored_batch("gzip")
    stamp(batch, 1, 0, 0, transactional=True)
    header, _ = read_back(batch)
    assert header.is_transactional
    assert header.attributes == 0x11
    stamp(batch, 1, 0, 0)
    header, _ = read_back(batch)
    assert header.attributes == 0x01


def test_works_on_a_part_of_a_fetch() -> None:
    log = SourceLog()
    for _ in range(3):
        log.batch([New(5)])
    fetched = log.fetch()
    first, second, third = scan(fetched)
    stamp(fetched[second.start : second.end], 1, 2, 3)
    read_back(fetched[second.start : second.end])
    check_crc(fetched, first)
    check_crc(fetched, third)


def test_again_for_another_producer() -> None:
    batch = stored_batch()
    stamp(batch, 1, 0, 0)
    stamp(batch, 2, 1, 99)
    header, _ = read_back(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (2, 1, 99)


def test_gives_a_new_batch_its_first_checksum() -> None:
    batch = encode_batch([(5, b"\x01\x01\x00")])
    assert struct.unpack_from(">I", batch, 17) == (0,)
    stamp(batch, -1, -1, -1)
    header, _ = read_back(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)


def test_a_damaged_batch_stays_recognisable() -> None:
    batch = stored_batch()
    batch[400] ^= 1
    stamp(batch, 1, 0, 0)
    (header,) = scan(batch)
    with pytest.raises(CorruptBatchError):
        check_crc(batch, header)


@given(st.binary(max_size=60), st.binary(max_size=60), st.integers(0, 300_000))
@example(b"a", b"b", 0)
@example(b"a", b"b", 1 << 20)
def test_corrects_the_checksum_for_a_new_head(old: bytes, new: bytes, rest: int) -> None:
    size = min(len(old), len(new))
    old, new = old[:size], new[:size]
    tail = bytes(range(251)) * (rest // 251 + 1)
    tail = tail[:rest]
    assert replace_head(google_crc32c.value(old + tail), old, new, rest) == google_crc32c.value(new + tail)


def test_a_wrong_checksum_stays_wrong() -> None:
    tail = b"tail" * 9
    wrong = google_crc32c.value(b"old" + tail) ^ 4
    assert replace_head(wrong, b"old", b"new", len(tail)) != google_crc32c.value(b"new" + tail)
