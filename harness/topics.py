"""Topics of a test cluster, made and read with a client that is not twinlog's own."""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from kafka import KafkaAdminClient
from kafka import TopicPartition as KafkaTopicPartition

from harness.cluster import KafkaCluster
from harness.wait import wait_for

DEADLINE_S = 30.0
PAUSE_S = 0.02

_BEGINS_TO_LEAD = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    }
)


def create_topic(
    cluster: KafkaCluster,
    name: str,
    partitions: int = 1,
    *,
    replication_factor: int | None = None,
    config: Mapping[str, str] | None = None,
) -> str:
    """Create a topic, wait until every partition has a leader, return its name."""
    copies = replication_factor or min(len(cluster.brokers), 3)
    admin = cluster.clients.admin()
    topic = NewTopic(name, partitions, copies, config=dict(config or {}))
    admin.create_topics([topic], operation_timeout=DEADLINE_S)[name].result(DEADLINE_S)

    def led() -> bool:
        found = admin.list_topics(name, timeout=DEADLINE_S).topics[name].partitions
        return len(found) == partitions and all(one.leader >= 0 for one in found.values())

    wait_for(led, DEADLINE_S, f"all {partitions} partition(s) of {name} have leaders")
    return name


def delete_topic(cluster: KafkaCluster, name: str) -> None:
    """Delete a topic and wait until metadata no longer lists it."""
    admin = cluster.clients.admin()
    admin.delete_topics([name], operation_timeout=DEADLINE_S)[name].result(DEADLINE_S)
    wait_for(lambda: name not in topics(cluster), DEADLINE_S, f"{name} is gone")


def delete_topics_of_users(cluster: KafkaCluster) -> None:
    """Delete every topic but Kafka's own, so that the next user of the cluster finds no positions of an earlier one."""
    for topic in topics(cluster):
        if not topic.startswith("__"):
            delete_topic(cluster, topic)


def add_partitions(cluster: KafkaCluster, topic: str, count: int) -> None:
    """Raise a topic's partition count and wait until metadata shows it."""
    admin = cluster.clients.admin()
    admin.create_partitions([NewPartitions(topic, count)])[topic].result(DEADLINE_S)
    wait_for(lambda: topics(cluster)[topic] == count, DEADLINE_S, f"{topic} has {count} partitions")


def topics(cluster: KafkaCluster) -> dict[str, int]:
    """Partition count of every topic, internal ones included."""
    admin = cluster.clients.admin()
    listed = admin.list_topics(timeout=DEADLINE_S).topics
    return {name: len(topic.partitions) for name, topic in listed.items()}


def topic_config(cluster: KafkaCluster, name: str) -> dict[str, str]:
    """Settings that were set on the topic itself, without defaults."""
    resource = ConfigResource(ResourceType.TOPIC, name)
    admin = cluster.clients.admin()
    entries = admin.describe_configs([resource])[resource].result(DEADLINE_S)
    return {
        key: str(entry.value)
        for key, entry in entries.items()
        if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    }


def set_topic_config(cluster: KafkaCluster, name: str, config: Mapping[str, str]) -> None:
    """Set some settings of a topic, leave its others alone; wait until a broker has heard of it from its controller."""
    entries = [ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in config.items()]
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
    admin = cluster.clients.admin()
    admin.incremental_alter_configs([resource])[resource].result(DEADLINE_S)
    wait_for(lambda: config.items() <= topic_config(cluster, name).items(), DEADLINE_S, f"{name} has {dict(config)}")


def offsets(cluster: KafkaCluster, topic: str, partition: int = 0) -> tuple[int, int]:
    """Log start offset and high watermark (the offset the next record will get).

    Waits for a broker that was made the leader of the partition, and does not do so yet. Raises KafkaException.
    """
    end = time.monotonic() + DEADLINE_S
    while True:
        try:
            return cluster.clients.watermarks(TopicPartition(topic, partition), DEADLINE_S)
        except KafkaException as error:
            if error.args[0].code() not in _BEGINS_TO_LEAD or time.monotonic() > end:
                raise
        time.sleep(PAUSE_S)


def delete_records(cluster: KafkaCluster, topic: str, before: int, partition: int = 0) -> None:
    """Move the log start offset to `before`, as retention would."""
    where = TopicPartition(topic, partition, before)
    admin = cluster.clients.admin()
    admin.delete_records([where])[where].result(DEADLINE_S)


def move_replicas(cluster: KafkaCluster, topic: str, partition: int, nodes: list[int]) -> None:
    """Reassign a partition to these nodes and wait until the first of them leads."""
    # confluent_kafka cannot reassign.
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    watching = cluster.clients.admin()

    def moved() -> bool:
        # A broker that has not heard of a new topic yet knows no partition of it.
        found = watching.list_topics(topic, timeout=DEADLINE_S).topics[topic].partitions.get(partition)
        if found is None or sorted(found.replicas) != sorted(nodes) or sorted(found.isrs) != sorted(nodes):
            return False
        if found.leader != nodes[0]:
            admin.elect_leaders(0, {topic: [partition]}, raise_errors=False)
        return bool(found.leader == nodes[0])

    try:
        admin.alter_partition_reassignments({KafkaTopicPartition(topic, partition): nodes})
        wait_for(moved, DEADLINE_S, f"{topic}-{partition} is led by node {nodes[0]}", every_s=0.2)
    finally:
        admin.close()
