"""The live readings of all flows: their states every two seconds, their topics and groups less often.

The states of the last hour are kept as points for the charts of a flow's page.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

from twinlog.clock import Clock, wall_ms
from twinlog.model.types import TopicName
from twinlog.ops.groups.reader import GroupsReader, GroupsSnapshot
from twinlog.ops.status.flow import FlowReader, FlowSnapshot
from twinlog.ops.topics.reader import TopicsReader, TopicsSnapshot
from twinlog.ui.both_sides import BothSidesReader, NewestTimes
from twinlog.ui.conducting import LeftFenceReader, SwitchoverReader, SwitchoverReading
from twinlog.ui.live import LivePoller
from twinlog.ui.rehearsal import REHEARSE_EVERY_S, Rehearsal, RehearsalReader
from twinlog.ui.sources import ConsoleSources

EVERY_S = 2.0
KEPT_S = 3600.0
MOST_POINTS = int(KEPT_S / EVERY_S)

GAP_MS = 10_000
"""Points that are further apart have a gap between them in the charts: all browsers were closed."""

TOPICS_EVERY_S = 10.0
"""All offsets of both clusters are read for it."""

GROUPS_EVERY_S = 10.0

NEWEST_EVERY_S = 5.0
MOST_TOPICS = 20
"""The most topics of a flow whose newest records are read at a time."""

SWITCHOVER_EVERY_S = 1.0
"""The journal is a small topic, which is read while a browser shows a switchover."""

FENCE_EVERY_S = 5.0
"""The note of a fence is on the source, which may be silent: it is read beside the journal, by a thread of its own."""

MOST_READINGS = 100
"""The most readings that a page follows."""

KINDS = ("topics", "groups", "rehearsal", "switchover")
"""The readings of a flow beside its state."""


@dataclass(frozen=True, slots=True)
class FlowPoint:
    """A flow at `at_ms` (Unix); None is unknown. The lag is in records, bytes, and seconds, the latency in ms."""

    at_ms: int
    record_rate: float | None
    byte_rate: float | None
    lag: int | None
    lag_bytes: int | None
    lag_s: float | None
    latency_ms: int | None

    @classmethod
    def of(cls, seen: FlowSnapshot, at_ms: int) -> FlowPoint:
        """The figures of a snapshot."""
        report = seen.report
        latency = None if report is None or report.latency_ms < 0 else report.latency_ms
        record_rate = None if report is None else report.record_rate
        byte_rate = None if report is None else report.byte_rate
        return cls(at_ms, record_rate, byte_rate, seen.lag, seen.lag_bytes, seen.lag_s, latency)


class FlowPoints:
    """The points of a flow, those of the last hour at most."""

    def __init__(self) -> None:
        self._points: deque[FlowPoint] = deque(maxlen=MOST_POINTS)
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._points)

    def add(self, point: FlowPoint) -> None:
        """Add a point, after a gap if the last point is too old."""
        with self._lock:
            last = self._points[-1] if self._points else None
            if last is not None and point.at_ms <= last.at_ms:
                return
            if last is not None and point.at_ms - last.at_ms > GAP_MS:
                self._points.append(FlowPoint(last.at_ms + 1, None, None, None, None, None, None))
            self._points.append(point)
            while self._points and self._points[0].at_ms < point.at_ms - KEPT_S * 1000:
                self._points.popleft()

    def columns(self, since_ms: int = 0) -> dict[str, list[float | int | None]]:
        """The points after `since_ms` as columns, with the times in seconds, as charts take them."""
        with self._lock:
            points = [one for one in self._points if one.at_ms > since_ms]
        return {
            "at_s": [one.at_ms / 1000 for one in points],
            "record_rate": [_rounded(one.record_rate) for one in points],
            "byte_rate": [_rounded(one.byte_rate) for one in points],
            "lag": [one.lag for one in points],
            "lag_bytes": [one.lag_bytes for one in points],
            "lag_s": [_rounded(one.lag_s) for one in points],
            "latency_ms": [one.latency_ms for one in points],
        }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


class LiveFlow:
    """The pollers of a flow; the points of its last hour come from its states."""

    def __init__(self, name: str, sources: ConsoleSources, clock: Clock, points: FlowPoints | None = None) -> None:
        self.settings = sources.flow(name)
        self._sources = sources
        self._clock = clock
        self._lock = Lock()
        self._newest: dict[str, LivePoller[BothSidesReader, dict[int, NewestTimes]]] = {}
        self.points = FlowPoints() if points is None else points
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

        self.rehearsal: LivePoller[RehearsalReader, Rehearsal] = LivePoller(
            f"rehearsal of {name}",
            lambda: sources.open_rehearsal(name),
            lambda reader: reader.read(),
            REHEARSE_EVERY_S,
            clock,
        )
        self.switchover: LivePoller[SwitchoverReader, SwitchoverReading] = LivePoller(
            f"switchover of {name}",
            lambda: SwitchoverReader(sources.open_clusters(name)),
            lambda reader: reader.read(),
            SWITCHOVER_EVERY_S,
            clock,
        )
        self.left_fence: LivePoller[LeftFenceReader, bool] = LivePoller(
            f"fence of {name}",
            lambda: LeftFenceReader(sources.open_clusters(name)),
            lambda reader: reader.read(),
            FENCE_EVERY_S,
            clock,
        )
        self._of_kinds: Mapping[str, LivePoller[Any, Any]] = {
            "topics": self.topics,
            "groups": self.groups,
            "rehearsal": self.rehearsal,
            "switchover": self.switchover,
        }

    def poller(self, kind: str) -> LivePoller[Any, Any]:
        """The poller of a kind of `KINDS`."""
        return self._of_kinds[kind]

    def newest(self, topic: str) -> LivePoller[BothSidesReader, dict[int, NewestTimes]]:
        """The poller of the newest records of a topic; with `MOST_TOPICS` more recent topics, a poller ends."""
        name = self.settings.name
        with self._lock:
            found = self._newest.pop(topic, None)
            if found is None:
                found = LivePoller(
                    f"newest records of {topic}",
                    lambda: self._sources.open_both_sides(name),
                    lambda reader: reader.newest_times(TopicName(topic)),
                    NEWEST_EVERY_S,
                    self._clock,
                )
            self._newest[topic] = found
            gone = [self._newest.pop(next(iter(self._newest)))] if len(self._newest) > MOST_TOPICS else []
        for poller in gone:
            poller.close()
        return found

    def close(self) -> None:
        with self._lock:
            newest = list(self._newest.values())
        self.left_fence.close()
        for poller in (self.state, *self._of_kinds.values(), *newest):
            poller.close()


class LiveFlows:
    """The live readings of the flows of the console. A flow with changed settings gets new readers."""

    def __init__(self, sources: ConsoleSources, clock: Clock) -> None:
        self._sources = sources
        self._clock = clock
        self._lock = Lock()
        self._flows: dict[str, LiveFlow] = {}
        self._closed = False

    def flows(self) -> list[LiveFlow]:
        """The readings of all flows of now; the readings of flows that are gone end."""
        names = list(self._sources.flows)
        with self._lock:
            gone = [self._flows.pop(name) for name in self._flows.keys() - names]
        for flow in gone:
            flow.close()
        return [self.flow(name) for name in names]

    def flow(self, name: str) -> LiveFlow:
        """The readings of a flow. Raises RequestError 404 for an unknown name."""
        settings = self._sources.flow(name)
        with self._lock:
            found = self._flows.get(name)
            if found is not None and (found.settings is settings or found.settings == settings):
                return found
            if found is not None:
                found.close()
            points = FlowPoints() if found is None else found.points
            made = self._flows[name] = LiveFlow(name, self._sources, self._clock, points)
            if self._closed:
                made.close()
            return made

    def poller(self, name: str) -> LivePoller[Any, Any]:
        """The poller of the readings that `FLOW` or `KIND:FLOW` names; connectors may have any name, `KIND:FLOW` too.

        Raises RequestError 404.
        """
        kind, _, flow = name.partition(":")
        if kind in KINDS and name not in self._sources.flows:
            return self.flow(flow).poller(kind)
        return self.flow(name).state

    def versions(self, names: Sequence[str]) -> str:
        """The versions of readings in a text: it changes with each reading."""
        return ".".join(str(self.poller(name).reading.version) for name in names)

    def close(self) -> None:
        """End all threads."""
        with self._lock:
            self._closed = True
            flows = list(self._flows.values())
        for flow in flows:
            flow.close()
