"""Reading a cluster takes requests by the hundreds of topics, not one for each; in virtual time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.virtual.cluster import VirtualCluster
from harness.virtual.loop import VirtualLoop, virtual_loop
from harness.virtual.requests import DESCRIBE_CONFIGS, LIST_OFFSETS, METADATA
from twinlog.errors import ClusterError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.protocol.error_codes import Code
from twinlog.model.acls import AclOperation
from twinlog.model.topics import DescribedTopic, Topic
from twinlog.model.types import TopicName, TopicPartition
from twinlog.ops.inventory import CHUNK, Content, Inventory, LogOffsets, logs_of, read_inventory
from twinlog.settings.flow import ClientSettings


def test_many_topics_take_few_requests() -> None:
    count = CHUNK + 100
    with virtual_loop(1) as loop:
        cluster = VirtualCluster(loop, "east", brokers=2)
        for number in range(count):
            cluster.create(f"t{number}", 2)
        admin = ClusterAdmin("east", ClientSettings(cluster.bootstrap), VirtualLoop(loop.world))
        try:
            admin.connect()
            cluster.asked.clear()
            steps: list[tuple[str, int, int]] = []
            found = read_inventory(
                admin,
                Content.CONFIGS | Content.LOGS,
                wanted=lambda name: name != "t0",
                progress=lambda *step: steps.append(step),
            )
        finally:
            admin.close()
    assert (len(found.topics), len(found.configs), len(found.logs)) == (count, count - 1, 2 * (count - 1))
    assert set(found.logs.values()) == {LogOffsets(0, 0)}
    assert found.brokers == (1, 2)
    # A hundred topics for each request about settings; two requests for each broker and portion about offsets.
    assert cluster.asked[DESCRIBE_CONFIGS] == 6
    assert cluster.asked[LIST_OFFSETS] == 2 * 2 * 2
    assert cluster.asked[METADATA] <= 8
    assert steps == [
        ("topics", 0, 1),
        ("topics", count, count),
        ("settings", CHUNK, count - 1),
        ("settings", count - 1, count - 1),
        ("log ends", CHUNK, count - 1),
        ("log ends", count - 1, count - 1),
    ]


def test_what_a_cluster_does_not_say_is_neither_allowed_nor_denied() -> None:
    name = TopicName("t")
    described = DescribedTopic(Topic(name, 1), 1, operations=frozenset({int(AclOperation.READ)}))
    found = Inventory("east", None, (1,), topics={name: described})
    assert found.may(AclOperation.READ, name) is True
    assert found.may(AclOperation.WRITE, name) is False
    assert found.may(AclOperation.READ, TopicName("other")) is None
    assert found.may(AclOperation.DESCRIBE) is None


PARTS = [TopicPartition(TopicName("t"), number) for number in range(2)]


@pytest.fixture
def moving() -> Iterator[tuple[VirtualCluster, ClusterAdmin]]:
    """A cluster that refuses the first two requests for offsets, as the leader of one of `PARTS` has just moved."""
    with virtual_loop(1) as loop:
        cluster = VirtualCluster(loop, "east")
        cluster.create("t", len(PARTS))
        admin = ClusterAdmin("east", ClientSettings(cluster.bootstrap), VirtualLoop(loop.world))
        try:
            admin.connect()
            cluster.codes(LIST_OFFSETS, "t", Code.NOT_LEADER_OR_FOLLOWER, Code.FENCED_LEADER_EPOCH)
            yield cluster, admin
        finally:
            admin.close()


def test_a_partition_whose_leader_just_moves_is_asked_for_again(moving: tuple[VirtualCluster, ClusterAdmin]) -> None:
    cluster, admin = moving
    assert logs_of(admin, PARTS) == dict.fromkeys(PARTS, LogOffsets(0, 0))
    assert cluster.faults_left == 0
    cluster.move("t", 1, None)
    cluster.asked.clear()
    assert logs_of(admin, PARTS) == {PARTS[0]: LogOffsets(0, 0)}
    assert cluster.asked[LIST_OFFSETS] == 2, "nobody waits for a partition without a leader"


def test_a_partition_whose_leader_just_moves_has_records_of_a_time_nevertheless(
    moving: tuple[VirtualCluster, ClusterAdmin],
) -> None:
    cluster, admin = moving
    assert admin.first_since(PARTS, 5) == dict.fromkeys(PARTS, -1)
    assert cluster.faults_left == 0
    cluster.move("t", 1, None)
    with pytest.raises(ClusterError, match="t-1 has no leader"):
        admin.first_since(PARTS, 5)
