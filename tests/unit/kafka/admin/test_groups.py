"""A group whose coordinator has no leader for a while exists, and its members tell which topics they read."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from harness.virtual.cluster import VirtualCluster
from harness.virtual.faults import Fault
from harness.virtual.loop import VirtualLoop, virtual_loop
from harness.virtual.requests import FIND_COORDINATOR
from twinlog.errors import ClusterError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.groups import GroupAdmin, topics_read
from twinlog.kafka.protocol.error_codes import Code
from twinlog.model.groups import GROUPS_TOPIC, GroupMember, GroupMembers
from twinlog.model.types import GroupId, TopicName
from twinlog.settings.client import ClientSettings

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


def subscription(*topics: str, version: int = 1) -> bytes:
    """With user data and owned partitions after the topics, as later versions have them."""
    names = b"".join(struct.pack(">h", len(name.encode())) + name.encode() for name in topics)
    return struct.pack(">hi", version, len(topics)) + names + struct.pack(">ii", -1, 0)


def group(*metadata: bytes, protocol: str = "consumer") -> GroupMembers:
    members = tuple(GroupMember(str(at), "c", "h", one, b"") for at, one in enumerate(metadata))
    return GroupMembers(protocol, "Stable", members)


def test_a_group_reads_what_any_of_its_members_subscribes_to() -> None:
    assert topics_read(group(subscription("a", "b"), subscription("b", "ü", version=3))) == frozenset(
        map(TopicName, ("a", "b", "ü"))
    )


@pytest.mark.parametrize(
    "seen",
    [
        group(),
        group(b""),
        group(subscription("a"), b"\0\1\0\0\0\2\0\1a"),
        group(b"\0\1\0\0\0\1\0\5a"),
        group(subscription()),
        group(subscription("a"), protocol="connect"),
    ],
)
def test_what_is_not_known_of_each_member_is_not_known(seen: GroupMembers) -> None:
    assert topics_read(seen) is None


def test_a_group_whose_coordinator_is_hidden_from_the_login_gives_no_right(scene: Scene) -> None:
    scene.cluster.create(GROUPS_TOPIC, 3)
    scene.cluster.fault(FIND_COORDINATOR, Fault(code=Code.GROUP_AUTHORIZATION_FAILED), times=1)
    found = scene.admin.call(GroupAdmin(scene.admin.client).operations, [SHOP])
    assert found == {SHOP: frozenset()}
