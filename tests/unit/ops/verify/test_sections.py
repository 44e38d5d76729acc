"""Which sections of two logs are compared, and how, by what is known of their offsets."""

from __future__ import annotations

from dataclasses import replace

from harness.virtual.cluster import VirtualCluster
from tests.unit.ops.verify.two_logs import in_step, made, put, some, verify
from twinlog.kafka.record.builder import encode_batch
from twinlog.kafka.record.stamp import stamp
from twinlog.mirror.offsets.exact_map import CopiedRun, ExactMap
from twinlog.model.types import SourceOffset, TargetOffset
from twinlog.ops.verify.model import Section, UncomparedRange
from twinlog.ops.verify.sections import (
    IN_TRANSACTION,
    NOT_YET,
    TRUNCATED,
    Bounds,
    sections_of,
)


def test_holes_of_a_map_are_no_differences(clusters: tuple[VirtualCluster, VirtualCluster]) -> None:
    """Compaction before copying and markers on the target, both known to the map."""
    source, target = clusters
    put(source, "t", some(100), 1)
    log = source.log("t")
    log.batches = [one for one in log.batches if not 30 <= one[0].base_offset < 50]
    put(target, "s.t", some(30), 10)
    target.log("s.t").mark(7, 0, commit=True)
    put(target, "s.t", some(100)[50:], 10)
    known = ExactMap(SourceOffset(0), TargetOffset(0), complete=True)
    known.add_runs([CopiedRun(SourceOffset(0), TargetOffset(0), 30)])
    known.add_runs([CopiedRun(SourceOffset(50), TargetOffset(31), 50)])
    found = verify(clusters, known)
    assert (found.equal, found.records, found.left, found.foreign) == (True, 80, [], 0)
    assert verify(clusters).equal is True
    # What the map has no copy of and the source still has is missing.
    put(source, "t", some(1))
    known.skip_to(SourceOffset(101))
    late = verify(clusters, known)
    assert late.first is not None
    assert (late.first.what, late.first.source_offset, late.differences) == ("missing", 100, 1)


def test_a_position_without_a_map_bounds_the_source_alone(clusters: tuple[VirtualCluster, VirtualCluster]) -> None:
    """As MirrorMaker 2 stores it: what it copies meanwhile is no difference."""
    source, target = clusters
    put(source, "t", some(100))
    put(target, "s.t", some(90))
    found = verify(clusters, None, Bounds(0, 100, 0, 90, copied_up_to=80))
    assert (found.equal, found.records, found.source_end) == (True, 80, 80)
    lacking = verify(clusters, None, Bounds(0, 100, 0, 90, copied_up_to=95))
    assert lacking.first is not None
    assert (lacking.first.what, lacking.first.source_offset, lacking.differences) == ("missing", 90, 5)


def test_copies_after_an_open_transaction_are_not_missing() -> None:
    known = in_step(100)
    bounds = Bounds(0, 100, 0, 60, copied_up_to=100, copies_end=100)
    assert sections_of(known, bounds)[0][1] == Section("not copied", 60, 100, 60, 60)
    found, left = sections_of(known, replace(bounds, hidden=True))
    assert found == [Section("exact", 0, 60, 0, 60)]
    assert left == [UncomparedRange("source", 60, 100, IN_TRANSACTION)]


def test_sections_of_a_map_with_what_nobody_knows() -> None:
    known = ExactMap(SourceOffset(10), TargetOffset(0))
    known.add_runs([CopiedRun(SourceOffset(10), TargetOffset(0), 5)])
    known.add_jump(SourceOffset(40), TargetOffset(25))
    known.add_runs([CopiedRun(SourceOffset(40), TargetOffset(25), 10)])
    found, left = sections_of(known, Bounds(10, 60, 0, 40, copied_up_to=55, copies_end=40))
    assert found == [
        Section("exact", 10, 15, 0, 5),
        Section("by content", 15, 40, 5, 25),
        Section("exact", 40, 50, 25, 35),
        Section("by content", 50, 55, 35, 40),
    ]
    assert left == [UncomparedRange("source", 55, 60, NOT_YET)]


def test_the_marker_after_a_position_is_no_record_that_was_not_copied(
    clusters: tuple[VirtualCluster, VirtualCluster],
) -> None:
    source, target = clusters
    batch = encode_batch(some(10), 0)
    stamp(batch, 5, 0, 0, transactional=True)
    source.log("t").append(bytes(batch))
    source.log("t").mark(5, 0, commit=True)
    put(target, "s.t", some(10))
    found = verify(clusters, None, Bounds(0, 11, 0, 10, copied_up_to=10))
    assert (found.equal, found.records, found.left) == (True, 10, [])
    put(source, "t", [made(11)])
    found = verify(clusters, None, Bounds(0, 12, 0, 10, copied_up_to=10))
    assert found.left == [UncomparedRange("source", 10, 12, NOT_YET)]


def test_what_lies_after_the_position_is_named() -> None:
    for known in (in_step(60), None):
        _, left = sections_of(known, Bounds(0, 100, 0, 60, copied_up_to=60, copies_end=60))
        assert left == [UncomparedRange("source", 60, 100, NOT_YET)]
        _, left = sections_of(known, Bounds(0, 100, 0, 60, copied_up_to=60, copies_end=60, since=70, until=90))
        assert left == [UncomparedRange("source", 70, 90, NOT_YET)]
        assert sections_of(known, Bounds(0, 100, 0, 60, copied_up_to=60, copies_end=60, until=50))[1] == []


def test_a_source_that_ends_before_what_was_copied_is_named() -> None:
    """As after an election of an unclean leader: no copy is compared with nothing."""
    found, left = sections_of(in_step(100), Bounds(0, 80, 0, 100, copied_up_to=100, copies_end=100))
    assert found == [Section("exact", 0, 80, 0, 80)]
    assert left == [UncomparedRange("target", 80, 100, TRUNCATED)]
