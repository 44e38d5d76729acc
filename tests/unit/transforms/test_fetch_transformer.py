"""Fetches that a transform changes: what is appended, where its records came from, and what is left out."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from tests import transforms
from tests.source_log import New, SourceLog
from tests.unit.transforms.preparing import (
    NOW,
    REMOTE,
    RULES,
    SOURCE,
    numbered,
    of,
    prepared,
    sources,
    transformer,
    values,
)
from twinlog.batches.prepare import prepare
from twinlog.batches.split import split_append
from twinlog.errors import CopyError, CorruptBatchError, RecordTooLargeError, TransformError
from twinlog.kafka.producer.appends import ADDED, CopyRules
from twinlog.kafka.protocol.produce import partition_for
from twinlog.kafka.record.batch import HEADER
from twinlog.kafka.record.compression import CODECS
from twinlog.mirror.offsets.exact_map import CopiedRuns, ExactMap, Translated
from twinlog.settings.transform import TransformSettings
from twinlog.transforms.fetch_transformer import FetchTransformer
from twinlog.transforms.row_appends import partitions_by_key, place


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_an_unchanged_record_is_the_same_in_the_codec_of_its_batch(codec: str) -> None:
    log = SourceLog()
    log.batch([New(NOW, b"v", b"k", (("h", b"1"), ("h", None))), New(NOW - 5, None, None)], codec=codec)
    log.gap(3)
    log.batch([New(NOW + 9, b"", b"")], codec=codec)
    found = prepared(transforms.identity, log)
    (append,) = found.appends
    assert append.data[22] & 7 == CODECS[codec]
    assert [record[1:] for record in of(append)] == [record[1:] for record in log.visible()]
    assert append.spans == ((0, 2), (5, 1))
    assert (append.first_source_offset, append.next_source_offset, found.position) == (0, 6, 6)
    assert append.max_timestamp == NOW + 9
    assert found.roads == {"transformed": 1}


def test_the_codec_of_the_producer_counts_more() -> None:
    found = prepared(transforms.identity, numbered(9, codec="lz4"), rules=CopyRules(codec="zstd"))
    assert {append.data[22] & 7 for append in found.appends} == {CODECS["zstd"]}


def test_dropped_records_leave_holes_and_the_position_passes_over_them() -> None:
    found = prepared(transforms.odd, numbered(11))
    assert values(found) == [b"1", b"3", b"5", b"7", b"9"]
    assert sources(found) == [1, 3, 5, 7, 9]
    assert (found.dropped, found.position) == (6, 11)
    nothing = prepared(transforms.nothing, numbered(11))
    assert (nothing.appends, nothing.dropped, nothing.position) == ([], 11, 11)


def test_a_map_leads_each_group_to_the_first_record_that_is_there() -> None:
    found = prepared(transforms.twice, numbered(13))
    assert values(found) == [b"1", b"2", b"3", b"3 again", b"5", b"6", b"6 again", b"7", b"9", b"9 again", b"10", b"11"]
    assert sources(found) == [1, 2, 3, -1, 5, 6, -1, 7, 9, -1, 10, 11]
    runs, known, base = CopiedRuns(), ExactMap(0, 100, complete=True), 100
    for append in found.appends:
        runs.add(append.spans, base)
        base += append.count
    assert known.add_runs(runs.take_runs())
    known.move_end(13, base)
    first_at = {1: 100, 2: 101, 3: 102, 5: 104, 6: 105, 7: 107, 9: 108, 10: 110, 11: 111}
    for committed in range(13):
        behind = [place for source, place in first_at.items() if source >= committed]
        assert known.to_target(committed) == Translated(min(behind, default=base), True), committed


@pytest.mark.parametrize("limit", [130, 200, 400])
def test_what_is_cut_for_size_never_counts_a_record_of_which_something_is_missing(limit: int) -> None:
    found = prepared(transforms.twice, numbered(60, batch=60))
    (append,) = found.appends
    parts = split_append(append, CopyRules(max_batch_bytes=limit))
    assert len(parts) > 2
    assert [value for part in parts for value in [one.value for one in of(part)]] == values(found)
    whole = [source for first, n in append.spans for source in ([ADDED] * n if first < 0 else range(first, first + n))]
    at = 0
    for part in parts:
        assert part.spans == tuple(_spans(whole[at : at + part.count]))
        at += part.count
        owner = max(source for source in whole[:at] if source != ADDED)
        if at < len(whole):
            assert part.next_source_offset == (owner if whole[at] == ADDED else owner + 1)
    assert parts[-1].next_source_offset == append.next_source_offset


def _spans(offsets: list[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for offset in offsets:
        if found and (
            offset == found[-1][0] == ADDED or (offset >= 0 and offset == sum(found[-1]) and found[-1][0] >= 0)
        ):
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((offset, 1))
    return found


def test_many_records_become_several_batches_and_one_that_is_larger_has_its_own() -> None:
    log = SourceLog()
    log.batch([New(NOW, b"%d" % n * 3000) for n in range(30)])
    log.batch([New(NOW, b"x" * 40_000)])
    found = prepared(transforms.identity, log, rules=CopyRules(merge_batch_bytes=20_000))
    assert [append.count for append in found.appends][-1] == 1
    assert max(append.bytes for append in found.appends[:-1]) <= 20_000
    assert values(found) == [record.value for record in log.visible()]


def test_a_record_that_is_too_large_stops_the_partition_after_those_before_it_or_is_left_out() -> None:
    log = numbered(4)
    log.batch([New(NOW, b"x" * 5_000), New(NOW, b"5")])
    rules = CopyRules(max_batch_bytes=3_000)
    found = prepared(transforms.identity, log, rules=rules)
    assert (values(found), found.position) == ([b"0", b"1", b"2", b"3"], 4)
    with pytest.raises(
        RecordTooLargeError, match=r"source offset 4 needs a batch of 50.. bytes, the remote topic takes 3"
    ):
        prepared(transforms.identity, log, position=4, rules=rules)
    skipping = prepared(transforms.identity, log, rules=CopyRules(max_batch_bytes=3_000, oversized="skip"))
    assert [one.source_offset for one in skipping.oversized] == [4]
    assert values(skipping)[-1] == b"5"


def test_a_failure_stops_the_partition_after_what_comes_before_it() -> None:
    log = numbered(12, first=1)
    found = prepared(transforms.no_sevens, log)
    assert (values(found), found.position, found.failed) == ([b"%d" % n for n in range(1, 7)], 6, [])
    with pytest.raises(TransformError) as raised:
        prepared(transforms.no_sevens, log, position=6)
    assert str(raised.value) == (
        "the transform module:function fails on the record at offset 6 of shop-1: it raises ValueError: no 7; "
        "correct it, or set errors.tolerance = all to skip records that fail"
    )


def test_failures_are_skipped_and_told_and_go_to_the_dead_letter_topic() -> None:
    found = prepared(
        transforms.no_sevens,
        numbered(15, first=1),
        tolerance="all",
        dead_letter_topic="dead",
        dead_letter_headers=True,
        log_errors=True,
        log_messages=True,
    )
    assert values(found) == [b"%d" % n for n in range(1, 16) if n % 7]
    assert [(one.source_offset, one.reason, one.shown) for one in found.failed] == [
        (6, "it raises ValueError: no 7", "key b'k7', value b'7'"),
        (13, "it raises ValueError: no 14", "key b'k14', value b'14'"),
    ]
    assert (found.dropped, found.position, found.log_failed) == (0, 15, True)
    (dead,) = found.routed
    assert (dead.topic, dead.dead) == ("dead", True)
    rows = dead.rows.to_pylist()
    assert [(row["key"], row["value"], row["offset"], row["partition"]) for row in rows] == [
        (b"k7", b"7", 6, None),
        (b"k14", b"14", 13, None),
    ]
    assert {header["key"]: header["value"] for header in rows[0]["headers"]} == {
        "__connect.errors.topic": b"shop",
        "__connect.errors.partition": b"1",
        "__connect.errors.offset": b"6",
        "__connect.errors.connector.name": b"north->south",
        "__connect.errors.stage": b"TRANSFORMATION",
        "__connect.errors.class.name": b"module:function",
        "__connect.errors.exception.class.name": b"builtins.ValueError",
        "__connect.errors.exception.message": b"it raises ValueError: no 7",
    }


def test_a_damaged_batch_stops_the_partition_after_those_before_it() -> None:
    log = numbered(20)
    fetched = bytearray(log.fetch())
    fetched[log.starts[2] + 70] ^= 1
    found = transformer(transforms.identity).prepare(memoryview(fetched), 0, RULES)
    assert (values(found), found.position) == ([b"%d" % n for n in range(10)], 10)
    with pytest.raises(CorruptBatchError):
        transformer(transforms.identity).prepare(memoryview(fetched)[log.starts[2] :], 10, RULES)


def test_aborted_records_and_markers_are_left_out_as_on_the_raw_road() -> None:
    log = SourceLog()
    log.batch([New(NOW, b"1")])
    log.batch([New(NOW, b"lost"), New(NOW, b"too")], producer_id=7, transactional=True)
    log.end_transaction(7, abort=True)
    log.batch([New(NOW, b"4")], leader_epoch=4)
    rules = CopyRules(read_committed=True)
    found = transformer(transforms.identity).prepare(log.fetch(), 0, rules, log.aborted())
    assert (values(found), sources(found), found.position) == ([b"1", b"4"], [0, 4], 5)
    raw = prepare(log.fetch(), 0, rules, log.aborted())
    assert (
        (found.aborted, found.control, found.leader_epoch) == (raw.aborted, raw.control, raw.leader_epoch) == (2, 1, 4)
    )


def test_rows_are_routed_by_topic_and_the_others_stay() -> None:
    found = prepared(transforms.sorting, numbered(10))
    assert values(found) == [b"1", b"3", b"5", b"7", b"9"]
    (routed,) = found.routed
    assert (routed.topic, routed.rows.column("value").to_pylist()) == ("even", [b"0", b"2", b"4", b"6", b"8"])
    assert found.dropped == 0
    placed = place(routed, SOURCE, 4, RULES)
    assert {number: [one.value for append in some for one in of(append)] for number, some in placed.items()} == {
        1: [b"0", b"2", b"4", b"6", b"8"]
    }
    with pytest.raises(
        TransformError, match="routes the record at offset 0 of shop-1 to partition 1 of even, which has 1"
    ):
        place(routed, SOURCE, 1, RULES)


def test_a_null_partition_is_that_of_the_key_by_kafkas_own_hash(chance: random.Random) -> None:
    import pyarrow as pa

    keys = [chance.randbytes(size) for size in range(70) for _ in range(3)] + [None]
    chosen = partitions_by_key(pa.array(keys, pa.binary()).slice(5), 12, 15).tolist()
    assert chosen == [3 if key is None else partition_for(key, 12) for key in keys[5:]]
    found = prepared(transforms.rekeyed, numbered(40), partitions=3)
    mine = [b"%d" % n for n in range(40) if partition_for(b"%d" % n, 3) == 1]
    assert values(found) == mine
    (routed,) = found.routed
    assert routed.topic == REMOTE.topic
    assert sorted(place(routed, SOURCE, 3, RULES)) == [0, 2]


def test_the_last_record_of_a_header_is_counted() -> None:
    (append,) = prepared(transforms.identity, numbered(3)).appends
    header = HEADER.unpack_from(append.data, 0)
    assert (header[6], header[12]) == (2, 3)


def test_what_failed_after_a_record_that_is_too_large_is_not_said_yet() -> None:
    def growing(batch: Any) -> Any:
        grown = [value * 1_500 if value == b"30" else value for value in batch["value"].to_pylist()]
        return transforms.put(transforms.no_sevens(batch), "value", pa.array(grown, pa.binary()))

    rules = CopyRules(max_batch_bytes=2_000)
    found = prepared(growing, numbered(60), tolerance="all", dead_letter_topic="dead", rules=rules)
    assert found.position == 30
    assert [one.source_offset for one in found.failed] == [0, 7, 14, 21, 28]
    (dead,) = found.routed
    assert dead.rows["value"].to_pylist() == [b"0", b"7", b"14", b"21", b"28"]


@pytest.mark.parametrize("topic", ["no topic!", "", "__consumer_offsets", "mm2-offsets.north.internal", "heartbeats"])
def test_a_record_that_cannot_be_routed_is_one_that_the_function_fails_on(topic: str) -> None:
    def routed(batch: Any) -> Any:
        topics = [topic if value == b"3" else REMOTE.topic for value in batch["value"].to_pylist()]
        return transforms.put(batch, "topic", pa.array(topics, pa.string()))

    found = prepared(routed, numbered(9), tolerance="all")
    assert sources(found) == [0, 1, 2, 4, 5, 6, 7, 8]
    (failed,) = found.failed
    assert failed.source_offset == 3
    assert "it routes records to " in failed.reason
    with pytest.raises(TransformError, match="the record at offset 3 of shop-1: it routes records to "):
        prepared(routed, numbered(9), position=3)


def test_a_timestamp_that_has_no_place_in_a_row_names_its_record_and_the_ways_out() -> None:
    log = numbered(3)
    log.batch([New(1_700_000_000_000_000_000, b"nanoseconds")])
    with pytest.raises(CopyError) as raised:
        prepared(transforms.identity, log)
    assert str(raised.value) == (
        "north.shop-1: the record at offset 3 has the timestamp 1700000000000000000, which does not fit into Spark's "
        "microseconds; a DataFrame can begin after it (startingOffsets, endingOffsets), and a flow copies it without "
        "a transform"
    )


def test_records_without_a_partition_go_by_the_last_known_number_of_partitions() -> None:
    """A topic that was deleted is made again, and has to be waited for."""
    known: list[int | None] = [3]
    where = FetchTransformer(
        transforms.rekeyed, TransformSettings("a:b"), "north->south", SOURCE, REMOTE, lambda _: known[0], lambda: 0.0
    )
    known[0] = None
    assert sources(where.prepare(numbered(30).fetch(), 0, RULES)) == sources(prepared(transforms.rekeyed, numbered(30)))


def test_of_records_after_one_that_is_too_large_nothing_counts_yet() -> None:
    def odd_and_large(batch: Any) -> Any:
        grown = [value * 1_500 if value == b"31" else value for value in batch["value"].to_pylist()]
        return transforms.odd(transforms.put(batch, "value", pa.array(grown, pa.binary())))

    log = numbered(60)
    log.batch([New(NOW, b"60")], leader_epoch=9)
    found = prepared(odd_and_large, log, rules=CopyRules(max_batch_bytes=2_000))
    assert (found.position, found.dropped, len(values(found))) == (31, 16, 15)
    assert found.leader_epoch != 9
