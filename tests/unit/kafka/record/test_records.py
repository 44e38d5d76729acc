"""Records of a batch, of the present format and of the older ones, are those that were written."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import google_crc32c
import pytest
from hypothesis import given, settings

from tests.any_log import logs
from tests.source_log import New, SourceLog
from twinlog.errors import CorruptBatchError
from twinlog.kafka.record.batch import check_crc, scan
from twinlog.kafka.record.compression import CODECS
from twinlog.kafka.record.records import Record, decode_records, is_abort_marker, record_bodies

JAVA_BATCHES: dict[str, str] = json.loads((Path(__file__).parent / "java_batches.json").read_text())


@settings(deadline=None)
@given(log=logs())
def test_decodes_what_was_written(log: SourceLog) -> None:
    data = log.fetch()
    seen = [record for batch in scan(data) if not batch.is_control for record in decode_records(data, batch)]
    assert seen == log.visible()


@pytest.mark.parametrize("name", JAVA_BATCHES)
def test_decodes_what_java_wrote(name: str) -> None:
    """`java_batches.json` was written by Kafka 4.3's own classes."""
    data = bytes.fromhex(JAVA_BATCHES[name])
    version, codec, *append_time = name.split()
    headers = (("trace", b"\x01"), ("empty", None)) if version == "v2" else ()
    times = [-1] * 3 if version == "v0" else [5_000] * 3 if append_time else [1_000, 1_003, 999]
    batches = scan(data)
    assert len(batches) == (3 if version < "v2" and codec == "none" else 1)
    for batch in batches:
        check_crc(data, batch)
        assert batch.codec == CODECS[codec]
    assert [record for batch in batches for record in decode_records(data, batch)] == [
        Record(100, times[0], None, b"first", ()),
        Record(101, times[1], b"key", None, headers),
        Record(102, times[2], b"", b"x" * 300, ()),
    ]


def test_a_body_is_all_after_the_offset_delta() -> None:
    log = SourceLog(8)
    log.batch([New(1_000, b"value", b"key", (("h", None),)), New(1_001, None)])
    (batch,) = scan(log.fetch())
    assert list(record_bodies(log.fetch(), batch)) == [
        (8, 1_000, b"\x06key\x0avalue\x02\x02h\x01"),
        (9, 1_001, b"\x01\x01\x00"),
    ]


def test_header_names_that_are_no_text_are_still_read() -> None:
    log = SourceLog()
    log.batch([New(1, b"value", None, (("ab", b""),))])
    data = log.fetch()
    at = bytes(data).index(b"ab")
    data[at] = 0xFF
    (batch,) = scan(data)
    (record,) = decode_records(data, batch)
    assert record.headers == (("\ufffdb", b""),)


@pytest.mark.parametrize("abort", [True, False])
def test_separates_abort_from_commit(abort: bool) -> None:
    log = SourceLog()
    log.batch([New(1)], producer_id=5, transactional=True)
    log.end_transaction(5, abort=abort)
    data, marker = log.fetch(), scan(log.fetch())
    assert is_abort_marker(data, marker[1]) is abort
    assert not is_abort_marker(data, marker[0])


def test_a_control_batch_that_compaction_emptied_aborts_nothing() -> None:
    log = SourceLog()
    log.batch([], producer_id=5)
    data = log.fetch()
    data[22] |= 0x20
    (batch,) = scan(data)
    assert not is_abort_marker(data, batch)


def test_refuses_a_control_record_without_a_type() -> None:
    log = SourceLog(3)
    log.batch([New(1, b"", b"\x00\x00")])
    data = log.fetch()
    data[22] |= 0x20
    (batch,) = scan(data)
    with pytest.raises(CorruptBatchError, match=r"source offsets 3 to 3 .* has no type"):
        is_abort_marker(data, batch)


def damaged(log: SourceLog, at: int, value: int) -> memoryview:
    data = log.fetch()
    data[at] = value
    struct.pack_into(">I", data, 17, google_crc32c.value(bytes(data[21:])))
    return data


@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [
        (61, 0x7E, "a record claims 63 bytes"),
        (61, 0x00, "a record claims 0 bytes"),
        (60, 2, "bytes follow its last record"),
        (60, 4, "end too early"),
        (69, 0x7F, None),
    ],
)
def test_refuses_records_that_make_no_sense(at: int, value: int, reason: str | None) -> None:
    log = SourceLog(20)
    log.batch([New(1, b"abc"), New(1, b"abc"), New(1, b"abc")])
    data = damaged(log, at, value)
    (batch,) = scan(data)
    if reason is None:
        assert len(list(decode_records(data, batch))) == 3  # inside a value, anything goes
        return
    with pytest.raises(CorruptBatchError, match=f"source offsets 20 to 22 .*{reason}"):
        list(decode_records(data, batch))


def test_refuses_fields_that_run_past_their_record() -> None:
    log = SourceLog(20)
    log.batch([New(1, b"abc")])
    data = damaged(log, 66, 0x7E)
    (batch,) = scan(data)
    with pytest.raises(CorruptBatchError, match="source offset 20 cannot be decoded"):
        list(decode_records(data, batch))


def test_refuses_records_that_do_not_decompress() -> None:
    log = SourceLog(20)
    log.batch([New(1, b"abc")], codec="lz4")
    data = damaged(log, 61, 0)
    (batch,) = scan(data)
    with pytest.raises(CorruptBatchError, match=r"source offsets 20 to 20 .*lz4 data cannot be decompressed"):
        list(decode_records(data, batch))


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
