"""Connectors are spread by what they weigh, few of them move, and none has two workers at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import hypothesis.strategies as st
from hypothesis import given

from twinlog.worker.connectors.model import ConnectorName
from twinlog.worker.placement.processes import WORTH, ConnectorWeight, PlannedAssignment, assign_connectors

Connectors = dict[ConnectorName, ConnectorWeight]
Owned = dict[str, set[ConnectorName]]


def heartbeats(*names: str) -> Connectors:
    return {ConnectorName(name): ConnectorWeight("heartbeat") for name in names}


def sources(**tasks: int) -> Connectors:
    return {ConnectorName(name): ConnectorWeight("source", count) for name, count in tasks.items()}


def settle(
    owned: Owned, connectors: Connectors, planned: Mapping[ConnectorName, str] | None = None
) -> tuple[Owned, int]:
    """Rebalance until nothing is to come; returns who runs what, and how many connectors moved."""
    moved, spread = 0, PlannedAssignment({}, planned or {})
    for _ in range(3):
        spread = assign_connectors(owned, connectors, spread.planned)
        for one, mine in spread.given.items():
            for other, theirs in owned.items():
                assert one == other or not mine & theirs, "it is ended there before it begins here"
        moved += len(spread.planned)
        owned = {worker: set(names) for worker, names in spread.given.items()}
        if not spread.planned:
            break
    assert not spread.planned, "two rounds are enough"
    assert set().union(*owned.values()) == set(connectors)
    assert assign_connectors(owned, connectors) == PlannedAssignment(
        {worker: frozenset(names) for worker, names in owned.items()}
    )
    return owned, moved


def load(names: Iterable[ConnectorName], connectors: Connectors, kind: str) -> int:
    return sum(connectors[name].tasks for name in names if connectors[name].kind == kind)


def test_nothing_moves_without_need() -> None:
    two = heartbeats("c1", "c2")
    one, other = two
    assert settle({"a": {one, other}, "b": set()}, two) == ({"a": {other}, "b": {one}}, 1)
    assert settle({"a": {one}, "b": set()}, two) == ({"a": {one}, "b": {other}}, 0)
    assert settle({"a": {one}, "b": {other}}, two) == ({"a": {one}, "b": {other}}, 0)


def test_what_was_removed_is_given_to_nobody() -> None:
    one, two = heartbeats("c1", "c2")
    assert assign_connectors({"a": {one, two}}, heartbeats("c2")).given == {"a": {two}}
    assert assign_connectors({}, heartbeats("c1")).given == {}


def test_what_a_worker_has_to_end_is_planned_for_another_and_given_to_it_next() -> None:
    two = heartbeats("c1", "c2")
    first = assign_connectors({"a": set(two), "b": set()}, two)
    assert (first.given, first.planned) == ({"a": {"c2"}, "b": frozenset()}, {"c1": "b"})
    assert assign_connectors(first.given, two, first.planned).given == {"a": {"c2"}, "b": {"c1"}}


def test_connectors_that_copy_are_not_outweighed_by_others() -> None:
    """Both were on the worker that came last, and twenty heartbeats on the other."""
    connectors = sources(s1=1, s2=1) | heartbeats(*(f"h{number:02}" for number in range(20)))
    owned, moved = settle({"a": set(connectors), "b": set()}, connectors)
    assert [load(names, connectors, "source") for names in owned.values()] == [1, 1]
    assert [load(names, connectors, "heartbeat") for names in owned.values()] == [10, 10]
    assert moved == 11


def test_connectors_that_copy_are_spread_by_their_tasks() -> None:
    connectors = sources(s1=8, s2=4, s3=2, s4=2)
    owned, _ = settle({"a": set(), "b": set()}, connectors)
    assert sorted(map(sorted, owned.values())) == [["s1"], ["s2", "s3", "s4"]]
    # A worker that dies leaves its own to the others, and nothing else moves.
    owned, moved = settle({"a": {ConnectorName("s1")}, "c": {ConnectorName("s2")}, "d": set()}, connectors)
    assert owned["a"] == {"s1"}
    assert "s2" in owned["c"]
    assert moved == 0


def test_who_could_copy_at_once_comes_first() -> None:
    one = sources(s=1)
    name = next(iter(one))
    assert assign_connectors({"a": set(), "b": set()}, one, unready={"a"}).given == {"a": set(), "b": {name}}
    assert assign_connectors({"a": set(), "b": set()}, one, unready={"a", "b"}).given == {"a": {name}, "b": set()}
    # What runs stays, and each has its share.
    assert assign_connectors({"a": {name}, "b": set()}, one, unready={"a"}).given == {"a": {name}, "b": set()}
    two = sources(s=1, t=1)
    assert all(assign_connectors({"a": set(), "b": set()}, two, unready={"a"}).given.values())


def test_little_is_not_worth_a_move() -> None:
    connectors = heartbeats(*(f"h{number:02}" for number in range(40)))
    names = sorted(connectors)
    assert settle({"a": set(names[:21]), "b": set(names[21:])}, connectors)[1] == 0


def test_a_worker_of_each_gets_each_kind_in_turn() -> None:
    connectors = sources(s=1) | heartbeats("h") | {ConnectorName("c"): ConnectorWeight("checkpoint")}
    owned, _ = settle({"a": set(), "b": set()}, connectors)
    assert sorted(map(len, owned.values())) == [1, 2]


weights = st.builds(ConnectorWeight, st.sampled_from(["checkpoint", "heartbeat", "source"]), st.integers(1, 40))
connector_sets = st.lists(weights, max_size=20).map(
    lambda found: {ConnectorName(f"c{number:02}"): weight for number, weight in enumerate(found)}
)
events = st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=8)


@given(st.integers(1, 5), connector_sets, events)
def test_however_workers_come_and_go(count: int, connectors: Connectors, events: list[tuple[int, bool]]) -> None:
    owned: Owned = {f"w{number}": set() for number in range(count)}
    for worker, comes in [(0, True), *events]:
        if comes:
            owned.setdefault(f"w{worker}", set())
        elif len(owned) > 1:
            owned.pop(f"w{worker}", None)
        owned, _ = settle(owned, connectors)
        for kind in {weight.kind for weight in connectors.values()}:
            loads = {one: load(names, connectors, kind) for one, names in owned.items()}
            for one, names in owned.items():
                gap = loads[one] - min(loads.values())
                lightest = min((connectors[name].tasks for name in names if connectors[name].kind == kind), default=gap)
                assert WORTH * gap <= loads[one] or lightest >= gap, "a move would make them more equal"


@given(st.integers(2, 5), st.integers(0, 30))
def test_equal_ones_move_only_to_the_worker_that_came(count: int, connectors: int) -> None:
    all_of_them = heartbeats(*(f"c{number:02}" for number in range(connectors)))
    before, _ = settle({f"w{number}": set() for number in range(count)}, all_of_them)
    after, moved = settle({**before, "new": set()}, all_of_them)
    assert all(after[worker] <= before[worker] for worker in before)
    assert moved == len(after["new"]) <= connectors // (count + 1) + 1
    # And when it goes again, only what it had.
    gone, moved = settle({worker: names for worker, names in after.items() if worker != "new"}, all_of_them)
    assert all(after[worker] <= gone[worker] for worker in before)
