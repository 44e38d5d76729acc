"""Groups of a real cluster, many at a time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place

from harness.cluster import KafkaCluster
from harness.groups import Committed, commit_offsets, group_offsets
from harness.produce import numbered, produce
from harness.topics import create_topic
from harness.wait import wait_for
from tests.connected_admins import connected_admin
from tests.integration.consuming import PROTOCOLS, Member, Protocol
from twinlog.errors import ClusterError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.groups import GroupAdmin
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.protocol.error_codes import Code
from twinlog.model.groups import CommittedOffset, GroupListing, GroupOffsets
from twinlog.model.types import GroupId, TopicName, TopicPartition
from twinlog.settings.client import ClientSettings

log = logging.getLogger(__name__)

GROUPS = 1000
UNKNOWN_TOPIC, UNKNOWN_MEMBER = 3, 25


@pytest.fixture
def admin(source_cluster: KafkaCluster) -> Iterator[ClusterAdmin]:
    with connected_admin("east", ClientSettings((source_cluster.bootstrap,))) as admin:
        yield admin


@pytest.fixture
def topic(source_cluster: KafkaCluster, new_name: Callable[[str], str]) -> str:
    return create_topic(source_cluster, new_name("groups"), 3)


def some_offsets(topic: str, *offsets: int) -> GroupOffsets:
    """As librdkafka commits them, with a NUL after the metadata: without one it reads beyond their end."""
    return {
        TopicPartition(TopicName(topic), part): CommittedOffset(offset, "größe\0")
        for part, offset in enumerate(offsets)
    }


def commit_soon(admin: ClusterAdmin, groups: GroupAdmin, offsets: dict[GroupId, GroupOffsets]) -> None:
    """Commit; the first group of a cluster has no coordinator at once."""
    wait_for(lambda: not admin.call(groups.commit, offsets), 60, "the offsets are committed")


@pytest.mark.parametrize("several", [True, False], ids=["many groups a request", "one group a request"])
def test_what_is_committed_is_read_by_others_and_read_back(
    source_cluster: KafkaCluster, admin: ClusterAdmin, topic: str, several: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not several:
        # As brokers before Kafka 3.0.
        monkeypatch.setattr(ClusterClient, "supports", lambda *_: False)
    groups = GroupAdmin(admin.client)
    names = [GroupId(f"{topic}-{number}") for number in range(3)]
    offsets = {name: some_offsets(topic, 5, 0, 7 + number) for number, name in enumerate(names)}
    commit_soon(admin, groups, offsets)
    assert group_offsets(source_cluster, names) == {
        name: {(where.topic, where.partition): Committed(what.offset, "größe") for where, what in offsets[name].items()}
        for name in names
    }
    nobody = GroupId(f"{topic}-nobody")
    assert admin.call(groups.offsets, [*names, nobody]) == ({**offsets, nobody: {}}, {})


def test_groups_that_committed_nothing_new_keep_their_values(admin: ClusterAdmin, topic: str) -> None:
    groups = GroupAdmin(admin.client)
    name = GroupId(topic)
    commit_soon(admin, groups, {name: some_offsets(topic, 1)})
    first, _ = admin.call(groups.offsets, [name])
    again, _ = admin.call(groups.offsets, [name])
    assert again[name] is first[name]
    commit_soon(admin, groups, {name: some_offsets(topic, 2)})
    assert admin.call(groups.offsets, [name])[0][name] == some_offsets(topic, 2)


def test_offsets_in_a_transaction_that_has_not_ended_are_told_from_none(
    source_cluster: KafkaCluster, admin: ClusterAdmin, topic: str
) -> None:
    groups, name = GroupAdmin(admin.client), GroupId(topic)
    commit_soon(admin, groups, {name: some_offsets(topic, 1)})
    assert admin.call(groups.stable_offsets, [name])[0][name] == some_offsets(topic, 1)
    producer = Producer({**source_cluster.client_config(), "transactional.id": topic})
    producer.init_transactions(60)
    producer.begin_transaction()
    consumer = Consumer({**source_cluster.client_config(), "group.id": name})
    producer.send_offsets_to_transaction([Place(topic, 0, 9)], consumer.consumer_group_metadata(), 60)
    consumer.close()
    assert admin.call(groups.stable_offsets, [name]) == ({}, {name: Code.UNSTABLE_OFFSET_COMMIT})
    assert admin.call(groups.offsets, [name])[0][name] == some_offsets(topic, 1)
    producer.commit_transaction(60)
    wait_for(lambda: not admin.call(groups.stable_offsets, [name])[1], 60, "the markers are written")
    where = TopicPartition(TopicName(topic), 0)
    assert admin.call(groups.stable_offsets, [name])[0][name][where].offset == 9


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_states_of_groups_and_who_may_not_be_committed_for(
    source_cluster: KafkaCluster, admin: ClusterAdmin, topic: str, protocol: Protocol
) -> None:
    groups = GroupAdmin(admin.client)
    name = GroupId(topic)
    produce(source_cluster, topic, numbered(3))
    with Member(source_cluster, name, [topic], protocol) as member:
        member.read(3)
        member.commit()
        there = admin.call(groups.listed)[name]
        assert there == GroupListing(name, "consumer", "Stable", there.kind)
        assert there.kind.lower() == protocol
        assert there.commits
        assert not there.empty
        parts = set(some_offsets(topic, 2))
        assert admin.call(groups.commit, {name: some_offsets(topic, 2)}) == {name: dict.fromkeys(parts, UNKNOWN_MEMBER)}
    wait_for(lambda: admin.call(groups.listed)[name].empty, 60, "the member has left")
    assert admin.call(groups.commit, {name: some_offsets(topic, 2)}) == {}
    assert admin.call(groups.offsets, [name])[0][name][TopicPartition(TopicName(topic), 0)].offset == 2


def test_each_partition_has_its_own_result(admin: ClusterAdmin, topic: str) -> None:
    groups = GroupAdmin(admin.client)
    name = GroupId(topic)
    commit_soon(admin, groups, {name: some_offsets(topic, 1)})
    elsewhere = some_offsets(f"{topic}-not-there", 4)
    refused = admin.call(groups.commit, {name: {**some_offsets(topic, 2), **elsewhere}})
    assert refused == {name: dict.fromkeys(elsewhere, UNKNOWN_TOPIC)}
    assert admin.call(groups.offsets, [name])[0][name] == some_offsets(topic, 2)


def test_who_may_not_be_the_leader_any_more_commits_nothing(
    source_cluster: KafkaCluster, admin: ClusterAdmin, topic: str
) -> None:
    groups = GroupAdmin(admin.client)
    name = GroupId(topic)
    commit_soon(admin, groups, {name: some_offsets(topic, 1)})
    leading = True
    admin.client.append_only_while(lambda: leading)
    assert admin.call(groups.commit, {name: some_offsets(topic, 2)}) == {}
    leading = False
    with pytest.raises(ClusterError, match="another process may run the flow"):
        admin.call(groups.commit, {name: some_offsets(topic, 3)})
    # It may still look.
    assert admin.call(groups.offsets, [name])[0][name] == some_offsets(topic, 2)


def test_a_commit_that_waits_for_its_connection_is_not_sent_any_more(
    source_cluster: KafkaCluster, admin: ClusterAdmin, topic: str
) -> None:
    groups = GroupAdmin(admin.client)
    name = GroupId(topic)
    commit_offsets(source_cluster, {topic: {(topic, 0): 1}})
    assert admin.call(groups.offsets, [name])[0][name][TopicPartition(TopicName(topic), 0)].offset == 1
    leading = iter([True])
    # Once when it is asked for, and not any more when there is a connection for it.
    admin.client.append_only_while(lambda: next(leading, False))
    with pytest.raises(ClusterError):
        admin.call(groups.commit, {name: some_offsets(topic, 3)})
    assert admin.call(groups.offsets, [name])[0][name][TopicPartition(TopicName(topic), 0)].offset == 1


def test_a_thousand_groups_take_seconds(
    source_cluster: KafkaCluster, admin: ClusterAdmin, topic: str, new_name: Callable[[str], str]
) -> None:
    groups = GroupAdmin(admin.client)
    commit_offsets(source_cluster, {topic: {(topic, 0): 1}})
    names = [GroupId(f"{topic}-{number}") for number in range(GROUPS)]
    offsets = {name: some_offsets(topic, 1, 2, number) for number, name in enumerate(names)}
    begun = time.monotonic()
    assert admin.call(groups.commit, offsets) == {}
    committed = time.monotonic()
    assert admin.call(groups.offsets, names) == (offsets, {})
    read = time.monotonic()
    assert set(names) <= set(admin.call(groups.listed))
    assert committed - begun < 100
    assert read - committed < 30
    log.info("%d groups: committed in %.2f s, read in %.2f s", GROUPS, committed - begun, read - committed)
