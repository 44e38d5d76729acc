"""What becomes of partitions whose remote topic has another name than before."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import replace

import pytest

from tests.unit.run.test_rivals import flow
from twinlog.errors import RefusedError
from twinlog.offsets.positions import Position, Writer
from twinlog.plan.changes import Pair
from twinlog.run.renamed import RenamedTopics
from twinlog.settings import FlowSettings
from twinlog.topics import Topic
from twinlog.types import TopicName, TopicPartition

T, OLD, NEW = TopicName("t"), TopicName("a.t"), TopicName("a_t")
PART = TopicPartition(T, 0)
OLD_ID = uuid.uuid4()
STORED = Position(10, 10, 3, "id", str(OLD_ID), 2, OLD, Writer(1, 2, 3))
STOP = flow("a", "b", "default")


class Positions:
    def __init__(self, stored: Position) -> None:
        self.stored = stored
        self.asked = 0

    def read(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Position]:
        self.asked += 1
        return {PART: self.stored} if PART in partitions else {}


def looked(settings: FlowSettings, stored: Position, remote: TopicName = NEW, *there: Topic) -> RenamedTopics:
    found = RenamedTopics(settings, Positions(stored))  # type: ignore[arg-type]
    found.look([Pair(Topic(T, 1), remote)], {topic.name: topic for topic in there})
    return found


def test_both_names_are_told() -> None:
    with pytest.raises(RefusedError, match=r"t \(to a.t until now, to a_t from now on\)"):
        looked(STOP, STORED)


def test_a_position_without_a_name_is_known_by_the_id_of_its_topic() -> None:
    earlier = replace(STORED, remote_topic=None)
    with pytest.raises(RefusedError, match=r"to a.t until now"):
        looked(STOP, earlier, NEW, Topic(OLD, 1, OLD_ID))
    assert looked(STOP, earlier, NEW).position(PART, NEW, earlier) == earlier
    # A topic that was made anew under the same name is another matter.
    assert looked(STOP, STORED, OLD, Topic(OLD, 1, uuid.uuid4())).position(PART, OLD, STORED) == STORED


def test_what_mirror_maker_stored_names_nothing() -> None:
    plain = Position(10)
    assert looked(STOP, plain).position(PART, NEW, plain) == plain


def test_continue_and_restart_end_with_the_first_position_of_the_new_name() -> None:
    moved = replace(STORED, remote_topic=NEW)
    onward = looked(replace(STOP, renamed_topic_policy="continue"), STORED)
    assert onward.position(PART, NEW, STORED) == Position(10, None, 3, "id", None, 2)
    assert onward.position(PART, NEW, moved) == moved
    again = looked(replace(STOP, renamed_topic_policy="restart"), STORED)
    assert again.position(PART, NEW, STORED) is None
    assert again.position(PART, NEW, moved) == moved
    assert again.position(PART, NEW, None) is None


def test_each_topic_is_looked_at_once() -> None:
    positions = Positions(replace(STORED, remote_topic=NEW))
    found = RenamedTopics(STOP, positions)  # type: ignore[arg-type]
    for _ in range(3):
        found.look([Pair(Topic(T, 1), NEW)], {})
    assert positions.asked == 1


def test_heartbeats_of_the_past_are_not_missed() -> None:
    beats = TopicPartition(TopicName("heartbeats"), 0)

    class Beats(Positions):
        def read(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Position]:
            return {beats: self.stored}

    stored = replace(STORED, remote_topic=TopicName("a.heartbeats"))
    for policy in ("stop", "restart"):
        found = RenamedTopics(replace(STOP, renamed_topic_policy=policy), Beats(stored))  # type: ignore[arg-type]
        found.look([Pair(Topic(beats.topic, 1), TopicName("a_heartbeats"))], {})
        assert found.position(beats, TopicName("a_heartbeats"), stored) == Position(10, None, 3, "id", None, 2)
