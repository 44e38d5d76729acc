"""Flows spread over processes: evenly, one at a time, and never more moves than it takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.worker.placement.processes import FlowMembers, choose_process, loads, next_gathering, next_move


def crews(runs: dict[str, str], ready: dict[str, bool]) -> dict[str, FlowMembers]:
    """Every process is in every group."""
    return {flow: FlowMembers(runner, ready) for flow, runner in runs.items()}


def settle(runs: dict[str, str], ready: dict[str, bool], stuck: frozenset[str] = frozenset()) -> int:
    """Let processes hand over what is not `stuck` until none does any more; returns how many flows moved."""
    moves = 0
    while True:
        known = crews(runs, ready)
        able = known.keys() - stuck
        for overlook in range(len(ready)):
            moved = [next_move(known, process, able, overlook=overlook) for process in ready]
            wanted = [move for move in moved if move is not None]
            # One at a time, whoever decides.
            assert len(wanted) <= 1
            if wanted:
                break
        if not wanted:
            return moves
        ((flow, heir),) = wanted
        assert ready[heir]
        runs[flow] = heir
        moves += 1


@given(
    st.lists(st.sampled_from("abcd"), min_size=1, max_size=20),
    st.fixed_dictionaries({process: st.booleans() for process in "abcd"}),
)
def test_moves_end_with_a_difference_of_one_and_none_is_wasted(runners: list[str], ready: dict[str, bool]) -> None:
    runs = {f"flow-{number}": runner for number, runner in enumerate(runners)}
    before = loads(crews(dict(runs), ready))
    moves = settle(runs, ready)
    after = loads(crews(runs, ready))
    assert sum(after.values()) == len(runners)
    taking = [after[process] for process in ready if ready[process]]
    assert all(busy - least <= 1 for busy in after.values() for least in taking)
    # Who gave something took nothing, and the other way round.
    assert moves == sum(max(0, after[process] - before[process]) for process in ready)


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), min_size=1, max_size=20),
    st.fixed_dictionaries({process: st.booleans() for process in "abcd"}),
)
def test_flows_that_cannot_move_hold_back_no_others(flows: list[tuple[str, bool]], ready: dict[str, bool]) -> None:
    runs = {f"flow-{number}": runner for number, (runner, _) in enumerate(flows)}
    stuck = frozenset(f"flow-{number}" for number, (_, stays) in enumerate(flows) if stays)
    before = dict(runs)
    assert settle(runs, ready, stuck) <= len(flows)
    assert all(runs[flow] == before[flow] for flow in stuck)
    after = loads(crews(runs, ready))
    taking = [after[process] for process in ready if ready[process]]
    for flow in runs.keys() - stuck:
        assert all(after[runs[flow]] - least <= 1 for least in taking)


def test_one_that_only_comes_gets_its_share() -> None:
    runs = {f"flow-{number}": "a" for number in range(4)}
    assert settle(runs, {"a": True, "b": False}) == 0
    assert settle(runs, {"a": True, "b": True}) == 2
    assert settle(runs, {"a": True, "b": True, "c": True}) == 1
    assert sorted(loads(crews(runs, {"a": True, "b": True, "c": True})).values()) == [1, 1, 2]


@given(
    st.lists(st.sampled_from("abcd"), min_size=1, max_size=20),
    st.fixed_dictionaries({process: st.booleans() for process in "abcd"}),
)
def test_flows_gather_where_most_are(runners: list[str], ready: dict[str, bool]) -> None:
    runs = {f"flow-{number}": runner for number, runner in enumerate(runners)}
    moved: set[str] = set()
    while moves := [move for one in ready if (move := next_gathering(crews(runs, ready), one, runs)) is not None]:
        for flow, heir in moves:
            assert ready[heir]
            assert flow not in moved
            moved.add(flow)
            runs[flow] = heir
    assert len(set(runs.values())) == 1 or not all(ready[runner] for runner in runs.values())


def test_only_flows_count_that_both_may_run() -> None:
    # b runs two flows of which a knows nothing, as with `--clusters`.
    both, alone = {"a": True, "b": True}, {"b": True}
    known = {
        "1": FlowMembers("a", both),
        "2": FlowMembers("b", both),
        "3": FlowMembers("b", alone),
        "4": FlowMembers("b", alone),
    }
    assert next_move(known, "b", known) is None
    assert next_move({flow: crew for flow, crew in known.items() if crew.ready is both}, "a", known) is None


def test_a_flow_goes_to_one_that_runs_the_fewest_and_equals_take_turns() -> None:
    assert choose_process("flow", ["a", "b", "c"], {"a": 2, "b": 1, "c": 2}) == "b"
    assert {choose_process(f"flow-{number}", ["a", "b", "c"], {}) for number in range(20)} == {"a", "b", "c"}


@pytest.mark.parametrize(("counts", "chosen"), [({}, "a"), ({"b": 1}, "b"), ({"a": 1, "c": 2}, "c")])
def test_packed_flows_go_where_most_are(counts: dict[str, int], chosen: str) -> None:
    assert {choose_process(f"flow-{number}", ["c", "b", "a"], counts, pack=True) for number in range(20)} == {chosen}
