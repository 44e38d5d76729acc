"""The data of beans: the connectors of a process and their running parts, as its driver or its worker knows them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from twinlog.lease.progress import PartitionProgress
from twinlog.metrics.meters import GroupMeter, PartitionMeter, TaskTotals
from twinlog.model.types import GroupId, TopicPartition
from twinlog.settings.flow import MetricNames

PACKAGE = "org.apache.kafka.connect.mirror."
SOURCE, CHECKPOINT, HEARTBEAT = "MirrorSourceConnector", "MirrorCheckpointConnector", "MirrorHeartbeatConnector"


@dataclass(frozen=True, slots=True)
class ConnectorFacts:
    """A connector of this process: its simple `kind` out of MirrorMaker 2's three, and its tasks' states."""

    name: str
    kind: str
    status: str
    tasks: Mapping[int, str]

    @property
    def connector_class(self) -> str:
        """The class name in a configuration."""
        return PACKAGE + self.kind


@dataclass(frozen=True, slots=True)
class CopyFacts:
    """A flow that copies here: its source and target, and its measurements up to `now` (monotonic seconds).

    `remote` has each source partition with its remote partition, `tasks` the task that copies it, `progress` its last
    report. `formats` and `has_source` are `metric.names.formats` and `add.source.alias.to.metrics`.
    """

    connector: str
    source: str
    target: str
    now: float
    remote: Mapping[TopicPartition, TopicPartition] = field(default_factory=dict)
    meters: Mapping[TopicPartition, PartitionMeter] = field(default_factory=dict)
    progress: Mapping[TopicPartition, PartitionProgress] = field(default_factory=dict)
    tasks: Mapping[TopicPartition, int] = field(default_factory=dict)
    totals: Mapping[int, TaskTotals] = field(default_factory=dict)
    formats: Sequence[MetricNames] = ("legacy",)
    has_source: bool = True


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """The groups that a connector follows here, and the measurements of their checkpoints."""

    connector: str
    source: str
    target: str
    now: float
    groups: Collection[GroupId] = ()
    meters: Mapping[tuple[GroupId, TopicPartition], GroupMeter] = field(default_factory=dict)
    formats: Sequence[MetricNames] = ("legacy",)


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """The process as a worker of Connect: the number of starts of connectors and their tasks, and its group.

    `since_rebalance_s` is None before the first rebalance.
    """

    client_id: str
    version: str
    started_ms: int
    connectors: Sequence[ConnectorFacts] = ()
    starts: int = 0
    failed_starts: int = 0
    leader: str = ""
    protocol: str = ""
    epoch: int = 0
    rebalances: int = 0
    rebalance_times_ms: Sequence[float] = ()
    rebalancing: bool = False
    since_rebalance_s: float | None = None
