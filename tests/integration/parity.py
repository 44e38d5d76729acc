"""One scenario for MirrorMaker 2 and for twinlog: a source with all that mirroring has rules for, and one file.

Three aliases stand for the one source, so that three flows run at once: `left` with the default policy, `mid` with the
identity policy, `far` with a separator of its own. Names on the source begin with the first letter of their flow.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from harness.acls import Acl, create_acls
from harness.cluster import KafkaCluster
from harness.groups import Committed, Place, commit_offsets
from harness.jvm.jars import KAFKA_VERSION
from harness.produce import NewRecord, numbered, produce
from harness.topics import create_topic
from tests.integration.records import lively

FLOWS = {"l": "left", "m": "mid", "f": "far"}
"""First letter of names, and source alias."""

SEPARATOR = "--"
"""Of `far`. With `_` its internal topics would collide with those of `left` on the source."""

ORDERS = 600
"""Records in each partition of the topic with most."""

MM2_VERSION = os.environ.get("TWINLOG_MM2_VERSION", KAFKA_VERSION)
"""Of the MirrorMaker 2 that twinlog is compared with; `make parity` takes the older line."""

TOPICS: Mapping[str, tuple[int, dict[str, str]]] = {
    "orders": (3, {"retention.ms": "-1", "max.message.bytes": "2000000", "compression.type": "zstd"}),
    "audit.v1": (1, {"min.insync.replicas": "1", "segment.bytes": "1048576"}),
    "state": (1, {"cleanup.policy": "compact", "min.compaction.lag.ms": "600000"}),
    "payments": (2, {"retention.ms": "604800000", "message.timestamp.type": "CreateTime"}),
    "empty": (2, {}),
    # Left out by the rules.
    "old.replica": (1, {}),
}


RECORDS = {"orders": 3 * ORDERS, "audit.v1": 100, "state": 6, "payments": 40, "empty": 0}
"""Visible records of the topics that are mirrored."""

GROUP_OFFSETS = 10
"""Partitions for which groups of one flow are translated."""

TASKS = 2
"""Of each connector of MirrorMaker 2, at most."""

ACLS = 5
"""Of the remote topics of one flow."""


def remote(letter: str, topic: str) -> str:
    """The remote topic's name by the policy of the flow."""
    alias = FLOWS[letter]
    return {"l": f"{alias}.{topic}", "m": topic, "f": f"{alias}{SEPARATOR}{topic}"}[letter]


def prepare(source: KafkaCluster) -> None:
    """Create topics, groups and ACLs on the source, and no records."""
    for letter in FLOWS:
        for name, (partitions, config) in TOPICS.items():
            create_topic(source, f"{letter}-{name}", partitions, config=config)
        commit_offsets(source, _groups(letter))
        create_acls(source, _acls(letter))
    # A topic that came from the target would go round and round.
    create_topic(source, "right.l-back")


def pay(source: KafkaCluster) -> None:
    """Produce the records in transactions, those of the topics of payments."""
    for letter in FLOWS:
        _pay(source, f"{letter}-payments")


def fill(source: KafkaCluster) -> None:
    """Produce all other records to the topics of the source."""
    for letter in FLOWS:
        for partition in range(3):
            orders = numbered(ORDERS, size=100, keys=7, headers=True)
            produce(source, f"{letter}-orders", orders, partition=partition, codec="lz4", per_batch=50)
        produce(source, f"{letter}-audit.v1", lively(100), per_batch=10)
        produce(source, f"{letter}-state", [*numbered(5, keys=5), NewRecord(None, b"key-3")])
        produce(source, f"{letter}-old.replica", [NewRecord(b"not for others")])
    produce(source, "right.l-back", [NewRecord(b"come back")])


def _pay(source: KafkaCluster, topic: str) -> None:
    """Records at 0 to 19, 21 to 40 (rolled back) and 42 to 61; a marker after each."""
    for number, abort in enumerate((False, True, False)):
        payments = numbered(20, start=20 * number, keys=3)
        produce(source, topic, payments, partition=1, transactional_id=topic, abort=abort)


