"""Configurations of the three mirror connectors for a flow `left->right`, as requests carry them."""

from __future__ import annotations

from conformance.call import Json

PACKAGE = "org.apache.kafka.connect.mirror"
HEARTBEAT = f"{PACKAGE}.MirrorHeartbeatConnector"
CHECKPOINT = f"{PACKAGE}.MirrorCheckpointConnector"
SOURCE = f"{PACKAGE}.MirrorSourceConnector"

ORDERS = "orders"
"""Topic of the source with two partitions and ten records in the first."""

READERS = "readers"
"""Group of the source that has read five of them."""

_FLOW = {
    "source.cluster.alias": "left",
    "target.cluster.alias": "right",
    "source.cluster.bootstrap.servers": "<source>",
    "target.cluster.bootstrap.servers": "<target>",
    "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
    "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
}


def heartbeat(**more: Json) -> dict[str, Json]:
    """One task. Underscores in the names of `more` stand for dots; None leaves a key out."""
    return _with({"connector.class": HEARTBEAT, **_FLOW, "heartbeats.topic.replication.factor": "1"}, more)


def checkpoint(**more: Json) -> dict[str, Json]:
    """One task for the one group."""
    own = {
        "groups": READERS,
        "checkpoints.topic.replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "emit.checkpoints.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
    }
    return _with({"connector.class": CHECKPOINT, **_FLOW, **own}, more)


def source(**more: Json) -> dict[str, Json]:
    """At most two tasks, one for each partition of the topic."""
    own = {
        "topics": ORDERS,
        "tasks.max": "2",
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "sync.topic.acls.enabled": "false",
        "refresh.topics.interval.seconds": "1",
    }
    return _with({"connector.class": SOURCE, **_FLOW, **own}, more)


def _with(config: dict[str, Json], more: dict[str, Json]) -> dict[str, Json]:
    config |= {name.replace("_", "."): value for name, value in more.items()}
    return {key: value for key, value in config.items() if value is not None}
