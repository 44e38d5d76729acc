"""The live readings of all flows: their states every two seconds, their topics and groups less often.

`kept_readings` has the memory of earlier readings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any, TypeVar

from twinlog.clock import Clock, wall_ms
from twinlog.model.types import TopicName
from twinlog.ui.both_sides import NewestTimes, NewestTimesReader
from twinlog.ui.conducting import OtherJournalReader, SwitchoverReader
from twinlog.ui.live.kept_readings import EVERY_S, FlowPoint, FlowPoints, GroupCommits
from twinlog.ui.live.poller import LivePoller, LiveReader
from twinlog.ui.rehearsal import REHEARSE_EVERY_S
from twinlog.ui.sources import ConsoleSources

V = TypeVar("V")

TOPICS_EVERY_S = 10.0
"""All offsets of both clusters are read for it."""

GROUPS_EVERY_S = CHECKPOINTS_EVERY_S = 10.0

HISTORY_EVERY_S = 60.0
"""Older reports are up to 32 MB, read when a user asks for them."""

NEWEST_EVERY_S = 5.0
MOST_TOPICS = 20
"""The most topics of a flow whose newest records are read at a time."""

SWITCHOVER_EVERY_S = 1.0
"""The journal is a small topic, which is read while a browser shows a switchover."""

OTHER_JOURNAL_EVERY_S = 5.0
"""The journal on the source, which may be silent, is read beside the journal on the target, by a thread of its own."""

MOST_READINGS = 100
"""The most readings that a page follows."""

KINDS = ("topics", "groups", "checkpoints", "rehearsal", "switchover")
"""The readings of a flow beside its state."""


class LiveFlow:
    """The pollers of a flow, and the memory of their readings, with the memory of an `earlier` flow of the name."""

    def __init__(self, name: str, sources: ConsoleSources, clock: Clock, earlier: LiveFlow | None = None) -> None:
        self.settings = sources.flow(name)
        self._sources = sources
        self._clock = clock
        self._lock = Lock()
        self._newest: dict[str, LivePoller[dict[int, NewestTimes]]] = {}
        self.points: FlowPoints = FlowPoints() if earlier is None else earlier.points
        self.commits: GroupCommits = GroupCommits() if earlier is None else earlier.commits
        self.state = self._poller(
            "flow", sources.open_flow, EVERY_S, lambda seen: self.points.add(FlowPoint.of(seen, wall_ms(clock)))
        )
        self.topics = self._poller("topics of", sources.open_topics, TOPICS_EVERY_S)
        self.groups = self._poller("groups of", sources.open_groups, GROUPS_EVERY_S, self.commits.note)
        self.checkpoints = self._poller("checkpoints of", sources.open_checkpoints, CHECKPOINTS_EVERY_S)
        self.history = self._poller("reports of", sources.open_report_history, HISTORY_EVERY_S)
        self.rehearsal = self._poller("rehearsal of", sources.open_rehearsal, REHEARSE_EVERY_S)
        self.switchover = self._poller(
            "switchover of", lambda flow: SwitchoverReader(sources.open_clusters(flow)), SWITCHOVER_EVERY_S
        )
        self.other_journal = self._poller(
            "other journal of", lambda flow: OtherJournalReader(sources.open_clusters(flow)), OTHER_JOURNAL_EVERY_S
        )
        self._of_kinds: Mapping[str, LivePoller[Any]] = {
            "topics": self.topics,
            "groups": self.groups,
            "checkpoints": self.checkpoints,
            "rehearsal": self.rehearsal,
            "switchover": self.switchover,
        }

    def _poller(
        self,
        readings: str,
        open_reader: Callable[[str], LiveReader[V]],
        every_s: float,
        note: Callable[[V], None] = lambda _: None,
    ) -> LivePoller[V]:
        """A poller of readings of this flow, which the reader of the flow's name reads."""
        name = self.settings.name
        return LivePoller(f"{readings} {name}", lambda: open_reader(name), every_s, self._clock, note)

    def poller(self, kind: str) -> LivePoller[Any]:
        """The poller of a kind of `KINDS`."""
        return self._of_kinds[kind]

    def newest(self, topic: str) -> LivePoller[dict[int, NewestTimes]]:
        """The poller of the newest records of a topic; with `MOST_TOPICS` more recent topics, a poller ends."""
        name = self.settings.name
        with self._lock:
            found = self._newest.pop(topic, None)
            if found is None:
                found = LivePoller(
                    f"newest records of {topic}",
                    lambda: NewestTimesReader(self._sources.open_both_sides(name), TopicName(topic)),
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
        pollers: list[LivePoller[Any]] = [self.state, self.history, self.other_journal, *self._of_kinds.values()]
        for poller in [*pollers, *newest]:
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
            made = self._flows[name] = LiveFlow(name, self._sources, self._clock, found)
            if self._closed:
                made.close()
            return made

    def poller(self, name: str) -> LivePoller[Any]:
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
