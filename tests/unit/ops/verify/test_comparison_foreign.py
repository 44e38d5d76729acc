"""Records of the target that are no copies: counted or not, and never in the way of others."""

from __future__ import annotations

import pytest

from harness.virtual.cluster import VirtualCluster
from tests.unit.ops.verify.two_logs import Stored, made, put, some, verify
from twinlog.mirror.offsets.exact_map import ExactMap
from twinlog.model.types import SourceOffset, TargetOffset
from twinlog.ops.verify import by_content


def test_foreign_records_count_or_do_not(clusters: tuple[VirtualCluster, VirtualCluster]) -> None:
    source, target = clusters
    put(source, "t", some(100))
    put(target, "s.t", some(60))
    put(target, "s.t", [made(7, b"of somebody else"), made(8, b"else")])
    put(target, "s.t", some(100)[60:])
    known = ExactMap(SourceOffset(0), TargetOffset(0), complete=True)
    known.add_run(SourceOffset(0), TargetOffset(0), 60)
    known.add_run(SourceOffset(60), TargetOffset(62), 40)
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
        known.add_run(SourceOffset(start), TargetOffset(len(copies)), 4)
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
    assert "--from-timestamp" in found.left[0].reason


def test_logs_that_have_nothing_in_common_are_given_up(clusters: tuple[VirtualCluster, VirtualCluster]) -> None:
    source, target = clusters
    put(source, "t", some(20_000), 500)
    put(target, "s.t", [made(number, b"other") for number in range(20_000)], 500)
    found = verify(clusters)
    assert found.equal is False
    assert [(one.side, one.start, one.end) for one in found.left] == [("source", 0, 20_000), ("target", 0, 20_000)]
