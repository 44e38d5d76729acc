"""Reading a cluster takes requests by the hundreds of topics, not one for each; in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from harness.virtual.cluster import VirtualCluster
from harness.virtual.loop import VirtualLoop, virtual_loop
from harness.virtual.requests import DESCRIBE_CONFIGS, LIST_OFFSETS, METADATA
from tests.connected_admins import connected_admin
from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.builder import encode_batch, record_body
from twinlog.kafka.record.compression import CODECS
from twinlog.kafka.record.stamp import stamp
from twinlog.model.acls import (
    ANYWHERE,
    EVERYBODY,
    Acl,
    AclOperation,
    AclPermissionType,
    ResourceType,
    TopicAcl,
    acls_data,
)
from twinlog.model.compact_json import ascii_json
from twinlog.model.topic_names import control_topic
from twinlog.model.topics import DescribedTopic, Topic
from twinlog.model.types import Alias, TopicName, TopicPartition
from twinlog.ops import inventory
from twinlog.ops.inventory import CHUNK, Content, Inventory, LogOffsets, logs_of, read_inventory
from twinlog.ops.switchover.journal import TOPIC, fence_record
from twinlog.ops.switchover.model import SwitchoverDirection
from twinlog.settings.client import ClientSettings


def test_many_topics_take_few_requests() -> None:
    count = CHUNK + 100
    with virtual_loop(1) as loop:
        cluster = VirtualCluster(loop, "east", brokers=2)
        for number in range(count):
            cluster.create(f"t{number}", 2)
        with connected_admin("east", ClientSettings(cluster.bootstrap), loop=VirtualLoop(loop.world)) as admin:
            cluster.asked.clear()
            steps: list[tuple[str, int, int]] = []
            found = read_inventory(
                admin,
                Content.CONFIGS | Content.LOGS,
                wanted=lambda name: name != "t0",
                progress=lambda *step: steps.append(step),
            )
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
        with connected_admin("east", ClientSettings(cluster.bootstrap), loop=VirtualLoop(loop.world)) as admin:
            cluster.codes(LIST_OFFSETS, "t", Code.NOT_LEADER_OR_FOLLOWER, Code.FENCED_LEADER_EPOCH)
            yield cluster, admin


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


DENY = Acl(ResourceType.TOPIC, "t", EVERYBODY, ANYWHERE, AclOperation.WRITE, AclPermissionType.DENY)


def append(cluster: VirtualCluster, topic: str, key: bytes, value: bytes | None) -> None:
    cluster.create(topic)
    batch = encode_batch([(1, record_body(key, value, ()))], CODECS["none"])
    stamp(batch, -1, -1, -1)
    cluster.log(topic).append(bytes(batch))


@pytest.mark.parametrize("noted", ["switchover", "flow", None])
def test_acls_of_fences_are_passing(monkeypatch: pytest.MonkeyPatch, noted: str | None) -> None:
    """A switchover notes its fence in its journal, a flow in its control topic; another denial lasts."""
    read = replace(DENY, operation=AclOperation.READ)

    async def describe(_: object) -> list[Acl]:
        return [DENY, read]

    monkeypatch.setattr(inventory, "describe_acls", describe)
    fence = acls_data([DENY.of_topic])
    with virtual_loop(1) as loop:
        cluster = VirtualCluster(loop, "east")
        if noted == "switchover":
            append(cluster, TOPIC, *fence_record(SwitchoverDirection("west", "east"), {"add": fence, "remove": fence}))
        elif noted == "flow":
            append(
                cluster,
                control_topic(Alias("west")),
                ascii_json(["fence", "west->east", "t"]),
                ascii_json({"acls": fence}),
            )
        with connected_admin("east", ClientSettings(cluster.bootstrap), loop=VirtualLoop(loop.world)) as admin:
            found = read_inventory(admin, Content.ACLS)
    assert found.acls == [DENY, read]
    assert found.lasting_acls == ([read] if noted else [DENY, read])
    assert found.unread == ()


def test_a_hidden_note_of_a_fence_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async def describe(_: object) -> list[Acl]:
        return [DENY]

    def hide(_: object) -> set[TopicAcl]:
        raise RefusedError("User:x lacks READ on the journal")

    monkeypatch.setattr(inventory, "describe_acls", describe)
    monkeypatch.setattr(inventory, "fences_on", hide)
    with virtual_loop(1) as loop:
        cluster = VirtualCluster(loop, "east")
        with connected_admin("east", ClientSettings(cluster.bootstrap), loop=VirtualLoop(loop.world)) as admin:
            found = read_inventory(admin, Content.ACLS)
    assert found.lasting_acls == [DENY]
    assert found.unread_of(Content.ACLS) == (
        "TW-RIGHT-02: User:x lacks READ on the journal; a fence counts as a lasting ACL",
    )
    assert found.unread_of(Content.CONFIGS) == ()
