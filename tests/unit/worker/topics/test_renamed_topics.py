"""What becomes of partitions whose remote topic has another name than before."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import replace

import pytest

from tests.unit.worker.topics.test_topic_conflicts import flow
from twinlog.errors import ClusterError, RefusedError
from twinlog.mirror.offsets.positions import Position, Writer
from twinlog.mirror.topics.changes import TopicPair
from twinlog.model.topics import Topic
from twinlog.model.types import Alias, TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings, RenamedTopicPolicy
from twinlog.worker.topics.renamed_topics import RenamedTopics

T, OLD, NEW = TopicName("t"), TopicName("a.t"), TopicName("a_t")
PART = TopicPartition(T, 0)
OLD_ID, ANOTHER_ID = uuid.UUID(int=1), uuid.UUID(int=2)
STORED = Position(10, 10, 3, "id", str(OLD_ID), 2, OLD, Writer(1, 2, 3))
STOP = flow("a", "b", "default")


class Positions:
    def __init__(self, stored: Position, part: TopicPartition = PART) -> None:
        self.stored = stored
        self.part = part
        self.asked = 0

    def read(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Position]:
        self.asked += 1
        return {self.part: self.stored} if self.part in partitions else {}


class Target:
    """Says how many records the topics of a cluster have."""

    def __init__(self, **records: int) -> None:
        self.records = records

    def offsets(self, partitions: Iterable[TopicPartition], *, latest: bool) -> dict[TopicPartition, int]:
        return {part: 5 + (self.records.get(part.topic, 0) if latest else 0) for part in partitions}


def looked(
    settings: FlowSettings, stored: Position, remote: TopicName = NEW, *there: Topic, records: int = 0
) -> RenamedTopics:
    found = RenamedTopics(settings, Positions(stored), Target(**{remote: records}))  # type: ignore[arg-type]
    found.find_renamed_topics([TopicPair(Topic(T, 1), remote)], {topic.name: topic for topic in there})
    return found


def test_both_names_are_reported() -> None:
    with pytest.raises(RefusedError, match=r"t \(to a.t until now, to a_t from now on\)"):
        looked(STOP, STORED)


def test_a_position_without_a_name_is_known_by_the_id_of_its_topic() -> None:
    earlier = replace(STORED, remote_topic=None)
    with pytest.raises(RefusedError, match=r"to a.t until now"):
        looked(STOP, earlier, NEW, Topic(OLD, 1, OLD_ID))
    assert looked(STOP, earlier, NEW).position(PART, NEW, earlier) == earlier
    # A topic that was recreated under the same name is another matter.
    assert looked(STOP, STORED, OLD, Topic(OLD, 1, ANOTHER_ID)).position(PART, OLD, STORED) == STORED


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


@pytest.mark.parametrize(
    ("policy", "logged"),
    [
        ("restart", "stand there a second time"),
        ("continue", "the records that were copied to the other names meanwhile are missing there"),
    ],
)
def test_a_name_that_had_records_before_is_reported(
    caplog: pytest.LogCaptureFixture, policy: RenamedTopicPolicy, logged: str
) -> None:
    settings, there = replace(STOP, renamed_topic_policy=policy), Topic(NEW, 1)
    looked(settings, STORED, NEW, there)
    assert logged not in caplog.text
    looked(settings, STORED, NEW, there, records=1)
    assert "a->b: a_t had records already, which" in caplog.text
    assert logged in caplog.text
    with pytest.raises(RefusedError, match="records already in a_t: restart would repeat them"):
        looked(STOP, STORED, NEW, there, records=1)


def test_only_partitions_that_move_are_asked_for_records(caplog: pytest.LogCaptureFixture) -> None:
    """After a restart that was killed, some have moved and have the records that they are to have."""
    settings, moved = replace(STOP, renamed_topic_policy="restart"), TopicPartition(T, 1)

    class Half(Positions):
        def read(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Position]:
            return {PART: self.stored, moved: replace(self.stored, remote_topic=NEW)}

    class Filled(Target):
        def offsets(self, partitions: Iterable[TopicPartition], *, latest: bool) -> dict[TopicPartition, int]:
            return {part: 9 if latest and part.partition == 1 else 5 for part in partitions}

    found = RenamedTopics(settings, Half(STORED), Filled())  # type: ignore[arg-type]
    found.find_renamed_topics([TopicPair(Topic(T, 2), NEW)], {NEW: Topic(NEW, 2)})
    assert "t (to a.t until now, to a_t from now on)" in caplog.text
    assert "had records already" not in caplog.text


def test_no_plan_waits_for_a_hint(caplog: pytest.LogCaptureFixture) -> None:
    class Silent(Target):
        def offsets(self, partitions: Iterable[TopicPartition], *, latest: bool) -> dict[TopicPartition, int]:
            raise ClusterError("no answer")

    settings = replace(STOP, renamed_topic_policy="continue")
    found = RenamedTopics(settings, Positions(STORED), Silent())  # type: ignore[arg-type]
    found.find_renamed_topics([TopicPair(Topic(T, 1), NEW)], {NEW: Topic(NEW, 1)})
    assert "only what follows is copied" in caplog.text
    assert found.position(PART, NEW, STORED) == Position(10, None, 3, "id", None, 2)


def test_topics_that_are_gone_are_forgotten() -> None:
    settings = replace(STOP, renamed_topic_policy="continue")
    found = looked(settings, STORED)
    for number in range(100):
        found.find_renamed_topics([TopicPair(Topic(TopicName(f"t-{number}"), 1), TopicName(f"a_t-{number}"))], {})
    assert (len(found._looked_at), len(found._earlier)) == (1, 0)
    # What comes back is looked at again.
    found.find_renamed_topics([TopicPair(Topic(T, 1), NEW)], {})
    assert found.position(PART, NEW, STORED) == Position(10, None, 3, "id", None, 2)


def test_each_topic_is_looked_at_once() -> None:
    positions = Positions(replace(STORED, remote_topic=NEW))
    found = RenamedTopics(STOP, positions, Target())  # type: ignore[arg-type]
    for _ in range(3):
        found.find_renamed_topics([TopicPair(Topic(T, 1), NEW)], {})
    assert positions.asked == 1


def test_heartbeats_of_the_past_are_not_missed() -> None:
    beats = TopicPartition(TopicName("heartbeats"), 0)
    stored = replace(STORED, remote_topic=TopicName("a.heartbeats"))
    for policy in ("stop", "restart"):
        found = RenamedTopics(replace(STOP, renamed_topic_policy=policy), Positions(stored, beats), Target())  # type: ignore[arg-type]
        found.find_renamed_topics([TopicPair(Topic(beats.topic, 1), TopicName("a_heartbeats"), heartbeats=True)], {})
        assert found.position(beats, TopicName("a_heartbeats"), stored) == Position(10, None, 3, "id", None, 2)


def test_a_topic_whose_name_only_ends_like_that_of_heartbeats_is_the_users() -> None:
    beats = TopicPartition(TopicName("device.heartbeats"), 0)
    stored = replace(STORED, remote_topic=TopicName("a.device.heartbeats"))
    pairs = [TopicPair(Topic(beats.topic, 1), TopicName("a_device.heartbeats"))]
    with pytest.raises(RefusedError, match=r"device\.heartbeats \(to a\.device\.heartbeats until now"):
        RenamedTopics(STOP, Positions(stored, beats), Target()).find_renamed_topics(pairs, {})  # type: ignore[arg-type]
    found = RenamedTopics(replace(STOP, renamed_topic_policy="restart"), Positions(stored, beats), Target())  # type: ignore[arg-type]
    found.find_renamed_topics(pairs, {})
    assert found.position(beats, TopicName("a_device-heartbeats"), stored) is None


class Strayed(Positions):
    """A position that another alias left, and none of the flow's own."""

    def __init__(self, stored: Position = STORED, alias: str = "", own: Position | None = None) -> None:
        super().__init__(stored)
        self.alias = alias
        self.own = own

    def read(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Position]:
        return {} if self.own is None else {PART: self.own}

    def under_other_alias(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[Alias, Position]]:
        return {part: (Alias(self.alias), self.stored) for part in partitions if part == PART and self.own is None}


