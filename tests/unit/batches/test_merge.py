"""Which neighbours go into one batch, and which do not."""

from __future__ import annotations

import struct
from dataclasses import replace

import google_crc32c
import pytest

from tests.source_log import New, SourceLog
from tests.unit.batches.batches import BIG, all_records, codec_of, records_of, rows
from twinlog.batches.prepare import prepare
from twinlog.kafka.producer.appends import CopyRules
from twinlog.kafka.record.batch import scan
from twinlog.kafka.record.compression import CODECS


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("each", [1, 3])
def test_small_neighbours_become_one(codec: str, each: int) -> None:
    log = SourceLog(70)
    rows(log, 40, codec=codec, each=each)
    prepared = prepare(log.fetch(), 70, CopyRules())
    (append,) = prepared.appends
    assert codec_of(append) == CODECS[codec]
    assert (append.count, append.spans, append.max_timestamp) == (40 * each, ((70, 40 * each),), 1_039)
    assert append.next_source_offset == prepared.position == 70 + 40 * each
    assert records_of(append) == log.visible()


def test_what_is_encoded_anew_is_merged_with_small_neighbours() -> None:
    log = SourceLog()
    log.batch([New(1, b"small")])
    log.batch([New(2, b"time")], append_time=20)
    log.batch([New(3, b"holes")], deltas=[3])
    log.message(1, New(4, b"old"))
    log.end_transaction(5, abort=False)
    log.batch([New(5, b"small")])
    (append,) = prepare(log.fetch(), 0, CopyRules()).appends
    assert append.spans == ((0, 2), (5, 2), (8, 1))
    assert records_of(append) == log.visible()


def test_codecs_are_not_mixed() -> None:
    log = SourceLog()
    for codec in ("none", "none", "lz4", "lz4", "none", "zstd"):
        rows(log, 1, codec=codec)
    prepared = prepare(log.fetch(), 0, CopyRules())
    assert [(codec_of(append), append.count) for append in prepared.appends] == [(0, 2), (3, 2), (0, 1), (4, 1)]


def test_a_large_batch_between_small_ones_goes_on_as_it_is() -> None:
    log = SourceLog()
    rows(log, 2)
    rows(log, 1, value=BIG)
    rows(log, 2)
    prepared = prepare(log.fetch(), 0, CopyRules())
    assert [append.spans for append in prepared.appends] == [((0, 2),), ((2, 1),), ((3, 2),)]
    assert isinstance(prepared.appends[1].data, memoryview)


@pytest.mark.parametrize(
    "rules",
    [
        CopyRules(merge_below=100),
        CopyRules(merge_records=2),
        CopyRules(merge_below=0),
        CopyRules(merge_batch_bytes=150),
    ],
    ids=["too many bytes", "too many records", "off", "no room"],
)
def test_what_is_not_small_is_not_merged(rules: CopyRules) -> None:
    log = SourceLog()
    rows(log, 4, each=3, value=b"x" * 20)
    prepared = prepare(log.fetch(), 0, rules)
    assert [append.count for append in prepared.appends] == [3] * 4
    assert all(isinstance(append.data, memoryview) for append in prepared.appends)


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_a_row_of_small_batches_ends_at_one_of_another_shape(codec: str) -> None:
    log = SourceLog()
    rows(log, 3, codec=codec)
    log.batch([New(5, b"holes")] * 2, deltas=[0, 5], codec=codec)
    rows(log, 3, codec=codec)
    log.batch([New(6, b"aborted")], codec=codec, producer_id=9, transactional=True)
    rows(log, 3, codec=codec, each=64)
    log.batch([New(7, b"time")], append_time=70, codec=codec)
    rows(log, 3, codec=codec)
    log.end_transaction(9, abort=True)
    (append,) = prepare(log.fetch(), 0, CopyRules(read_committed=True), log.aborted()).appends
    assert append.spans == ((0, 4), (8, 4), (13, 196))
    assert records_of(append) == log.visible(read_committed=True)


def test_a_row_of_small_batches_ends_at_one_of_many_records() -> None:
    log = SourceLog()
    rows(log, 3)
    rows(log, 1, each=65)
    rows(log, 3)
    prepared = prepare(log.fetch(), 0, CopyRules())
    assert [append.count for append in prepared.appends] == [3, 65, 3]
    prepared = prepare(log.fetch(), 0, CopyRules(merge_records=65))
    assert [append.count for append in prepared.appends] == [71]
    assert all_records(prepared) == log.visible()


