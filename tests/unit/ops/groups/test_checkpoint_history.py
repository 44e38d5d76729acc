"""The checkpoints that compaction has left, group by group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from harness.virtual.cluster import VirtualCluster
from harness.virtual.faults import Fault
from harness.virtual.loop import VirtualLoop, virtual_loop
from harness.virtual.requests import FETCH
from tests.unit.worker.test_driver_report import SETTINGS
from twinlog.errors import ClusterError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.builder import own_batch, record_body
from twinlog.mirror.records import Checkpoint
from twinlog.model.types import GroupId, SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.ops.groups import checkpoint_history
from twinlog.ops.groups.checkpoint_history import MOST_CHECKPOINTS, CheckpointHistoryReader, GroupSyncEvent
from twinlog.settings.client import ClientSettings

TOPIC = "a.checkpoints.internal"
SHOP, TILL = GroupId("shop"), GroupId("till")
ORDERS = TopicPartition(TopicName("a.orders"), 1)


@pytest.fixture
def target() -> Iterator[tuple[VirtualCluster, CheckpointHistoryReader]]:
    with virtual_loop(1) as loop:
        cluster = VirtualCluster(loop, "b")

        def connect(alias: str, client: ClientSettings) -> ClusterAdmin:
            return ClusterAdmin(alias, client, VirtualLoop(loop.world))

        admin = replace(SETTINGS.target_admin, client=ClientSettings(cluster.bootstrap))
        with CheckpointHistoryReader(replace(SETTINGS, target_admin=admin), connect=connect) as reader:
            yield cluster, reader


def write(cluster: VirtualCluster, group: GroupId, offset: int, at_ms: int, *, deleted: bool = False) -> None:
    one = Checkpoint(group, ORDERS.topic, ORDERS.partition, SourceOffset(offset), TargetOffset(2 * offset))
    body = record_body(one.key, None if deleted else one.value)
    cluster.log(TOPIC).append(bytes(own_batch([(at_ms, body)])))


def test_each_checkpoint_of_a_group_is_kept_with_its_time(
    target: tuple[VirtualCluster, CheckpointHistoryReader],
) -> None:
    cluster, reader = target
    assert reader.read() == {}
    cluster.create(TOPIC)
    for number in range(3):
        write(cluster, SHOP, number, 1000 * number)
        write(cluster, TILL, number, 1000 * number)
    cluster.write(TOPIC, b"another record")
    write(cluster, TILL, 9, 9000, deleted=True)
    found = reader.read()
    assert found.keys() == {SHOP, TILL}
    assert found[TILL] == tuple(GroupSyncEvent(1000 * number, ORDERS, number, 2 * number) for number in range(3))
    write(cluster, SHOP, 7, 7000)
    later = reader.read()
    assert [one.source for one in later[SHOP]] == [0, 1, 2, 7]
    assert later[TILL] == found[TILL]
    assert [one.source for one in found[SHOP]] == [0, 1, 2], "a reading stays as it was"


def test_the_kept_checkpoints_of_a_group_are_bounded(target: tuple[VirtualCluster, CheckpointHistoryReader]) -> None:
    cluster, reader = target
    cluster.create(TOPIC)
    for number in range(MOST_CHECKPOINTS + 20):
        write(cluster, SHOP, number, number)
    assert [one.source for one in reader.read()[SHOP]] == list(range(20, MOST_CHECKPOINTS + 20))
    write(cluster, SHOP, 500, 500)
    last = reader.read()[SHOP]
    assert (len(last), last[0].source, last[-1].source) == (MOST_CHECKPOINTS, 21, 500)


def test_groups_without_new_checkpoints_are_forgotten(
    target: tuple[VirtualCluster, CheckpointHistoryReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_history, "MOST_GROUPS", 3)
    cluster, reader = target
    cluster.create(TOPIC)
    for number in range(3):
        write(cluster, GroupId(f"g{number}"), 1, number)
    assert list(reader.read()) == ["g0", "g1", "g2"]
    write(cluster, GroupId("g0"), 2, 10)
    write(cluster, GroupId("g3"), 1, 11)
    found = reader.read()
    assert list(found) == ["g2", "g0", "g3"]
    assert [one.source for one in found[GroupId("g0")]] == [1, 2]


def test_records_before_an_error_are_kept_once(target: tuple[VirtualCluster, CheckpointHistoryReader]) -> None:
    cluster, reader = target
    cluster.create(TOPIC)
    write(cluster, SHOP, 1, 1)
    assert len(reader.read()[SHOP]) == 1
    write(cluster, SHOP, 2, 2)
    cluster.fault(FETCH, Fault(Code.NOT_LEADER_OR_FOLLOWER), times=100_000)
    with pytest.raises(ClusterError):
        reader.read()
    cluster.faults.clear()
    assert [one.source for one in reader.read()[SHOP]] == [1, 2]
