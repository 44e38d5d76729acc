"""Runs all flows of a configuration in one process, until they are done or somebody says stop."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from twinlog.run.desk import Desk
from twinlog.run.flow import FlowRunner, State
from twinlog.run.idle import IdleFlow
from twinlog.settings import FlowSettings
from twinlog.spark.query import FlowQuery
from twinlog.spark.session import SparkEngine, local_master

log = logging.getLogger(__name__)

STOP_S = 5.0
COPIERS_STOP_S = 2.5
IDLE_STOP_S = 0.5
TICK_S = 0.2
EXECUTORS_S = 15.0
"""How long a start waits for the first executor of a cluster."""

SLOTS_EVERY_S = 1.0
SAY_AGAIN_S = 60.0
RESTART_S = (1.0, 30.0)
"""First and longest wait before a query that ended by itself is started again."""

STUCK_S = 15.0
"""A query whose lease no copier took up for so long is started again: a task hangs in a stopped or lost worker."""

FIRST_LEASE_S = 90.0
"""The same for a query's first lease: Spark compiles and starts its workers, on a busy machine for long."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the command line adds to the flows: Spark's master (None: local), its settings, and when to end."""

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    until_caught_up: bool = False


class Runner:
    """Owns the flows, the desk and Spark. `run` blocks; `stop` may be called from a signal handler.

    `flows` are those that copy, `idle` those that are not enabled and write heartbeats only; nobody waits for these.
    """

    def __init__(self, flows: Sequence[FlowSettings], options: RunOptions) -> None:
        self._options = options
        self._settings = [flow for flow in flows if flow.enabled]
        self.idle = [IdleFlow(flow) for flow in flows if not flow.enabled]
        self._wake = threading.Event()
        self._stop_asked = threading.Event()
        self._engine: SparkEngine | None = None
        self._engine_error: Exception | None = None
        self.flows: list[FlowRunner] = []
        self.web_url: str | None = None
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
            if not self._options.until_caught_up:
                self._stop_asked.wait()
            return 0
        finally:
            for idle in self.idle:
                idle.stop(IDLE_STOP_S)
                idle.close()

    def _copy(self, started: Callable[[Runner], None]) -> int:
        """Run the flows that copy, with Spark."""
        master = self._options.master
        local = master is None or master.startswith("local")
        wanted = sum(flow.tasks_max for flow in self._settings)
        # Spark takes seconds to start: meanwhile the flows look at their clusters.
        starter = threading.Thread(
            target=self._start_engine, args=(master or local_master(wanted),), name="spark", daemon=True
        )
        starter.start()
        if not local:
            starter.join()
        if self._engine_error is not None:
            raise self._engine_error
        share = self._share(wanted)
        for settings in self._settings:
            slots = share if not local else settings.tasks_max
            self.flows.append(
                FlowRunner(
                    settings,
                    slots=slots,
                    tasks=1 if local else slots,
                    until_caught_up=self._options.until_caught_up,
                    wake=self._wake.set,
                    flows=self._settings,
                )
            )
        host = "127.0.0.1" if self._engine is None or local else self._engine.host
        desk = Desk(host, {flow.settings.name: flow.leases for flow in self.flows})
        for flow in self.flows:
            flow.start()
        started(self)
        queries = [_SupervisedQuery(flow) for flow in self.flows]
        try:
            while not self._finished():
                if self._engine_error is not None:
                    raise self._engine_error
                if self._engine is not None:
                    self.web_url = self._engine.web_url
                    self._follow_slots(self._engine)
                    for query in queries:
                        query.watch(self._engine, desk)
                self._wake.wait(TICK_S)
                self._wake.clear()
        finally:
            self._shut_down(desk, starter)
        return 1 if any(flow.state is State.FAILED for flow in self.flows) else 0

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
        return self._stop_asked.is_set() or all(flow.ended for flow in self.flows)

    def _shut_down(self, desk: Desk, starter: threading.Thread) -> None:
        deadline = time.monotonic() + STOP_S
        stops = [threading.Thread(target=flow.stop, args=(COPIERS_STOP_S,)) for flow in self.flows]
        for stop in stops:
            stop.start()
        for stop in stops:
            stop.join()
        # The queries need no stop of their own: their tasks have ended, and Spark goes as a whole.
        desk.close()
        if self._engine is None:
            starter.join(max(0.1, deadline - time.monotonic() - 1.0))
        if self._engine is not None:
            self._engine.stop(max(0.5, deadline - time.monotonic()))
        for flow in self.flows:
            flow.close()


class _SupervisedQuery:
    """Starts a flow's query, and again when it ends by itself: Spark does not."""

    def __init__(self, flow: FlowRunner) -> None:
        self._flow = flow
        self._query: FlowQuery | None = None
        self._not_before = 0.0
        self._wait_s = RESTART_S[0]
        self._patience_s = FIRST_LEASE_S
        self._idle_since = time.monotonic()

    def watch(self, engine: SparkEngine, desk: Desk) -> None:
        """Look after the query; called every moment on the runner's thread."""
        now = time.monotonic()
        flow = self._flow
        if flow.ended:
            self._end()
            return
        if not flow.ready.is_set():
            return
        if self._query is None:
            if now >= self._not_before:
                self._query = engine.query(flow.settings, desk.address)
                self._idle_since, self._patience_s = time.monotonic(), FIRST_LEASE_S
            return
        if not flow.leases.unclaimed:
            self._idle_since, self._wait_s, self._patience_s = now, RESTART_S[0], STUCK_S
        if self._query.alive and now - self._idle_since < self._patience_s:
            return
        fault = self._query.fault() or "no task takes up its lease"
        log.warning("%s: the query is started again in %.0f s: %s", flow.settings.name, self._wait_s, _brief(fault))
        self._end()
        self._not_before = now + self._wait_s
        self._wait_s = min(2 * self._wait_s, RESTART_S[1])

    def _end(self) -> None:
        query, self._query = self._query, None
        if query is not None:
            self._flow.leases.disband()
            query.stop()


def _brief(text: str) -> str:
    """The telling line of a Java or Python stack trace."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("twinlog.", "kafka.")) or "Error:" in line]
    return (errors or lines or ["unknown"])[-1 if errors else 0][:500]
