"""Connectors are spread evenly over workers, and none has two at a time."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from twinlog.connect.group.spreading import assign
from twinlog.connect.model import ConnectorName


def names(count: int) -> set[ConnectorName]:
    return {ConnectorName(f"c{number:02}") for number in range(count)}


def counts(given_to: dict[str, frozenset[ConnectorName]]) -> list[int]:
    return sorted(len(given) for given in given_to.values())


def test_nothing_moves_without_need() -> None:
    one, two, *_ = sorted(names(3))
    assert assign({"a": {one, two}, "b": set()}, {one, two}) == {"a": {one}, "b": set()}
    assert assign({"a": {one}, "b": set()}, {one, two}) == {"a": {one}, "b": {two}}
    assert assign({"a": {one}, "b": {two}}, {one, two}) == {"a": {one}, "b": {two}}


def test_what_was_removed_is_given_to_nobody() -> None:
    one, two, *_ = sorted(names(3))
    assert assign({"a": {one, two}}, {two}) == {"a": {two}}
    assert assign({}, {one}) == {}


workers = st.integers(1, 5)


@given(workers, st.integers(0, 20), st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=8))
def test_however_workers_come_and_go(count: int, connectors: int, events: list[tuple[int, bool]]) -> None:
    known = names(connectors)
    owned: dict[str, set[ConnectorName]] = {f"w{number}": set() for number in range(count)}
    for worker, comes in events:
        if comes:
            owned.setdefault(f"w{worker}", set())
        elif len(owned) > 1:
            owned.pop(f"w{worker}", None)
        for _ in range(4):
            given_to = assign(owned, known)
            for one, mine in given_to.items():
                for other, theirs in owned.items():
                    assert one == other or not mine & theirs, "it is ended there before it begins here"
            owned = {one: set(mine) for one, mine in given_to.items()}
        assert set().union(*owned.values()) == known
        assert (
            counts({one: frozenset(mine) for one, mine in owned.items()})[-1]
            - counts({one: frozenset(mine) for one, mine in owned.items()})[0]
            < 2
        )
