"""Runs all flows of a configuration in this process, until they are done or the process is stopped.

The file may change while they run: removed flows end, new flows begin, and the remaining flows continue with the
present settings of the file.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum

from twinlog.clock import SYSTEM, Clock
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect
from twinlog.settings.flow import FlowSettings
from twinlog.spark.scratch_dirs import sweep_leftovers
from twinlog.worker.elected_flow import ElectedFlow, hand_over_flows
from twinlog.worker.election.roster import ElectionRegistry
from twinlog.worker.flow.failure_log import FailureLog
from twinlog.worker.flow.flow_host import FlowBuilder
from twinlog.worker.flows_without_spark import ElectedIdleFlow
from twinlog.worker.retrying import RetryDelay
from twinlog.worker.spark_flows import SparkFlows, SparkOptions, all_at_once
from twinlog.worker.status.report import FlowState

log = logging.getLogger(__name__)


class Outcome(Enum):
    """The end of a run: stopped, caught up, with held partitions, with a flow without topics, or with a failed flow."""

    STOPPED = "stopped"
    DONE = "caught up"
    HELD = "caught up, but for held partitions"
    NOTHING = "nothing matched"
    FAILED = "failed"


def outcome_of(states: Collection[FlowState]) -> Outcome:
    """The outcome of flows in these states; the state that most needs an operator decides."""
    if FlowState.FAILED in states:
        return Outcome.FAILED
    if not all(state in (FlowState.DONE, FlowState.HELD, FlowState.NOTHING) for state in states):
        return Outcome.STOPPED
    if FlowState.HELD in states:
        return Outcome.HELD
    return Outcome.NOTHING if FlowState.NOTHING in states else Outcome.DONE


class WantedFlows:
    """Keeps the flows of `set_flows` running; a single thread calls `start_wanted_flows`, other threads read.

    `start_wanted_flows` is called every moment. `elected` makes a flow that copies, `idle` makes a flow that writes
    heartbeats; both raise RuntimeError for lack of threads, and OSError for lack of files. `all_enabled` are the
    enabled flows of the file, which other processes may run. Each of these lists is replaced by a new list whenever a
    flow is added to it or removed from it.
    """

    def __init__(
        self,
        flows: Sequence[FlowSettings],
        all_enabled: Sequence[FlowSettings],
        elected: Callable[[FlowSettings], ElectedFlow],
        idle: Callable[[FlowSettings], ElectedIdleFlow],
        clock: Clock = SYSTEM,
    ) -> None:
        self.all_enabled = list(all_enabled)
        self._put_off = RetryDelay("flows", clock, what="some cannot begin here yet, trying again")
        self._make_elected, self._make_idle = elected, idle
        self._wanted = {flow.name: flow for flow in flows}
        self.copying: list[ElectedFlow] = []
        self.idle: list[ElectedIdleFlow] = []
        self._ending: list[ElectedFlow | ElectedIdleFlow] = []

    @property
    def hosted(self) -> list[ElectedFlow]:
        """The flows that copy, and the flows that are just being ended."""
        return [*self.copying, *(one for one in self._ending if isinstance(one, ElectedFlow))]

    @property
    def copies(self) -> bool:
        """Whether a flow shall copy."""
        return any(flow.enabled for flow in self._wanted.values())

    @property
    def all_begun(self) -> bool:
        """Whether every flow that shall copy is there: no flow waits for threads, files, or the end of another flow."""
        begun = {one.settings.name for one in self.copying}
        return all(name in begun for name, flow in self._wanted.items() if flow.enabled)

    def set_flows(self, flows: Sequence[FlowSettings], all_enabled: Sequence[FlowSettings]) -> None:
        """Use the flows of another version of the file."""
        self._wanted = {flow.name: flow for flow in flows}
        self.all_enabled = list(all_enabled)
        for copying in list(self.copying):
            wanted = self._wanted.get(copying.settings.name)
            failed = copying.failure is not None
            if wanted is None or not wanted.enabled or (failed and wanted != copying.settings):
                self._end(copying)
            elif not failed:
                copying.change_settings(wanted, self.all_enabled)
        for idle in list(self.idle):
            wanted = self._wanted.get(idle.settings.name)
            if wanted is None or wanted.enabled:
                self._end(idle)
            else:
                idle.change_settings(wanted)
        self.start_wanted_flows()

    def start_wanted_flows(self) -> None:
        """Begin each wanted flow that is missing, once an earlier flow of the same name has ended.

        For lack of threads or files, the missing flows are tried again, while the flows that are there continue.
        """
        for ended in [one for one in self._ending if one.gone]:
            self._ending.remove(ended)
            if isinstance(ended, ElectedFlow):
                ended.close()
        if not self._put_off.is_due:
            return
        there = {one.settings.name for one in (*self.copying, *self.idle, *self._ending)}
        try:
            for name, flow in self._wanted.items():
                if name not in there:
                    self._begin(flow)
        except (RuntimeError, OSError) as error:
            self._put_off.set_failure(error)
        else:
            self._put_off.clear_delay()

    def _begin(self, flow: FlowSettings) -> None:
        if flow.enabled:
            elected = self._make_elected(flow)
            self.copying = [*self.copying, elected]
            elected.start()
        else:
            idle = self._make_idle(flow)
            self.idle = [*self.idle, idle]
            idle.start()

    def _end(self, one: ElectedFlow | ElectedIdleFlow) -> None:
        self.copying = [other for other in self.copying if other is not one]
        self.idle = [other for other in self.idle if other is not one]
        self._ending.append(one)
        one.end()


HUNG_S = 2.0
"""The longest wait of a stop for a call to the JVM that is under way."""
CLUSTER_HUNG_S = 15.0
"""The same on a cluster: a JVM that is killed leaves executors behind, and may only be slow."""

TICK_S = 0.2


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of the command line beside the flows: the settings of Spark, and the condition for the end."""

    spark: SparkOptions = field(default_factory=SparkOptions)
    until_caught_up: bool = False


