"""The flows that copy in this process, and the Spark that they share."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from twinlog.clock import LONG_AGO, SYSTEM, Clock
from twinlog.errors import EngineLostError
from twinlog.errors.message_ids import with_id
from twinlog.lease.lease_server import LeaseServer
from twinlog.model.amounts import counted
from twinlog.process.log_once import AGAIN_S, LogOnce
from twinlog.settings.flow import COPIER_MEMORY_BYTES, FlowSettings
from twinlog.settings.worker import DriverListener
from twinlog.spark.engine import Engine
from twinlog.spark.given_session import GivenEngine, GivenSession
from twinlog.spark.refusals import MASTER
from twinlog.spark.session import SparkEngine, local_master
from twinlog.spark.settings import (
    CLUSTER_SETTINGS,
    DYNAMIC_ALLOCATION,
    TaskResources,
    contradictions,
    derived,
    file_settings,
)
from twinlog.spark.supervisor import SupervisedEngine
from twinlog.spark.warm_up import run_warm_up
from twinlog.worker.bridge import Bridge
from twinlog.worker.flow.flow import FlowRunner
from twinlog.worker.flow.flow_changes import copiers_view
from twinlog.worker.flow.flow_host import FlowHost
from twinlog.worker.placement.tasks import SlotSharing
from twinlog.worker.queries import Queries
from twinlog.worker.read_ahead import Readiness

log = logging.getLogger(__name__)

STOP_S = 5.0
CLUSTER_STOP_S = 30.0
"""The manager of a cluster releases executors at Spark's request: a JVM that is killed before leaves pods behind."""
SLOTS_EVERY_S = 1.0
GIVEN_SLOTS_EVERY_S = 5.0
"""A given session has a longer interval, because its slots come from Spark's web UI instead of its JVM."""
HOLD_S = 10.0
"""How long executors are held for flows whose runner is unknown."""


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """Spark's master (None: local) and its settings. With `bridge`, a process beside the driver copies while Spark
    lacks a task; a `given` session is without a bridge.

    With `given`, flows run on that session instead, which has its own master and settings. `least_slots` is the least
    number of tasks that a local Spark runs at once. With `any_flow`, flows that change records may come after the
    start of Spark.
    """

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    bridge: bool = True
    least_slots: int = 1
    any_flow: bool = False
    listener: DriverListener = field(default_factory=DriverListener)
    """The address at which copiers reach this process."""
    given: GivenSession | None = None

    @property
    def local(self) -> bool:
        """Whether Spark runs its tasks on this machine."""
        if self.given is not None:
            return self.given.local
        return self.master is None or self.master.startswith("local")

    @property
    def stop_s(self) -> float:
        """The longest time in which flows and Spark end together, in seconds."""
        return STOP_S if self.local else CLUSTER_STOP_S


