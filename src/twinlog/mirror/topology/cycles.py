"""Finds topics that several flows together would copy back to their origin, for ever.

A policy knows its own copies by their names (`topology.py`). With kept names, or with flows that differ in separator or
policy, a flow cannot recognize the copies of another flow. The same topic goes round, or it comes back under a longer
name each time. MirrorMaker 2 copies both for ever.

Two files on two hosts, each with a single direction and a separator or a policy of its own, have the same effect. Only
the names of the existing topics show this cycle.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from twinlog.errors import ConfigError
from twinlog.mirror.topology.naming import DefaultReplicationPolicy
from twinlog.mirror.topology.topology import Topology
from twinlog.model.types import Alias, TopicName
from twinlog.settings.flow import FlowSettings


@dataclass(frozen=True, slots=True)
class ClusterAliases:
    """The first alias of each alias's cluster; aliases with the same first alias mean the same cluster.

    An alias that is missing in `first` is its own first alias.
    """

    first: Mapping[Alias, Alias] = field(default_factory=dict)

    def same(self, one: Alias, other: Alias) -> bool:
        """Whether both aliases mean the same cluster."""
        return self._first(one) == self._first(other)

    def joined(self, one: Alias, other: Alias) -> ClusterAliases:
        """The same aliases with these two joined to the same cluster."""
        here, there = self._first(one), self._first(other)
        known = {one, other, *self.first}
        return ClusterAliases({alias: here if self._first(alias) == there else self._first(alias) for alias in known})

    def _first(self, alias: Alias) -> Alias:
        return self.first.get(alias, alias)


APART = ClusterAliases()
"""Each alias means a cluster of its own."""


def places_of(flows: Iterable[FlowSettings]) -> ClusterAliases:
    """The aliases of a file whose clients begin at common servers.

    Aliases of connectors are left out: two connectors may mean different clusters by the same alias.
    """
    clients = {}
    for flow in flows:
        if flow.kind is None:
            clients[flow.source] = flow.source_admin.client
            clients[flow.target] = flow.target_admin.client
    places = APART
    for one, other in combinations(sorted(clients), 2):
        if clients[one].shares_servers(clients[other]):
            places = places.joined(one, other)
    return places


_SEPARATORS = "._-"
"""The characters between an alias and a topic: the only punctuation of topic names (Kafka class Topic)."""


def echo(topology: Topology, topic: TopicName, target: Container[TopicName]) -> str | None:
    """Why `topic` of the source is a copy of a copy by the flow itself, in words; otherwise None.

    Two cases count, because a topic's own name never has these forms by chance. In the first, the name is the target's
    alias, a separator, and an existing remote topic of this flow on the target. In the second, the name begins with the
    same way over this cluster twice. A topic that `topics` names in full is the user's own.
    """
    if topology.keeps_names or topology.names_in_full(topic):
        return None
    behind = topic.removeprefix(topology.target_name)
    remote = TopicName(behind.lstrip(_SEPARATORS))
    if topic != behind != remote and remote in target and topology.source_topic(remote) not in {None, remote}:
        return (
            f"by its name it is the copy of {remote}, which this flow made on {topology.target}, brought back "
            "under another naming"
        )
    alias = re.escape(topology.source_name)
    if alias and re.match(rf"(.+[{_SEPARATORS}]{alias}[{_SEPARATORS}])\1", topic):
        return f"by its name it came over {topology.source} twice"
    return None


_ROUNDS = 3
"""After so many copies by the same flow under different names, a topic is copied for ever, by longer names."""

_STEPS = 3000
"""The most steps of a search; a growing cycle over more flows is left to `echo`, which sees its topics."""


@dataclass(frozen=True, slots=True)
class TopicCycle:
    """A topic that a flow must leave out: `way` are the flows that would copy it for ever, that flow first.

    `brought_by` is the flow by whose naming the topic came from the target; None if the name lacks this origin.
    """

    way: tuple[Topology, ...]
    brought_by: Topology | None


def returning(
    flow: Topology, topic: TopicName, flows: Sequence[Topology], places: ClusterAliases = APART
) -> TopicCycle | None:
    """Why `flow` must leave out `topic` of its source to end a cycle; None if the flow may copy it.

    A growing name ends at the flow that would carry the topic back to its origin, by the naming of a different flow. A
    cycle that stays closed under this rule is left out as a whole, by each of its flows. A topic that `topics` names in
    full counts as an original. `flows` are all running flows, and `places` are the clusters of their aliases.
    """
    way = cycle(flow, topic, flows, places)
    if not way:
        return None
    brought_by = None if flow.names_in_full(topic) else _brought_by(flow, topic, flows, places)
    if brought_by is not None:
        return TopicCycle(way, brought_by)

    def mirrors(one: Topology, name: TopicName) -> bool:
        return _mirrors(one, name) and (
            one.names_in_full(name) or not (_brought_by(one, name, flows, places) and cycle(one, name, flows, places))
        )

    way = _search(flow, (topic,), flows, mirrors, places)
    return TopicCycle(way, None) if way else None


def cycle(
    flow: Topology, topic: TopicName, flows: Sequence[Topology], places: ClusterAliases = APART
) -> tuple[Topology, ...]:
    """The flows that, each by its own rule, would copy `topic` of `flow`'s source for ever, beginning with `flow`.

    Empty when the copying ends. `flows` are all running flows, and `places` are the clusters of their aliases.
    """
    return () if _know_each_other(flows) else _search(flow, (topic,), flows, _mirrors, places)


def _know_each_other(flows: Sequence[Topology]) -> bool:
    """Whether each flow recognises the copies of all other flows by their names, so that no copy comes back.

    The rule also holds for several aliases of the same cluster: a flow leaves out every name with an alias of its own,
    so that each alias is in a name once.
    """
    first = flows[0].policy if flows else None
    return type(first) is DefaultReplicationPolicy and all(
        type(one.policy) is DefaultReplicationPolicy
        and one.policy.separator == first.separator
        and first.separator not in one.source
        and first.separator not in one.target
        # Several clusters may have the name that `source.cluster.alias` gives to a cluster.
        and one.source_cluster_alias is None is one.target_cluster_alias
        for one in flows
    )


_Mirrors = Callable[[Topology, TopicName], bool]


def _search(
    flow: Topology, topics: tuple[TopicName, ...], flows: Sequence[Topology], mirrors: _Mirrors, places: ClusterAliases
) -> tuple[Topology, ...]:
    """The shortest way by which the first of `topics` comes back to `flow` as itself, or under ever new names.

    `topics` are the names of the topic at the flow so far.
    """
    for way, again in _returns(flow, topics[-1], flows, mirrors, places):
        if again == topics[0]:
            return way
        # Otherwise the way only leads to a cycle, which is found for the topics in the cycle.
        if again not in topics and (
            len(topics) == _ROUNDS - 1 or _search(flow, (*topics, again), flows, mirrors, places)
        ):
            return way
    return ()


def _returns(
    flow: Topology, topic: TopicName, flows: Sequence[Topology], mirrors: _Mirrors, places: ClusterAliases
) -> Iterator[tuple[tuple[Topology, ...], TopicName]]:
    """The ways by which `topic` comes back to `flow`, and the new names; short ways first, each flow at most once."""
    ways: deque[tuple[tuple[Topology, ...], TopicName]] = deque([((flow,), topic)])
    seen = {(flow.name, topic)}
    while ways and len(seen) < _STEPS:
        way, name = ways.popleft()
        remote = _remote_name(way[-1], name) if mirrors(way[-1], name) else None
        if remote is None:
            continue
        for following in flows:
            if not places.same(following.source, way[-1].target):
                continue
            if following.name == flow.name:
                if mirrors(following, remote):
                    yield way, remote
            elif (following.name, remote) not in seen and all(following.name != one.name for one in way):
                seen.add((following.name, remote))
                ways.append(((*way, following), remote))


def _brought_by(flow: Topology, topic: TopicName, flows: Sequence[Topology], places: ClusterAliases) -> Topology | None:
    """The last flow on a way by which `topic` came from the target of `flow`, by the naming of all flows."""
    waiting: list[tuple[Alias, TopicName, Topology | None]] = [(flow.source, topic, None)]
    seen = set()
    while waiting:
        where, name, last = waiting.pop()
        seen.add((where, name))
        for one in flows:
            upstream = _upstream(one, name) if places.same(one.target, where) else None
            # The names of a flow that keeps names show no origin: it copies all topics or none.
            if upstream is None or upstream == name or (one.source, upstream) in seen:
                continue
            if places.same(one.source, flow.target):
                return last or one
            waiting.append((one.source, upstream, last or one))
    return None


def _upstream(flow: Topology, remote: TopicName) -> TopicName | None:
    """The topic that `flow` would copy to `remote`; otherwise None."""
    try:
        topic = flow.source_topic(remote)
        return topic if topic and flow.remote_name(topic) == remote and flow.mirrors(topic) else None
    except ConfigError:
        return None


def _mirrors(flow: Topology, topic: TopicName) -> bool:
    try:
        return flow.mirrors(topic)
    except ConfigError:
        # A class of the user's that fails on this name raises again when the flow meets the topic.
        return False


def _remote_name(flow: Topology, topic: TopicName) -> TopicName | None:
    try:
        return flow.remote_name(topic)
    except ConfigError:
        return None
