"""All processes that share flows with this process: the runner of each flow, and the ready processes."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Mapping

from twinlog.clock import LONG_AGO, SYSTEM, Clock
from twinlog.worker.placement.processes import (
    FlowMembers,
    FlowName,
    ProcessName,
    loads,
)


class ElectionRegistry:
    """Updated by the elections of a process, each for its flow; may be used by any thread.

    `name` is the name of this process, `host-pid`. With `ready` it could run a flow at once. With `packs` all flows are
    kept in a single process instead of spread.
    """

    def __init__(
        self, *, ready: bool = False, packs: bool = False, name: str | None = None, clock: Clock = SYSTEM
    ) -> None:
        self._clock = clock
        self.packs = packs
        self.name = name or f"{socket.gethostname()}-{os.getpid()}"
        self._ready = ready
        self._lock = threading.Lock()
        self._crews: dict[FlowName, FlowMembers] = {}
        self._members: dict[FlowName, str] = {}
        self._on_ready: list[Callable[[], None]] = []
        self._since = self._clock.monotonic()
        self._rest_until = LONG_AGO
        self._waits_since: float | None = None

    @property
    def ready(self) -> bool:
        return self._ready

    def be_ready(self, ready: bool) -> bool:
        """Set whether this process is ready; returns whether that is a change."""
        with self._lock:
            changed, self._ready = ready != self._ready, ready
            callbacks = list(self._on_ready) if changed else []
        for callback in callbacks:
            callback()
        return changed

    def on_ready(self, callback: Callable[[], None]) -> None:
        """Call `callback` whenever `ready` changes."""
        with self._lock:
            self._on_ready.append(callback)

    def set_members(self, flow: FlowName, crew: FlowMembers | None) -> None:
        """Set the runner of a flow and the processes that could run it, None while they are unknown."""
        with self._lock:
            if self._crews.get(flow) == crew:
                return
            self._since, self._rest_until, self._waits_since = self._clock.monotonic(), LONG_AGO, None
            self._crews.pop(flow, None)
            if crew is not None:
                self._crews[flow] = crew

    def set_member_id(self, flow: FlowName, member: str) -> None:
        """Note that this process is a member of the group of a flow, under this id."""
        with self._lock:
            self._members[flow] = member

    def flow_of(self, member: str) -> FlowName | None:
        """The flow in whose group this process is that member, None for a member that is another process."""
        with self._lock:
            return next((flow for flow, own in self._members.items() if own == member), None)

    def hand_over_flow(self, flow: FlowName, heir: ProcessName | None) -> None:
        """Note that this process left a flow to `heir`, which counts as runner until the group appoints a runner."""
        with self._lock:
            crew = self._crews.get(flow)
        self.set_members(flow, None if crew is None or heir is None else FlowMembers(heir, crew.ready))

    def count_flows(self, besides: FlowName) -> dict[ProcessName, int]:
        """The number of flows that each process runs; `besides` is excluded."""
        with self._lock:
            return loads({flow: crew for flow, crew in self._crews.items() if flow != besides})

    def crews(self) -> dict[FlowName, FlowMembers]:
        with self._lock:
            return dict(self._crews)

    def mark_balanced(self, crews: Mapping[FlowName, FlowMembers]) -> None:
        """Stop moves as long as runners and ready processes stay the same."""
        with self._lock:
            if self._crews == crews:
                self._rest_until = float("inf")

    def restart_calm(self) -> None:
        """Restart the time of calm: a change is under way that shows later."""
        with self._lock:
            self._since, self._waits_since = self._clock.monotonic(), None

    def wait(self, waits: bool) -> float:
        """Set whether this process could give a flow away and only waits for another process to give first.

        Returns the number of seconds since this became true, or since the last other change.
        """
        with self._lock:
            if not waits:
                self._waits_since = None
                return 0.0
            now = self._clock.monotonic()
            self._waits_since = now if self._waits_since is None else self._waits_since
            return now - self._waits_since

    def pause_moves(self, seconds: float) -> None:
        """Stop moves for this time, or until the next change."""
        with self._lock:
            self._rest_until = max(self._rest_until, self._clock.monotonic() + seconds)

    @property
    def may_move(self) -> bool:
        """Whether it is time to look for a flow to move."""
        with self._lock:
            return self._clock.monotonic() >= self._rest_until

    @property
    def calm_s(self) -> float:
        """The number of seconds since the last change."""
        with self._lock:
            return self._clock.monotonic() - self._since
