"""How the default replication policy reads names of topics; every policy leaves those of heartbeats to it.

In values that tasks have, too. Behaviour of Kafka 4.3's class DefaultReplicationPolicy.
"""

from __future__ import annotations

from twinlog.model.internal_topics import HEARTBEATS
from twinlog.model.types import Alias, TopicName


def source_alias(topic: TopicName, separator: str) -> Alias | None:
    """The cluster `topic` came from, None if its name names none."""
    # Trailing empty pieces do not count, as in Java's String.split: `a.` comes from nowhere, `.x` from "".
    # Nothing separates every two characters there.
    pieces = topic.split(separator) if separator else list(topic)
    while pieces and not pieces[-1]:
        pieces.pop()
    return Alias(pieces[0]) if len(pieces) >= 2 else None


def upstream_name(topic: TopicName, separator: str) -> TopicName | None:
    """What `topic` is called on the cluster it came from, None if its name names none."""
    alias = source_alias(topic, separator)
    return None if alias is None else TopicName(topic[len(alias) + len(separator) :])


def passes_as_heartbeats(topic: TopicName, separator: str) -> bool:
    """Whether MirrorMaker 2 takes `topic` for one of heartbeats and copies it past the filter (Kafka interface
    ReplicationPolicy, isHeartbeatsTopic). Whether it holds any is another question, see `heartbeat_names`."""
    if not topic.endswith(HEARTBEATS):
        # Asked of all topics at each refresh; what a name is cut down to is an end of it.
        return False
    found: TopicName | None = topic
    while found is not None:
        topic, found = found, upstream_name(found, separator)
    return topic == HEARTBEATS
