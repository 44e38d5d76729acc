"""What a mirror leaves on a cluster: topics, settings, ACLs, its own records decoded, and group offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from confluent_kafka.admin import ConfigResource, ConfigSource, ResourceType

from harness.acls import Acl, acls
from harness.checks.differences import Facts
from harness.checks.internal_records import (
    CheckpointRecord,
    HeartbeatRecord,
    OffsetSyncRecord,
    PositionRecord,
    decode_checkpoint,
    decode_heartbeat,
    decode_offset_sync,
    decode_position,
)
from harness.cluster import KafkaCluster
from harness.consume import Record, consume_topics
from harness.groups import Offsets, group_offsets
from harness.topics import DEADLINE_S, offsets, topic_config, topics

T = TypeVar("T")


def cluster_content(cluster: KafkaCluster) -> dict[str, Any]:
    """Topics, settings, log ends, ACLs and group offsets of a cluster, to compare before and after a command."""
    there = topics(cluster)
    return {
        "topics": there,
        "configs": {name: topic_config(cluster, name) for name in there},
        "ends": {(name, part): offsets(cluster, name, part) for name in there for part in range(there[name])},
        "acls": acls(cluster),
        "groups": group_offsets(cluster),
    }


@dataclass(frozen=True, slots=True)
class TopicLeft:
    """A topic as it stands; `config` without defaults."""

    partitions: int
    replicas: int
    config: dict[str, str]


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Everything but the records of remote topics. Keyed by topic; records of each in the order of the log."""

    topics: dict[str, TopicLeft]
    acls: set[Acl]
    groups: dict[str, Offsets]
    heartbeats: dict[str, list[HeartbeatRecord]] = field(default_factory=dict)
    checkpoints: dict[str, list[CheckpointRecord]] = field(default_factory=dict)
    offset_syncs: dict[str, list[OffsetSyncRecord]] = field(default_factory=dict)
    positions: dict[str, list[PositionRecord]] = field(default_factory=dict)

    def facts(self) -> Facts:
        """One fact for everything that a second mirror should leave just so; times and orders are none.

        Of records under the same key only the last is a fact.
        """
        return dict(self._facts())

    def _facts(self) -> Iterator[tuple[str, str]]:
        for name, topic in self.topics.items():
            yield f"topic {name}: partitions", str(topic.partitions)
            yield f"topic {name}: replicas", str(topic.replicas)
            for key, value in topic.config.items():
                yield f"topic {name}: {key}", value
        for acl in self.acls:
            yield f"acl {acl}", "there"
        for group, committed in self.groups.items():
            for (name, partition), place in committed.items():
                yield f"group {group}: {name}-{partition}", f"{place.offset} {place.metadata!r}"
        for name, beats in self.heartbeats.items():
            for beat in beats:
                stamp = "the record's" if beat.timestamp_ms == beat.stamped_ms else "another than the record's"
                yield f"heartbeat in {name}: {beat.source}->{beat.target}", f"version {beat.version}, {stamp} timestamp"
        for name, checkpoints in self.checkpoints.items():
            for one in checkpoints:
                yield (
                    f"checkpoint in {name}: {one.group} {one.topic}-{one.partition}",
                    f"version {one.version}, {one.upstream} -> {one.downstream} {one.metadata!r}",
                )
        for name, syncs in self.offset_syncs.items():
            for sync in syncs:
                yield f"offset sync in {name}: {sync.topic}-{sync.partition}", f"{sync.upstream} -> {sync.downstream}"
        for name, positions in self.positions.items():
            for position in positions:
                yield f"position in {name}: {position.key}", str(position.value)


def leftovers(cluster: KafkaCluster, users: tuple[str, ...] = ()) -> Leftovers:
    """Look at a cluster; records of mirrored heartbeats, too. Kafka's own topics are left out.

    `users` are ends of names of a user's own topics, which only look like one of heartbeats.
    """
    there = [name for name in topics(cluster) if not name.startswith("__")]
    own = {
        "heartbeats": [name for name in there if name.endswith("heartbeats") and not name.endswith(users)],
        "checkpoints": [name for name in there if "checkpoints" in name and name.endswith("internal")],
        "offset_syncs": [name for name in there if name.startswith("mm2-offset-syncs")],
        "positions": [name for name in there if name.startswith("mm2-offsets.")],
    }
    records = consume_topics(cluster, [name for names in own.values() for name in names])
    return Leftovers(
        _topics(cluster, there),
        acls(cluster),
        group_offsets(cluster),
        heartbeats=_decoded(records, own["heartbeats"], decode_heartbeat),
        checkpoints=_decoded(records, own["checkpoints"], decode_checkpoint),
        offset_syncs=_decoded(records, own["offset_syncs"], decode_offset_sync),
        positions=_decoded(records, own["positions"], decode_position),
    )


def _topics(cluster: KafkaCluster, names: list[str]) -> dict[str, TopicLeft]:
    admin = cluster.clients.admin()
    listed = admin.list_topics(timeout=DEADLINE_S).topics
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    configs = {
        resource.name: {
            key: str(entry.value)
            for key, entry in future.result(DEADLINE_S).items()
            if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        }
        for resource, future in (admin.describe_configs(resources) if resources else {}).items()
    }
    return {
        name: TopicLeft(len(listed[name].partitions), len(listed[name].partitions[0].replicas), configs[name])
        for name in names
    }


def _decoded(
    records: Mapping[str, list[Record]], names: list[str], decode: Callable[[Record], T]
) -> dict[str, list[T]]:
    return {name: [decode(record) for record in records[name]] for name in names}
