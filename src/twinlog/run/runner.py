"""Runs all flows of a configuration in one process, until they are done or somebody says stop."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from twinlog.run.desk import Desk
from twinlog.run.flow import FlowRunner, State
from twinlog.run.rehearsal import rehearse
from twinlog.run.seat import IdleSeat, Seat
from twinlog.settings import FlowSettings
from twinlog.spark.session import SparkEngine, local_master

log = logging.getLogger(__name__)

STOP_S = 5.0
TICK_S = 0.2
EXECUTORS_S = 15.0
"""How long a start waits for the first executor of a cluster."""

SLOTS_EVERY_S = 1.0
SAY_AGAIN_S = 60.0


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the command line adds to the flows: Spark's master (None: local), its settings, and when to end."""

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    until_caught_up: bool = False


class Runner:
    """Owns the flows, the desk and Spark. `run` blocks; `stop` may be called from a signal handler.

    `flows` are those that copy, `idle` those that are not enabled and write heartbeats only; nobody waits for these.
    Each is run by one process: of those that were started with the same file the others stand by. `all_enabled` are the
    enabled flows of the file, which other processes may run: some may come in each other's way.
    """

    def __init__(
        self, flows: Sequence[FlowSettings], options: RunOptions, all_enabled: Sequence[FlowSettings] = ()
    ) -> None:
        self._options = options
        self._all_enabled = all_enabled or [flow for flow in flows if flow.enabled]
        self._settings = [flow for flow in flows if flow.enabled]
        self._wake = threading.Event()
        self.idle = [IdleSeat(flow, self._wake.set) for flow in flows if not flow.enabled]
        self.flows: list[Seat] = []
        self._stop_asked = threading.Event()
        self._engine: SparkEngine | None = None
        self._engine_error: Exception | None = None
        self.web_url: str | None = None
        self._rehearsed = False
        self._slots_at = 0.0
        self._said_at = float("-inf")

    def stop(self) -> None:
        """Ask for a clean stop; `run` returns within about five seconds."""
        self._stop_asked.set()
        self._wake.set()

    def run(self, started: Callable[[Runner], None] = lambda _: None) -> int:
        """Run until stopped or done; returns the exit code: 0, or 1 when a flow failed.

        `started` is called once the flows exist.
        """
        for idle in self.idle:
            idle.start()
        try:
            if self._settings:
                return self._copy(started)
            started(self)
            # Nothing is to be copied, so there is nothing to catch up with either.
            while not (self._options.until_caught_up or self._stop_asked.is_set()):
                self._attend_idle()
            return 0
        finally:
            _all_at_once([idle.stop for idle in self.idle])

    def _copy(self, started: Callable[[Runner], None]) -> int:
        """Run the flows that copy, with Spark."""
        master = self._options.master
        local = master is None or master.startswith("local")
        wanted = sum(flow.tasks_max for flow in self._settings)
        # Spark takes seconds to start: meanwhile the flows find out who runs them and look at their clusters.
        starter = threading.Thread(
            target=self._start_engine, args=(master or local_master(wanted),), name="spark", daemon=True
        )
        starter.start()
        self.flows = [self._seat(settings, local) for settings in self._settings]
        desk: Desk | None = None
        try:
            for seat in self.flows:
                seat.start()
            if not local:
                starter.join()
            if self._engine_error is not None:
                raise self._engine_error
            share = self._share(wanted)
            for seat in self.flows:
                seat.use_slots(seat.settings.tasks_max if local else share)
            desk = Desk("127.0.0.1" if self._engine is None or local else self._engine.host)
            started(self)
            while not self._finished():
                if self._engine_error is not None:
                    raise self._engine_error
                if self._engine is not None:
                    self.web_url = self._engine.web_url
                    self._follow_slots(self._engine)
                    self._rehearse(self._engine, desk)
                for seat in self.flows:
                    seat.attend(self._engine, desk)
                self._attend_idle()
        finally:
            self._shut_down(desk, starter)
        return 1 if any(seat.state is State.FAILED for seat in self.flows) else 0

    def _rehearse(self, engine: SparkEngine, desk: Desk) -> None:
        """While this process only stands by it lets Spark do once what it would lose seconds with when taking over."""
        if self._rehearsed or not any(seat.stands_by for seat in self.flows):
            return
        self._rehearsed = True
        if all(seat.flow is None for seat in self.flows):
            threading.Thread(target=self._rehearse_once, args=(engine, desk), name="rehearsal", daemon=True).start()

    def _rehearse_once(self, engine: SparkEngine, desk: Desk) -> None:
        try:
            rehearse(engine, desk)
        except Exception as error:
            # As when Spark ends meanwhile; taking over then only takes longer.
            log.debug("the rehearsal came to nothing: %r", error)
        else:
            log.info("Spark is warm, this process is ready to take over")

    def _seat(self, settings: FlowSettings, local: bool) -> Seat:
        def build(slots: int, proven_s: Callable[[], float]) -> FlowRunner:
            return FlowRunner(
                settings,
                slots=slots,
                tasks=1 if local else slots,
                until_caught_up=self._options.until_caught_up,
                wake=self._wake.set,
                flows=self._all_enabled,
                proven_s=proven_s,
            )

        return Seat(settings, build, until_caught_up=self._options.until_caught_up, wake=self._wake.set)

    def _attend_idle(self) -> None:
        """Look after the flows that are not enabled, and wait for the next moment."""
        for idle in self.idle:
            idle.attend()
        self._wake.wait(TICK_S)
        self._wake.clear()

    def _follow_slots(self, engine: SparkEngine) -> None:
        """Executors come and go: more tasks than slots would leave partitions waiting for a whole lease."""
        if engine.local or time.monotonic() < self._slots_at:
            return
        now = time.monotonic()
        self._slots_at = now + SLOTS_EVERY_S
        slots = engine.slots
        if not slots:
            if now - self._said_at > SAY_AGAIN_S:
                self._said_at = now
                log.warning(
                    "Spark at %s has no executor for twinlog, nothing is copied: has a worker a core and %s of memory "
                    "free, and can it reach this machine as %s?",
                    self._options.master,
                    engine.executor_memory,
                    engine.host,
                )
            return
        share = max(1, slots // len(self._settings))
        for flow in self.flows:
            flow.use_slots(share)

    def _share(self, wanted: int) -> int:
        """Slots for each flow on a cluster: tasks without a slot would wait a whole lease."""
        if self._engine is None:
            return wanted
        slots = self._engine.slots
        share = max(1, slots // len(self._settings))
        if wanted > slots:
            log.warning(
                "Spark has %d slots for %d tasks that tasks.max allows; each flow takes at most %d",
                slots,
                wanted,
                share,
            )
        return share

    def _start_engine(self, master: str) -> None:
        try:
            # A standalone cluster would give all its cores to the first who comes.
            cores = str(sum(flow.tasks_max for flow in self._settings))
            engine = SparkEngine(master, {"spark.cores.max": cores, **self._options.conf})
            engine.wait_for_slot(EXECUTORS_S)
            self._engine = engine
        except Exception as error:
            self._engine_error = error
        self._wake.set()

    def _finished(self) -> bool:
        return self._stop_asked.is_set() or all(seat.ended for seat in self.flows)

    def _shut_down(self, desk: Desk | None, starter: threading.Thread) -> None:
        deadline = time.monotonic() + STOP_S
        _all_at_once([seat.stop for seat in self.flows])
        # The queries need no stop of their own: their tasks have ended, and Spark goes as a whole.
        if desk is not None:
            desk.close()
        if self._engine is None:
            starter.join(max(0.1, deadline - time.monotonic() - 1.0))
        if self._engine is not None:
            self._engine.stop(max(0.5, deadline - time.monotonic()))
        for seat in self.flows:
            seat.close()


def _all_at_once(steps: Sequence[Callable[[], None]]) -> None:
    """Do steps side by side and wait for all."""
    threads = [threading.Thread(target=step, daemon=True) for step in steps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
