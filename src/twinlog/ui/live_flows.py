"""The live readings of all flows: their states every two seconds, their topics and groups less often."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twinlog.clock import Clock, wall_ms
from twinlog.ops.groups.reader import GroupsReader, GroupsSnapshot
from twinlog.ops.status.flow import FlowReader, FlowSnapshot
from twinlog.ops.topics.reader import TopicsReader, TopicsSnapshot
from twinlog.ui.flow_points import EVERY_S, FlowPoint, FlowPoints
from twinlog.ui.live import LivePoller
from twinlog.ui.sources import ConsoleSources

TOPICS_EVERY_S = 10.0
"""All offsets of both clusters are read for it."""

GROUPS_EVERY_S = 10.0


class LiveFlow:
    """The pollers of a flow; the points of its last hour come from its states."""

    def __init__(self, name: str, sources: ConsoleSources, clock: Clock) -> None:
        self.settings = sources.flow(name)
        self.points = FlowPoints()
        self.state: LivePoller[FlowReader, FlowSnapshot] = LivePoller(
            f"flow {name}",
            lambda: sources.open_flow(name),
            lambda reader: reader.read(),
            EVERY_S,
            clock,
            lambda seen: self.points.add(FlowPoint.of(seen, wall_ms(clock))),
        )
        self.topics: LivePoller[TopicsReader, TopicsSnapshot] = LivePoller(
            f"topics of {name}",
            lambda: sources.open_topics(name),
            lambda reader: reader.read(),
            TOPICS_EVERY_S,
            clock,
        )
        self.groups: LivePoller[GroupsReader, GroupsSnapshot] = LivePoller(
            f"groups of {name}",
            lambda: sources.open_groups(name),
            lambda reader: reader.read(),
            GROUPS_EVERY_S,
            clock,
        )

    def poller(self, kind: str) -> LivePoller[Any, Any]:
        """The poller of the flow's topics, of its groups, or of its state."""
        if kind == "topics":
            return self.topics
        return self.groups if kind == "groups" else self.state

    def close(self) -> None:
        for poller in (self.state, self.topics, self.groups):
            poller.close()


class LiveFlows:
    """The live readings of the flows of the console."""

    def __init__(self, sources: ConsoleSources, clock: Clock) -> None:
        self._sources = sources
        self.flows: Mapping[str, LiveFlow] = {name: LiveFlow(name, sources, clock) for name in sources.flows}

    def flow(self, name: str) -> LiveFlow:
        """The readings of a flow. Raises RequestError 404 for an unknown name."""
        self._sources.flow(name)
        return self.flows[name]

    def close(self) -> None:
        """End all threads."""
        for flow in self.flows.values():
            flow.close()