class Runner:
    """Owns the flows. `run` blocks; `stop` may be called from a signal handler.

    `flows` copy; `idle` are disabled flows, which only write heartbeats, and the end of a run does not wait for them.
    Each flow runs in a single process: among processes with the same file, the other processes are on standby.
    `all_enabled` are the enabled flows of the file, which other processes may run: some may conflict. `take_over`
    replaces the flows by the flows of another version of the file.
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
        self._stop_asked = threading.Event()
        self._stop_begun = threading.Event()
        # A cluster gives its slots to a single process: spread flows would need each slot twice.
        self._roster = ElectionRegistry(packs=not options.spark.local, clock=clock)
        self.spark = SparkFlows(options.spark, clock)
        self._spark_runs = False
        self._wake = self.spark.wake
        failures = FailureLog(clock)
        self._builder = FlowBuilder(
            options.spark.local, self._wake.set, clock, connect, options.until_caught_up, failures
        )
        enabled = all_enabled or [flow for flow in flows if flow.enabled]
        self._wanted = WantedFlows(
            *(flows, enabled, self._elected_flow),
            lambda flow: ElectedIdleFlow(flow, self._wake.set, clock, connect, failures),
            clock=clock,
        )
        self._changes: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    @property
    def flows(self) -> Sequence[ElectedFlow]:
        """The flows that copy, here or in another process."""
        return self._wanted.copying

    @property
    def idle(self) -> Sequence[ElectedIdleFlow]:
        """The flows that only write heartbeats."""
        return self._wanted.idle

    @property
    def web_url(self) -> str | None:
        """The address of Spark's web UI, once Spark runs."""
        return self.spark.web_url

    def stop(self) -> None:
        """Ask for a clean stop; `run` returns within about five seconds, on a cluster within thirty.

        For any thread but the thread of `run`.
        """
        self._stop_asked.set()
        self._wake.set()
        if self._options.spark.given is not None:
            # The JVM of another owner stays alive.
            return
        watch = threading.Timer(HUNG_S if self._options.spark.local else CLUSTER_HUNG_S, self._wait_no_longer)
        watch.daemon = True
        try:
            watch.start()
        except RuntimeError as error:
            # The caller may be a signal's handler, in the middle of any operation.
            log.warning("TW-SPARK-19: a silent JVM would hold up the end: %s", error)

    def _wait_no_longer(self) -> None:
        if self._spark_runs and not self._stop_begun.is_set():
            log.warning("TW-SPARK-19: Spark's JVM does not answer, it is killed")
            self.spark.interrupt()

    def run(self, started: Callable[[Runner], None] = lambda _: None) -> Outcome:
        """Run until stopped or done; returns the outcome.

        `started` is called once the flows exist.
        """
        sweep_leftovers(self._options.spark.conf)
        try:
            # Spark takes seconds to start: meanwhile the flows are elected and look at their clusters.
            self._follow()
            started(self)
            while not self._finished():
                if self._spark_runs:
                    self._update_ready(self.spark.poll_flows())
                    if not self._options.until_caught_up:
                        hand_over_flows(self._roster, self.flows)
                self._attend_idle()
                self._take_changes()
        finally:
            self._stop_begun.set()
            if self._spark_runs:
                self.spark.shut_down()
            all_at_once([idle.stop for idle in self.idle])
        if not self.flows and self._stop_asked.is_set():
            return Outcome.STOPPED
        return outcome_of([elected.state for elected in self.flows])

    def take_over(self, flows: Sequence[FlowSettings], all_enabled: Sequence[FlowSettings]) -> threading.Event:
        """Run these flows from now on; the event is set once each flow was told to end, to begin or to continue.

        For any thread. Unchanged flows are left alone.
        """
        done = threading.Event()

        def change() -> None:
            try:
                self._wanted.set_flows(flows, all_enabled)
            finally:
                done.set()

        self._changes.put(change)
        self._wake.set()
        return done

    @property
    def settled(self) -> bool:
        """Whether each flow that runs here has taken over its changed settings."""
        return not any(elected.changing for elected in self.flows)

    def _take_changes(self) -> None:
        with suppress(queue.Empty):
            self._changes.get_nowait()()
        self._follow()

    def _follow(self) -> None:
        """Run every wanted flow; a flow that copies needs Spark."""
        self._wanted.start_wanted_flows()
        self.spark.hosted_flows = list(self._wanted.hosted)
        if self._wanted.copies and not self._spark_runs:
            self._spark_runs = True
            self.spark.start()

    def _update_ready(self, ready: bool) -> None:
        """Tell the other processes whether this process is ready: Spark is warm, and the stored positions are read.

        Other processes prefer a ready process when they give a flow away.
        """
        if self._roster.be_ready(ready) and ready and any(elected.stands_by for elected in self.flows):
            log.info("Spark is warm, this process is ready to take over")

    def _elected_flow(self, settings: FlowSettings) -> ElectedFlow:
        take_out = self.spark.queries.take_out
        return ElectedFlow(settings, self._builder, lambda: self._wanted.all_enabled, take_out, self._roster)

    def _attend_idle(self) -> None:
        """Look after the disabled flows, and wait for the next moment."""
        for idle in self.idle:
            idle.poll_flow()
        self._clock.wait(self._wake, TICK_S)
        self._wake.clear()

    def _finished(self) -> bool:
        if self._stop_asked.is_set():
            return True
        if not self._wanted.copies:
            # All flows are disabled, so the run has caught up.
            return self._options.until_caught_up
        return self._wanted.all_begun and all(elected.ended for elected in self.flows)
