"""What a process with one flow, `east->west`, would measure, without clusters: reports in, pages out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from twinlog.lease.progress import AGE_BOUNDS_MS, CopierCounters, PartitionCounters, PartitionProgress, Report
from twinlog.model.types import GroupId, SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.settings.flow import MetricNames
from twinlog.spark.jvm.figures import JvmFigures
from twinlog.worker.metrics.connector_beans import (
    CHECKPOINT,
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
from twinlog.worker.metrics.exposition import BeanTable, Measurements, Pages
from twinlog.worker.metrics.meters import FlowMeters
from twinlog.worker.metrics.process import jvm_families, process_families
from twinlog.worker.status.families import FlowMetricFacts, flow_families
from twinlog.worker.status.report import DriverReport, GroupsProgress, TopicProgress

ORDERS = TopicPartition(TopicName("orders"), 0)
REMOTE = TopicPartition(TopicName("east.orders"), 0)
NAME = "east->west.MirrorSourceConnector"
REPORT = DriverReport(
    "east->west",
    "host-1",
    1_000_000_000,
    900_000_000,
    "running",
    partitions=1,
    copiers=1,
    lag=0,
    lag_bytes=0,
    eta_s=0.0,
    groups=GroupsProgress(1, checkpoints_ms=1_000_000_000, syncs=True, sync_ms=1_000_000_000),
    topics=(TopicProgress("orders", 1, lag_bytes=0),),
)
JVM = JvmFigures(1 << 26, 1 << 25, 40, (("G1 Young Generation", 3, 0.25),))


def report(records: int, *, lag: int = 0, latency_ms: int = 20) -> Report:
    """A copier's report of `ORDERS`; every record has the same age."""
    ages = [0] * (len(AGE_BOUNDS_MS) + 1)
    ages[next(at for at, bound in enumerate(AGE_BOUNDS_MS) if latency_ms <= bound)] = records
    part = PartitionProgress(
        ORDERS.topic,
        ORDERS.partition,
        SourceOffset(1000),
        TargetOffset(1000),
        SourceOffset(1000 + lag),
        PartitionCounters(
            records=records,
            bytes=records * 100,
            latency_ms=latency_ms,
            last_latency_ms=latency_ms,
            least_latency_ms=latency_ms,
            latency_sum_ms=latency_ms * records,
            read_records=records,
            last_age_ms=latency_ms - 5,
            least_age_ms=latency_ms - 5,
            most_age_ms=latency_ms - 5,
            age_sum_ms=(latency_ms - 5) * records,
        ),
    )
    counters = CopierCounters(
        ages=ages,
        age_sum_ms=latency_ms * records,
        roads={"as it is": 3, "holes": 1},
        read_bytes=records * 100,
        written_bytes=records * 100,
        polls=2,
        read_records=records,
        most_read=records,
        commits=1,
        commit_ms=4,
        most_commit_ms=4,
        waiting_records=7,
        free_bytes=1 << 20,
    )
    return Report("east->west", "copier-1", 1, 0, 1.0, 0.1, partitions=(part,), counters=counters)


class Scene:
    """Meters that take reports, and the pages that they make."""

    def __init__(self, name: str = NAME) -> None:
        self.name = name
        self.meters = FlowMeters()
        self.now = 100.0
        self._last: dict[TopicPartition, PartitionProgress] = {}
        self.formats: Sequence[MetricNames] = ("legacy",)
        self.has_source = True
        self.remote = {ORDERS: REMOTE}
        self.report = REPORT
        self.leads, self.ready, self.stuck, self.heard_s, self.restarts = True, 1, 0, 1.0, 0
        self.failed = False
        self.started_s = 900.0

    def take(self, one: Report, after_s: float = 1.0) -> None:
        """A report comes some time after the last."""
        self.now += after_s
        for part in one.partitions:
            key = TopicPartition(TopicName(part.topic), part.partition)
            self.meters.add_counters(key, part.counters, self.now)
            self._last[key] = part
        self.meters.add_report(one, self.now)
        written = sum(part.counters.records for part in one.partitions)
        self.report = replace(self.report, records=self.report.records + written, bytes=self.report.bytes + written)

    def measure(self) -> Measurements:
        connectors = [
            ConnectorFacts(self.name, SOURCE, "running", {0: "running"}),
            ConnectorFacts(self.name.replace(SOURCE, CHECKPOINT), CHECKPOINT, "running", {0: "running"}),
        ]
        copying = CopyFacts(
            self.name,
            "east",
            "west",
            self.now,
            remote=self.remote,
            meters=self.meters.parts,
            progress=self._last,
            totals=self.meters.tasks,
            formats=self.formats,
            has_source=self.has_source,
        )
        groups = GroupFacts(
            connectors[1].name, "east", "west", self.now, {GroupId("app")}, self.meters.groups, self.formats
        )
        worker = WorkerFacts("twinlog", "1.0", 1_000_000, connectors, starts=2, rebalances=1, since_rebalance_s=3.0)
        beans = [
            *source_beans(copying),
            *checkpoint_beans(groups),
            *client_beans(copying, partitions=True),
            *(table for one in connectors for table in self._of_connector(one)),
            *worker_beans(worker),
        ]
        flow = FlowMetricFacts("east->west", self.leads, self.ready, self.report, self.meters, self.heard_s, self.stuck)
        if self.failed:
            flow = FlowMetricFacts("east->west", leads=False, meters=self.meters, failed=True)
        return Measurements(beans, [*flow_families([flow]), *self._process(), *jvm_families(JVM, self.restarts)])

    def _process(self) -> Iterator[Metric]:
        """This process, as if it had begun at another moment."""
        for family in process_families():
            began = family.name == "process_start_time_seconds"
            yield GaugeMetricFamily(family.name, family.documentation, value=self.started_s) if began else family

    def _of_connector(self, one: ConnectorFacts) -> Iterator[BeanTable]:
        return connector_beans(one, "1.0", self.now, self.meters if one.kind == SOURCE else None)

    def checkpoint(self) -> None:
        """A group's checkpoint is written."""
        self.meters.checkpointed([(GroupId("app"), REMOTE)], [GroupId("app")], 12.5, self.now)

    @property
    def pages(self) -> Pages:
        return Pages(self.measure)

    def text(self) -> str:
        return self.pages.text("")[1].decode()
