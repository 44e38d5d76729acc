"""What this process knows of all the processes that share its flows: who runs which flow, and who is ready to."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Mapping

from twinlog.clock import SYSTEM, Clock
from twinlog.plan.spread import Crew, FlowName, ProcessName, loads


class Roster:
    """Told by the elections of a process, each of its flow; may be used by any thread.

    `name` is how this process calls itself, `host-pid`. `ready` says that this one could run a flow at once, `packs`
    that it is better to have all flows in one process than to spread them.
    """

    def __init__(
        self, *, ready: bool = False, packs: bool = False, name: str | None = None, clock: Clock = SYSTEM
    ) -> None:
        self._clock = clock
        self.packs = packs
        self.name = name or f"{socket.gethostname()}-{os.getpid()}"
        self._ready = ready
        self._lock = threading.Lock()
        self._crews: dict[FlowName, Crew] = {}
        self._hear: list[Callable[[], None]] = []
        self._since = self._clock.monotonic()
        self._rest_until = 0.0
        self._waits_since: float | None = None

    @property
    def ready(self) -> bool:
        return self._ready

    def be_ready(self, ready: bool) -> bool:
        """Say whether this process is ready; whether that is news."""
        with self._lock:
            news, self._ready = ready != self._ready, ready
            hear = list(self._hear) if news else []
        for tell in hear:
            tell()
        return news

    def on_ready(self, tell: Callable[[], None]) -> None:
        """Call `tell` whenever `ready` changes."""
        with self._lock:
            self._hear.append(tell)

    def note(self, flow: FlowName, crew: Crew | None) -> None:
        """Who runs a flow now, None when that is unknown."""
        with self._lock:
            if self._crews.get(flow) == crew:
                return
            self._since, self._rest_until, self._waits_since = self._clock.monotonic(), 0.0, None
            self._crews.pop(flow, None)
            if crew is not None:
                self._crews[flow] = crew

    def leave(self, flow: FlowName, heir: ProcessName | None) -> None:
        """This process left a flow to another one: it counts as that one's until its group says who runs it."""
        with self._lock:
            crew = self._crews.get(flow)
        self.note(flow, None if crew is None or heir is None else Crew(heir, crew.ready))

    def loads(self, besides: FlowName) -> dict[ProcessName, int]:
        """How many flows each process runs, `besides` left out."""
        with self._lock:
            return loads({flow: crew for flow, crew in self._crews.items() if flow != besides})

    def crews(self) -> dict[FlowName, Crew]:
        with self._lock:
            return dict(self._crews)

    def settle(self, crews: Mapping[FlowName, Crew]) -> None:
        """Nothing is to move while who runs what and who is ready is this."""
        with self._lock:
            if self._crews == crews:
                self._rest_until = float("inf")

    def stir(self) -> None:
        """Something is just changing, of which is heard later."""
        with self._lock:
            self._since, self._waits_since = self._clock.monotonic(), None

    def wait(self, waits: bool) -> float:
        """Say whether this process could give a flow and only waits for another one to give first.

        Returns for how many seconds that has been so, without anything else that changed.
        """
        with self._lock:
            if not waits:
                self._waits_since = None
                return 0.0
            now = self._clock.monotonic()
            self._waits_since = now if self._waits_since is None else self._waits_since
            return now - self._waits_since

    def rest(self, seconds: float) -> None:
        """Nothing is to move for so long, unless something changes."""
        with self._lock:
            self._rest_until = max(self._rest_until, self._clock.monotonic() + seconds)

    @property
    def unsettled(self) -> bool:
        """Whether it is worth to look for what is to move."""
        with self._lock:
            return self._clock.monotonic() >= self._rest_until

    @property
    def calm_s(self) -> float:
        """For how many seconds nothing has changed."""
        with self._lock:
            return self._clock.monotonic() - self._since