KEPT = flow("a", "b", "identity")
PAIRS = [TopicPair(Topic(T, 1), T)]


def test_positions_under_another_alias_stop_a_flow_that_keeps_names() -> None:
    """As from the separator and alias left empty to the identity policy, which MirrorMaker 2 begins anew with."""
    found = RenamedTopics(KEPT, Strayed(), Target())  # type: ignore[arg-type]
    with pytest.raises(RefusedError) as refused:
        found.find_renamed_topics(PAIRS, {})
    text = str(refused.value)
    assert "the positions of t are stored under the alias '' of the source, and are looked for under 'a'" in text
    assert "write a->b.source.cluster.alias = (nothing behind it), or" in text
    assert "a->b.twinlog.renamed.topic.policy = continue" in text


def test_they_are_taken_over_or_left_for_one_run(caplog: pytest.LogCaptureFixture) -> None:
    onward = RenamedTopics(replace(KEPT, renamed_topic_policy="continue"), Strayed(), Target())  # type: ignore[arg-type]
    onward.find_renamed_topics(PAIRS, {})
    assert onward.position(PART, T, None) == STORED
    own = Position(20)
    assert onward.position(PART, T, own) == own
    assert "twinlog.renamed.topic.policy = continue copying continues from there" in caplog.text
    again = RenamedTopics(replace(KEPT, renamed_topic_policy="restart"), Strayed(), Target())  # type: ignore[arg-type]
    again.find_renamed_topics(PAIRS, {})
    assert again.position(PART, T, None) is None
    assert "restart everything is copied again" in caplog.text


def test_a_position_of_its_own_counts_whatever_else_is_stored() -> None:
    own = replace(STORED, remote_topic=T)
    found = RenamedTopics(KEPT, Strayed(own=own), Target())  # type: ignore[arg-type]
    found.find_renamed_topics(PAIRS, {T: Topic(T, 1)})
    assert found.position(PART, T, own) == own
