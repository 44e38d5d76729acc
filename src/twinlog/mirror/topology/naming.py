"""Names of remote and internal topics, and the clusters that a name lists: MirrorMaker 2's replication policy.

Behaviour of Kafka 4.3's classes DefaultReplicationPolicy, IdentityReplicationPolicy and MirrorClient.
"""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.model import topic_names as default_names
from twinlog.model.topic_names import HEARTBEATS
from twinlog.model.types import Alias, TopicName


def sources(policy: DefaultReplicationPolicy, topic: TopicName) -> list[Alias]:
    """The clusters that a topic came over, nearest first; ends at a name that lacks an alias, or repeats an alias."""
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
    """The number of flows by which a topic came from cluster `alias`, -1 for a topic of other origin."""
    chain = sources(policy, topic)
    return chain.index(alias) + 1 if alias in chain else -1


def is_remote(policy: DefaultReplicationPolicy, topic: TopicName) -> bool:
    """Whether a topic is a copy from another cluster; with the identity policy every ordinary topic counts as copy."""
    return policy.source_alias(topic) is not None and not policy.is_internal(topic)


OWN_PREFIX = "mm2-twinlog-"
"""The prefix of the topics that twinlog keeps for itself."""


@dataclass(frozen=True, slots=True)
class DefaultReplicationPolicy:
    """The default policy: remote names are alias, separator, topic.

    `internal_separator` separates the parts of the names of internal topics. Both may be empty, and an alias may be
    empty, too.
    """

    separator: str = "."
    internal_separator: str = "."

    def remote_name(self, alias: Alias, topic: TopicName) -> TopicName:
        """The name of `topic` of cluster `alias` on another cluster."""
        return TopicName(f"{alias}{self.separator}{topic}")

    def source_alias(self, topic: TopicName) -> Alias | None:
        """The cluster that `topic` came from; None for a name that lacks an alias."""
        return default_names.source_alias(topic, self.separator)

    def upstream_name(self, topic: TopicName) -> TopicName | None:
        """The name of `topic` on its cluster of origin; None for a name that lacks an alias."""
        return default_names.upstream_name(topic, self.separator)

    def source_topic(self, alias: Alias, remote: TopicName) -> TopicName | None:
        """The topic of cluster `alias` whose copies are called `remote`; None if the cluster lacks a matching topic."""
        if self.reads_letters:
            return TopicName(remote[len(alias) :]) or None if remote.startswith(alias) else None
        return self.upstream_name(remote) if self.source_alias(remote) == alias else None

    def keeps_names(self, alias: Alias) -> bool:
        """Whether copies of topics of cluster `alias` keep the names of the topics."""
        return not alias and self.reads_letters

    @property
    def reads_letters(self) -> bool:
        """Whether names are read letter by letter, because the separator between alias and topic is empty.

        MirrorMaker 2 then reads each letter of a name in turn as the alias of a source. So it leaves out every topic
        that has the alias of the target as a letter before its last letter.
        """
        return type(self) is DefaultReplicationPolicy and not self.separator

    def passes_as_heartbeats(self, topic: TopicName) -> bool:
        """Whether MirrorMaker 2 takes `topic` for a heartbeats topic (Java: isHeartbeatsTopic), by the end of its name.

        This rule decides which topics are copied. `Topology.is_heartbeats` tells whether a topic holds heartbeats in
        place of records of a user.
        """
        return default_names.passes_as_heartbeats(topic, self.separator)

    def offset_syncs_topic(self, alias: Alias) -> TopicName:
        """The topic of offset syncs; `alias` is the cluster on the other side of the flow."""
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
        """Whether `topic` stays on its cluster, whatever the filters accept."""
        return topic.startswith(("__", ".")) or self.is_mirror_internal(topic)

    @property
    def _checkpoints_suffix(self) -> str:
        return f"{self.internal_separator}checkpoints{self.internal_separator}internal"


@dataclass(frozen=True, slots=True)
class IdentityReplicationPolicy(DefaultReplicationPolicy):
    """Remote topics keep their names; only heartbeats topics have the alias of their source as a prefix.

    Every topic counts as coming from `source`, so names hide cycles.
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
