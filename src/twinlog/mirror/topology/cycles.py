"""Finds topics that several flows together would copy back to where they began, for ever.

A policy knows its own copies by their names (`topology.py`). Where names are kept, or flows disagree on the
separator or the policy, a flow cannot recognise the copies of another one: the same topic goes round, or it comes
back under a longer name each time. MirrorMaker 2 copies both for ever.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from twinlog.errors import ConfigError
from twinlog.mirror.topology.naming import ReplicationPolicy
from twinlog.mirror.topology.places import APART, Places
from twinlog.mirror.topology.topology import Topology
from twinlog.model.types import Alias, TopicName

_ROUNDS = 3
"""A topic that one flow has copied so often under different names is copied for ever, by longer and longer names."""

_STEPS = 3000
"""Over more flows than this asks for, a cycle that grows is left to `echoes.py`, which sees its topics."""


@dataclass(frozen=True, slots=True)
class Return:
    """A topic that a flow must not copy: `way` are the flows that would copy it for ever, that flow first.

    `brought_by` is the flow by whose naming the topic came from the target; None when no name shows that.
    """

    way: tuple[Topology, ...]
    brought_by: Topology | None


def returning(flow: Topology, topic: TopicName, flows: Sequence[Topology], places: Places = APART) -> Return | None:
    """Why `flow` must leave out `topic` of its source, so that nothing is copied for ever; None if it need not.

    Names that grow end where a flow would carry a topic back to where it came from by another flow's naming; a cycle
    that this does not open is left out as a whole, by each of its flows. A topic that `topics` names in full is
    never taken for a copy. `flows` are all flows that run, and `places` are where their aliases are.
    """
    way = cycle(flow, topic, flows, places)
    if not way:
        return None
    brought_by = None if flow.names_in_full(topic) else _brought_by(flow, topic, flows, places)
    if brought_by is not None:
        return Return(way, brought_by)

    def mirrors(one: Topology, name: TopicName) -> bool:
        return _mirrors(one, name) and (
            one.names_in_full(name) or not (_brought_by(one, name, flows, places) and cycle(one, name, flows, places))
        )

    way = _search(flow, (topic,), flows, mirrors, places)
    return Return(way, None) if way else None


def cycle(flow: Topology, topic: TopicName, flows: Sequence[Topology], places: Places = APART) -> tuple[Topology, ...]:
    """The flows that, each by its own rule, would copy `topic` of `flow`'s source for ever, beginning with `flow`.

    Empty when it ends. `flows` are all flows that run, and `places` are where their aliases are.
    """
    return () if _know_each_other(flows) else _search(flow, (topic,), flows, _mirrors, places)


def _know_each_other(flows: Sequence[Topology]) -> bool:
    """Whether each flow recognises the copies of all others by their names, so that nothing comes back.

    Also where several aliases stand for one cluster: a flow leaves out every name with one of its own two, so that each
    alias is in a name once.
    """
    first = flows[0].policy if flows else None
    return type(first) is ReplicationPolicy and all(
        type(one.policy) is ReplicationPolicy
        and one.policy.separator == first.separator
        and first.separator not in one.source
        and first.separator not in one.target
        # Several clusters may have the name that `source.cluster.alias` gives to one.
        and one.source_cluster_alias is None is one.target_cluster_alias
        for one in flows
    )


_Mirrors = Callable[[Topology, TopicName], bool]


def _search(
    flow: Topology, topics: tuple[TopicName, ...], flows: Sequence[Topology], mirrors: _Mirrors, places: Places
) -> tuple[Topology, ...]:
    """The shortest way by which the first of `topics` comes back to `flow` as itself, or under ever new names.

    `topics` are the names that it had when the flow met it, so far.
    """
    for way, again in _returns(flow, topics[-1], flows, mirrors, places):
        if again == topics[0]:
            return way
        # Else it only leads to a cycle, which is found for the topics in it.
        if again not in topics and (
            len(topics) == _ROUNDS - 1 or _search(flow, (*topics, again), flows, mirrors, places)
        ):
            return way
    return ()


def _returns(
    flow: Topology, topic: TopicName, flows: Sequence[Topology], mirrors: _Mirrors, places: Places
) -> Iterator[tuple[tuple[Topology, ...], TopicName]]:
    """The ways by which `topic` comes back to `flow`, over each other flow once at most, and as what; short first."""
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


def _brought_by(flow: Topology, topic: TopicName, flows: Sequence[Topology], places: Places) -> Topology | None:
    """The last flow on a way by which `topic` came from the target of `flow`, by the naming of all flows."""
    waiting: list[tuple[Alias, TopicName, Topology | None]] = [(flow.source, topic, None)]
    seen = set()
    while waiting:
        where, name, last = waiting.pop()
        seen.add((where, name))
        for one in flows:
            upstream = _upstream(one, name) if places.same(one.target, where) else None
            # A flow that keeps names copies everything or nothing: its names show no origin.
            if upstream is None or upstream == name or (one.source, upstream) in seen:
                continue
            if places.same(one.source, flow.target):
                return last or one
            waiting.append((one.source, upstream, last or one))
    return None


def _upstream(flow: Topology, remote: TopicName) -> TopicName | None:
    """The topic that `flow` would copy to `remote`, None if it copies none there."""
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
