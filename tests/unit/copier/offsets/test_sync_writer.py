"""Offset syncs are written beside the records: a cluster that does not take them holds up none, and gets them later."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from harness.virtual.cluster import VirtualCluster
from harness.virtual.faults import Fault
from harness.virtual.loop import VirtualLoop, virtual_loop
from harness.virtual.requests import PRODUCE
from twinlog.copier.offset_writers import FLUSH_S, SyncWriter
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.protocol.error_codes import Code
from twinlog.mirror.offsets.exact_map import CopiedRun
from twinlog.mirror.offsets.syncs import decode_offset_sync
from twinlog.model.types import Alias, SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.settings.client import AdminSettings, ClientSettings, ConsumerSettings, ProducerSettings
from twinlog.settings.flow import FlowSettings

NOT_ENOUGH_REPLICAS = 19
PART, OTHER = (TopicPartition(TopicName("orders"), number) for number in range(2))


class Scene:
    """A sync writer whose syncs of every record are due, and the cluster that holds its topic."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.cluster = VirtualCluster(loop, "east")
        client = ClientSettings(self.cluster.bootstrap)
        admin = AdminSettings(client)
        settings = FlowSettings(
            Alias("east"), Alias("west"), ConsumerSettings(client), ProducerSettings(client), admin, admin,
            offset_lag_max=0,
        )  # fmt: skip
        self.topic = settings.offset_syncs_topic
        (self.log,) = self.cluster.create(self.topic)
        self.events: list[str] = []
        connected = ClusterClient(loop, "east", client)
        loop.run(connected.connect)
        self.writer = SyncWriter(loop, connected, settings, lambda: None, lambda _, text: self.events.append(text))
        loop.start(self.writer.run)

    def copied(self, first: int, count: int, part: TopicPartition = PART) -> None:
        self.writer.add_runs(part, [CopiedRun(SourceOffset(first), TargetOffset(first), count)])

    def wait(self, seconds: float) -> None:
        self.loop.run(self.loop.sleep, seconds)

    def refuse(self, codes: Iterable[int]) -> None:
        self.cluster.codes(PRODUCE, self.topic, *codes)

    def written(self, part: TopicPartition = PART) -> list[int]:
        """Source offsets of the syncs of a partition, which are those of the target."""
        found = [decode_offset_sync(one.key, one.value) for one in self.log.records()]
        assert all(sync is not None and sync.upstream - sync.downstream == 0 for sync in found)
        return [sync.upstream for sync in found if sync is not None and sync.source == part]


@pytest.fixture
def scene() -> Iterator[Scene]:
    with virtual_loop(1) as loop:
        yield Scene(loop)


def test_what_is_due_is_written_with_the_next_round(scene: Scene) -> None:
    scene.copied(0, 3)
    assert scene.written() == []
    scene.wait(1)
    assert scene.written() == [0, 1, 2]


def test_what_a_cluster_does_not_take_is_reported_once_and_written_in_order_later(scene: Scene) -> None:
    scene.refuse([NOT_ENOUGH_REPLICAS] * 6)
    scene.copied(0, 2)
    scene.wait(9)
    assert (scene.written(), scene.events) == ([], [])
    scene.copied(2, 1)
    scene.wait(51)
    assert scene.written() == [0, 1, 2]
    (event,) = scene.events
    assert event.startswith("offset syncs cannot be written, trying again: ")


def test_of_syncs_whose_answer_is_lost_only_the_newest_of_each_partition_is_written_again(scene: Scene) -> None:
    scene.cluster.fault(PRODUCE, Fault(lost=True, done=True))
    scene.copied(0, 3)
    scene.copied(5, 2, OTHER)
    scene.wait(10)
    assert scene.written() == [0, 1, 2, 2]
    assert scene.written(OTHER) == [5, 6, 6]


def test_a_missing_right_is_reported_at_once_and_asked_for_again_after_a_while(scene: Scene) -> None:
    scene.refuse([Code.TOPIC_AUTHORIZATION_FAILED])
    scene.copied(0, 1)
    scene.wait(1)
    (event,) = scene.events
    assert f"WRITE on topic {scene.topic}" in event
    scene.wait(8)
    assert scene.written() == []
    scene.wait(5)
    assert scene.written() == [0]


def test_a_cluster_that_is_silent_holds_up_no_release(scene: Scene) -> None:
    scene.cluster.fault(PRODUCE, Fault(delay_s=20.0))
    scene.copied(0, 1)
    began = scene.loop.clock.monotonic()
    scene.loop.run(scene.writer.flush, [PART])
    assert scene.loop.clock.monotonic() - began < FLUSH_S + 1


def test_what_fails_after_a_release_is_left_to_the_next_copier(scene: Scene) -> None:
    """An older sync behind a newer one would have readers forget what they know."""
    scene.refuse([NOT_ENOUGH_REPLICAS])
    scene.copied(0, 1)
    scene.copied(0, 1, OTHER)
    scene.loop.run(scene.writer.flush, [PART])
    scene.wait(10)
    assert scene.written() == []
    assert scene.written(OTHER) == [0]
