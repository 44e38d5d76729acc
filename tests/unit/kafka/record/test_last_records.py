"""The last record of each key is found in a batch without decoding the others, and is the record that was written."""

from __future__ import annotations

import pytest

from twinlog.errors import CorruptBatchError
from twinlog.kafka.record.batch import scan
from twinlog.kafka.record.builder import own_batch, record_body
from twinlog.kafka.record.last_records import KeptRecord, LastRecords, keep_last, taken
from twinlog.kafka.record.records import decode_records

KEYS = (b"", b"a", b"k" * 70, b"k" * 20_000, None)
HEADERS = (("twinlog.position", b"{}"), ("none", None))


def batch_of(sizes: tuple[int, ...]) -> bytes:
    """Keys in turn, values of these sizes or none, times and offsets far enough apart for numbers of several bytes."""
    return bytes(
        own_batch(
            (1_000_000 + 3_000 * at * (-1) ** at, record_body(KEYS[at % 5], None if size < 0 else b"v" * size, HEADERS))
            for at, size in enumerate(sizes)
        )
    )


@pytest.mark.parametrize(
    "sizes", [(1,), (-1, 5, 62, 63, 64, 8191, 8192, 70_000), (5,) * 5 + (-1,) * 5, tuple(range(300))]
)
@pytest.mark.parametrize("first_offset", [0, 3])
@pytest.mark.parametrize("deletions", [True, False])
def test_it_is_what_a_consumer_would_see(sizes: tuple[int, ...], first_offset: int, deletions: bool) -> None:
    buffer = batch_of(sizes)
    (batch,) = scan(buffer)
    last: LastRecords = {}
    keep_last(buffer, batch, first_offset, last, deletions=deletions)
    wanted = {
        record.key: record
        for record in decode_records(buffer, batch)
        if record.key is not None and record.offset >= first_offset and (deletions or record.value is not None)
    }
    assert {key: kept.decode() for key, kept in last.items()} == wanted


@pytest.mark.parametrize("cut", [61, 62, 70, 100])
def test_a_batch_that_lies_about_its_records_is_corrupt(cut: int) -> None:
    buffer = batch_of((10, 10, 10))
    (batch,) = scan(buffer)
    short = buffer[:cut]
    with pytest.raises(CorruptBatchError):
        keep_last(short, batch._replace(length=cut - 12), 0, {})


def test_an_undecodable_record_raises_each_time() -> None:
    buffer = batch_of((1, 1, 1))
    (batch,) = scan(buffer)
    last: LastRecords = {}
    keep_last(buffer, batch, 0, last)
    last[b"a"] = KeptRecord(1, 0, b"")
    records = taken(last, KeptRecord.decode)
    assert next(records)[1].key == b""
    for again in (records, taken(last, KeptRecord.decode), taken(last, KeptRecord.value)):
        with pytest.raises(CorruptBatchError):
            next(again)
    assert list(last) == [b"a", b"k" * 70]
