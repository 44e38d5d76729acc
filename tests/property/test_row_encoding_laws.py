"""Laws of the way back: rows that become batches are the same records, for another reader and for ours."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from tests.any_log import codecs, records
from tests.source_log import New, SourceLog, read_back
from twinlog.errors import RecordTooLargeError
from twinlog.model.types import TopicName, TopicPartition
from twinlog.record.compression import CODECS
from twinlog.record.records import Record
from twinlog.record.stamp import stamp
from twinlog.rows.decode import RowRules, decode
from twinlog.rows.encode import AT_ONCE_BYTES, encode

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
        patch.setattr("twinlog.rows.encode.AT_ONCE_BYTES", at_once)
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


def test_a_record_that_is_too_large_alone_is_refused() -> None:
    log = SourceLog()
    log.batch([New(5, b"small"), New(5, bytes(2_000)), New(5, b"small")])
    (rows,) = decode(log.fetch(), WHERE, 0, 2**62, RowRules()).batches
    batches = encode(rows, most_bytes=1_000)
    assert len(next(batches)) < 1_000
    with pytest.raises(RecordTooLargeError, match="is larger than the 1000 bytes that a batch may have"):
        next(batches)
