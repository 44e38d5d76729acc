"""The ranges of equal records with their digests, and both logs compared with them later; in virtual time."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from harness.virtual.cluster import VirtualCluster
from tests.unit.ops.verify.two_logs import (
    NOW,
    Stored,
    append_copies,
    copy_committed,
    digest_of,
    in_step,
    made,
    on,
    put,
    read_again,
    some,
    verify,
)
from twinlog.kafka.record.builder import record_body
from twinlog.mirror.offsets.exact_map import CopiedRun, ExactMap
from twinlog.model.types import SourceOffset, TargetOffset
from twinlog.ops.verify import digests
from twinlog.ops.verify.model import ComparedRange
from twinlog.ops.verify.recheck import ChangedRange

Clusters = tuple[VirtualCluster, VirtualCluster]
RULES = {"range_records": 50}


def rewrite(cluster: VirtualCluster, topic: str, records: Sequence[Stored], per_batch: int = 20) -> None:
    """As a topic that was recreated with other records."""
    cluster.log(topic).cut(0)
    put(cluster, topic, records, per_batch)


@pytest.mark.parametrize(("source_batch", "target_batch"), [(20, 20), (1, 70), (400, 7)])
@pytest.mark.parametrize("mapped", [False, True])
def test_ranges_are_the_same_however_batches_are_cut(
    clusters: Clusters, source_batch: int, target_batch: int, mapped: bool
) -> None:
    records = some(420)
    put(clusters[0], "t", records, source_batch)
    put(clusters[1], "s.t", records, target_batch, "lz4")
    found = verify(clusters, in_step(420) if mapped else None, rules=RULES)
    starts = range(0, 420, 50)
    assert found.ranges == [
        ComparedRange(start, end, start, end, end - start, True, digest_of(records[start:end]))
        for start, end in ((start, min(420, start + 50)) for start in starts)
    ]
    again = read_again(clusters, found.ranges)
    assert (again.equal, again.records) == (True, 420)
    assert [(side.side, side.equal, side.gone, side.different) for side in again.sides] == [
        ("source", 420, 0, 0),
        ("target", 420, 0, 0),
    ]
    assert verify(clusters, in_step(420) if mapped else None).ranges == []


def test_a_long_partition_has_larger_ranges_and_a_bounded_number(
    clusters: Clusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digests, "NORMAL_RANGES", 4)
    put(clusters[0], "t", some(420))
    put(clusters[1], "s.t", some(420))
    assert [one.records for one in verify(clusters, rules=RULES).ranges] == [105] * 4
    monkeypatch.setattr(digests, "MOST_RANGES", 3)
    assert [one.records for one in verify(clusters, rules=RULES).ranges] == [105] * 3


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize(
    ("change", "left"),
    [
        (lambda records: [*records[:170], made(170, b"other"), *records[171:]], 399),
        (lambda records: records[:170] + records[171:], 399),
        (lambda records: [*records[:170], made(9, b"of somebody else"), *records[170:]], 400),
    ],
    ids=["changed", "missing", "extra"],
)
def test_a_range_ends_at_each_difference(
    clusters: Clusters, mapped: bool, change: Callable[[list[Stored]], list[Stored]], left: int
) -> None:
    records = some(400)
    copies = change(records)
    put(clusters[0], "t", records)
    put(clusters[1], "s.t", copies)
    known: ExactMap | None = None
    if mapped:
        known = ExactMap(SourceOffset(0), TargetOffset(0), complete=True)
        shift = len(copies) - len(records)
        known.add_runs([CopiedRun(SourceOffset(0), TargetOffset(0), 170)])
        known.add_runs(
            [CopiedRun(SourceOffset(170 - min(shift, 0)), TargetOffset(170 + max(shift, 0)), 230 + min(shift, 0))]
        )
    found = verify(clusters, known, rules=RULES)
    assert (found.equal, found.records, sum(one.records for one in found.ranges)) == (False, left, left)
    assert all(one.records == one.source_end - one.source_start for one in found.ranges)
    assert all(one.records == one.target_end - one.target_start for one in found.ranges)
    here = [one.span("target" if left == 400 else "source") for one in found.ranges]
    assert not any(start <= 170 < end for start, end in here)
    # The rest is as it was: each side has the records of the ranges.
    again = read_again(clusters, found.ranges)
    assert [(side.equal, side.different) for side in again.sides] == [(left, 0), (left, 0)]


@pytest.mark.parametrize("mapped", [True, False])
def test_accepted_foreign_records_are_in_no_range(clusters: Clusters, mapped: bool) -> None:
    source, target = clusters
    put(source, "t", some(100))
    put(target, "s.t", some(60))
    put(target, "s.t", [made(7, b"of somebody else")])
    put(target, "s.t", some(100)[60:])
    known = ExactMap(SourceOffset(0), TargetOffset(0), complete=True)
    known.add_runs([CopiedRun(SourceOffset(0), TargetOffset(0), 60)])
    known.add_runs([CopiedRun(SourceOffset(60), TargetOffset(61), 40)])
    found = verify(clusters, known if mapped else None, rules={**RULES, "ignore_foreign": True})
    assert found.equal is True
    assert [(one.target_start, one.target_end) for one in found.ranges] == [(0, 50), (50, 60), (61, 101)]
    assert read_again(clusters, found.ranges).equal is True


def test_markers_cut_no_range(clusters: Clusters) -> None:
    source, target = clusters
    put(source, "t", some(30))
    put(target, "s.t", some(10), 10)
    target.log("s.t").mark(7, 0, commit=True)
    put(target, "s.t", some(30)[10:], 10)
    known = ExactMap(SourceOffset(0), TargetOffset(0), complete=True)
    known.add_runs([CopiedRun(SourceOffset(0), TargetOffset(0), 10)])
    known.add_runs([CopiedRun(SourceOffset(10), TargetOffset(11), 20)])
    found = verify(clusters, known, rules=RULES)
    assert [(one.source_end, one.target_end, one.digest) for one in found.ranges] == [(30, 31, digest_of(some(30)))]
    assert read_again(clusters, found.ranges).equal is True


@pytest.mark.parametrize("side", ["source", "target"])
def test_timestamps_that_cannot_be_compared_are_in_no_digest(clusters: Clusters, side: str) -> None:
    source, target = clusters
    records = some(60)
    if side == "source":
        records[40:] = [(-1, body) for _, body in records[40:]]
    put(source, "t", records, 60)
    put(target, "s.t", some(60)[:40])
    append_copies(target, some(60)[40:], by_broker=side == "target")
    found = verify(clusters, rules=RULES)
    assert (found.equal, found.source_digest == found.target_digest) == (True, True)
    assert [(one.source_start, one.source_end, one.timestamps) for one in found.ranges] == [
        (0, 40, True),
        (40, 60, False),
    ]
    assert read_again(clusters, found.ranges).equal is True


def test_aborted_records_are_left_out_where_committed_ones_are_copied(clusters: Clusters) -> None:
    source, target = clusters
    copy_committed(source, target)
    committed = {"isolation_level": "read_committed"}
    found = verify(clusters, consumer=committed, rules=RULES)
    assert read_again(clusters, found.ranges, consumer=committed).equal is True
    # Read in the other way, the source has further records in its range.
    assert on(read_again(clusters, found.ranges), "source").first == ChangedRange(0, 61, 40, 60)
    # Retention is no excuse for more records than there were.
    source.log("t").delete_before(5)
    assert on(read_again(clusters, found.ranges), "source").first == ChangedRange(0, 61, 40, 55)


@pytest.mark.parametrize("mapped", [True, False])
def test_records_that_compaction_had_removed_are_in_no_range(clusters: Clusters, mapped: bool) -> None:
    source, target = clusters
    put(source, "t", some(300), 1)
    put(target, "s.t", some(300), 1)
    log, copies = source.log("t"), target.log("s.t")
    log.batches = [one for one in log.batches if not 110 <= one[0].base_offset < 130]
    copies.batches = [one for one in copies.batches if one[0].base_offset != 215]
    flags = {"source_compacted": True, "target_compacted": True, "syncs": () if mapped else ((150, 150),)}
    found = verify(clusters, in_step(300) if mapped else None, rules=RULES, **flags)
    assert (found.equal, sum(one.records for one in found.ranges)) == (True, 279)
    assert read_again(clusters, found.ranges, compacted=True).equal is True
    # Compaction goes on, and takes whole records: what is left of their ranges cannot be compared any more.
    copies.batches = [one for one in copies.batches if one[0].base_offset != 10]
    again = read_again(clusters, found.ranges, compacted=True)
    there = on(again, "target")
    assert (again.equal, there.equal, there.compacted, there.unproved, there.different) == (True, 229, 1, 49, 0)
    assert on(read_again(clusters, found.ranges), "target").first == ChangedRange(0, 50, 50, 49)


def test_what_retention_has_deleted_is_counted(clusters: Clusters) -> None:
    source, target = clusters
    put(source, "t", some(400))
    put(target, "s.t", some(400))
    found = verify(clusters, rules=RULES)
    source.log("t").delete_before(130)
    again = read_again(clusters, found.ranges)
    here, there = on(again, "source"), on(again, "target")
    assert (again.equal, here.equal, here.trimmed, here.unproved, here.different) == (True, 250, 130, 20, 0)
    assert (there.equal, there.gone) == (400, 0)
    target.log("s.t").delete_before(400)
    alone = read_again(clusters, found.ranges, "target")
    assert (alone.equal, on(alone, "target").trimmed) == (None, 400)


def test_what_retention_deletes_while_it_is_read_is_counted(clusters: Clusters) -> None:
    """The bounds of the log are from before the reading."""
    source, target = clusters
    put(source, "t", some(400))
    put(target, "s.t", some(400))
    found = verify(clusters, rules=RULES)
    target.log("s.t").delete_before(220)
    there = on(read_again(clusters, found.ranges, "target", start=0), "target")
    assert (there.equal, there.trimmed, there.unproved, there.different) == (150, 220, 30, 0)


def changed(records: list[Stored]) -> list[Stored]:
    return [*records[:170], made(170, b"other"), *records[171:]]


@pytest.mark.parametrize(
    ("now", "first", "ranges", "equal"),
    [
        (changed(some(400)), ChangedRange(150, 200, 50, 50), 1, 350),
        # Every later record is at another offset.
        (some(400)[:170] + some(400)[171:], ChangedRange(150, 200, 50, 50), 5, 150),
        (some(400)[:160], ChangedRange(150, 200, 50, 10), 5, 150),
        ([], ChangedRange(0, 50, 50, 0), 8, 0),
    ],
    ids=["changed", "missing", "shorter", "empty"],
)
def test_the_first_range_that_differs_is_named(
    clusters: Clusters, now: list[Stored], first: ChangedRange, ranges: int, equal: int
) -> None:
    put(clusters[0], "t", some(400))
    put(clusters[1], "s.t", some(400))
    found = verify(clusters, rules=RULES)
    rewrite(clusters[1], "s.t", now)
    again = read_again(clusters, found.ranges)
    here, there = on(again, "source"), on(again, "target")
    assert (again.equal, here.equal, here.different) == (False, 400, 0)
    assert (there.first, there.different, there.equal, there.gone) == (first, ranges, equal, 0)


def test_a_damaged_batch_differs(clusters: Clusters) -> None:
    put(clusters[0], "t", some(400))
    put(clusters[1], "s.t", some(400))
    found = verify(clusters, rules=RULES)
    log = clusters[1].log("s.t")
    batch, data = log.batches[8]
    broken = bytearray(data)
    broken[-3] ^= 1
    log.batches[8] = batch, bytes(broken)
    there = on(read_again(clusters, found.ranges), "target")
    # Batches of 20 records: the damaged batch has the records 160 to 179.
    assert (there.different, there.equal) == (1, 350)
    assert there.first is not None
    assert (there.first.start, there.first.end) == (150, 200)


def test_later_records_are_newer_than_the_statement(clusters: Clusters) -> None:
    put(clusters[0], "t", some(100))
    put(clusters[1], "s.t", some(100))
    found = verify(clusters, rules=RULES)
    put(clusters[1], "s.t", [made(7, b"of somebody else")])
    again = read_again(clusters, found.ranges)
    assert (again.equal, on(again, "source").newer, on(again, "target").newer) == (True, 0, 1)


def test_the_target_alone_is_enough_after_the_loss_of_the_source(clusters: Clusters) -> None:
    put(clusters[0], "t", some(100))
    put(clusters[1], "s.t", some(100))
    found = verify(clusters, rules=RULES)
    clusters[0].stop(1)
    assert read_again(clusters, found.ranges, "target").equal is True
    both = read_again(clusters, found.ranges)
    assert both.equal is None
    assert "cluster s" in (on(both, "source").problem or "")
    assert on(both, "target").equal == 100


def with_a_changed_byte(number: int, chance: random.Random) -> Stored:
    """The record `made(number)` with another byte in its timestamp, its key, its value or a header."""
    fields = [b"k%d" % number, b"value %d" % number, b"h", b"%d" % number]
    timestamp, chosen = NOW + number, chance.randrange(5)
    if chosen == 4:
        timestamp ^= 1 << chance.randrange(40)
    else:
        other = bytearray(fields[chosen])
        # The name of a header is text.
        other[chance.randrange(len(other))] ^= chance.randrange(1, 16 if chosen == 2 else 256)
        fields[chosen] = bytes(other)
    key, value, name, header = fields
    return timestamp, record_body(key, value, ((name.decode(), header),))


def test_any_changed_byte_of_a_record_is_found(clusters: Clusters, chance: random.Random) -> None:
    records = some(200)
    put(clusters[0], "t", records)
    put(clusters[1], "s.t", records)
    found = verify(clusters, rules=RULES)
    for _ in range(60):
        place = chance.randrange(200)
        copies = list(records)
        copies[place] = with_a_changed_byte(place, chance)
        assert copies[place] != records[place]
        side = chance.randrange(2)
        rewrite(clusters[side], ("t", "s.t")[side], copies, chance.choice([1, 20, 90]))
        again = read_again(clusters, found.ranges)
        assert again.equal is False, copies[place]
        here = on(again, ("source", "target")[side])
        assert here.first is not None
        assert (here.first.start, here.different, here.equal) == (place // 50 * 50, 1, 150)
        rewrite(clusters[side], ("t", "s.t")[side], records)
    assert read_again(clusters, found.ranges).equal is True
