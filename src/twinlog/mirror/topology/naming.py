"""Names of remote and internal topics, and the clusters that a name lists: MirrorMaker 2's replication policy.

Behaviour of Kafka 4.3's classes DefaultReplicationPolicy, IdentityReplicationPolicy and MirrorClient.
"""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.model import topic_names as default_names
from twinlog.model.topic_names import HEARTBEATS
from twinlog.model.types import Alias, TopicName


def sources(policy: DefaultReplicationPolicy, topic: TopicName) -> list[Alias]:
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


def hops(policy: DefaultReplicationPolicy, topic: TopicName, alias: Alias) -> int:
    """Over how many flows a topic came from cluster `alias`, -1 if it did not."""
    chain = sources(policy, topic)
    return chain.index(alias) + 1 if alias in chain else -1


def is_remote(policy: DefaultReplicationPolicy, topic: TopicName) -> bool:
    """Whether a topic is a copy from another cluster; with the identity policy every ordinary topic is."""
    return policy.source_alias(topic) is not None and not policy.is_internal(topic)


OWN_PREFIX = "mm2-twinlog-"
"""Every topic that twinlog keeps for itself begins so."""


@dataclass(frozen=True, slots=True)
class DefaultReplicationPolicy:
    """The default policy: remote names are alias, separator, topic.

    `internal_separator` stands inside the names of internal topics. Both may be nothing, and so may an alias.
    """

    separator: str = "."
    internal_separator: str = "."

    def remote_name(self, alias: Alias, topic: TopicName) -> TopicName:
        """What `topic` of cluster `alias` is called on another cluster."""
        return TopicName(f"{alias}{self.separator}{topic}")

    def source_alias(self, topic: TopicName) -> Alias | None:
        """The cluster `topic` came from, None if its name names none."""
        return default_names.source_alias(topic, self.separator)

    def upstream_name(self, topic: TopicName) -> TopicName | None:
        """What `topic` is called on the cluster it came from, None if its name names none."""
        return default_names.upstream_name(topic, self.separator)

    def source_topic(self, alias: Alias, remote: TopicName) -> TopicName | None:
        """The topic of cluster `alias` that is called `remote` elsewhere; None if no topic of that cluster is."""
        if self.reads_letters:
            return TopicName(remote[len(alias) :]) or None if remote.startswith(alias) else None
        return self.upstream_name(remote) if self.source_alias(remote) == alias else None

    def keeps_names(self, alias: Alias) -> bool:
        """Whether copies of topics of cluster `alias` are called as these are."""
        return not alias and self.reads_letters

    @property
    def reads_letters(self) -> bool:
        """Whether names are taken apart letter by letter, because nothing separates an alias from a topic.

        MirrorMaker 2 then takes the first letter of a name for the alias of its source, and after it the next one: it
        mirrors no topic that has a letter, but for the last one, which is the alias of the target.
        """
        return type(self) is DefaultReplicationPolicy and not self.separator

    def passes_as_heartbeats(self, topic: TopicName) -> bool:
        """Whether MirrorMaker 2 takes `topic` for one of heartbeats (Java: isHeartbeatsTopic), by the end of its name.

        That decides what is copied. Whether it holds heartbeats and no records of a user is `Topology.is_heartbeats`.
        """
        return default_names.passes_as_heartbeats(topic, self.separator)

    def offset_syncs_topic(self, alias: Alias) -> TopicName:
        """The topic of offset syncs; `alias` is the other cluster of the one that holds it."""
        separator = self.internal_separator
        return TopicName(f"mm2-offset-syncs{separator}{alias}{separator}internal")

    def checkpoints_topic(self, alias: Alias) -> TopicName:
        """The topic of checkpoints of groups of cluster `alias`."""
        return TopicName(f"{alias}{self._checkpoints_suffix}")

    def is_checkpoints(self, topic: TopicName) -> bool:
        """Whether `topic` holds checkpoints."""
        return topic.endswith(self._checkpoints_suffix)

    def is_mirror_internal(self, topic: TopicName) -> bool:
        """Whether `topic` belongs to MirrorMaker 2 or to twinlog (KIP-1074 for the former)."""
        named = topic.startswith("mm2") and topic.endswith(f"{self.internal_separator}internal")
        return named or self.is_checkpoints(topic) or topic.startswith(OWN_PREFIX)

    def is_internal(self, topic: TopicName) -> bool:
        """Whether `topic` is never mirrored, whatever the filters accept."""
        return topic.startswith(("__", ".")) or self.is_mirror_internal(topic)

    @property
    def _checkpoints_suffix(self) -> str:
        return f"{self.internal_separator}checkpoints{self.internal_separator}internal"


@dataclass(frozen=True, slots=True)
class IdentityReplicationPolicy(DefaultReplicationPolicy):
    """Remote topics keep their names; only heartbeats are still called after where they came from.

    Every topic counts as coming from `source`, so a name never shows a cycle.
    """

    source: Alias | None = None

    def remote_name(self, alias: Alias, topic: TopicName) -> TopicName:
        """`topic` itself, unless it is a heartbeats topic."""
        return DefaultReplicationPolicy.remote_name(self, alias, topic) if looks_like_heartbeats(topic) else topic

    def source_alias(self, topic: TopicName) -> Alias | None:
        """The configured source, unless `topic` is a heartbeats topic."""
        return DefaultReplicationPolicy.source_alias(self, topic) if looks_like_heartbeats(topic) else self.source

    def upstream_name(self, topic: TopicName) -> TopicName | None:
        """`topic` itself, unless it is a heartbeats topic."""
        return DefaultReplicationPolicy.upstream_name(self, topic) if looks_like_heartbeats(topic) else topic

    def keeps_names(self, alias: Alias) -> bool:
        """True, whatever the aliases are."""
        return True


def looks_like_heartbeats(topic: TopicName) -> bool:
    """Whether a policy that keeps or chooses names leaves `topic` to the default policy."""
    return topic.endswith(HEARTBEATS)
