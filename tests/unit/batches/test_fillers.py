"""Fillers take every offset once, in batches that the topic takes."""

from __future__ import annotations

import pytest

from tests.source_log import read_back
from twinlog.batches.fillers import PORTION, are_fillers, make_fillers
from twinlog.batches.split import isolate, split_append
from twinlog.kafka.producer.appends import Append, CopyRules
from twinlog.kafka.record.batch import read_batch
from twinlog.kafka.record.builder import MAX_RECORDS, encode_batch, record_body
from twinlog.kafka.record.compression import GZIP, ZSTD
from twinlog.kafka.record.records import record_bodies
from twinlog.kafka.record.stamp import stamp
from twinlog.model.types import SourceOffset

TIME = 1_700_000_000_000


@pytest.mark.parametrize(("first", "end"), [(0, 1), (0, 100), (7, 100_000), (0, MAX_RECORDS), (5, 5)])
@pytest.mark.parametrize("codec", [GZIP, ZSTD])
def test_they_run_on_from_offset_to_offset(first: int, end: int, codec: int) -> None:
    found = make_fillers(SourceOffset(first), SourceOffset(end), TIME, codec, 1 << 20)
    at = first
    for append in found:
        assert append.first_source_offset == at
        assert append.spans == ((at, append.count),)
        at = append.next_source_offset
        batch = read_batch(append.data, 0)
        assert batch is not None
        assert (batch.record_count, batch.last_offset_delta) == (append.count, append.count - 1)
        assert (batch.base_timestamp, batch.max_timestamp) == (TIME, TIME)
        assert has_fillers(append)
    assert at == end


def test_each_record_has_a_key_and_an_empty_value() -> None:
    (append,) = make_fillers(SourceOffset(0), SourceOffset(4), TIME, GZIP, 1 << 20)
    stamp(append.data, 1, 0, 0)
    _, records = read_back(append.data)
    assert [(one.offset, one.timestamp, one.key, one.value) for one in records] == [
        (number, TIME, b"" if number else b"twinlog.offset", b"") for number in range(4)
    ]


def test_a_billion_offsets_take_up_to_440_mb() -> None:
    (append,) = make_fillers(SourceOffset(0), SourceOffset(MAX_RECORDS), TIME, ZSTD, 1 << 20)
    assert 400e6 < 1e9 / MAX_RECORDS * append.bytes < 440e6


def test_a_portion_ends_before_the_last_offset() -> None:
    found = make_fillers(SourceOffset(0), SourceOffset(10**9), TIME, ZSTD, 1 << 20)
    assert len(found) == PORTION
    assert found[-1].next_source_offset == PORTION * MAX_RECORDS
    assert sum(append.bytes for append in found) < 500_000


@pytest.mark.parametrize("most_bytes", [100, 300, 5_000])
def test_batches_are_no_larger_than_the_topic_takes(most_bytes: int) -> None:
    found = make_fillers(SourceOffset(0), SourceOffset(100_000), TIME, ZSTD, most_bytes)
    assert all(append.bytes <= most_bytes for append in found)


def has_fillers(append: Append) -> bool:
    batch = read_batch(append.data, 0)
    assert batch is not None
    return append.fills and are_fillers([bytes(body) for _, _, body in record_bodies(memoryview(append.data), batch)])


def refused() -> Append:
    (append,) = make_fillers(SourceOffset(7), SourceOffset(7 + MAX_RECORDS), TIME, ZSTD, 1 << 20)
    return append


@pytest.mark.parametrize("most_bytes", [300, 10_000])
def test_a_refused_batch_is_cut_into_batches_of_fillers(most_bytes: int) -> None:
    require_fillers(split_append(refused(), CopyRules(max_batch_bytes=most_bytes)), most_bytes)


@pytest.mark.parametrize("numbers", [[], [3], [0, MAX_RECORDS - 1]])
def test_a_batch_without_refused_records_has_fillers(numbers: list[int]) -> None:
    parts = isolate(refused(), numbers, CopyRules())
    require_fillers(parts, 1 << 20)
    assert [part.count for part in parts if part.first_source_offset - 7 in numbers] == [1] * len(numbers)
    assert len(parts) > 1


def require_fillers(parts: list[Append], most_bytes: int) -> None:
    assert all(part.bytes <= most_bytes and has_fillers(part) for part in parts)
    assert [part.first_source_offset for part in parts] == [7, *(part.next_source_offset for part in parts[:-1])]
    assert parts[-1].next_source_offset == 7 + MAX_RECORDS


def test_a_batch_of_a_user_that_begins_with_a_filler_keeps_its_records() -> None:
    """The fillers of one mirror are records to copy for the next mirror, in a batch with the records behind them."""
    bodies = [record_body(b"twinlog.offset", b""), *(record_body(b"key", b"%d" % number) for number in range(9))]
    data = bytearray(encode_batch([(0, body) for body in bodies], ZSTD))
    append = Append(data, 10, SourceOffset(7), SourceOffset(17), TIME, ((SourceOffset(7), 10),))
    for parts in (split_append(append, CopyRules(max_batch_bytes=90)), isolate(append, [3], CopyRules())):
        assert len(parts) > 1
        kept = []
        for part in parts:
            stamp(part.data, 1, 0, 0)
            kept += [one.value for one in read_back(part.data)[1]]
        assert kept == [b"", *(b"%d" % number for number in range(9))]


def test_records_of_users_are_none() -> None:
    for record in (
        record_body(b"key", b""),
        record_body(b"twinlog.offset", None),
        record_body(b"twinlog.offset", b"1"),
        record_body(b"", b""),
    ):
        assert not are_fillers([record])
    filler, later = record_body(b"twinlog.offset", b""), record_body(b"", b"")
    assert are_fillers([filler, later, filler])
    assert not are_fillers([filler, record_body(b"key", b"")])
    assert not are_fillers([])
