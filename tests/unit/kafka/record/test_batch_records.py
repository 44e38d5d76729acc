from __future__ import annotations

import json
import struct
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
