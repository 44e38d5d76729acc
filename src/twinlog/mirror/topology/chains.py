"""The clusters a topic came over, read from its name (Kafka class MirrorClient)."""

from __future__ import annotations

from twinlog.mirror.topology.naming import ReplicationPolicy
from twinlog.model.types import Alias, TopicName


def sources(policy: ReplicationPolicy, topic: TopicName) -> list[Alias]:
    """The clusters a topic came over, nearest first; ends where the name names none, or one a second time."""
    found: list[Alias] = []
    name: TopicName | None = topic
    while name is not None:
        alias = policy.source_alias(name)
        if alias is None or alias in found:
            break
        found.append(alias)
        name = policy.upstream_name(name)
    return found


def hops(policy: ReplicationPolicy, topic: TopicName, alias: Alias) -> int:
    """Over how many flows a topic came from cluster `alias`, -1 if it did not."""
    chain = sources(policy, topic)
    return chain.index(alias) + 1 if alias in chain else -1


def is_remote(policy: ReplicationPolicy, topic: TopicName) -> bool:
    """Whether a topic is a copy from another cluster; with the identity policy every ordinary topic is."""
    return policy.source_alias(topic) is not None and not policy.is_internal(topic)
