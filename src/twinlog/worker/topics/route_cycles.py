"""Finds topics that flows would route into each other for ever, if Connect's RegexRouter alone decides the routes.

A replication policy recognizes copies by their names, and routes may give any name. A flow may route records into a
topic from which another flow reads them and routes them back. If a function, SQL, a time or a condition decides, the
route is unknown beforehand.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from twinlog.mirror.topology.cycles import APART, ClusterAliases
from twinlog.mirror.topology.topology import Topology
from twinlog.model.java_regex.pattern import java_pattern
from twinlog.model.types import TopicName
from twinlog.settings.flow import FlowSettings
from twinlog.settings.transform import SmtStage
from twinlog.transforms.smt.java_forms import Replacement

MOST_STEPS = 1_000


class RoutedFlow(NamedTuple):
    """A flow by its name, because connectors may share a topology, and its route for remote topics."""

    name: str
    topology: Topology
    route: Callable[[TopicName], TopicName]

    def destination(self, topic: TopicName) -> TopicName:
        """The topic of the target to which records of a source topic go."""
        return self.route(self.topology.remote_name(topic))


def routed_flow(settings: FlowSettings, topology: Topology) -> RoutedFlow | None:
    """A flow with its route; None if its records decide the route, or if it has a filter, which may end a cycle."""
    smts = None if settings.transform is None else settings.transform.smts
    if smts is not None and any(stage.kind == "Filter" for stage in smts.stages):
        return None
    route = known_route(settings)
    return None if route is None else RoutedFlow(settings.name, topology, route)


def known_route(settings: FlowSettings) -> Callable[[TopicName], TopicName] | None:
    """The flow's route for records of a remote topic; None if the contents or times of records decide."""
    transform = settings.transform
    if transform is None:
        return lambda remote: remote
    if not transform.routes_are_known:
        return None
    stages = () if transform.smts is None else transform.smts.stages
    renamed = [_renamed(stage) for stage in stages if stage.kind == "RegexRouter"]

    def route(remote: TopicName) -> TopicName:
        name: str = remote
        for rename in renamed:
            name = rename(name)
        return TopicName(name)

    return route


def _renamed(stage: SmtStage) -> Callable[[str], str]:
    settings = dict(stage.settings)
    pattern = java_pattern(str(settings["regex"]))
    replacement = Replacement(str(settings["replacement"]), pattern)
    return lambda name: replacement.first(name) if pattern.matches(name) else name


def round_trip(
    flow: RoutedFlow, topic: TopicName, flows: Sequence[RoutedFlow], places: ClusterAliases = APART
) -> tuple[str, ...]:
    """The flows that would carry a source topic of `flow` back to it for ever, some by a route; empty without a cycle.

    `places` has the clusters of the flows' aliases.
    """
    waiting: deque[tuple[RoutedFlow, TopicName, bool, tuple[str, ...]]] = deque([(flow, topic, False, ())])
    seen: set[tuple[str, TopicName, bool]] = set()
    while waiting and len(seen) < MOST_STEPS:
        at, name, routed, way = waiting.popleft()
        if (at.name, name, routed) in seen:
            continue
        seen.add((at.name, name, routed))
        remote = at.topology.copy_of(name)
        if remote is None:
            continue
        there = at.route(remote)
        routed, way = routed or there != remote, (*way, at.name)
        for following in flows:
            if not places.same(following.topology.source, at.topology.target):
                continue
            if routed and following.name == flow.name and there == topic:
                return way
            waiting.append((following, there, routed, way))
    return ()
