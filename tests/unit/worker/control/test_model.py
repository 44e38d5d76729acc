"""Which partitions are meant, and which are paused by the entries that came one after the other."""

from __future__ import annotations

import pytest

from twinlog.errors import OptionError
from twinlog.model.types import TopicName, TopicPartition
from twinlog.worker.control.model import (
    PartitionSelector,
    TopicCommand,
    TopicPause,
    TopicPauses,
    TopicVerb,
    selected,
    without_effect,
)

PARTS = [
    TopicPartition(TopicName(topic), number) for topic in ("orders", "orders-3", "heartbeats") for number in (0, 3)
]


def paused(*entries: tuple[str, tuple[int, ...] | None, bool]) -> set[str]:
    pauses = TopicPauses(tuple(TopicPause(PartitionSelector(pattern, numbers), on) for pattern, numbers, on in entries))
    return {str(part) for part in pauses.paused(PARTS, lambda topic: topic == "heartbeats")}


@pytest.mark.parametrize(
    ("entries", "verb", "words", "changes_nothing"),
    [
        ([], TopicVerb.RESUME, ["orders"], True),
        ([("orders.*", True)], TopicVerb.RESUME, ["orders"], False),
        ([("orders.*", True), ("orders", False)], TopicVerb.RESUME, ["orders"], False),
        ([("orders-3", True)], TopicVerb.RESUME, ["orders"], True),
        # A topic to come may be paused.
        ([("later", True)], TopicVerb.RESUME, ["orders.*"], False),
        ([], TopicVerb.PAUSE, ["orders"], False),
        ([("orders", True)], TopicVerb.PAUSE, ["orders"], True),
        ([(".*", True)], TopicVerb.PAUSE, ["orders"], False),
        ([("orders", True), ("ord.*", False)], TopicVerb.PAUSE, ["orders"], False),
        ([("ord.*", False), ("orders", True)], TopicVerb.PAUSE, ["orders"], True),
        ([("orders", True)], TopicVerb.PAUSE, ["orders", "orders-3"], False),
    ],
)
def test_what_is_so_already_is_known(
    entries: list[tuple[str, bool]], verb: TopicVerb, words: list[str], changes_nothing: bool
) -> None:
    pauses = TopicPauses(tuple(TopicPause(PartitionSelector(pattern), on) for pattern, on in entries))
    command = TopicCommand("c", verb, tuple(map(PartitionSelector, words)))
    assert pauses.is_redundant(command, PARTS, lambda topic: topic == "heartbeats") is changes_nothing


def test_a_pattern_must_match_a_whole_name() -> None:
    assert {str(part) for part in selected([PartitionSelector("orders")], PARTS)} == {"orders-0", "orders-3"}
    assert {str(part) for part in selected([PartitionSelector("orders", (3,))], PARTS)} == {"orders-3"}
    assert {str(part) for part in selected([PartitionSelector("rders.*")], PARTS)} == set()
    some = [PartitionSelector("orders", (3,)), PartitionSelector("orders[-]3", (0,))]
    assert {str(part) for part in selected(some, PARTS)} == {"orders-3", "orders-3-0"}


def test_of_all_entries_that_select_a_partition_the_last_counts() -> None:
    assert paused() == set()
    assert paused(("orders.*", None, True)) == {"orders-0", "orders-3", "orders-3-0", "orders-3-3"}
    assert paused(("orders.*", None, True), ("orders", (3,), False)) == {"orders-0", "orders-3-0", "orders-3-3"}
    assert paused(("orders", (3,), False), ("orders.*", None, True)) == {
        "orders-0",
        "orders-3",
        "orders-3-0",
        "orders-3-3",
    }
    assert paused(("orders.*", None, True), (".*", None, False)) == set()


def test_heartbeats_are_meant_only_by_their_name() -> None:
    assert paused((".*", (0,), True)) == {"orders-0", "orders-3-0"}
    assert paused(("heartbeats", (0,), True)) == {"heartbeats-0"}
    assert paused(("heartbeats", None, True), (".*", None, False)) == {"heartbeats-0", "heartbeats-3"}


def test_an_entry_that_no_partition_can_need_is_found() -> None:
    def entry(pattern: str, on: bool, partitions: tuple[int, ...] | None = None) -> TopicPause:
        return TopicPause(PartitionSelector(pattern, partitions), on)

    some = [entry("a", False), entry("b.*", True), entry("b1", False), entry("c", True)]
    assert without_effect(some) == [some[0]]
    assert without_effect([*some, entry(".*", True)]) == some
    everything = entry(".*", False)
    assert without_effect([*some, everything]) == [*some, everything]
    assert without_effect([*some, entry(".*", False, (1,))]) == [some[0]]
    assert without_effect([]) == []
    # `.*` does not mean heartbeats.
    beats = [entry("a", True), entry("heartbeats", True), everything]
    assert without_effect(beats) == [beats[0], everything]


def test_what_is_no_pattern_is_refused() -> None:
    with pytest.raises(OptionError, match="is no pattern of topics"):
        PartitionSelector("orders(")
