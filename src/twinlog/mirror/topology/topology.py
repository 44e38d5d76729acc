"""Which topics of the source cluster a flow mirrors.

A topic is mirrored under three conditions: the filters accept it or it is a heartbeats topic; it is no internal topic;
and its copy stays away from its origin (Kafka class MirrorSourceConnector, shouldReplicateTopic).

A flow within a single cluster, which then has two aliases, renames topics or keeps a copy of them, as in MirrorMaker 2.
A copy is a topic of the source as well, so a flow copies it again for ever if its name lacks its origin.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from twinlog.errors import ConfigError
from twinlog.mirror.topology.filters import DefaultTopicFilter, spelled_out
from twinlog.mirror.topology.naming import DefaultReplicationPolicy, IdentityReplicationPolicy
from twinlog.mirror.topology.plugins import policy_of, topic_filter_of
from twinlog.model.topic_names import HeartbeatNames
from twinlog.model.topics import listed
from twinlog.model.types import Alias, TopicName
from twinlog.settings.flow import FlowSettings
from twinlog.settings.written import key_of


def nothing_mirrored(topology: Topology, seen: Sequence[TopicName], left_out: Mapping[TopicName, str]) -> str:
    """Why all topics `seen` on the source are left out, each reason with its topics.

    `left_out` are topics that the topology would mirror, with the flow's reason to leave them out.
    """
    if not seen:
        text = "besides heartbeats and internal topics; does the login have DESCRIBE on them?"
        return f"no topic of {topology.source} can be seen {text}"
    reasons: dict[str, list[TopicName]] = defaultdict(list)
    for name in seen:
        reasons[left_out.get(name) or topology.refusal(name) or "its remote topic is missing"].append(name)
    why = "; ".join(f"{reason}: {listed(names)}" for reason, names in reasons.items())
    return f"no topic of {topology.source} is mirrored, of {len(seen)} that can be seen ({why})"


def absent_topics(topology: Topology, seen: Container[TopicName]) -> list[TopicName]:
    """The topics that `topics` spells out, and that are not among those `seen` on the source.

    A class of the user's spells out no topic.
    """
    filter_ = topology.topics
    if type(filter_) is not DefaultTopicFilter:
        return []
    names = [TopicName(name) for name in sorted(spelled_out(filter_.include))]
    return [name for name in names if name not in seen and topology.mirrors(name)]


def obstacle(flow: FlowSettings, topology: Topology) -> str | None:
    """Why a flow must not run within a single cluster, with the way out; None if it recognises all its copies."""
    policy, separator = key_of(FlowSettings, "policy"), key_of(FlowSettings, "separator")
    if flow.policy == "identity":
        return f"{policy} keeps names, so that each topic would be copied onto itself for ever; use the default policy"
    if flow.policy == "custom":
        return f"{policy} is a class of your own, which may not recognise its copies; use the default policy"
    if not flow.source or not flow.separator or flow.separator in flow.source:
        return (
            f"with the alias {flow.source!r} and {separator} = {flow.separator!r} the flow takes its own copies for "
            "originals and would copy them for ever; choose an alias that is free of the separator"
        )
    dead = "" if flow.transform is None else flow.transform.dead_letter_topic
    if dead and topology.mirrors(TopicName(dead)):
        return (
            f"the flow would mirror its dead-letter topic {dead}, and write records there that fail again; write its "
            f"name in {key_of(FlowSettings, 'topics_exclude')}"
        )
    return None


@dataclass(frozen=True, slots=True)
class Topology:
    """The rule of a flow, as values.

    `source` and `target` are its clusters. Names of topics have `source_name` and `target_name` in their place; these
    names differ only if `source_cluster_alias` and `target_cluster_alias` are set. With `heartbeats`, topics that pass
    as heartbeats topics are mirrored past the filter. `aliases` are the known clusters beside the flow's own two.
    """

    source: Alias
    target: Alias
    policy: DefaultReplicationPolicy
    topics: DefaultTopicFilter
    heartbeats: bool = True
    aliases: frozenset[Alias] = frozenset()
    source_cluster_alias: Alias | None = None
    target_cluster_alias: Alias | None = None

    @property
    def name(self) -> str:
        """`source->target`, as in a file."""
        return f"{self.source}->{self.target}"

    @property
    def source_name(self) -> Alias:
        """The alias of the source in names of topics, see `FlowSettings.source_name`."""
        return self.source if self.source_cluster_alias is None else self.source_cluster_alias

    @property
    def target_name(self) -> Alias:
        """The alias of the target in names of topics."""
        return self.target if self.target_cluster_alias is None else self.target_cluster_alias

    @property
    def keeps_names(self) -> bool:
        """Whether remote topics have the names of their sources, so that names hide the origins of topics."""
        return self.policy.keeps_names(self.source_name)

    def mirrors(self, topic: TopicName) -> bool:
        """Whether the flow mirrors `topic` of its source."""
        return self.refusal(topic) is None

    def refusal(self, topic: TopicName) -> str | None:
        """Why the flow leaves out `topic`, in words for its user; None if it mirrors `topic`."""
        if self.policy.is_internal(topic):
            return "it is an internal topic"
        filtered = self.topics.refusal(topic)
        if filtered is not None and not (self.heartbeats and self.policy.passes_as_heartbeats(topic)):
            return filtered
        return self._cycle(topic)

    @property
    def heartbeat_names(self) -> HeartbeatNames:
        """The known names of heartbeats topics."""
        return HeartbeatNames(self.policy.separator, self.aliases.union((self.source, self.target)))

    def is_heartbeats(self, topic: TopicName) -> bool:
        """Whether `topic` holds heartbeats in place of records of a user."""
        return self.heartbeat_names.is_heartbeats(topic)

    def mirrors_past_filter(self, topic: TopicName) -> bool:
        """Whether a user's topic is mirrored only for the end of its name, although the filter rejects it."""
        passes = self.policy.passes_as_heartbeats(topic) and not self.is_heartbeats(topic)
        return passes and not self.topics.accepts(topic) and self.mirrors(topic)

    def knowing(self, aliases: Iterable[Alias]) -> Topology:
        """The same rule with more known aliases of clusters."""
        return replace(self, aliases=self.aliases.union(aliases))

    def came_from_target(self, topic: TopicName) -> bool:
        """Whether `topic` of the source is a copy of a topic of the target by its name, whatever `topics` is."""
        return self._cycle(topic) == self._came_from_target

    @property
    def _came_from_target(self) -> str:
        return f"it came from the target cluster {self.target}"

    def names_in_full(self, topic: TopicName) -> bool:
        """Whether `topics` has the full name of `topic`: then the topic is mirrored whatever its name looks like."""
        return topic in spelled_out(self.topics.include)

    def remote_name(self, topic: TopicName) -> TopicName:
        """The name of `topic` of the source on the target."""
        return self.policy.remote_name(self.source_name, topic)

    def copy_of(self, topic: TopicName) -> TopicName | None:
        """The flow's name for its copy of `topic`; None for a topic that is left out.

        None also if a class of the user's fails on this name: the flow reports the failure and leaves the topic out.
        """
        try:
            return self.remote_name(topic) if self.mirrors(topic) else None
        except ConfigError:
            return None

    def source_topic(self, remote: TopicName) -> TopicName | None:
        """The original of `remote` of the target on the source; None for a topic of other origin."""
        return self.policy.source_topic(self.source_name, remote)

    def _cycle(self, topic: TopicName) -> str | None:
        """A topic that came from the target, over any number of clusters, or from the source itself, goes in a cycle.

        The second case is KAFKA-9914, in Kafka after 4.3: with two aliases for the same cluster, names would grow by a
        prefix at each refresh. In two settings this case is undetected: letters count for aliases, or
        `source.cluster.alias` gives the source another name, which several clusters may have.
        """
        step = topic
        # A class of the user's may name topics in a cycle.
        seen: set[TopicName] = set()
        while step not in seen:
            seen.add(step)
            alias = self.policy.source_alias(step)
            if alias is None:
                return None
            if alias == self.target_name:
                return self._came_from_target
            upstream = self.policy.upstream_name(step)
            # With the identity policy every topic counts as coming from the source.
            kept = (
                upstream in {None, step}
                or isinstance(self.policy, IdentityReplicationPolicy)
                or self.policy.reads_letters
            )
            if alias == self.source and self.source_cluster_alias is None and not kept:
                return f"by its name it came from {self.source}, where it is; it would be copied in a cycle"
            if upstream is None:
                return None
            step = upstream
        return None


def topology_of(flow: FlowSettings) -> Topology:
    """The rule of a flow. Raises ConfigError for an unusable class of the user's."""
    return Topology(
        source=flow.source,
        target=flow.target,
        policy=policy_of(flow),
        topics=topic_filter_of(flow),
        heartbeats=flow.heartbeats_replication_enabled,
        source_cluster_alias=flow.source_cluster_alias,
        target_cluster_alias=flow.target_cluster_alias,
        aliases=frozenset(flow.aliases),
    )
