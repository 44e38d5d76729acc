"""Leases end, partitions change hands, copiers lose their driver: copying goes on, and nothing is lost or twice."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Listener

import pytest
from confluent_kafka import KafkaException

from harness.checks.checker import Arrivals, Load, require_clean
from harness.cluster import KafkaCluster
from harness.produce import numbered, produce
from harness.topics import create_topic, offsets, topics
from harness.wait import wait_for
from tests.integration.copying import CopyFlow, flow_settings
from tests.integration.without_spark import FlowWithoutSpark
from twinlog.copier.copier_thread import CopierThread
from twinlog.lease.channel import Channel, DriverAddress, LeaseTicket, receive_hello
from twinlog.lease.ledger import Assignment
from twinlog.lease.messages import Claim, CopierHeartbeat, CopierHeartbeatResponse, Grant, Grants
from twinlog.model.types import TopicName, TopicPartition
from twinlog.worker.status import load as load_module

log = logging.getLogger(__name__)

PARTITIONS = 4
RATE = 3000


class Scene:
    """A topic with load on it, and a flow that copies it."""

    def __init__(self, source: KafkaCluster, target: KafkaCluster, topic: str, workers: int) -> None:
        self.source, self.target, self.topic = source, target, create_topic(source, topic, PARTITIONS)
        self.remote = f"north.{topic}"
        self.parts = [TopicPartition(TopicName(topic), number) for number in range(PARTITIONS)]
        settings = flow_settings(
            source, target, topics=(f"{topic}.*",), tasks_max=workers, refresh_topics_interval_s=0.3
        )
        self.flow = FlowWithoutSpark(settings, workers)
        self.load = Load(source, topic, PARTITIONS, rate=RATE)

    def copied(self) -> int:
        try:
            return sum(offsets(self.target, self.remote, number)[1] for number in range(PARTITIONS))
        except KafkaException:
            # The topic is this young.
            return 0

    def wait_until_copied(self, count: int) -> None:
        wait_for(lambda: self.copied() >= count, 60, f"{count} records of {self.topic} are copied")

    def finish(self) -> None:
        self.wait_until_copied(self.load.stop())
        self.flow.stop()
        assert self.flow.runner.reason is None
        require_clean(self.source, self.topic, self.target, self.remote)

    def shares(self, chance: random.Random) -> Assignment:
        """Some way to share all partitions between one or two tasks."""
        parts = chance.sample(self.parts, len(self.parts))
        cut = chance.randint(0, len(parts))
        return tuple(frozenset(share) for share in (parts[:cut], parts[cut:]) if share)


@pytest.fixture
def scene(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, new_name: Callable[[str], str]
) -> Iterator[Callable[[int], Scene]]:
    scenes: list[Scene] = []

    def make(workers: int) -> Scene:
        scene = Scene(source_cluster, target_cluster, new_name("t"), workers)
        scenes.append(scene)
        scene.flow.__enter__()
        scene.load.start()
        scene.wait_until_copied(RATE // 2)
        return scene

    yield make
    for one in scenes:
        one.flow.stop()


def test_a_lease_ends_without_a_pause(scene: Callable[[int], Scene]) -> None:
    here = scene(1)
    (worker,) = here.flow.workers
    assert worker.copier_thread is not None
    copied = worker.copier_thread._copier.partitions
    before = dict(copied)
    with Arrivals(here.target, here.remote, PARTITIONS) as arrivals:
        for _ in range(5):
            time.sleep(0.3)
            here.flow.renew()
        wait_for(lambda: arrivals.count > RATE, 60, "records arrive all the time")
    log.warning("longest pause %.3f s", arrivals.longest_pause_s)
    # The copier released nothing, nor did it begin anew.
    assert worker.copier_threads == 1
    assert before.keys() >= set(here.parts)
    assert all(copied[part] is copy and not copy.left for part, copy in before.items())
    here.finish()


def test_partitions_change_hands(scene: Callable[[int], Scene], chance: random.Random) -> None:
    here = scene(2)
    for _ in range(12):
        order = chance.sample((0, 1), 2)
        here.flow.place = order.__getitem__
        here.flow.renew(here.shares(chance))
        time.sleep(chance.uniform(0.0, 0.3))
    assert all(
        worker.copier_thread is not None and worker.copier_thread.reporter.ranges.take_ranges()
        for worker in here.flow.workers
    )
    here.finish()
    assert [worker.errors for worker in here.flow.workers] == [[], []]


def test_copiers_lose_their_driver_at_any_moment(scene: Callable[[int], Scene], chance: random.Random) -> None:
    here = scene(2)
    here.flow.use_tasks(2)
    here.flow.renew(tuple(frozenset(half) for half in (here.parts[:2], here.parts[2:])))
    for _ in range(8):
        time.sleep(chance.uniform(0.0, 0.4))
        here.flow.lose_copier(chance.choice(here.flow.in_lease()))
        if chance.random() < 0.5:
            here.flow.renew(here.shares(chance))
    here.finish()


def test_a_new_topic_is_copied_under_the_lease_that_runs(scene: Callable[[int], Scene]) -> None:
    here = scene(2)
    here.flow.use_tasks(2)
    lease = here.flow.renew(tuple(frozenset(half) for half in (here.parts[:2], here.parts[2:])))
    copier_threads = [worker.copier_thread for worker in here.flow.workers]
    new = create_topic(here.source, f"{here.topic}-new", 2)
    produce(here.source, new, numbered(10), partition=1)
    wait_for(lambda: f"north.{new}" in topics(here.target), 60, "the remote topic is there")
    wait_for(lambda: offsets(here.target, f"north.{new}", 1)[1] == 10, 60, "its records are there")
    # The flow copies heartbeats too, if a test before this one wrote any.
    flow_status = here.flow.runner.flow_status
    wait_for(
        lambda: [part.partition for part in sorted(flow_status.partitions()) if part.topic == new] == [0, 1],
        60,
        "the new topic is in the reports",
    )
    assert here.flow.runner.leases.lease == lease
    assert [worker.copier_thread for worker in here.flow.workers] == copier_threads
    assert all(worker.in_lease for worker in here.flow.workers)
    here.finish()


def test_partitions_move_between_copiers_that_go_on(scene: Callable[[int], Scene], chance: random.Random) -> None:
    here = scene(2)
    halves = tuple(frozenset(half) for half in (here.parts[:2], here.parts[2:]))
    lease = here.flow.renew(halves)
    granted: list[TopicPartition] = []
    look_up = here.flow.runner.leases._granting._grants

    def note(parts: Sequence[TopicPartition]) -> list[Grant]:
        granted.extend(parts)
        return look_up(parts)

    here.flow.runner.leases._granting._grants = note
    # The first one stays where it is all the time.
    for _ in range(10):
        moving = chance.sample(here.parts[1:], 3)
        cut = chance.randint(0, 2)
        assignment = (frozenset({here.parts[0], *moving[:cut]}), frozenset(moving[cut:]))
        assert here.flow.runner.leases.plan(assignment) == lease
        time.sleep(chance.uniform(0.0, 0.3))
    here.finish()
    assert granted
    assert here.parts[0] not in granted
    assert [worker.copier_threads for worker in here.flow.workers] == [1, 1]
    assert [worker.errors for worker in here.flow.workers] == [[], []]


def test_load_that_stays_uneven_moves_a_partition(
    scene: Callable[[int], Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("LOOK_S", 0.5), ("LASTS_S", 1.0), ("UNEVEN", 1.2), ("WORTH_BUSY", 0.0)):
        monkeypatch.setattr(load_module, name, value)
    here = scene(2)
    here.flow.use_tasks(2)
    lease = here.flow.renew((frozenset(here.parts[:3]), frozenset(here.parts[3:])))

    def shares() -> list[int]:
        return [len(share.intersection(here.parts)) for share in here.flow.runner.leases.assignment()]

    wait_for(lambda: shares() == [2, 2], 60, "one of three partitions moves")
    assert here.parts[3] in here.flow.runner.leases.assignment()[1]
    assert here.flow.runner.leases.lease == lease
    here.finish()


MUTE_AFTER_S = 1.5


class MuteDriver:
    """Grants a partition to one copier, and answers its beats only when asked."""

    def __init__(self, grant: Grant) -> None:
        secret = b"between us"
        self._listener = Listener(("127.0.0.1", 0))
        self.address = DriverAddress("127.0.0.1", self._listener.address[1], secret)
        self.answers = threading.Event()
        self.answers.set()
        self._grant = grant
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        line = Channel(self._listener.accept())
        try:
            line.challenge(self.address.secret)
            receive_hello(line)
            while True:
                match line.receive():
                    case Claim():
                        line.send(Grants(1, (self._grant,)))
                    case CopierHeartbeat(at) if self.answers.is_set():
                        line.send(CopierHeartbeatResponse(at, MUTE_AFTER_S))
        except (OSError, EOFError):
            line.close()
        finally:
            self._listener.close()


def test_a_copier_stops_appending_when_its_driver_does_not_answer(
    copy_flow: CopyFlow, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("twinlog.copier.copier_thread.BEAT_S", 0.2)
    remote = copy_flow.create(topic_name)
    source = TopicPartition(TopicName(topic_name), 0)
    driver = MuteDriver(Grant(source, TopicPartition(TopicName(remote), 0), None, 1_000_000, None))
    ticket = LeaseTicket.of(flow_settings(copy_flow.source, copy_flow.target), driver.address, 1, 0)
    copier_thread = CopierThread(ticket)
    assert copier_thread.join_lease(ticket, threading.Event())

    def end() -> int:
        return offsets(copy_flow.target, remote)[1]

    with Load(copy_flow.source, topic_name, 1, rate=1000) as load:
        wait_for(lambda: end() > 1000, 60, "it copies")
        driver.answers.clear()
        wait_for(lambda: not copier_thread._allowed(), 60, "it may not append")
        behind = load.total
        # What was on its way by then has arrived; of what is written now nothing does.
        wait_for(lambda: load.total > behind + 1000, 60, "the load goes on")
        stopped = end()
        wait_for(lambda: load.total > behind + 2000, 60, "the load goes on")
        assert end() == stopped
        assert not copier_thread.ended.is_set()
        sent = load.total
        driver.answers.set()
        wait_for(lambda: end() > sent, 60, "it goes on")
    wait_for(lambda: end() == load.total, 60, "all is copied")
    copier_thread._line.shut_down()
    assert copier_thread.ended.wait(60)
    require_clean(copy_flow.source, topic_name, copy_flow.target, remote)
