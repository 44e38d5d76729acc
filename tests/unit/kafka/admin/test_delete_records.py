"""The first records of a partition are deleted up to an offset, and refusals have their reasons."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.virtual.cluster import VirtualCluster
from harness.virtual.log import VirtualLog
from harness.virtual.loop import VirtualLoop, virtual_loop
from harness.virtual.requests import DELETE_RECORDS
from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.topics import delete_records
from twinlog.kafka.protocol.error_codes import Code
from twinlog.model.types import TargetOffset, TopicName, TopicPartition
from twinlog.settings.client import ClientSettings

SHOP = TopicName("shop")


class Scene:
    def __init__(self, loop: VirtualLoop) -> None:
        self.cluster = VirtualCluster(loop, "east")
        self.admin = ClusterAdmin("east", ClientSettings(self.cluster.bootstrap), VirtualLoop(loop.world))
        self.admin.connect()

    def log(self, **config: str) -> VirtualLog:
        (log,) = self.cluster.create(SHOP, **config)
        log.write(b"a", b"b")
        log.write(b"c")
        self.admin.call(self.admin.client.refresh, [SHOP])
        return log

    def delete(self, before: int) -> Code:
        return self.admin.call(delete_records, self.admin.client, TopicPartition(SHOP, 0), TargetOffset(before))


@pytest.fixture
def scene() -> Iterator[Scene]:
    with virtual_loop(1) as loop:
        scene = Scene(loop)
        try:
            yield scene
        finally:
            scene.admin.close()


def test_the_log_begins_at_the_offset(scene: Scene) -> None:
    log = scene.log()
    assert scene.delete(2) == Code.NONE
    assert (log.start, log.end, log.values()) == (2, 3, [b"c"])


def test_a_log_that_begins_later_stays_as_it_is(scene: Scene) -> None:
    log = scene.log()
    scene.delete(3)
    assert scene.delete(1) == Code.NONE
    assert (log.start, log.end) == (3, 3)


def test_a_compacted_topic_refuses(scene: Scene) -> None:
    log = scene.log(**{"cleanup.policy": "compact"})
    assert scene.delete(2) == Code.POLICY_VIOLATION
    assert log.start == 0


def test_a_missing_right_is_named(scene: Scene) -> None:
    scene.log()
    scene.cluster.codes(DELETE_RECORDS, SHOP, Code.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(RefusedError, match="lacks DELETE on topic shop") as caught:
        scene.delete(2)
    assert caught.value.resource == "topic shop"


def test_an_offset_beyond_the_end_may_be_there_later(scene: Scene) -> None:
    scene.log()
    with pytest.raises(ClusterError, match="records of shop-0 are still to be deleted"):
        scene.delete(4)


def test_a_partition_without_a_leader_is_asked_later(scene: Scene) -> None:
    scene.log()
    scene.cluster.move(SHOP, 0, None)
    scene.admin.call(scene.admin.client.refresh, [SHOP])
    with pytest.raises(ClusterError, match="shop-0 lacks a leader"):
        scene.delete(1)