def test_a_row_of_small_batches_ends_at_one_that_is_just_not_small() -> None:
    """As it would if it came first."""
    log = SourceLog()
    rows(log, 3)
    rows(log, 1, value=b"x" * 30)
    rows(log, 3)
    size = scan(log.fetch())[3].size
    assert [append.count for append in prepare(log.fetch(), 0, CopyRules(merge_below=size)).appends] == [3, 1, 3]
    assert [append.count for append in prepare(log.fetch(), 0, CopyRules(merge_below=size + 1)).appends] == [7]


def test_the_leader_epoch_is_that_of_the_last_batch() -> None:
    log = SourceLog()
    for epoch in (4, 5, 5, 6, 7):
        log.batch([New(1)], leader_epoch=epoch)
    assert prepare(log.fetch(), 0, CopyRules()).leader_epoch == 7


def test_merging_stops_at_its_target_size() -> None:
    log = SourceLog()
    rows(log, 1_000, value=b"x" * 100)
    prepared = prepare(log.fetch(), 0, CopyRules(merge_batch_bytes=20_000))
    assert all(append.bytes <= 20_000 for append in prepared.appends)
    # Each source batch brings a header of its own, so what comes out is smaller than what was counted.
    assert all(append.bytes > 10_000 for append in prepared.appends[:-1])
    assert all_records(prepared) == log.visible()


def test_merging_respects_the_limit_of_the_topic() -> None:
    log = SourceLog()
    rows(log, 300, value=b"x" * 100)
    prepared = prepare(log.fetch(), 0, CopyRules(max_batch_bytes=5_000))
    assert all(append.bytes <= 5_000 for append in prepared.appends)
    assert all_records(prepared) == log.visible()


def test_timestamps_that_go_back_survive_merging() -> None:
    log = SourceLog()
    for timestamp in (10**12, 5, 10**12 + 10**9, -1, 10**12 + 8_192):
        log.batch([New(timestamp)])
    (append,) = prepare(log.fetch(), 0, CopyRules()).appends
    assert append.max_timestamp == 10**12 + 10**9
    assert records_of(append) == log.visible()


@pytest.mark.parametrize("size", [*range(52, 62), *range(8_112, 8_132), 9_000])
def test_record_lengths_around_their_limits(size: int) -> None:
    log = SourceLog()
    log.batch([New(1)])
    for _ in range(3):
        log.batch([New(500, b"x" * size)])
    log.batch([New(2)])
    (append,) = prepare(log.fetch(), 0, CopyRules()).appends
    assert records_of(append) == log.visible()


def test_a_number_written_longer_than_needed_is_understood() -> None:
    """Java reads a varint with needless bytes, so another producer may have written one."""
    log = SourceLog()
    rows(log, 3)
    data = log.data
    second = scan(data)[1]
    # The second batch's record: its length in two bytes instead of one.
    longer = bytearray(data[second.start : second.end])
    longer[61:62] = bytes((longer[61] | 128, 0))
    struct.pack_into(">i", longer, 8, len(longer) - 12)
    struct.pack_into(">I", longer, 17, google_crc32c.value(bytes(longer[21:])))
    fetched = memoryview(bytearray(data[: second.start] + longer + data[second.end :]))
    (append,) = prepare(fetched, 0, CopyRules()).appends
    assert records_of(append) == log.visible()


def test_small_batches_of_any_codec_merge_into_the_new_one() -> None:
    log = SourceLog()
    for codec in ("none", "lz4", "zstd", "none", "gzip"):
        rows(log, 2, codec=codec)
    (append,) = prepare(log.fetch(), 0, CopyRules(codec="snappy")).appends
    assert codec_of(append) == CODECS["snappy"]
    assert records_of(append) == log.visible()


@pytest.mark.parametrize("codec", CODECS)
def test_for_a_far_target_batches_are_merged_that_are_not_small(codec: str) -> None:
    log = SourceLog()
    rows(log, 30, codec=codec, value=BIG, each=2)
    rules = CopyRules(max_batch_bytes=700_000)
    fetched = log.fetch()
    apart = prepare(memoryview(bytearray(fetched)), 0, replace(rules, merge_below=0)).appends
    prepared = prepare(fetched, 0, rules.merging_all())
    assert len(apart) == 30
    assert len(prepared.appends) == (2 if codec == "none" else 1)
    assert all(codec_of(append) == CODECS[codec] and append.bytes <= 700_000 for append in prepared.appends)
    assert all_records(prepared) == log.visible()
