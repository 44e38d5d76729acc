"""Where a comparison without a map begins, when one side lacks what the other has at its begin."""

from __future__ import annotations

from typing import Any

import pytest

from harness.virtual.cluster import VirtualCluster
from tests.unit.ops.verify.two_logs import NOW, made, put, some, stamped_by_broker, verify
from twinlog.kafka.record.builder import encode_batch, record_body
from twinlog.kafka.record.stamp import stamp
from twinlog.ops.verify.model import UncomparedRange
from twinlog.ops.verify.sections import (
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