def _groups(letter: str) -> dict[str, dict[Place, Committed | int]]:
    orders, audit, payments = f"{letter}-orders", f"{letter}-audit.v1", f"{letter}-payments"
    return {
        f"{letter}-at-start": {(orders, 0): 0, (orders, 1): 0},
        f"{letter}-midway": {(orders, 0): 1, (orders, 1): 307, (orders, 2): 599},
        f"{letter}-at-end": {(orders, 0): ORDERS, (orders, 2): ORDERS, (audit, 0): Committed(100, "note")},
        f"{letter}-paid": {(payments, 1): 21},
        f"{letter}-all-paid": {(payments, 1): 63},
        f"{letter}-of-no-interest": {(f"{letter}-old.replica", 0): 1},
        f"{letter}-refused": {(orders, 0): 10},
    }


def _acls(letter: str) -> list[Acl]:
    orders = f"{letter}-orders"
    return [
        Acl(orders, "User:kafkaui", "READ"),
        Acl(orders, "User:connect", "WRITE"),
        Acl(orders, "User:connect", "ALL"),
        Acl(orders, "User:kafkaui", "DESCRIBE_CONFIGS", host="10.0.0.1"),
        Acl(orders, "User:connect", "READ", "DENY", host="10.0.0.2"),
        Acl(orders, "User:connect", "WRITE", "DENY", host="10.0.0.3"),
        Acl(f"{letter}-old.replica", "User:kafkaui", "READ"),
        Acl(f"{letter}-or", "User:kafkaui", "READ", pattern="PREFIXED"),
        Acl(f"{letter}-midway", "User:kafkaui", "READ", resource="GROUP"),
    ]


SHORT_INTERVALS = {
    "emit.heartbeats.enabled": "false",
    "emit.heartbeats.interval.seconds": "1",
    "emit.checkpoints.interval.seconds": "1",
    "refresh.topics.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "sync.topic.configs.interval.seconds": "1",
    "sync.topic.acls.interval.seconds": "1",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
    "consumer.poll.timeout.ms": "200",
}
"""Keys of a file whose flows do all that they do in turns every second."""


def properties(source: KafkaCluster, target: KafkaCluster) -> str:
    """The file, short intervals throughout."""
    lines = {
        "clusters": "left, mid, far, right",
        "right.bootstrap.servers": target.bootstrap,
        "right.offset.flush.interval.ms": "500",
        "right.consumer.isolation.level": "read_committed",
        "tasks.max": str(TASKS),
        "replication.factor": "1",
        **SHORT_INTERVALS,
        "left->right.emit.heartbeats.enabled": "true",
        "right->left.emit.heartbeats.enabled": "true",
        "mid->right.replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "mid->right.offset-syncs.topic.location": "target",
        "far->right.replication.policy.separator": SEPARATOR,
    }
    for kind in ("config.storage", "offset.storage", "status.storage"):
        lines[f"{kind}.replication.factor"] = "1"
    for kind in ("checkpoints", "heartbeats", "offset-syncs"):
        lines[f"{kind}.topic.replication.factor"] = "1"
    for letter, alias in FLOWS.items():
        lines[f"{alias}.bootstrap.servers"] = source.bootstrap
        lines[f"{alias}.consumer.isolation.level"] = "read_committed"
        flow = f"{alias}->right"
        lines[f"{flow}.enabled"] = "true"
        lines[f"{flow}.topics"] = rf"(right\\.)?{letter}-.*"
        lines[f"{flow}.groups"] = f"{letter}-.*"
        lines[f"{flow}.groups.exclude"] = ".*-refused"
        if letter != "l":
            lines[f"{flow}.heartbeats.replication.enabled"] = "false"
    return "".join(f"{key} = {value}\n" for key, value in lines.items())
