from __future__ import annotations

import sys
from threading import Barrier, Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.source_log import read_back
from twinlog.kafka.record.builder import MAX_RECORDS, STAMPS, VARINTS, encode_batch, reserve_varints
from twinlog.kafka.record.compression import CODECS
from twinlog.kafka.record.stamp import stamp
from twinlog.kafka.record.varint import encode_varint

# A body as `encode_batch` takes it: key null, value of five bytes, one header without a value.
BODY = b"\x01\x0avalue\x02\x02h\x01"


def encoded(times: list[int], codec: str = "none", level: int | None = None) -> bytearray:
    batch = encode_batch([(time, BODY) for time in times], CODECS[codec], level)
    assert batch[:8] == bytes(8)
    assert batch[12:16] == b"\xff" * 4
    assert batch[17:21] == bytes(4)
    stamp(batch, 1, 0, 0)
    return batch


@pytest.mark.parametrize("codec", CODECS)
def test_another_reader_reads_it(codec: str) -> None:
    header, records = read_back(encoded([1_000, 1_001, 990], codec))
    assert header.attributes == CODECS[codec]
    assert (header.first_timestamp, header.max_timestamp, header.last_offset_delta) == (1_000, 1_001, 2)
    assert [(record.offset, record.timestamp) for record in records] == [(0, 1_000), (1, 1_001), (2, 990)]
    assert {(record.key, record.value, record.headers) for record in records} == {(None, b"value", (("h", None),))}


@settings(deadline=None)
@given(st.lists(st.integers(-1, 2**62), min_size=1, max_size=200))
def test_keeps_any_timestamp(times: list[int]) -> None:
    header, records = read_back(encoded(times))
    assert [record.timestamp for record in records] == times
    assert header.max_timestamp == max(times)


def test_writes_no_more_bytes_than_kafka_does() -> None:
    assert len(encoded([5])) == 61 + 1 + 3 + len(BODY)


def test_a_level_is_passed_on() -> None:
    times = list(range(5_000))
    assert len(encoded(times, "gzip", 1)) > len(encoded(times, "gzip", 9))


def test_more_records_than_the_tables_know() -> None:
    count = len(VARINTS) + 10
    header, records = read_back(encoded([number % (len(STAMPS) + 10) for number in range(count)]))
    assert header.records_count == count
    assert [record.offset for record in records] == list(range(count))


def test_copiers_of_one_process_that_reserve_at_once_leave_each_number_in_its_place() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(3):
            del VARINTS[8_300:]
            begin = Barrier(4)

            def reserve(begin: Barrier = begin) -> None:
                begin.wait()
                reserve_varints(MAX_RECORDS)

            threads = [Thread(target=reserve) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert [encode_varint(number) for number in range(MAX_RECORDS)] == VARINTS
    finally:
        sys.setswitchinterval(interval)
