"""Runs all flows of a configuration in one process, until they are done or the process is stopped."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from twinlog.clock import SYSTEM, Clock
from twinlog.driver.elected_flow import ElectedFlow
from twinlog.driver.election.roster import Roster
from twinlog.driver.election.spreading import spread
from twinlog.driver.flow import FlowRunner
from twinlog.driver.flow_tasks import first_tasks
from twinlog.driver.idle_flow import ElectedIdleFlow
from twinlog.driver.outcome import Outcome, outcome_of
from twinlog.driver.read_ahead import StoredOffsets
from twinlog.driver.spark_flows import SparkFlows, SparkOptions, all_at_once
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect
from twinlog.settings.flow import FlowSettings
from twinlog.spark.scratch_dirs import sweep_leftovers

log = logging.getLogger(__name__)

HUNG_S = 2.0
"""How long a stop waits for a call to the JVM that is under way."""
CLUSTER_HUNG_S = 15.0
"""The same on a cluster: a JVM that is killed leaves executors behind, and may only be slow."""

TICK_S = 0.2


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the command line adds to the flows: how Spark runs, and when to end."""

    spark: SparkOptions = field(default_factory=SparkOptions)
    until_caught_up: bool = False


class Runner:
    """Owns the flows. `run` blocks; `stop` may be called from a signal handler.

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
        self.flows: list[ElectedFlow] = []
        self._stop_asked = threading.Event()
        self._stop_begun = threading.Event()
        # A cluster gives its slots to one process: spread flows would need each slot twice.
        self._roster = Roster(packs=not options.spark.local, clock=clock)
        self.spark = SparkFlows(options.spark, clock)
        self._wake = self.spark.wake
        self.idle = [ElectedIdleFlow(flow, self._wake.set, clock, connect) for flow in flows if not flow.enabled]

    @property
    def web_url(self) -> str | None:
        """Spark's pages, once it runs."""
        return self.spark.web_url

    def stop(self) -> None:
        """Ask for a clean stop; `run` returns within about five seconds, on a cluster within thirty.

        For any thread but that of `run`."""
        self._stop_asked.set()
        self._wake.set()
        if self._options.spark.given is not None:
            # A JVM of others is not killed.
            return
        watch = threading.Timer(HUNG_S if self._options.spark.local else CLUSTER_HUNG_S, self._wait_no_longer)
        watch.daemon = True
        try:
            watch.start()
        except RuntimeError as error:
            # This may be a signal's handler, in the middle of anything.
            log.warning("a JVM that does not answer would be waited for: %s", error)

    def _wait_no_longer(self) -> None:
        if self._settings and not self._stop_begun.is_set():
            log.warning("Spark's JVM does not answer, it is killed")
            self.spark.interrupt()

    def run(self, started: Callable[[Runner], None] = lambda _: None) -> Outcome:
        """Run until stopped or done; returns how it ended.

        `started` is called once the flows exist.
        """
        sweep_leftovers(self._options.spark.conf)
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
            all_at_once([idle.stop for idle in self.idle])

    def _copy(self, started: Callable[[Runner], None]) -> Outcome:
        """Run the flows that copy, with Spark. Raises EngineError when it cannot be started, or not any more."""
        self.flows = [self._elected_flow(settings) for settings in self._settings]
        self.spark.hosted_flows = list(self.flows)
        # Spark takes seconds to start: meanwhile the flows are elected and look at their clusters.
        self.spark.start()
        try:
            for elected in self.flows:
                elected.start()
            started(self)
            while not self._finished():
                self._update_ready(self.spark.attend())
                if not self._options.until_caught_up:
                    spread(self._roster, self.flows)
                self._attend_idle()
        finally:
            self._stop_begun.set()
            self.spark.shut_down()
        return outcome_of([elected.state for elected in self.flows])

    def _update_ready(self, ready: bool) -> None:
        """Others give flows rather to a process whose Spark is warm, and that has read what is stored."""
        if self._roster.be_ready(ready) and ready and any(elected.stands_by for elected in self.flows):
            log.info("Spark is warm, this process is ready to take over")

    def _elected_flow(self, settings: FlowSettings) -> ElectedFlow:
        def build(leads_for_s: Callable[[], float], stored: StoredOffsets | None) -> FlowRunner:
            return FlowRunner(
                settings,
                slots=settings.tasks_max,
                tasks=first_tasks(settings, local=self._options.spark.local),
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
            self.spark.queries.take_out,
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

    def _finished(self) -> bool:
        return self._stop_asked.is_set() or all(elected.ended for elected in self.flows)
