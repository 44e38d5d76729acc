"""What compaction and retention deleted on either side is left out of a comparison, and named."""

from __future__ import annotations

import pytest

from harness.virtual.cluster import VirtualCluster
from tests.unit.ops.verify.two_logs import in_step, made, put, some, verify
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
