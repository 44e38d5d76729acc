"""All processes that share flows with this one: which of them runs which flow, and which are ready to."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Mapping

from twinlog.clock import LONG_AGO, SYSTEM, Clock
from twinlog.worker.election.spread import FlowMembers, FlowName, ProcessName, loads


class ElectionRegistry:
    """Updated by the elections of a process, each for its flow; may be used by any thread.

    `name` is the name of this process, `host-pid`. With `ready` it could run a flow at once, with `packs` all flows
    are kept in one process instead of spread.
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
        """Set whether this process is ready; returns whether that changed."""
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
        """Set who runs a flow now, None when that is unknown."""
        with self._lock:
            if self._crews.get(flow) == crew:
                return
            self._since, self._rest_until, self._waits_since = self._clock.monotonic(), LONG_AGO, None
            self._crews.pop(flow, None)
            if crew is not None:
                self._crews[flow] = crew

    def set_member_id(self, flow: FlowName, member: str) -> None:
        """This process is a member of the group of a flow, under this id."""
        with self._lock:
            self._members[flow] = member

    def flow_of(self, member: str) -> FlowName | None:
        """The flow in whose group this process is that member, None where it is another process."""
        with self._lock:
            return next((flow for flow, own in self._members.items() if own == member), None)

    def hand_over_flow(self, flow: FlowName, heir: ProcessName | None) -> None:
        """This process left a flow to another one, which counts as its runner until the group has appointed one."""
        with self._lock:
            crew = self._crews.get(flow)
        self.set_members(flow, None if crew is None or heir is None else FlowMembers(heir, crew.ready))

    def count_flows(self, besides: FlowName) -> dict[ProcessName, int]:
        """How many flows each process runs, `besides` left out."""
        with self._lock:
            return loads({flow: crew for flow, crew in self._crews.items() if flow != besides})

    def crews(self) -> dict[FlowName, FlowMembers]:
        with self._lock:
            return dict(self._crews)

    def mark_balanced(self, crews: Mapping[FlowName, FlowMembers]) -> None:
        """Move nothing as long as runners and ready processes are these."""
        with self._lock:
            if self._crews == crews:
                self._rest_until = float("inf")

    def restart_calm(self) -> None:
        """A change is under way that shows later: restart the time of calm."""
        with self._lock:
            self._since, self._waits_since = self._clock.monotonic(), None

    def wait(self, waits: bool) -> float:
        """Set whether this process could give a flow away and only waits for another one to give first.

        Returns for how many seconds that has been so, without any other change.
        """
        with self._lock:
            if not waits:
                self._waits_since = None
                return 0.0
            now = self._clock.monotonic()
            self._waits_since = now if self._waits_since is None else self._waits_since
            return now - self._waits_since

    def pause_moves(self, seconds: float) -> None:
        """Move nothing for so long, unless something changes."""
        with self._lock:
            self._rest_until = max(self._rest_until, self._clock.monotonic() + seconds)

    @property
    def may_move(self) -> bool:
        """Whether to look for a flow to move."""
        with self._lock:
            return self._clock.monotonic() >= self._rest_until

    @property
    def calm_s(self) -> float:
        """For how many seconds nothing has changed."""
        with self._lock:
            return self._clock.monotonic() - self._since
