from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import pytest

from tests.source_log import New, SourceLog
from twinlog.errors import CorruptBatchError
from twinlog.kafka.record.batch import scan
from twinlog.kafka.record.records import Record, decode_records

THREE = [New(50, b"a", b"k"), New(40, None), New(60, b"c")]


def decoded(data: memoryview) -> list[Record]:
    return [record for batch in scan(data) for record in decode_records(data, batch)]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
@pytest.mark.parametrize("deltas", [[0, 1, 2], [0, 4, 9], [2, 3, 4]])
def test_unwraps_what_is_compressed(magic: int, codec: str, deltas: Sequence[int]) -> None:
    log = SourceLog(1_000)
    log.wrapper(magic, THREE, codec, deltas=deltas)
    assert decoded(log.fetch()) == log.visible()
    assert [record.offset for record in decoded(log.fetch())] == [1_000 + delta for delta in deltas]


def test_timestamps_are_those_of_a_consumer() -> None:
    log = SourceLog()
    log.message(0, New(5))
    log.message(1, New(5))
    log.message(1, New(7), append_time=True)
    log.wrapper(0, THREE, "gzip")
    log.wrapper(1, THREE, "gzip")
    log.wrapper(1, THREE, "gzip", append_time=99)
    assert [record.timestamp for record in decoded(log.fetch())] == [-1, 5, 7, -1, -1, -1, 50, 40, 60, 99, 99, 99]


def test_an_outer_offset_of_zero_was_never_set() -> None:
    """Some clients left it at 0 (Kafka's `AbstractLegacyRecordBatch`); the inner offsets then count from 0."""
    log = SourceLog()
    log.wrapper(1, THREE, "gzip")
    data = log.fetch()
    struct.pack_into(">q", data, 0, 0)
    assert [record.offset for record in decoded(data)] == [0, 1, 2]


def changed(log: SourceLog, at: int, layout: str, value: int) -> memoryview:
    data = log.fetch()
    struct.pack_into(layout, data, at, value)
    struct.pack_into(">I", data, 12, zlib.crc32(data[16:]))
    return data


@pytest.mark.parametrize(
    ("at", "layout", "value", "reason"),
    [
        (26, ">i", 10_000, "runs past its end"),
        (30, ">i", 10_000, "runs past its end"),
        (30, ">i", -1, "holds no data"),
        (17, ">b", 4, "holds no data"),
        (17, ">b", 3, "lz4 data cannot be decompressed"),
        (0, ">q", 1, "lower than the last relative offset"),
    ],
)
def test_refuses_wrappers_that_make_no_sense(at: int, layout: str, value: int, reason: str) -> None:
    log = SourceLog(70)
    log.wrapper(1, THREE, "gzip")
    data = changed(log, at, layout, value)
    with pytest.raises(CorruptBatchError, match=f"v1 at source offset .*{reason}"):
        decoded(data)


def wrapped(log: SourceLog, inner: bytes) -> memoryview:
    """A gzip wrapper of format v1 around any bytes."""
    block = zlib.compress(inner, wbits=31)
    body = struct.pack(">bbqii", 1, 1, 0, -1, len(block)) + block
    return memoryview(bytearray(struct.pack(">qiI", 80, len(body) + 4, zlib.crc32(body)) + body))


def test_refuses_a_wrapper_in_a_wrapper() -> None:
    log = SourceLog()
    log.wrapper(1, THREE, "gzip")
    with pytest.raises(CorruptBatchError, match="something else than plain messages"):
        decoded(wrapped(log, bytes(log.data)))


def test_refuses_a_v2_batch_in_a_wrapper() -> None:
    log = SourceLog()
    log.batch([New(1)])
    with pytest.raises(CorruptBatchError, match="something else than plain messages"):
        decoded(wrapped(log, bytes(log.data)))


@pytest.mark.parametrize("cut", [1, 30])
def test_refuses_inner_messages_that_are_cut_off(cut: int) -> None:
    log = SourceLog()
    log.message(1, New(1))
    with pytest.raises(CorruptBatchError, match="cut off"):
        decoded(wrapped(log, bytes(log.data[:-cut])))


def test_refuses_an_inner_message_with_a_wrong_checksum() -> None:
    log = SourceLog()
    log.message(1, New(1, b"value"))
    with pytest.raises(CorruptBatchError, match="CRC"):
        decoded(wrapped(log, bytes(log.data[:-1]) + b"X"))


def test_refuses_a_plain_message_whose_value_runs_past_its_end() -> None:
    log = SourceLog(70)
    log.message(0, New(1, b"value"))
    data = changed(log, 22, ">i", 6)
    with pytest.raises(CorruptBatchError, match=r"v0 at source offset 70 .*runs past its end"):
        decoded(data)
