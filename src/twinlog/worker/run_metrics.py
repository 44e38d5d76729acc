"""The metrics of a process that runs a file's flows: each flow as MirrorMaker 2's three connectors.

The connectors have Strimzi's names, `east->west.MirrorSourceConnector`, so that the connectors of several flows
stay apart. A Connect worker has the same beans for its connectors.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from twinlog import __version__
from twinlog.clock import SYSTEM, Clock, wall_ms
from twinlog.model.types import GroupId
from twinlog.settings.flow import FlowSettings
from twinlog.spark.engine import JvmSampler
from twinlog.worker.elected_flow import ElectedFlow
from twinlog.worker.flow.flow import FlowRunner
from twinlog.worker.metrics.connector_beans import (
    CHECKPOINT,
    HEARTBEAT,
    SOURCE,
    ConnectorFacts,
    CopyFacts,
    GroupFacts,
    WorkerFacts,
    checkpoint_beans,
    client_beans,
    connector_beans,
    source_beans,
    worker_beans,
)
from twinlog.worker.metrics.exposition import BeanTable, Measurements
from twinlog.worker.metrics.meters import FlowMeters
from twinlog.worker.metrics.process import jvm_families, process_families
from twinlog.worker.runner import Runner
from twinlog.worker.status.families import FlowMetricFacts, flow_families

CLIENT_ID = "twinlog"
_STATES = {"starting": "unassigned", "failed": "failed"}


def copying_beans(flow: FlowRunner, connector: str, now: float, *, partitions: bool) -> Iterator[BeanTable]:
    """Beans of a flow that runs here, as the source connector of this name; `now` in monotonic seconds."""
    settings, status = flow.settings, flow.flow_status
    meters = status.meters
    facts = CopyFacts(
        connector=connector,
        source=settings.source_name,
        target=settings.target_name,
        now=now,
        remote=dict(flow.copied),
        meters=meters.parts,
        progress=status.partitions(),
        tasks=status.tasks(),
        totals=dict(meters.tasks),
        formats=settings.metric_names,
        has_source=settings.metrics_have_source,
    )
    if partitions:
        yield from source_beans(facts)
    yield from client_beans(facts, partitions=partitions)


def running_facts(flow: FlowRunner, *, ready: int | None = None) -> FlowMetricFacts:
    """A flow that runs here, for twinlog's own metrics; `ready` other processes could take it over."""
    status = flow.flow_status
    return FlowMetricFacts(
        flow.settings.name,
        leads=True,
        ready=ready,
        report=flow.report(),
        meters=status.meters,
        heard_s=status.heard_s(),
        stuck=status.stuck()[0],
        proven={key: one.proven_target for key, one in status.partitions().items() if one.proven_target >= 0},
    )


def group_beans(
    settings: FlowSettings, connector: str, meters: FlowMeters, groups: Collection[GroupId], now: float
) -> Iterator[BeanTable]:
    """Beans of the groups that are followed here, as the checkpoint connector of this name."""
    facts = GroupFacts(
        connector=connector,
        source=settings.source_name,
        target=settings.target_name,
        now=now,
        groups=frozenset(groups),
        meters=dict(meters.groups),
        formats=settings.metric_names,
    )
    yield from checkpoint_beans(facts)


class RunMetrics:
    """Measures the flows of a runner; any thread may call `measure`.

    With `partitions`, each partition and group has metrics of its own.
    """

    def __init__(self, runner: Runner, *, partitions: bool = True, clock: Clock = SYSTEM) -> None:
        self._runner = runner
        self._version = __version__
        self._clock = clock
        self._partitions = partitions
        self._started_ms = wall_ms(clock)
        self._jvm = JvmSampler(lambda: runner.spark.engine, clock)

    def measure(self) -> Measurements:
        """All measurements of now."""
        flows = [_flow_facts(hosted) for hosted in self._runner.flows]
        families = [
            *flow_families(flows),
            *process_families(),
            *jvm_families(self._jvm.latest(), self._runner.spark.restarted),
        ]
        return Measurements(list(self._beans()), families)

    def _beans(self) -> Iterator[BeanTable]:
        now = self._clock.monotonic()
        connectors: list[ConnectorFacts] = []
        for hosted in self._runner.flows:
            flow = hosted.flow
            if flow is not None:
                own = list(_connectors(hosted, flow))
                connectors += own
                yield from self._of_flow(flow, own, now)
        for idle in self._runner.idle:
            if idle.writes:
                one = ConnectorFacts(_name(idle.settings, HEARTBEAT), HEARTBEAT, "running", {0: "running"})
                connectors.append(one)
                yield from connector_beans(one, self._version, now, None)
        yield from worker_beans(self._worker(connectors, now))

    def _of_flow(self, flow: FlowRunner, connectors: list[ConnectorFacts], now: float) -> Iterator[BeanTable]:
        meters = flow.flow_status.meters
        for one in connectors:
            yield from connector_beans(one, self._version, now, meters if one.kind == SOURCE else None)
        yield from copying_beans(flow, _name(flow.settings, SOURCE), now, partitions=self._partitions)
        writer = flow.by_settings.groups_writer
        if self._partitions and writer is not None:
            name = _name(flow.settings, CHECKPOINT)
            yield from group_beans(flow.settings, name, meters, writer.followed or (), now)

    def _worker(self, connectors: list[ConnectorFacts], now: float) -> WorkerFacts:
        runner = self._runner
        elections = [*(hosted.election for hosted in runner.flows), *(hosted.election for hosted in runner.idle)]
        synced = [one.synced_at for one in elections if one.synced_at is not None]
        return WorkerFacts(
            client_id=CLIENT_ID,
            version=self._version,
            started_ms=self._started_ms,
            connectors=connectors,
            starts=sum(hosted.begun for hosted in runner.flows),
            failed_starts=sum(hosted.over and hosted.failure is not None for hosted in runner.flows),
            protocol="twinlog",
            epoch=max((one.epoch for one in elections), default=0),
            rebalances=sum(one.rebalances for one in elections),
            rebalance_times_ms=[took_ms for one in elections for took_ms in one.rebalance_times.within(now)],
            rebalancing=any(one.joining for one in elections),
            since_rebalance_s=now - max(synced) if synced else None,
        )


def _flow_facts(hosted: ElectedFlow) -> FlowMetricFacts:
    flow = hosted.flow
    if flow is None or hosted.failure is not None:
        # A flow that failed here may run elsewhere.
        meters = hosted.flow_status.meters
        return FlowMetricFacts(hosted.settings.name, leads=False, meters=meters, failed=hosted.failure is not None)
    return running_facts(flow, ready=hosted.ready_others)


def _connectors(hosted: ElectedFlow, flow: FlowRunner) -> Iterator[ConnectorFacts]:
    settings = flow.settings
    state = _STATES.get(hosted.status[0], "running")
    present = sorted(flow.flow_status.meters.present) or [0]
    yield ConnectorFacts(_name(settings, SOURCE), SOURCE, state, dict.fromkeys(present, state))
    if settings.emit_checkpoints_interval_s is not None:
        yield ConnectorFacts(_name(settings, CHECKPOINT), CHECKPOINT, state, {0: state})
    if settings.emit_heartbeats_interval_s is not None:
        yield ConnectorFacts(_name(settings, HEARTBEAT), HEARTBEAT, state, {0: state})


def _name(settings: FlowSettings, kind: str) -> str:
    return f"{settings.source}->{settings.target}.{kind}"
