"""What beans are made of: the connectors of a process and what of them runs, as its driver or its worker knows it."""

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
    """A connector of this process: one of MirrorMaker 2's three by its simple `kind`, and its tasks' states."""

    name: str
    kind: str
    status: str
    tasks: Mapping[int, str]

    @property
    def connector_class(self) -> str:
        """As a configuration names it."""
        return PACKAGE + self.kind


@dataclass(frozen=True, slots=True)
class CopyFacts:
    """A flow that copies here: where from and to, and what was measured of it up to `now` (monotonic seconds).

    `remote` has each source partition with its remote one, `tasks` which task copies it, `progress` the last report of
    it. `formats` and `has_source` are `metric.names.formats` and `add.source.alias.to.metrics`.
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
    """The groups that a connector follows here, and what was measured of their checkpoints."""

    connector: str
    source: str
    target: str
    now: float
    groups: Collection[GroupId] = ()
    meters: Mapping[tuple[GroupId, TopicPartition], GroupMeter] = field(default_factory=dict)
    formats: Sequence[MetricNames] = ("legacy",)


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """The process as a worker of Connect: how often connectors and their tasks began, and its group.

    `since_rebalance_s` is None before the first one.
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
