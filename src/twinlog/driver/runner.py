"""Runs all flows of a configuration in one process, until they are done or the process is stopped."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from twinlog.clock import SYSTEM, Clock
from twinlog.driver.archive_job import ArchiveJob
from twinlog.driver.elected_flow import ElectedFlow
from twinlog.driver.election.roster import Roster
from twinlog.driver.election.spreading import spread
from twinlog.driver.flow import FlowRunner
from twinlog.driver.idle_flow import ElectedIdleFlow
from twinlog.driver.lease_server import LeaseServer
from twinlog.driver.outcome import Outcome, outcome_of
from twinlog.driver.queries import Queries
from twinlog.driver.read_ahead import StoredOffsets
from twinlog.driver.readiness import Readiness
from twinlog.driver.spark_supervisor import SupervisedEngine
from twinlog.driver.warm_up import run_warm_up
from twinlog.errors import EngineLostError
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect
from twinlog.log_once import AGAIN_S, LogOnce
from twinlog.plan.sharing import Sharing
from twinlog.settings.flow import FlowSettings
from twinlog.spark.places import sweep_leftovers
from twinlog.spark.refusals import MASTER
from twinlog.spark.session import SparkEngine, local_master

log = logging.getLogger(__name__)

STOP_S = 5.0
HUNG_S = 2.0
"""How long a stop waits for a call to the JVM that is under way."""

TICK_S = 0.2
SLOTS_EVERY_S = 1.0
HOLD_S = 10.0
"""How long executors are held for flows whose runner is unknown."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the command line adds to the flows: Spark's master (None: local), its settings, and when to end.

    With `warm_up` later starts may be prepared in the background.
    """

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    until_caught_up: bool = False
    warm_up: bool = True


class Runner:
    """Owns the flows, the lease server and Spark. `run` blocks; `stop` may be called from a signal handler.

    `flows` are those that copy, `idle` those that are not enabled and write heartbeats only; the end of a run does not
    wait for these.
    Each is run by one process: of those that were started with the same file the others stand by. `all_enabled` are the
    enabled flows of the file, which other processes may run: some may conflict.
    """

    def __init__(
        self,
        flows: Sequence[FlowSettings],
        options: RunOptions,
        all_enabled: Sequence[FlowSettings] = (),
        clock: Clock = SYSTEM,
        connect: Connect = ClusterAdmin,
    ) -> None:
        self._connect = connect
        self._clock = clock
        self._options = options
        self._all_enabled = all_enabled or [flow for flow in flows if flow.enabled]
        self._settings = [flow for flow in flows if flow.enabled]
        self._wake = threading.Event()
        self.idle = [ElectedIdleFlow(flow, self._wake.set, clock, connect) for flow in flows if not flow.enabled]
        self.flows: list[ElectedFlow] = []
        self._stop_asked = threading.Event()
        self._stop_begun = threading.Event()
        # A cluster gives its slots to one process: spread flows would need each slot twice.
        self._roster = Roster(packs=not self._local, clock=clock)
        self._spark = SupervisedEngine(self._build_engine, self._wake.set, clock=clock)
        self.web_url: str | None = None
        self._seen: SparkEngine | None = None
        self._met_at = self._held_at = 0.0
        self._holds: bool | None = None
        """Whether this process has executors for flows that it runs; None until that is known."""
        self._readiness = Readiness(clock)
        self._warmed_up: SparkEngine | None = None
        self._warm_up_thread: threading.Thread | None = None
        self._queries = Queries(self._settings, clock)
        self._sharing = Sharing()
        self._slots = 0
        self._slots_at = 0.0
        self._warming = ArchiveJob(wanted=options.warm_up and self._local, clock=clock)
        self._logged = LogOnce(clock)

    def stop(self) -> None:
        """Ask for a clean stop; `run` returns within about five seconds. For any thread but that of `run`."""
        self._stop_asked.set()
        self._wake.set()
        watch = threading.Timer(HUNG_S, self._wait_no_longer)
        watch.daemon = True
        try:
            watch.start()
        except RuntimeError as error:
            # This may be a signal's handler, in the middle of anything.
            log.warning("a JVM that does not answer would be waited for: %s", error)

    def _wait_no_longer(self) -> None:
        if self._settings and not self._stop_begun.is_set():
            log.warning("Spark's JVM does not answer, it is killed")
            self._spark.interrupt()

    def run(self, started: Callable[[Runner], None] = lambda _: None) -> Outcome:
        """Run until stopped or done; returns how it ended.

        `started` is called once the flows exist.
        """
        sweep_leftovers(self._options.conf)
        for idle in self.idle:
            idle.start()
        try:
            if self._settings:
                return self._copy(started)
            started(self)
            # No flow copies, so the run has caught up.
            while not (self._options.until_caught_up or self._stop_asked.is_set()):
                self._attend_idle()
            return Outcome.STOPPED if self._stop_asked.is_set() else Outcome.DONE
        finally:
            _all_at_once([idle.stop for idle in self.idle])

    def _copy(self, started: Callable[[Runner], None]) -> Outcome:
        """Run the flows that copy, with Spark. Raises EngineError when it cannot be started, or not any more."""
        # Spark takes seconds to start: meanwhile the flows are elected and look at their clusters.
        self._spark.start()
        self.flows = [self._elected_flow(settings) for settings in self._settings]
        lease_server: LeaseServer | None = None
        try:
            for elected in self.flows:
                elected.start()
            started(self)
            while not self._finished():
                engine = self._spark.engine
                try:
                    if engine is not None and engine is not self._seen:
                        self._meet(engine)
                    if lease_server is None and (self._local or engine is not None):
                        # Tasks on other machines reach this process as Spark does.
                        lease_server = LeaseServer(
                            "127.0.0.1" if self._local or engine is None else engine.host, clock=self._clock
                        )
                    if lease_server is not None:
                        self._attend(engine, lease_server)
                except EngineLostError as error:
                    if engine is not None:
                        self._spark.lost(engine, error)
                self._warming.attend(spark_runs=engine is not None)
                self._attend_idle()
        finally:
            self._warming.begin_stop()
            self._shut_down(lease_server)
            self._warming.stop()
        return outcome_of([elected.state for elected in self.flows])

    def _attend(self, engine: SparkEngine | None, lease_server: LeaseServer) -> None:
        if engine is not None:
            self._hold_executors(engine)
            self._follow_slots(engine)
            self._warm_up(engine, lease_server)
        for elected in self.flows:
            elected.attend(lease_server)
        if engine is not None:
            flows = [flow for elected in self.flows if (flow := elected.running) is not None]
            self._share_slots(flows)
            self._queries.attend(engine, lease_server, flows, self._slots)
        self._update_ready(engine)
        if not self._options.until_caught_up:
            spread(self._roster, self.flows)

    def _update_ready(self, engine: SparkEngine | None) -> None:
        """Others give flows rather to a process whose Spark is warm, and that has read what is stored."""
        ready = self._readiness.look(
            engine,
            works=engine is not None and (not engine.local or any(elected.copies for elected in self.flows)),
            has_read=lambda: all(elected.has_read for elected in self.flows),
        )
        if self._roster.be_ready(ready) and ready and any(elected.stands_by for elected in self.flows):
            log.info("Spark is warm, this process is ready to take over")

    def _meet(self, engine: SparkEngine) -> None:
        """Look at an engine that has just started."""
        self.web_url = engine.web_url
        self._met_at = self._clock.monotonic()
        self._holds = None
        self._slots = engine.slots
        if self._wanted > self._slots:
            log.warning(
                "Spark has %d slot%s for %d tasks that tasks.max allows: no flow gets more than its share",
                self._slots,
                "" if self._slots == 1 else "s",
                self._wanted,
            )
        self._seen = engine

    def _warm_up(self, engine: SparkEngine, lease_server: LeaseServer) -> None:
        """Run an empty lease while this process only stands by, which saves seconds when it takes over."""
        if engine is self._warmed_up or not any(elected.stands_by for elected in self.flows):
            return
        if self._warms_up:
            return
        self._warmed_up = engine
        if self._slots and self._holds is not False and not any(elected.occupied for elected in self.flows):
            thread = threading.Thread(
                target=self._warm_up_once, args=(engine, lease_server), name="warm-up", daemon=True
            )
            try:
                thread.start()
            except RuntimeError as error:
                # Taking over then only takes longer.
                log.debug("there is no warm-up: %s", error)
            else:
                self._warm_up_thread = thread

    def _warm_up_once(self, engine: SparkEngine, lease_server: LeaseServer) -> None:
        try:
            run_warm_up(engine, lease_server, clock=self._clock)
        except Exception as error:
            # As when Spark ends meanwhile; taking over then only takes longer.
            log.debug("the warm-up came to nothing: %r", error)
        self._readiness.warmed_up(engine)

    def _elected_flow(self, settings: FlowSettings) -> ElectedFlow:
        def build(leads_for_s: Callable[[], float], stored: StoredOffsets | None) -> FlowRunner:
            return FlowRunner(
                settings,
                slots=settings.tasks_max,
                tasks=1 if self._local else None,
                until_caught_up=self._options.until_caught_up,
                wake=self._wake.set,
                flows=self._all_enabled,
                leads_for_s=leads_for_s,
                stored=stored,
                clock=self._clock,
                connect=self._connect,
            )

        return ElectedFlow(
            settings,
            build,
            self._queries.take_out,
            until_caught_up=self._options.until_caught_up,
            wake=self._wake.set,
            roster=self._roster,
            clock=self._clock,
            connect=self._connect,
        )

    def _attend_idle(self) -> None:
        """Look after the flows that are not enabled, and wait for the next moment."""
        for idle in self.idle:
            idle.attend()
        self._clock.wait(self._wake, TICK_S)
        self._wake.clear()

    def _hold_executors(self, engine: SparkEngine) -> None:
        """A process that only stands by leaves the slots of a Spark cluster to the one that runs the flows."""
        holds = any(elected.occupied for elected in self.flows)
        now = self._clock.monotonic()
        if holds:
            self._held_at = now
        if engine.local or holds is self._holds:
            return
        if not holds and (self._warms_up or not self._others_run(engine, now)):
            return
        self._holds = holds
        if not holds:
            log.info(
                "standing by without executors; Spark at %s is asked for %s cores when this process takes over",
                *(self._options.master, engine.cores),
            )
        engine.take_executors(self._wanted if holds else 0)

    def _others_run(self, engine: SparkEngine, now: float) -> bool:
        """Whether this process holds executors without need that other processes may need.

        While the runner of a flow is unknown, as when its target is away, it waits a while.
        """
        ready = all(elected.stands_by or elected.over for elected in self.flows)
        return (ready and engine is self._warmed_up) or now - max(self._held_at, self._met_at) > HOLD_S

    @property
    def _warms_up(self) -> bool:
        return self._warm_up_thread is not None and self._warm_up_thread.is_alive()

    def _follow_slots(self, engine: SparkEngine) -> None:
        """Executors come and go: more tasks than slots would leave partitions waiting for a whole lease."""
        if engine.local or self._holds is False or self._clock.monotonic() < self._slots_at:
            return
        now = self._clock.monotonic()
        self._slots_at = now + SLOTS_EVERY_S
        self._slots = engine.slots
        if not self._slots and self._logged.is_new("no executor", AGAIN_S):
            log.warning(
                "Spark at %s has no executor for twinlog, nothing is copied: has a worker a core and %s of memory "
                "free, and can it reach this machine as %s?",
                self._options.master,
                engine.executor_memory,
                engine.host,
            )

    def _share_slots(self, flows: Sequence[FlowRunner]) -> None:
        """Set how many tasks each flow that runs here may have."""
        if self._slots:
            shares = self._sharing.deal(self._slots, {flow.settings.name: flow.demand for flow in flows})
            for flow in flows:
                flow.use_slots(shares[flow.settings.name])

    def _build_engine(self) -> SparkEngine:
        # A standalone cluster would give all its cores to the first application.
        settings = {"spark.cores.max": str(self._wanted), **self._options.conf}
        given = dict.fromkeys(self._options.conf, "--conf")
        if self._options.master is not None:
            given[MASTER] = "--master"
        return SparkEngine(self._options.master or local_master(self._wanted), settings, given=given)

    @property
    def _local(self) -> bool:
        master = self._options.master
        return master is None or master.startswith("local")

    @property
    def _wanted(self) -> int:
        """Tasks that the flows may have, all in all."""
        return sum(flow.tasks_max for flow in self._settings)

    def _finished(self) -> bool:
        return self._stop_asked.is_set() or all(elected.ended for elected in self.flows)

    def _shut_down(self, lease_server: LeaseServer | None) -> None:
        self._stop_begun.set()
        deadline = self._clock.monotonic() + STOP_S
        self._spark.close()
        _all_at_once([elected.stop for elected in self.flows])
        # The queries need no stop of their own: their tasks have ended, and Spark goes as a whole.
        if lease_server is not None:
            lease_server.close()
        self._spark.stop(max(0.5, deadline - self._clock.monotonic()))
        for elected in self.flows:
            elected.close()


def _all_at_once(steps: Sequence[Callable[[], None]]) -> None:
    """Do steps side by side and wait for all; one after the other where there may be no more threads."""
    threads: list[threading.Thread] = []
    left: list[Callable[[], None]] = []
    for step in steps:
        thread = threading.Thread(target=step, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            left.append(step)
        else:
            threads.append(thread)
    for step in left:
        try:
            step()
        except Exception:
            log.exception("at the end")
    for thread in threads:
        thread.join()
