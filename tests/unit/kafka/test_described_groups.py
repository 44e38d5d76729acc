"""A group whose coordinator has no leader for a while is not taken for one that does not exist; in virtual time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.virtual.cluster import VirtualCluster
from harness.virtual.faults import Fault
from harness.virtual.loop import VirtualLoop, virtual_loop
from harness.virtual.requests import FIND_COORDINATOR
from twinlog.errors import ClusterError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.groups import GroupAdmin
from twinlog.kafka.protocol.error_codes import Code
from twinlog.model.groups import GROUPS_TOPIC
from twinlog.model.types import GroupId
from twinlog.settings.flow import ClientSettings

SHOP = GroupId("shop")
NO_LEADER = Fault(code=Code.COORDINATOR_NOT_AVAILABLE)


class Scene:
    def __init__(self, loop: VirtualLoop) -> None:
        self.cluster = VirtualCluster(loop, "east")
        self.admin = ClusterAdmin("east", ClientSettings(self.cluster.bootstrap), VirtualLoop(loop.world))
        self.admin.connect()

    def state(self) -> str:
        return self.admin.call(GroupAdmin(self.admin.client).described, SHOP).state

    def unlisted(self) -> int:
        return self.admin.call(GroupAdmin(self.admin.client).unlisted)


@pytest.fixture
def scene() -> Iterator[Scene]:
    with virtual_loop(1) as loop:
        scene = Scene(loop)
        try:
            yield scene
        finally:
            scene.admin.close()


def test_it_is_asked_for_until_it_has_one(scene: Scene) -> None:
    scene.cluster.create(GROUPS_TOPIC, 3)
    scene.cluster.fault(FIND_COORDINATOR, NO_LEADER, times=5)
    scene.state()
    assert scene.cluster.faults_left == 0


def test_one_that_stays_without_is_no_group_without_members(scene: Scene) -> None:
    scene.cluster.create(GROUPS_TOPIC, 3)
    scene.cluster.fault(FIND_COORDINATOR, NO_LEADER, times=1000)
    with pytest.raises(ClusterError, match=r"group shop: .*\(error code 15\)"):
        scene.state()


def test_a_cluster_that_never_had_a_group_has_none(scene: Scene) -> None:
    scene.cluster.fault(FIND_COORDINATOR, NO_LEADER, times=1000)
    assert scene.state() == "Dead"
    assert scene.unlisted() == 0


def test_groups_in_a_partition_without_a_leader_are_not_listed(scene: Scene) -> None:
    scene.cluster.create(GROUPS_TOPIC, 3)
    assert scene.unlisted() == 0
    scene.cluster.move(GROUPS_TOPIC, 1, None)
    assert scene.unlisted() == 1
