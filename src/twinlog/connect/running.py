"""The connectors that run in this process; a single thread begins them, ends them and begins them again."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence

from twinlog.clock import SYSTEM, Clock
from twinlog.config.connector import ConnectorFlow
from twinlog.connect.instances import (
    BothWays,
    CheckpointConnector,
    ConnectorInstance,
    ConnectorWithoutSpark,
    DisabledConnector,
    HeartbeatConnector,
    SourceConnector,
)
from twinlog.connect.running_connector import WorkerConnector
from twinlog.errors import ClusterError, EngineError, TwinlogError
from twinlog.errors.message_ids import told, with_id
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect
from twinlog.model.types import Alias
from twinlog.settings.flow import FlowSettings
from twinlog.worker.bridge import may_bridge
from twinlog.worker.connectors.model import ConnectorName, RestartRequest, TargetState, TaskId
from twinlog.worker.flow.flow_host import FlowBuilder
from twinlog.worker.flows_without_spark import GroupsFlow, IdleFlow, in_thread
from twinlog.worker.spark_flows import SparkFlows, SparkOptions
from twinlog.worker.topics.topic_conflicts import have_topics_apart, may_meet

log = logging.getLogger(__name__)

STOP_S = 5.0


class RunningConnectors:
    """The connectors that run here; used by a single thread, which calls `poll_connectors` every moment.

    `allowed_s(term)` are the seconds in which this worker may append for connectors that began in a term of its
    membership. `siblings()` are the settings of all connectors of the group: some may conflict with a connector, or
    copy the topics whose offsets a checkpoint connector translates. `to_copy()` are the settings of connectors that
    copy now, here or on another worker. `may_begin(flow)` is false while a connector has to wait. It raises
    TwinlogError when a connector can never begin, or a retriable error that names the reason of the wait.
    """

    def __init__(
        self,
        options: SparkOptions,
        allowed_s: Callable[[int], float],
        siblings: Callable[[], Sequence[FlowSettings]],
        clock: Clock = SYSTEM,
        connect: Connect = ClusterAdmin,
        may_begin: Callable[[ConnectorFlow], bool] = lambda flow: True,
        to_copy: Callable[[], Sequence[FlowSettings]] = tuple,
    ) -> None:
        self.term = 0
        """The present term, in which new connectors begin."""
        self.ready = False
        """Whether a connector that copies would begin at once."""
        self.begun = self.not_begun = 0
        """How often a connector began here, and how often a connector failed to begin for a lasting reason."""
        self._options = options
        self._may_begin = may_begin
        self._allowed_s = allowed_s
        self._siblings = siblings
        self._to_copy = to_copy
        self._clock = clock
        self._connect = connect
        self.wake = threading.Event()
        self._builder = FlowBuilder(options.local, self.wake.set, clock, connect)
        self._spark = SparkFlows(options, clock, self.wake)
        self._spark_runs = False
        self._spark_ending: threading.Thread | None = None
        """The thread that takes down a Spark that failed to start, or that has ended for good."""
        self._running: dict[ConnectorName, WorkerConnector] = {}
        self._copying: Mapping[tuple[Alias, Alias], tuple[FlowSettings, ...]] = {}
        """The flows of the group that copy, by their source and target clusters."""
        self._all_copying: Sequence[FlowSettings] = ()
        """All flows that copy, by name, in the same order on every worker.

        The order decides the writer of a topic with two candidates.
        """
        self._conflicting: Mapping[str, tuple[FlowSettings, ...]] = {}
        """For each flow, the flows that could write to its remote topics."""

    @property
    def spark(self) -> SparkFlows:
        """The Spark of the connectors that copy here; a new object after a Spark that failed to start."""
        return self._spark

    @property
    def connectors(self) -> Mapping[ConnectorName, WorkerConnector]:
        """The connectors that this worker has, including connectors that are just ending."""
        return self._running

    def held(self) -> frozenset[ConnectorName]:
        """The connectors that only this worker may run now.

        Connectors of an earlier term are left out, as they are unable to write.
        """
        return frozenset(
            name for name, running in self._running.items() if running.instance is None or running.term == self.term
        )

    def set_connector(
        self,
        name: ConnectorName,
        flow: ConnectorFlow | None,
        target: TargetState,
        refused: str | None,
        tasks: int = 0,
    ) -> None:
        """Have a connector reach its target state; changed settings end it and begin it again.

        `tasks` is its last number of tasks, on any worker.
        """
        found = self._running.get(name)
        same = found is not None and found.flow == flow and found.refused == refused
        if found is not None and not same:
            log.info("connector %s: its configuration was updated", name)
        if flow is not None and (found is None or found.flow != flow):
            for warning in flow.warnings:
                log.warning("%s", with_id(str(warning), "TW-FILE-21"))
        if found is None:
            self._running[name] = WorkerConnector(name, flow, target, refused, tasks=tasks)
            return
        if target is not found.target:
            log.info("connector %s: its target state is %s", name, target.value)
        found.flow, found.target, found.refused = flow, target, refused
        if not same:
            found.failure = None
        if found.stopped:
            found.tasks = 0
        # A failed connector keeps its failure while it is paused, as in Connect.
        stays = target is TargetState.STARTED or (target is TargetState.PAUSED and _failed(found))
        if not (same and stays):
            self._end(found)

    def remark(self, name: ConnectorName, text: str | None) -> None:
        """Note the conflicts of a connector with other connectors; the worker that runs it logs them once."""
        found = self._running.get(name)
        if found is not None:
            if text is not None and text != found.remark:
                log.warning("%s", with_id(f"connector {name}: {text}", "TW-WORKER-11"))
            found.remark = text

    def restart(self, restart: RestartRequest) -> None:
        """Restart the requested parts of a connector; its other parts continue."""
        found = self._running.get(restart.connector)
        if found is None:
            return
        tasks = found.select_tasks(restart)
        if found.trace is not None or not restart.only_failed:
            # A connector does all its work in its tasks, so only tasks are stopped.
            found.restarts, found.failure = True, None
        self._restart_tasks(found, tasks)

    def restart_task(self, task: TaskId) -> None:
        """Restart a task; tasks that share its instance restart with it."""
        found = self._running.get(task.connector)
        if found is not None:
            self._restart_tasks(found, frozenset({task.task}))

    def _restart_tasks(self, running: WorkerConnector, tasks: frozenset[int]) -> None:
        if tasks:
            running.restarting_tasks |= tasks
            self._end(running)

    def remove(self, name: ConnectorName) -> None:
        """End a connector; it is among `connectors` until it has ended."""
        found = self._running.get(name)
        if found is not None:
            found.ending = True
            self._end(found)

    @property
    def has_spark(self) -> bool:
        """Whether Spark runs here, or is ending: its flows are polled often."""
        return self._spark_runs or self._spark_ending is not None

    def poll_connectors(self) -> None:
        """Begin connectors with the target to run, and continue to end other connectors."""
        copying = sorted((one for one in self._siblings() if one.copies), key=lambda one: one.name)
        by_clusters: dict[tuple[Alias, Alias], tuple[FlowSettings, ...]] = {}
        for one in copying:
            by_clusters[one.source, one.target] = (*by_clusters.get((one.source, one.target), ()), one)
        self._copying = by_clusters
        if copying != self._all_copying:
            self._all_copying = copying
            self._conflicting = {
                one.name: tuple(
                    other for other in copying if may_meet(one, other) and not have_topics_apart(one, other)
                )
                for one in copying
            }
        if self._options.local:
            self._prepare_spark()
        for name, running in list(self._running.items()):
            try:
                self._attend(running)
            except Exception as error:
                # An error of a connector leaves the other connectors running.
                log.exception("TW-FAULT-03: connector %s", name)
                running.failure = f"TW-FAULT-03: internal error: {type(error).__name__}"
                self._end(running)
            if running.ending and running.instance is None:
                del self._running[name]
        if self._spark_runs and self._spark_ending is None:
            try:
                self.ready = self._spark.poll_flows()
            except EngineError as error:
                self._lose_spark(str(error))

    def stop(self) -> None:
        """End everything in order."""
        instances = [running.instance for running in self._running.values() if running.instance is not None]
        for instance in instances:
            instance.begin_end()
        if self._spark_ending is not None:
            if self._spark_ending.is_alive():
                self._spark_ending.join(self._options.stop_s)
        elif self._spark_runs:
            self._spark.shut_down()
        for instance in instances:
            ending = instance.ending if isinstance(instance, ConnectorWithoutSpark) else None
            if ending is not None and ending.is_alive():
                ending.join(STOP_S)
        self._running.clear()

    def _lose_spark(self, reason: str) -> None:
        """Fail all connectors that copy here; a restart of any of them starts Spark again."""
        log.error("TW-WORKER-13: Spark ends, and with it all that copies here: %s", reason)
        self._end_spark()
        for running in self._running.values():
            if isinstance(running.instance, SourceConnector):
                # The connector's flow is left alone from here on: its remaining work ends with Spark.
                running.instance.spark_ending = self._spark_ending
                if running.instance.failure is None:
                    running.instance.failure = reason

    def _end_spark(self) -> None:
        self.ready = False
        self._spark_ending = in_thread(self._spark.shut_down, "ending Spark")

    def _prepare_spark(self) -> None:
        """Start Spark before a connector is here that copies only with Spark.

        The start takes seconds, and a take-over is too urgent for it. The bridge copies the other connectors meanwhile.
        """
        if self._spark_runs:
            return
        coming = [flow for flow in self._to_copy() if not self._bridges(flow)]
        if coming:
            try:
                self._start_spark(coming)
                self._spark.expects_flows = True
            except RuntimeError as error:
                log.debug("Spark starts later: %s", error)

    def _bridges(self, flow: FlowSettings) -> bool:
        return self._options.bridge and may_bridge(flow, local=self._options.local)

    def _spark_for_copying(self) -> SparkFlows:
        """The Spark for a connector that copies. Raises RuntimeError while the previous Spark is being taken down."""
        if self._spark_ending is not None:
            if self._spark_ending.is_alive():
                raise RuntimeError("the previous Spark is still being stopped")
            self._spark, self._spark_runs = SparkFlows(self._options, self._clock, self.wake), False
            self._spark_ending = None
        return self._spark

    def _start_spark(self, copying: Sequence[FlowSettings]) -> None:
        """Begin to start Spark for connectors that may copy here, unless it was started before.

        After a failed start, Spark waits for a connector that has to copy. Raises RuntimeError when the system refuses
        a further thread.
        """
        if not self._spark_runs:
            self._spark.start(sum(one.tasks_max for one in copying))
            self._spark_runs = True

    def _attend(self, running: WorkerConnector) -> None:
        instance = running.instance
        if instance is not None:
            instance.poll_connector()
            if self._has_new_neighbours(instance):
                self._end(running)
            if running.term != self.term:
                self._end(running)
            tasks = instance.tasks
            if tasks is not None:
                running.tasks = tasks
            running.update_trouble(self._clock.monotonic())
            # A connector that was cut off begins again; a failed connector waits until an administrator restarts it.
            if instance.ended and (running.again or instance.failure is None):
                self._forget(running)
        if running.instance is None and not running.ending and running.target is TargetState.STARTED:
            self._begin(running)

    def _has_new_neighbours(self, instance: ConnectorInstance) -> bool:
        """Whether other connectors changed that a connector has to know, so that it has to begin again."""
        if isinstance(instance, CheckpointConnector):
            return instance.both_ways != self._both_ways(instance.flow.settings)
        if isinstance(instance, SourceConnector):
            # The connector has to know its new conflicts before both connectors begin to copy a new topic.
            return instance.conflicting != self._conflicting.get(instance.settings.name, ())
        return False

    def _end(self, running: WorkerConnector) -> None:
        if running.instance is None:
            return
        running.again = True
        running.instance.begin_end()
        if running.instance.ended:
            self._forget(running)

    def _forget(self, running: WorkerConnector) -> None:
        instance = running.release_instance()
        if running.target is TargetState.STOPPED:
            running.tasks = 0
        if isinstance(instance, SourceConnector) and instance in self._spark.hosted_flows:
            self._spark.hosted_flows.remove(instance)

    def _begin(self, running: WorkerConnector) -> None:
        flow = running.flow
        term = self.term
        if flow is None or running.trace is not None or self._allowed_s(term) <= 0:
            return
        try:
            if self._may_begin_now(running, flow):
                running.instance, running.term = self._make_instance(flow, lambda: self._allowed_s(term)), term
                self.begun += 1
        except (RuntimeError, OSError) as error:
            log.debug("%s: begins later: %s", running.name, error)
            running.waits = f"TW-LEADER-06: it begins later: {error}"
        except TwinlogError as error:
            running.failure = told(error, "TW-FLOW-01")
            self.not_begun += 1

    def _may_begin_now(self, running: WorkerConnector, flow: ConnectorFlow) -> bool:
        try:
            may = self._may_begin(flow)
        except ClusterError as error:
            if not error.retriable:
                raise
            running.waits, may = told(error, "TW-NET-14"), False
        if may:
            running.waits = None
        return may

    def _make_instance(self, flow: ConnectorFlow, allowed_s: Callable[[], float]) -> ConnectorInstance:
        settings = flow.settings
        if flow.idle:
            return DisabledConnector()
        if flow.kind == "heartbeat":
            beating = IdleFlow(settings, lambda: allowed_s() > 0, self._connect)
            beating.start()
            return HeartbeatConnector(beating)
        if flow.kind == "checkpoint":
            both_ways = self._both_ways(settings)
            following = GroupsFlow(settings, lambda: allowed_s() > 0, *both_ways, connect=self._connect)
            try:
                following.start()
            except RuntimeError:
                following.close()
                raise
            return CheckpointConnector(following, both_ways)
        spark = self._spark_for_copying()
        # A local Spark keeps its slots; a cluster gives executors as they are needed.
        coming = [one for one in self._to_copy() if one.name != settings.name] if self._options.local else []
        self._start_spark([settings, *coming])
        conflicting = self._conflicting.get(settings.name, ())
        source = SourceConnector(
            settings, self._builder, lambda: self._all_flows(settings), allowed_s, spark, conflicting
        )
        spark.hosted_flows.append(source)
        return source

    def _both_ways(self, settings: FlowSettings) -> BothWays:
        """The flows that copy from the source of a flow to its target, and the first flow that copies back."""
        there, back = (settings.source, settings.target), (settings.target, settings.source)
        return self._copying.get(there, ()), next(iter(self._copying.get(back, ())), None)

    def _all_flows(self, settings: FlowSettings) -> Sequence[FlowSettings]:
        """The flow of a connector among all flows of the group that copy, by name."""
        flows = {one.name: one for one in self._siblings() if one.copies} | {settings.name: settings}
        return [flows[name] for name in sorted(flows)]


def _failed(running: WorkerConnector) -> bool:
    return running.instance is not None and running.instance.failure is not None
