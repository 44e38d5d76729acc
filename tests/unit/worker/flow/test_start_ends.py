"""A run that ends once it has caught up leaves out nothing that was there at its start, and waits for nothing that is
gone; in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from types import SimpleNamespace
from typing import Any

import pytest

from harness.virtual.cluster import VirtualCluster
from harness.virtual.faults import Fault
from harness.virtual.loop import VirtualLoop, virtual_loop
from harness.virtual.requests import LIST_OFFSETS
from tests.unit.worker.status.test_flow_status import progress, report
from tests.unit.worker.topics.test_topic_conflicts import flow
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.model.types import TopicName, TopicPartition
from twinlog.settings.client import ClientSettings
from twinlog.worker.flow.start_ends import LOOK_S, CaughtUpRun, StartEnds
from twinlog.worker.status.flow_status import FlowStatus
from twinlog.worker.status.report import FlowState

ONE, TWO = (TopicPartition(TopicName("t"), number) for number in range(2))


class World:
    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.source = VirtualCluster(loop, "a")
        self.source.create("t", 2)
        for number in range(2):
            self.source.write("t", b"x", b"y", partition=number)
        self.admin = ClusterAdmin("a", ClientSettings(self.source.bootstrap), VirtualLoop(loop.world))
        self.admin.connect()
        self.status = FlowStatus(self.admin.clock.monotonic)
        self.status.plan({ONE, TWO})

    def begin(self) -> StartEnds:
        return StartEnds(flow("a", "b", "default"), self.admin, self.status, {ONE, TWO})

    def copied(self, part: TopicPartition, offset: int, end: int, trouble: str | None = None) -> None:
        self.status.add_report(report(progress(part, offset, end, trouble=trouble)))

    def look(self, ends: StartEnds) -> bool:
        self.loop.run(self.loop.sleep, LOOK_S + 1)
        ends.refresh_ends()
        return ends.reached


@pytest.fixture
def world() -> Iterator[World]:
    with virtual_loop(1) as loop:
        here = World(loop)
        try:
            yield here
        finally:
            here.admin.close()


def test_all_that_was_there_is_waited_for(world: World) -> None:
    ends = world.begin()
    world.copied(ONE, 2, 2)
    world.copied(TWO, 1, 2)
    assert not ends.reached
    assert not world.look(ends)
    world.source.write("t", b"later", partition=1)
    world.copied(TWO, 2, 3)
    assert ends.reached


def test_a_partition_whose_remote_topic_came_late_is_waited_for(world: World) -> None:
    ends = StartEnds(flow("a", "b", "default"), world.admin, world.status, {ONE}, {TWO.topic})
    world.copied(ONE, 2, 2)
    assert ends.reached
    for _ in range(2):
        ends.add_partitions({ONE, TWO})
        assert not ends.reached
    world.copied(TWO, 2, 2)
    assert ends.reached


def test_what_is_paused_is_not_waited_for_beside_what_is_held(world: World) -> None:
    ends = world.begin()
    world.status.paused.set_partitions({TWO})
    assert not ends.reached_but(frozenset())
    assert ends.reached_but(frozenset({ONE}))


def test_a_partition_without_a_leader_is_waited_for_as_others_are(world: World) -> None:
    world.source.move("t", 1, None)
    ends = world.begin()
    world.copied(ONE, 2, 2)
    assert not ends.reached
    assert not world.look(ends)
    world.source.move("t", 1, 1)
    assert not world.look(ends)
    world.copied(TWO, 1, 2)
    assert not ends.reached
    world.copied(TWO, 2, 2)
    assert ends.reached


def test_what_was_deleted_is_not_waited_for(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.source.create("u", 1)
    world.source.move("t", 1, None)
    ends = world.begin()
    world.copied(ONE, 1, 2)
    world.source.topics.delete("t")
    world.copied(ONE, 1, 2, trouble="source topic t no longer exists")
    assert world.look(ends)
    assert "a->b: not waited for any more, as they are gone: t-0, t-1" in caplog.text


@pytest.mark.parametrize("leaderless", [False, True])
def test_a_topic_that_is_hidden_from_the_login_is_waited_for(world: World, *, leaderless: bool) -> None:
    if leaderless:
        world.source.move("t", 1, None)
    ends = world.begin()
    world.copied(ONE, 1, 2, trouble="lacks READ on topic t")
    world.copied(TWO, 2, 2)
    world.source.topics.hidden.add("t")
    assert not world.look(ends)
    assert ends.reached_but({ONE, TWO})
    world.source.topics.hidden.clear()
    world.source.move("t", 1, 1)
    world.copied(ONE, 2, 2)
    assert world.look(ends)


def test_nor_is_what_is_copied_no_longer(world: World) -> None:
    ends = world.begin()
    world.copied(TWO, 2, 2)
    world.source.topics.delete("t")
    world.source.create("t", 2)
    world.status.plan({TWO})
    # Somebody else copies it now, for all that is known: it is there.
    assert not world.look(ends)
    world.source.topics.delete("t")
    assert world.look(ends)


def test_a_log_that_became_shorter_is_waited_for_up_to_its_end(world: World) -> None:
    ends = world.begin()
    world.copied(TWO, 2, 2)
    world.source.topics.delete("t")
    world.source.create("t", 2)
    world.source.write("t", b"new")
    world.copied(ONE, 0, 1)
    assert not world.look(ends)
    world.copied(ONE, 1, 1)
    assert world.look(ends)


def test_a_source_that_does_not_answer_is_asked_again(world: World) -> None:
    world.source.move("t", 1, None)
    ends = world.begin()
    world.copied(ONE, 2, 2)
    world.source.move("t", 1, 1)
    world.source.fault(LIST_OFFSETS, Fault(lost=True))
    assert not world.look(ends)
    assert world.source.faults_left == 0
    assert not world.look(ends)
    world.copied(TWO, 2, 2)
    assert world.look(ends)
    assert world.status.doubtful_ends() == {}


@pytest.mark.parametrize(
    ("topics", "expected"),
    [
        ({}, (FlowState.DONE, None)),
        ({"due_at": 5.0}, None),
        ({"refused": "t: no right"}, (FlowState.HELD, "remote topics are missing: t: no right")),
        ({"nothing": "no topic matches"}, (FlowState.NOTHING, "no topic matches")),
        ({"nothing": "no topic matches", "only_copies": True}, (FlowState.DONE, None)),
    ],
)
def test_the_outcome_of_a_run_tells_what_was_not_copied(
    world: World, topics: dict[str, object], expected: tuple[FlowState, str | None] | None
) -> None:
    known: Any = SimpleNamespace(
        due_at=inf, nothing=None, only_copies=False, refused=None, refused_topics=(), require_all=lambda: None
    )
    known.__dict__.update(topics)
    held: Any = SimpleNamespace(settled=frozenset)
    run = CaughtUpRun(flow("a", "b", "default"), world.admin, world.status, known, held)
    assert run.poll_outcome(may_refresh=True) is None, "the ends are unknown"
    run.note_ends({ONE, TWO})
    assert run.poll_outcome(may_refresh=True) is None
    world.copied(ONE, 2, 2)
    world.copied(TWO, 2, 2)
    assert run.poll_outcome(may_refresh=False) == expected
