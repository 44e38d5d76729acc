"""The metrics of a worker: of its connectors, of their tasks, and of the copied partitions and followed groups."""

from __future__ import annotations

from collections.abc import Iterator

from twinlog import __version__
from twinlog.clock import Clock, wall_ms
from twinlog.config.connector import CONNECTOR_CLASSES
from twinlog.connect.group.group import ConnectGroup
from twinlog.connect.instances import CheckpointConnector, SourceConnector
from twinlog.connect.running import RunningConnectors
from twinlog.connect.running_connector import WorkerConnector
from twinlog.spark.engine import JvmSampler
from twinlog.worker.connectors.model import ConnectorState
from twinlog.worker.metrics.connector_beans import ConnectorFacts, WorkerFacts, connector_beans, worker_beans
from twinlog.worker.metrics.exposition import BeanTable, Measurements
from twinlog.worker.metrics.process import jvm_families, process_families
from twinlog.worker.run_metrics import copying_beans, group_beans, running_facts
from twinlog.worker.status.families import FlowMetricFacts, flow_families


class WorkerMetrics:
    """Measures a worker; any thread may call `measure`.

    With `partitions` each partition and group has metrics of its own.
    """

    def __init__(
        self,
        client_id: str,
        protocol: str,
        group: ConnectGroup,
        running: RunningConnectors,
        clock: Clock,
        *,
        partitions: bool,
    ) -> None:
        self._client_id = client_id
        self._protocol = protocol
        self._group = group
        self._running = running
        self._clock = clock
        self._partitions = partitions
        self._started_ms = wall_ms(clock)
        self._jvm = JvmSampler(lambda: running.spark.engine, clock)

    def measure(self) -> Measurements:
        """The present values of all metrics."""
        flows = [facts for running in list(self._running.connectors.values()) if (facts := _flow(running))]
        families = [
            *flow_families(flows),
            *process_families(),
            *jvm_families(self._jvm.latest(), self._running.spark.restarted),
        ]
        return Measurements(list(self._beans()), families)

    def _beans(self) -> Iterator[BeanTable]:
        now = self._clock.monotonic()
        connectors: list[ConnectorFacts] = []
        for running in list(self._running.connectors.values()):
            if running.flow is not None:
                connectors.append(_facts(running))
                yield from self._of(running, connectors[-1], now)
        yield from worker_beans(self._worker(connectors, now))

    def _of(self, running: WorkerConnector, facts: ConnectorFacts, now: float) -> Iterator[BeanTable]:
        instance = running.instance
        meters = None
        # The flow may end meanwhile.
        flow = instance.running if isinstance(instance, SourceConnector) else None
        if flow is not None:
            meters = flow.flow_status.meters
            yield from copying_beans(flow, facts.name, now, partitions=self._partitions)
        if isinstance(instance, CheckpointConnector) and self._partitions:
            followed = instance.flow
            yield from group_beans(followed.settings, facts.name, followed.meters, followed.groups or (), now)
        yield from connector_beans(facts, __version__, now, meters)

    def _worker(self, connectors: list[ConnectorFacts], now: float) -> WorkerFacts:
        assignment = self._group.assignment
        since = self._group.synced_at
        return WorkerFacts(
            client_id=self._client_id,
            version=__version__,
            started_ms=self._started_ms,
            connectors=connectors,
            starts=self._running.begun + self._running.not_begun,
            failed_starts=self._running.not_begun,
            leader="" if assignment is None else assignment.leader_url,
            protocol=self._protocol,
            epoch=0 if assignment is None else assignment.generation,
            rebalances=self._group.rebalances,
            rebalance_times_ms=self._group.rebalance_times.within(now),
            rebalancing=assignment is None,
            since_rebalance_s=None if since is None else now - since,
        )


def _flow(running: WorkerConnector) -> FlowMetricFacts | None:
    instance = running.instance
    if ConnectorState.FAILED in {
        one.state for one in (running.connector_state("", 0), *running.task_states("", 0).values())
    }:
        return FlowMetricFacts(running.name, leads=False, copies=False, failed=True)
    if isinstance(instance, CheckpointConnector):
        return FlowMetricFacts(
            running.name, leads=True, report=instance.flow.report(), meters=instance.flow.meters, copies=False
        )
    flow = instance.running if isinstance(instance, SourceConnector) else None
    return None if flow is None else running_facts(flow)


def _facts(running: WorkerConnector) -> ConnectorFacts:
    assert running.flow is not None
    kind = CONNECTOR_CLASSES[running.flow.kind].rpartition(".")[2]
    tasks = {number: status.state.lower() for number, status in running.task_states("", 0).items()}
    return ConnectorFacts(running.name, kind, running.connector_state("", 0).state.lower(), tasks)
