"""Which topics were there when the flow first started, and which appeared later."""

from __future__ import annotations

import uuid

import pytest

from twinlog.mirror.offsets.starts import AT_FIRST, ChosenTopics, FirstStart, StartSpec, TopicStart
from twinlog.model.topics import Topic
from twinlog.model.types import SourceOffset, TopicName, TopicPartition
from twinlog.worker.topics.starts import TopicPlan, first_start, plan_topics

NAME = TopicName("orders")
ID, OTHER = uuid.UUID(int=1), uuid.UUID(int=2)
ALL, PAYMENTS = ChosenTopics((".*",), ()), ChosenTopics(("payments",), ())
FIVE = StartSpec(offset=SourceOffset(5))


def plan(
    first: FirstStart, stored: TopicStart | None = None, *, partitions: int = 2, copied: tuple[int, ...] = ()
) -> TopicPlan:
    topic = Topic(NAME, partitions, ID)
    known = {} if stored is None else {NAME: stored}
    (found,) = plan_topics([topic], known, first, {TopicPartition(NAME, number) for number in copied})
    return found


def test_at_the_very_first_start_each_topic_was_there() -> None:
    first = first_start(None, ALL, 100)
    assert first == FirstStart(100, ALL)
    found = plan(first, copied=(1,))
    assert (found.asked, found.later, found.begins) == ([0], [], [None, None])


def test_afterwards_a_topic_has_appeared() -> None:
    done = FirstStart(100, ALL, done=True)
    assert first_start(done, ALL, 900) == done
    found = plan(done)
    assert (found.asked, found.later, found.begins) == ([], [0, 1], [AT_FIRST, AT_FIRST])
    assert not found.in_part


def test_a_start_that_was_not_finished_goes_on_from_its_moment() -> None:
    half = FirstStart(100, ALL)
    assert first_start(half, ALL, 900) == half
    assert plan(half).asked == [0, 1]
    # With another filter as well: nothing was begun with the one before.
    assert first_start(half, PAYMENTS, 900) == FirstStart(100, PAYMENTS)


def test_what_was_decided_stays() -> None:
    stored = TopicStart(100, str(ID), (FIVE, None))
    found = plan(FirstStart(100, ALL, done=True), stored, copied=(1,))
    assert (found.begins, found.decides) == ([FIVE, None], False)
    # Also while the first start is not done: it was stored for this topic.
    assert not plan(FirstStart(100, ALL), stored, copied=(1,)).decides


def test_a_partition_that_was_added_has_appeared() -> None:
    stored = TopicStart(100, str(ID), (FIVE, FIVE))
    found = plan(FirstStart(100, ALL, done=True), stored, partitions=4)
    assert (found.begins, found.asked, found.later) == ([FIVE, FIVE, AT_FIRST, AT_FIRST], [], [2, 3])
    assert found.in_part
    # Of a topic whose partitions all had positions nothing was stored.
    found = plan(FirstStart(100, ALL, done=True), partitions=3, copied=(0, 1))
    assert (found.begins, found.later, found.in_part) == ([None, None, AT_FIRST], [2], True)


def test_a_partition_whose_position_was_deleted_begins_where_it_began_or_at_its_first_record() -> None:
    found = plan(
        FirstStart(100, ALL, done=True), TopicStart(100, str(ID), (None, None, FIVE)), partitions=3, copied=(0,)
    )
    assert (found.begins, found.later) == ([None, AT_FIRST, FIVE], [1])


def test_a_recreated_topic_has_appeared() -> None:
    found = plan(FirstStart(100, ALL, done=True), TopicStart(100, str(OTHER), (FIVE, FIVE)))
    assert (found.begins, found.later, found.recreated, found.in_part) == ([AT_FIRST, AT_FIRST], [0, 1], True, False)
    # Brokers before Kafka 2.8 name no id.
    assert not plan(FirstStart(100, ALL, done=True), TopicStart(100, None, (FIVE, FIVE))).decides


@pytest.mark.parametrize(
    ("before", "asked"),
    [
        (PAYMENTS, [0, 1]),
        (ChosenTopics((".*",), ("orders",)), [0, 1]),
        (ChosenTopics((".*",), ("payments",)), []),
        # Nobody can say what these let through.
        (ChosenTopics((), (), "ours:Filter"), []),
        (ChosenTopics(("(",), ()), []),
    ],
)
def test_a_wider_filter_begins_with_the_topics_that_it_adds(before: ChosenTopics, asked: list[int]) -> None:
    first = first_start(FirstStart(100, before, done=True), ALL, 900)
    assert first == FirstStart(900, ALL, before=before)
    found = plan(first)
    assert found.asked == asked
    assert found.later == [number for number in (0, 1) if number not in asked]
    # A second change before that was done does not move its moment.
    more = first_start(first, ChosenTopics(("or.*",), ()), 950)
    assert (more.at_ms, more.before, more.done) == (900, before, False)
