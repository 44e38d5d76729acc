"""Laws of the way back: rows that become batches are the same records, for another reader and for ours."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from tests.any_log import codecs, records
from tests.source_log import New, SourceLog, read_back
from twinlog.batches.arrow.decode import RowRules, decode
from twinlog.batches.arrow.encode import AT_ONCE_BYTES, encode
from twinlog.batches.arrow.varints import Varints
from twinlog.errors import RecordTooLargeError
from twinlog.kafka.record.compression import CODECS, compress, decompress
from twinlog.kafka.record.records import Record
from twinlog.kafka.record.stamp import stamp
from twinlog.kafka.record.varint import encode_varint
from twinlog.model.types import TopicName, TopicPartition

LARGEST = 1_048_588
WHERE = TopicPartition(TopicName("t"), 0)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    some=st.lists(records, min_size=1, max_size=40),
    codec=codecs,
    headers=st.booleans(),
    most_bytes=st.sampled_from([100, 1_000, LARGEST]),
    skipped=st.integers(0, 3),
    at_once=st.sampled_from([1, 1_000, AT_ONCE_BYTES]),
)
def test_rows_become_the_batches_that_they_came_from(
    some: list[New], codec: str, headers: bool, most_bytes: int, skipped: int, at_once: int
) -> None:
    log = SourceLog()
    log.batch(some, codec=codec)
    (rows,) = decode(log.fetch(), WHERE, 0, 2**62, RowRules(headers)).batches
    skipped = min(skipped, len(some) - 1)
    seen: list[Record] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("twinlog.batches.arrow.encode.AT_ONCE_BYTES", at_once)
        batches = list(encode(rows.slice(skipped), most_bytes=most_bytes, codec=CODECS[codec], largest=LARGEST))
    for data in batches:
        stamp(data, 9, 3, 0)
        header, inside = read_back(data)
        assert codec != "none" or len(data) <= most_bytes or len(inside) == 1
        assert header.records_count == len(inside) == header.last_offset_delta + 1
        assert header.max_timestamp == max(record.timestamp for record in inside)
        seen += [record._replace(offset=len(seen) + record.offset) for record in inside]
    expected = [record._replace(offset=record.offset - skipped) for record in log.visible()[skipped:]]
    assert seen == (expected if headers else [record._replace(headers=()) for record in expected])


@given(
    numbers=st.lists(
        st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-70, 70), min_size=3, max_size=3), min_size=1
    ),
    room=st.sampled_from([0, 5]),
)
def test_numbers_become_the_varints_that_others_write(numbers: list[list[int]], room: int) -> None:
    fields = Varints.of(np.array(numbers, dtype=np.int64).T.copy())
    first = fields.some(slice(1)).cells_with(fields.some(slice(1, 3)), room).to_pylist()
    expected = [b"".join(map(encode_varint, row)) for row in numbers]
    assert first == [bytes(room) + expected[0], *expected[1:]]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("level", [None, 3])
def test_a_part_of_a_buffer_is_compressed_as_bytes_are(codec: str, level: int | None) -> None:
    data = b"some records, some more records, and others" * 3_000
    part = memoryview(pa.py_buffer(b"before" + data + b"after"))[6:-5]
    compressed = compress(CODECS[codec], part, level)
    assert compressed == compress(CODECS[codec], data, level)
    assert decompress(CODECS[codec], compressed) == data


def test_a_record_that_is_too_large_alone_is_refused() -> None:
    log = SourceLog()
    log.batch([New(5, b"small"), New(5, bytes(2_000)), New(5, b"small")])
    (rows,) = decode(log.fetch(), WHERE, 0, 2**62, RowRules()).batches
    batches = encode(rows, most_bytes=1_000)
    assert len(next(batches)) < 1_000
    with pytest.raises(RecordTooLargeError, match="is larger than the 1000 bytes that a batch may have"):
        next(batches)
