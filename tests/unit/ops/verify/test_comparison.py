"""The comparison of two stored logs with faults in the copy, and with records of other writers; in virtual time."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from harness.virtual.cluster import VirtualCluster
from harness.virtual.faults import Fault
from harness.virtual.requests import FETCH
from tests.unit.ops.verify.two_logs import (
    NOW,
    Stored,
    append_copies,
    copy_committed,
    digest_of,
    in_step,
    made,
    put,
    some,
    verify,
)
from twinlog.kafka.record.batch import Batch
from twinlog.kafka.record.builder import record_body
from twinlog.mirror.offsets.exact_map import CopiedRun, ExactMap
from twinlog.model.types import SourceOffset, TargetOffset
from twinlog.ops.verify import by_content
from twinlog.ops.verify.findings import VerifyFindings
from twinlog.ops.verify.sections import Bounds

PLANTED = 150


def flipped(records: list[Stored]) -> list[Stored]:
    body = bytearray(records[PLANTED][1])
    body[-8] ^= 1
    return [*records[:PLANTED], (records[PLANTED][0], bytes(body)), *records[PLANTED + 1 :]]


def missing(records: list[Stored]) -> list[Stored]:
    return records[:PLANTED] + records[PLANTED + 1 :]


def doubled(records: list[Stored]) -> list[Stored]:
    return [*records[: PLANTED + 1], *records[PLANTED:]]


def swapped(records: list[Stored]) -> list[Stored]:
    return [*records[:PLANTED], records[PLANTED + 1], records[PLANTED], *records[PLANTED + 2 :]]


PLANTS: list[tuple[Callable[[list[Stored]], list[Stored]], str, int, int]] = [
    (flipped, "value", PLANTED, 1),
    (missing, "missing", PLANTED, 1),
    (doubled, "doubled", PLANTED + 1, 1),
    (swapped, "order", PLANTED, 2),
]


@pytest.mark.parametrize(("source_batch", "target_batch"), [(20, 20), (1, 50), (50, 7)])
@pytest.mark.parametrize("codec", ["none", "lz4"])
@pytest.mark.parametrize("mapped", [False, True])
def test_equal_however_batches_are_cut(
    clusters: tuple[VirtualCluster, VirtualCluster],
    source_batch: int,
    target_batch: int,
    codec: str,
    mapped: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole: list[int] = []
    same_batch = VerifyFindings.same_batch

    def seen(findings: VerifyFindings, batch: Batch, copy: Batch, block: memoryview) -> None:
        whole.append(batch.base_offset)
        same_batch(findings, batch, copy, block)

    monkeypatch.setattr(VerifyFindings, "same_batch", seen)
    records = some(400)
    put(clusters[0], "t", records, source_batch)
    put(clusters[1], "s.t", records, target_batch, codec)
    found = verify(clusters, in_step(400) if mapped else None)
    assert (found.equal, found.records, found.differences, found.left) == (True, 400, 0, [])
    assert (found.source_start, found.source_end, found.target_start, found.target_end) == (0, 400, 0, 400)
    assert found.source_digest == found.target_digest != ""
    assert bool(whole) == (source_batch == target_batch and codec == "none")
    whole.clear()
    # Of records alone digests are the same however they are batched.
    every = verify(clusters, in_step(400) if mapped else None, rules={"every_record": True})
    assert (every.equal, whole) == (True, [])
    assert every.source_digest == digest_of(records)


@pytest.mark.parametrize(("plant", "what", "offset", "count"), PLANTS)
@pytest.mark.parametrize(("source_batch", "target_batch"), [(20, 20), (1, 50)])
def test_finds_what_is_planted(
    clusters: tuple[VirtualCluster, VirtualCluster],
    plant: Callable[[list[Stored]], list[Stored]],
    what: str,
    offset: int,
    count: int,
    source_batch: int,
    target_batch: int,
) -> None:
    records = some(400)
    put(clusters[0], "t", records, source_batch)
    put(clusters[1], "s.t", plant(records), target_batch)
    found = verify(clusters)
    assert found.first is not None
    assert (found.equal, found.first.what, found.first.source_offset, found.differences) == (
        False,
        what,
        offset,
        count,
    )
    assert abs(found.first.target_offset - offset) <= 1
    assert found.source_digest != found.target_digest
    # It goes on after it, to the end.
    assert found.records >= 398
    assert found.source_end == 400


@pytest.mark.parametrize(("field", "other"), [("key", 0), ("headers", 2), ("timestamp", 3)])
def test_names_the_field_that_differs(clusters: tuple[VirtualCluster, VirtualCluster], field: str, other: int) -> None:
    records = some(40)
    changed = {
        0: (NOW + 7, record_body(b"K7", b"value 7", (("h", b"7"),))),
        2: (NOW + 7, record_body(b"k7", b"value 7", (("h", b"7"), ("h", None)))),
        3: (NOW + 8, records[7][1]),
    }[other]
    put(clusters[0], "t", records)
    put(clusters[1], "s.t", [*records[:7], changed, *records[8:]])
    for known in (None, in_step(40)):
        found = verify(clusters, known)
        assert found.first is not None
        assert (found.first.what, found.first.source_offset, found.first.target_offset) == (field, 7, 7)
        assert (found.records, found.differences) == (39, 1)


def test_by_the_map_a_swap_is_an_order(clusters: tuple[VirtualCluster, VirtualCluster]) -> None:
    put(clusters[0], "t", some(400))
    put(clusters[1], "s.t", swapped(some(400)))
    found = verify(clusters, in_step(400))
    assert found.first is not None
    assert (found.first.what, found.first.source_offset, found.differences) == ("order", PLANTED, 2)


@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize("side", ["source", "target"])
def test_a_wrong_timestamp_near_one_that_cannot_be_compared_is_a_difference(
    clusters: tuple[VirtualCluster, VirtualCluster], side: str, compacted: bool
) -> None:
    """The topic began to stamp records itself, or a record of the source has no timestamp; it was compared for ever."""
    source, target = clusters
    records = some(60)
    if side == "source":
        records[45] = -1, records[45][1]
    copies = [*records]
    copies[10] = NOW + 777_777, copies[10][1]
    put(source, "t", records, 15)
    put(target, "s.t", copies[:40])
    append_copies(target, some(60)[40:], by_broker=side == "target")
    found = verify(clusters, target_compacted=compacted)
    assert found.first is not None
    assert (found.first.what, found.first.source_offset, found.first.target_offset) == ("timestamp", 10, 10)
    assert (found.differences, found.records, found.left) == (1, 59, [])
    assert found.source_digest != found.target_digest


def test_aborted_records_are_not_expected_where_committed_ones_are_copied(
    clusters: tuple[VirtualCluster, VirtualCluster],
) -> None:
    source, target = clusters
    copy_committed(source, target)
    committed = verify(clusters, consumer={"isolation_level": "read_committed"})
    assert (committed.equal, committed.records) == (True, 40)
    plain = verify(clusters)
    assert plain.first is not None
    assert (plain.first.what, plain.differences) == ("missing", 20)


def test_a_range_that_was_asked_for(clusters: tuple[VirtualCluster, VirtualCluster]) -> None:
    source, target = clusters
    put(source, "t", some(200))
    put(target, "s.t", flipped(some(200)))
    for known in (in_step(200), None):
        bounds = Bounds(0, 200, 0, 200, since=33, until=140)
        found = verify(clusters, known, bounds)
        assert (found.equal, found.records, found.source_start, found.source_end) == (True, 107, 33, 140)
        assert verify(clusters, known, replace(bounds, until=151)).differences == 1


def test_goes_on_after_trouble_and_reports_what_lasts(clusters: tuple[VirtualCluster, VirtualCluster]) -> None:
    source, target = clusters
    put(source, "t", some(300))
    put(target, "s.t", some(300))
    source.fault(FETCH, Fault(lost=True), times=2)
    assert verify(clusters).equal is True
    target.stop(1)
    found = verify(clusters)
    assert found.equal is None
    assert "cluster w" in (found.problem or "")


def test_drawn_copies_are_judged_as_record_by_record(
    clusters: tuple[VirtualCluster, VirtualCluster], chance: random.Random
) -> None:
    """Batches cut at random, some records lost, changed or repeated: what is counted is what was done."""
    source, target = clusters
    records = some(600)
    copies = list(records)
    lost, changed, repeated = sorted(chance.sample(range(20, 580, 8), 3))
    copies[changed] = made(changed, b"changed")
    copies.insert(repeated, copies[repeated])
    del copies[lost]
    for cluster, topic, chosen in ((source, "t", records), (target, "s.t", copies)):
        at = 0
        while at < len(chosen):
            size = chance.choice([1, 3, 20, 90])
            put(cluster, topic, chosen[at : at + size], size, chance.choice(["none", "zstd"]))
            at += size
    found = verify(clusters)
    assert (found.differences, found.equal) == (3, False)
    assert found.first is not None
    assert found.first.source_offset == lost


def test_foreign_records_count_or_do_not(clusters: tuple[VirtualCluster, VirtualCluster]) -> None:
    source, target = clusters
    put(source, "t", some(100))
    put(target, "s.t", some(60))
    put(target, "s.t", [made(7, b"of somebody else"), made(8, b"else")])
    put(target, "s.t", some(100)[60:])
    known = ExactMap(SourceOffset(0), TargetOffset(0), complete=True)
    known.add_runs([CopiedRun(SourceOffset(0), TargetOffset(0), 60)])
    known.add_runs([CopiedRun(SourceOffset(60), TargetOffset(62), 40)])
    for one in (known, None):
        found = verify(clusters, one)
        assert found.first is not None
        assert (found.equal, found.first.what, found.first.target_offset) == (False, "extra", 60)
        assert (found.foreign, found.differences, found.records) == (2, 2, 100)
        free = verify(clusters, one, rules={"ignore_foreign": True})
        assert (free.equal, free.foreign, free.first, free.records) == (True, 2, None, 100)
        assert free.source_digest == free.target_digest
    # One that is there twice is no foreign one.
    put(target, "s.t", some(100)[99:])
    twice = verify(clusters, known, rules={"ignore_foreign": True})
    assert twice.first is not None
    assert (twice.equal, twice.first.what, twice.differences) == (False, "doubled", 1)


@pytest.mark.parametrize("mapped", [True, False])
def test_somebody_else_who_writes_all_the_time_hides_nothing(
    clusters: tuple[VirtualCluster, VirtualCluster], mapped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More places without a copy than are searched for, and after all of them a record that is there twice."""
    monkeypatch.setattr(by_content, "MOST_PLACES", 50)
    source, target = clusters
    records = some(500)
    copies: list[Stored] = []
    known = ExactMap(SourceOffset(0), TargetOffset(0), complete=True)
    for start in range(0, 500, 4):
        known.add_runs([CopiedRun(SourceOffset(start), TargetOffset(len(copies)), 4)])
        copies += [*records[start : start + 4], made(start, b"else")]
    put(source, "t", records, 50)
    put(target, "s.t", copies, 50)
    found = verify(clusters, known if mapped else None)
    assert (found.equal, found.foreign, found.differences, found.records) == (False, 125, 125, 500)
    assert found.left == []
    put(target, "s.t", [records[-3]])
    found = verify(clusters, known if mapped else None, rules={"ignore_foreign": True})
    assert found.first is not None
    assert (found.foreign, found.first.what, found.differences, found.left) == (125, "doubled", 1, [])


def test_where_too_much_differs_the_rest_is_named(
    clusters: tuple[VirtualCluster, VirtualCluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Places where a look at a few records is not enough."""
    source, target = clusters
    copies: list[Stored] = []
    for start in range(0, 500, 100):
        copies += [*some(start + 100)[start:], *(made(start + number, b"else") for number in range(80))]
    put(source, "t", some(500))
    put(target, "s.t", copies)
    assert verify(clusters).left == []
    monkeypatch.setattr(by_content, "MOST_PLACES", 2)
    found = verify(clusters)
    assert (found.equal, found.records, found.foreign) == (False, 300, 160)
    assert [(one.side, one.start, one.end) for one in found.left] == [("source", 300, 500), ("target", 460, 900)]
    assert "--since" in found.left[0].reason


def test_logs_that_have_nothing_in_common_are_given_up(clusters: tuple[VirtualCluster, VirtualCluster]) -> None:
    source, target = clusters
    put(source, "t", some(20_000), 500)
    put(target, "s.t", [made(number, b"other") for number in range(20_000)], 500)
    found = verify(clusters)
    assert found.equal is False
    assert [(one.side, one.start, one.end) for one in found.left] == [("source", 0, 20_000), ("target", 0, 20_000)]
