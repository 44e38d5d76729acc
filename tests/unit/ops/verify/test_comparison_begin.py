"""The begin of a comparison without a map, and the effect of deleted records, in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from harness.virtual.cluster import VirtualCluster
from tests.unit.ops.verify.two_logs import NOW, in_step, made, put, some, stamped_by_broker, verify
from twinlog.kafka.record.builder import encode_batch, record_body
from twinlog.kafka.record.stamp import stamp
from twinlog.ops.verify import alignment
from twinlog.ops.verify.model import MOST_LEFT, UncomparedRange
from twinlog.ops.verify.sections import (
    COMPACTED_SOURCE,
    COMPACTED_TARGET,
    OLDER,
    RETAINED_SOURCE,
    RETAINED_TARGET,
    Bounds,
)


def test_the_begin_is_found_where_brokers_set_timestamps(clusters: tuple[VirtualCluster, VirtualCluster]) -> None:
    """Those of the target tell nothing, and what was asked for begins before its log does."""
    source, target = clusters
    put(source, "t", some(400))
    for start in range(0, 400, 20):
        batch = encode_batch(some(400)[start : start + 20], 0)
        stamp(batch, -1, -1, -1)
        target.log("s.t").append(stamped_by_broker(batch, NOW + 10**9))
    target.log("s.t").delete_before(100)
    bounds = Bounds(0, 400, 100, 400, until=250)
    for syncs in ((), ((390, 390),)):
        found = verify(clusters, None, bounds, syncs=syncs)
        assert (found.equal, found.records, found.left) == (
            True,
            150,
            [UncomparedRange("source", 0, 100, RETAINED_TARGET)],
        )


@pytest.mark.parametrize(
    "compacted", [(), ("source_compacted",), ("target_compacted",), ("source_compacted", "target_compacted")]
)
@pytest.mark.parametrize("since", [None, 100])
def test_wrong_copies_at_the_begin_are_found_without_a_map(
    clusters: tuple[VirtualCluster, VirtualCluster], compacted: tuple[str, ...], since: int | None
) -> None:
    """Where copies of what was asked for begin is told by records that are the same, and these are not."""
    source, target = clusters
    first = since or 0
    put(source, "t", some(400))
    put(
        target, "s.t", [*some(first), *(made(first + number, b"wrong") for number in range(5)), *some(400)[first + 5 :]]
    )
    flags: dict[str, Any] = dict.fromkeys(compacted, True)
    for syncs in ((), ((390, 390),)):
        found = verify(clusters, None, Bounds(0, 400, 0, 400, since=since), syncs=syncs, **flags)
        assert found.first is not None
        assert (found.equal, found.differences, found.records) == (False, 5, 395 - first)
        assert (found.first.what, found.first.source_offset, found.first.target_offset) == ("value", first, first)
        assert [(one.side, one.start, one.end) for one in found.left] == ([("target", 0, 100)] if since else [])


def test_others_before_the_begin_are_no_wrong_copies(clusters: tuple[VirtualCluster, VirtualCluster]) -> None:
    """Copying began in the middle, into a topic that somebody else had written to; or each side was compacted alone."""
    source, target = clusters
    put(source, "t", some(200))
    put(target, "s.t", [*(made(1_000 + number, b"else") for number in range(10)), *some(200)[100:]])
    found = verify(clusters)
    assert (found.equal, found.records) == (True, 100)
    assert [(one.side, one.start, one.end) for one in found.left] == [("source", 0, 100), ("target", 0, 10)]
    for log in (source.log("t"), target.log("s.t")):
        log.batches.clear()
    put(source, "t", [(NOW, record_body(b"a", b"1", ())), *some(50)])
    put(target, "s.t", [(NOW, record_body(b"b", b"2", ())), *some(50)])
    assert verify(clusters, source_compacted=True, target_compacted=True).equal is True


def test_the_begin_is_found_without_a_map(clusters: tuple[VirtualCluster, VirtualCluster]) -> None:
    """Retention of different lengths, and offsets that parted long before."""
    source, target = clusters
    put(source, "t", some(3_000), 50)
    put(target, "s.t", [made(9_000 + number) for number in range(500)], 50)
    put(target, "s.t", some(3_000), 50)
    source.log("t").delete_before(2_000)
    target.log("s.t").delete_before(1_500)
    found = verify(clusters)
    assert (found.equal, found.records, found.differences) == (True, 1_000, 0)
    # The source begins with a record whose copy the target has, so it is the source that has deleted something.
    assert found.left == [UncomparedRange("target", 1_500, 2_500, RETAINED_SOURCE)]
    target.log("s.t").delete_before(3_000)
    assert verify(clusters).left == [UncomparedRange("source", 2_000, 2_500, RETAINED_TARGET)]


@pytest.mark.parametrize("limit", [{"until": 100}, {"copied_up_to": 100}])
@pytest.mark.parametrize("stamped", [False, True])
def test_a_target_that_begins_after_what_is_asked_for_is_no_difference(
    clusters: tuple[VirtualCluster, VirtualCluster], limit: dict[str, int], stamped: bool
) -> None:
    """Its first records are copies of later ones, and not wrong copies of these."""
    source, target = clusters
    put(source, "t", some(400))
    for start in range(0, 400, 20):
        batch = encode_batch(some(400)[start : start + 20], 0)
        stamp(batch, -1, -1, -1)
        target.log("s.t").append(stamped_by_broker(batch, NOW + 10**9) if stamped else bytes(batch))
    target.log("s.t").delete_before(250)
    found = verify(clusters, None, Bounds(0, 400, 250, 400, **limit))
    assert (found.equal, found.differences) == (None, 0)
    assert [one for one in found.left if one.reason == RETAINED_TARGET] == [
        UncomparedRange("source", 0, 100, RETAINED_TARGET)
    ]
    # Somebody else's record in front of them may be there in the place of a copy.
    log = target.log("s.t")
    log.batches.clear()
    log.start = 0
    put(target, "s.t", [*some(250), made(7, b"of somebody else"), *some(400)[251:]], 10)
    log.delete_before(250)
    found = verify(clusters, None, Bounds(0, 400, 250, 400, **limit))
    assert found.equal is False


@pytest.mark.parametrize("position", [None, 300])
def test_wrong_copies_are_no_retention(clusters: tuple[VirtualCluster, VirtualCluster], position: int | None) -> None:
    source, target = clusters
    put(source, "t", some(300))
    put(target, "s.t", [made(number + 1_000) for number in range(300)])
    target.log("s.t").delete_before(50)
    found = verify(clusters, None, Bounds(0, 300, 50, 300, copied_up_to=position))
    assert found.equal is False
    assert found.differences > 0


@pytest.mark.parametrize("per_batch", [1, 20])
def test_records_missing_right_after_the_begin_are_reported(
    clusters: tuple[VirtualCluster, VirtualCluster], per_batch: int
) -> None:
    records = some(400)
    put(clusters[0], "t", records, per_batch)
    put(clusters[1], "s.t", records[:190] + records[205:], per_batch)
    found = verify(clusters, bounds=Bounds(0, 400, 0, 385, since=200))
    assert found.first is not None
    assert (found.equal, found.differences, found.first.what, found.first.source_offset) == (False, 5, "missing", 200)
    assert (found.records, [one for one in found.left if one.side == "source"]) == (195, [])


def test_where_copying_began_after_the_begin_nothing_is_missing(
    clusters: tuple[VirtualCluster, VirtualCluster],
) -> None:
    records = some(400)
    put(clusters[0], "t", records)
    put(clusters[1], "s.t", [made(number, b"of somebody else") for number in range(1_000, 1_010)] + records[205:])
    found = verify(clusters, bounds=Bounds(0, 400, 0, 205, since=200))
    assert (found.equal, found.differences, found.records) == (True, 0, 195)
    assert [(one.start, one.end) for one in found.left if one.side == "source"] == [(200, 205)]


@pytest.mark.parametrize("mapped", [True, False])
def test_compaction_and_retention_are_reported_not_counted(
    clusters: tuple[VirtualCluster, VirtualCluster], mapped: bool
) -> None:
    source, target = clusters
    put(source, "t", some(300), 1)
    put(target, "s.t", some(300), 1)
    source.log("t").delete_before(40)
    target.log("s.t").delete_before(60)
    log = source.log("t")
    log.batches = [one for one in log.batches if not 100 <= one[0].base_offset < 120]
    copies = target.log("s.t")
    copies.batches = [one for one in copies.batches if one[0].base_offset != 200]
    known = in_step(300) if mapped else None
    syncs = () if mapped else ((150, 150),)
    found = verify(clusters, known, source_compacted=True, target_compacted=True, syncs=syncs)
    assert (found.equal, found.differences, found.records) == (True, 0, 219)
    ranges = {(one.side, one.start, one.end) for one in found.left}
    assert {("target", 100, 120), ("source", 200, 201)} <= ranges
    if mapped:
        assert UncomparedRange("source", 0, 60, RETAINED_TARGET) in found.left
        assert (
            UncomparedRange("target", 0, 40, RETAINED_SOURCE)
            in verify(clusters, known, Bounds(40, 300, 0, 300), source_compacted=True, target_compacted=True).left
        )
    else:
        assert ("source", 40, 60) in ranges
    # A change is found beside all holes.
    changed = {number: made(number) for number in range(300)} | {250: made(250, b"other")}
    copies.batches.clear()
    copies.start = 0
    put(target, "s.t", [changed[number] for number in range(300)], 1)
    copies.delete_before(60)
    found = verify(clusters, known, source_compacted=True, target_compacted=True, syncs=syncs)
    assert found.first is not None
    assert (found.first.what, found.first.source_offset, found.differences) == ("value", 250, 1)


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("kept", [300, 7])
def test_every_record_that_compaction_left_is_compared_without_a_map(
    clusters: tuple[VirtualCluster, VirtualCluster], side: str, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One side has been compacted, from its begin on, and the other one has not been yet."""
    monkeypatch.setattr(alignment, "WINDOWS", (8, 16, 32))
    source, target = clusters
    put(source, "t", some(2_100), 1 if side == "source" else 50)
    put(target, "s.t", some(2_100), 1 if side == "target" else 50)
    log = source.log("t") if side == "source" else target.log("s.t")
    log.batches = [one for one in log.batches if one[0].base_offset % (2_100 // kept) == 6]
    flags = {f"{side}_compacted": True}
    last = log.batches[-1][0].base_offset
    found = verify(clusters, syncs=((last, last),), **flags)
    assert (found.equal, found.differences, found.records) == (True, 0, kept)
    assert {one.side for one in found.left} == {"target" if side == "source" else "source"}
    if kept < MOST_LEFT:
        assert sum(one.end - one.start for one in found.left) == 2_100 - kept
    assert {one.reason for one in found.left} == {COMPACTED_SOURCE if side == "source" else COMPACTED_TARGET}
    # What the other side lacks is no hole of compaction.
    other = target.log("s.t") if side == "source" else source.log("t")
    gone = log.batches[kept // 2][0].base_offset // 50 * 50
    other.batches = [one for one in other.batches if one[0].base_offset != gone]
    assert verify(clusters, **flags).equal is False


def test_what_is_deleted_meanwhile_is_passed_over(clusters: tuple[VirtualCluster, VirtualCluster]) -> None:
    source, target = clusters
    put(source, "t", some(300))
    put(target, "s.t", some(300))
    bounds = Bounds(0, 300, 0, 300)
    source.log("t").delete_before(100)
    found = verify(clusters, in_step(300), bounds)
    assert (found.equal, found.records) == (True, 200)
    assert [(one.side, one.start, one.end) for one in found.left] == [("source", 0, 100)]


@pytest.mark.parametrize("position", [None, 300])
def test_a_side_whose_retention_took_everything_is_no_difference(
    clusters: tuple[VirtualCluster, VirtualCluster], position: int | None
) -> None:
    """Without a map, nothing tells what the target had; a copy of what is asked for may be gone as well."""
    source, target = clusters
    put(source, "t", some(300))
    put(target, "s.t", some(300))
    target.log("s.t").delete_before(300)
    found = verify(clusters, None, Bounds(0, 300, 300, 300, copied_up_to=position))
    assert (found.equal, found.differences) == (None, 0)
    assert found.left == [UncomparedRange("source", 0, 300, RETAINED_TARGET)]


def test_copies_whose_source_deleted_everything_are_not_foreign(
    clusters: tuple[VirtualCluster, VirtualCluster],
) -> None:
    source, target = clusters
    put(source, "t", some(100))
    put(target, "s.t", some(100))
    source.log("t").delete_before(100)
    found = verify(clusters)
    assert (found.equal, found.differences, found.left) == (True, 0, [UncomparedRange("target", 0, 100, OLDER)])
    # A log that never lost its begin has no such excuse.
    source.log("t").start = 0
    assert verify(clusters, None, Bounds(0, 0, 0, 100)).differences == 100