class SparkFlows:
    """Owns Spark, the lease server and the queries of the flows in `hosted_flows`, which may change at any time.

    Used by a single thread, which calls `poll_flows` every moment; `wake` triggers a call at once.
    """

    def __init__(self, options: SparkOptions, clock: Clock = SYSTEM, wake: threading.Event | None = None) -> None:
        self.hosted_flows: list[FlowHost] = []
        self.wake = wake or threading.Event()
        self.web_url: str | None = None
        self.expects_flows = False
        """Whether flows may come from other processes, in addition to the `hosted_flows` on standby."""
        self._clock = clock
        self._options = options
        self._local = options.local
        self._meanwhile = "the bridge copies meanwhile" if options.bridge else "nothing is copied meanwhile"
        self._spark = SupervisedEngine(self._build_engine, self.wake.set, clock=clock, meanwhile=self._meanwhile)
        self._lease_server: LeaseServer | None = None
        self._reachable = False
        """Whether tasks on other machines reach the lease server."""
        self._seen: Engine | None = None
        self._met_at = self._held_at = LONG_AGO
        self._holds: bool | None = None
        """Whether this process has executors for flows that it runs; None until that is known."""
        self._readiness = Readiness(clock)
        self._warmed_up: Engine | None = None
        self._warm_up_thread: threading.Thread | None = None
        self.queries = Queries(self._settings, clock)
        self._sharing = SlotSharing()
        self._slots = 0
        self._leaving: frozenset[int] = frozenset()
        self._executors: Mapping[int, str] | None = {}
        """The executor of each task of a cluster; None with a local Spark."""
        self._slots_at = LONG_AGO
        self._no_executor: str | None = None
        self._expected = 0
        self._bridge = Bridge(wanted=options.bridge, local=options.local, clock=clock)
        self._logged = LogOnce(clock)

    def start(self, expected: int = 0) -> None:
        """Begin to start Spark; that takes seconds.

        A local Spark has at least `expected` slots, independent of the `hosted_flows` at that time.
        """
        self._expected = expected
        if self.hosted_flows or expected:
            self._bridge.start()
        self._spark.start()

    def poll_flows(self) -> bool:
        """Look after Spark and the flows; returns whether this process is ready to take flows over.

        Raises EngineError if Spark fails to start, or is given up.
        """
        engine = self._spark.engine
        ready = False
        try:
            if engine is not None and engine is not self._seen:
                self._meet(engine)
            self._listen(engine)
            if self._lease_server is not None:
                ready = self._attend(engine, self._lease_server)
        except EngineLostError as error:
            if engine is not None:
                self._spark.report_loss(engine, error)
        return ready

    def _listen(self, engine: Engine | None) -> None:
        """Serve tasks on other machines at the address of Spark's driver by default, or of the file.

        Tasks of a local Spark and the bridge connect to a loopback address.
        """
        if self._lease_server is None and (self._local or self._options.bridge):
            self._lease_server = LeaseServer("127.0.0.1", clock=self._clock)
        if self._local or engine is None or self._reachable:
            return
        at = self._options.listener
        host, own = at.host or engine.host, at.bind_address or engine.bind_address
        if self._lease_server is None:
            self._lease_server = LeaseServer(host, clock=self._clock, bind_address=own, port=at.port)
        else:
            self._lease_server.open_address(host, bind_address=own, port=at.port)
        self._reachable = True

    def _attend(self, engine: Engine | None, lease_server: LeaseServer) -> bool:
        if engine is not None:
            self._hold_executors(engine)
            self._follow_slots(engine)
            self._warm_up(engine, lease_server)
        for hosted in self.hosted_flows:
            try:
                hosted.poll_flow(lease_server)
            except EngineLostError:
                raise
            except Exception as error:
                # A fault of a flow leaves the other flows running.
                if self._logged.is_new(("fault", hosted.settings.name), AGAIN_S):
                    log.exception("TW-FAULT-01: flow %s", hosted.settings.name)
                hosted.fail_flow(error)
        flows = [flow for hosted in self.hosted_flows if (flow := hosted.running) is not None]
        self._bridge.poll_flows(flows, lease_server)
        if engine is not None:
            self._share_slots(flows)
            self.queries.poll_queries(engine, lease_server, flows, self._slots)
        return self._readiness.check_engine(
            engine,
            works=engine is not None and (not engine.local or any(hosted.copies for hosted in self.hosted_flows)),
            has_read=lambda: all(hosted.has_read for hosted in self.hosted_flows),
        )

    @property
    def engine(self) -> Engine | None:
        """Spark while it runs. Raises EngineError if Spark failed to start, or is given up."""
        return self._spark.engine

    @property
    def trouble(self) -> str | None:
        """A fault that keeps Spark from copying now and that may pass."""
        return self._spark.trouble or self._no_executor

    @property
    def restarted(self) -> int:
        """The number of times that Spark ran again after a loss."""
        return self._spark.restarted

    def interrupt(self) -> None:
        """End Spark at once, for example if it is unresponsive."""
        self._spark.interrupt()

    def shut_down(self) -> None:
        """End in order, within about five seconds; on a cluster that is slow to end its executors within thirty."""
        deadline = self._clock.monotonic() + self._options.stop_s
        self._spark.close()
        all_at_once([hosted.stop for hosted in self.hosted_flows])
        # The queries end together with Spark: their tasks have already ended.
        if self._lease_server is not None:
            self._lease_server.close()
        self._bridge.close()
        self._spark.stop(max(0.5, deadline - self._clock.monotonic()))
        for hosted in self.hosted_flows:
            hosted.close()

    def _meet(self, engine: Engine) -> None:
        """Look at an engine that has just started."""
        self.web_url = engine.web_url
        self._met_at = self._clock.monotonic()
        self._holds = None
        self._slots = engine.slots
        # Another Spark's tasks have the same numbers.
        self._leaving = frozenset()
        self._executors = {}
        if self._wanted > self._slots:
            log.warning(
                "TW-SPARK-10: Spark has %s for %s that tasks.max allows: no flow gets more than its share",
                counted(self._slots, "slot"),
                counted(self._wanted, "task"),
            )
        self._seen = engine

    def _warm_up(self, engine: Engine, lease_server: LeaseServer) -> None:
        """Run an empty lease while this process is only on standby; that makes a take-over seconds faster."""
        if engine is self._warmed_up or not (
            self.expects_flows or any(hosted.stands_by for hosted in self.hosted_flows)
        ):
            return
        if self._warms_up:
            return
        self._warmed_up = engine
        if self._slots and self._holds is not False and not any(hosted.occupied for hosted in self.hosted_flows):
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

    def _warm_up_once(self, engine: Engine, lease_server: LeaseServer) -> None:
        try:
            run_warm_up(engine, lease_server, clock=self._clock)
        except Exception as error:
            # As when Spark ends meanwhile; taking over then only takes longer.
            log.debug("the warm-up failed: %r", error)
        self._readiness.warmed_up(engine)

    def _hold_executors(self, engine: Engine) -> None:
        """Leave the slots of a Spark cluster to the process that runs the flows, while this process is on standby."""
        holds = any(hosted.occupied for hosted in self.hosted_flows)
        now = self._clock.monotonic()
        if holds:
            self._held_at = now
        if engine.local or not engine.own or holds is self._holds:
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

    def _others_run(self, engine: Engine, now: float) -> bool:
        """Whether this process holds unneeded executors that other processes may need.

        While the runner of a flow is unknown, for example because its target is unreachable, this process waits a
        while.
        """
        ready = all(hosted.stands_by or hosted.over for hosted in self.hosted_flows)
        return (ready and engine is self._warmed_up) or now - max(self._held_at, self._met_at) > HOLD_S

    @property
    def _warms_up(self) -> bool:
        return self._warm_up_thread is not None and self._warm_up_thread.is_alive()

    def _follow_slots(self, engine: Engine) -> None:
        """Executors come and go: more tasks than slots would leave partitions waiting for a whole lease."""
        if engine.local or self._holds is False:
            self._no_executor = None
            self._executors = None if engine.local else {}
            return
        if self._clock.monotonic() < self._slots_at:
            return
        now = self._clock.monotonic()
        self._slots_at = now + (SLOTS_EVERY_S if engine.own else GIVEN_SLOTS_EVERY_S)
        self._slots = engine.slots
        self._leaving = engine.leaving_tasks()
        self._executors = engine.task_executors()
        if self._slots:
            self._no_executor = None
            return
        if self._no_executor is None:
            self._no_executor = (
                f"TW-SPARK-02: Spark at {self._options.master} has no executor for twinlog, and {self._meanwhile}: has "
                f"a worker a core and {engine.executor_memory} of memory free, and can it reach this machine as "
                f"{engine.host}?"
            )
        if self._logged.is_new("no executor", AGAIN_S):
            log.warning("%s", with_id(self._no_executor, "TW-SPARK-02"))

    def _share_slots(self, flows: Sequence[FlowRunner]) -> None:
        """Set the number of tasks of each flow that runs here, and the tasks that it has to leave."""
        for flow in flows:
            flow.leave_tasks(self._leaving)
            flow.use_executors(self._executors)
        if self._slots:
            shares = self._sharing.share_out(self._slots, {flow.settings.name: flow.demand for flow in flows})
            for flow in flows:
                flow.use_slots(shares[flow.settings.name])

    def _build_engine(self) -> Engine:
        wanted = max(1, self._wanted, self._expected)
        budgets = [hosted.settings.copier_memory_bytes for hosted in self.hosted_flows]
        transforms = [hosted.settings.transform for hosted in self.hosted_flows]
        sql = any(transform is not None and transform.sql for transform in transforms)
        need = TaskResources(wanted, max(budgets, default=COPIER_MEMORY_BYTES), sql)
        if self._options.given is not None:
            self._warn_of(self._options.given.master, need, self._options.given.settings)
            return GivenEngine(self._options.given)
        master = self._options.master or local_master(max(wanted, self._options.least_slots))
        given = dict.fromkeys(self._options.conf, "--conf")
        if self._options.master is not None:
            given[MASTER] = "--master"
        # `spark-defaults.conf` may set sizes for all applications of a cluster; its dynamic allocation is ignored.
        set_already = {key: value for key, value in file_settings().items() if not key.startswith(DYNAMIC_ALLOCATION)}
        sized = derived(master, need, {**set_already, **self._options.conf})
        settings = {**sized, **self._options.conf}
        self._warn_of(master, need, {**CLUSTER_SETTINGS, **set_already, **settings})
        changes = self._options.any_flow or any(hosted.settings.transform is not None for hosted in self.hosted_flows)
        return SparkEngine(master, settings, given=given, numpy=changes)

    def _warn_of(self, master: str, need: TaskResources, settings: Mapping[str, str]) -> None:
        for sentence in contradictions(master, need, settings):
            if self._logged.is_new(sentence):
                log.warning("%s", with_id(sentence, "TW-SPARK-20"))

    def _settings(self) -> Sequence[FlowSettings]:
        """The settings of all flows that may start here now, in the form that copiers get."""
        return [copiers_view(hosted.settings) for hosted in self.hosted_flows]

    @property
    def _wanted(self) -> int:
        """The number of tasks of all flows together, at most."""
        return sum(hosted.settings.tasks_max for hosted in self.hosted_flows)


def all_at_once(steps: Sequence[Callable[[], None]]) -> None:
    """Run steps in parallel and wait for all; in sequence for lack of threads."""
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
            log.exception("TW-FAULT-05: at the end")
    for thread in threads:
        thread.join()
