"""Beans of connectors, their tasks and clients, and of a worker, out of the facts that a driver or a worker knows.

The beans are those of Kafka Connect (Kafka class ConnectMetricsRegistry), of the connectors of MirrorMaker 2 (Kafka
classes MirrorSourceMetrics and MirrorCheckpointMetrics) and of clients. `replication-record-lag` is an addition of
twinlog; KIP-971 proposes it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import nan

from twinlog.lease.progress import PartitionProgress
from twinlog.model.types import GroupId, TopicPartition
from twinlog.settings.flow import MetricNames
from twinlog.worker.metrics.exposition import CONNECT, MIRROR, BeanTable, Value, bean
from twinlog.worker.metrics.meters import (
    CHECKPOINT_ATTRIBUTES,
    NOTHING,
    SOURCE_ATTRIBUTES,
    FlowMeters,
    GroupMeter,
    PartitionMeter,
    TaskTotals,
)

PACKAGE = "org.apache.kafka.connect.mirror."
SOURCE, CHECKPOINT, HEARTBEAT = "MirrorSourceConnector", "MirrorCheckpointConnector", "MirrorHeartbeatConnector"

_TASK_STATES = ("running", "paused", "failed", "unassigned", "destroyed", "restarting")
LAG = "replication-record-lag"
Row = tuple[tuple[str, ...], tuple[Value, ...]]


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


def worker_beans(facts: WorkerFacts) -> Iterator[BeanTable]:
    """The worker as a whole, its group, and the number of tasks of each connector in each state."""
    tasks = sum(len(one.tasks) for one in facts.connectors)
    yield bean(
        CONNECT,
        "app-info",
        [("version", facts.version), ("start-time-ms", facts.started_ms)],
        client_id=facts.client_id,
    )
    yield bean(
        CONNECT,
        "connect-worker-metrics",
        [
            ("connector-count", len(facts.connectors)),
            ("task-count", tasks),
            *_startups("connector", facts),
            *_startups("task", facts),
        ],
    )
    for one in facts.connectors:
        states = list(one.tasks.values())
        counts: list[tuple[str, Value]] = [("connector-total-task-count", len(states))]
        counts += [(f"connector-{state}-task-count", states.count(state)) for state in _TASK_STATES]
        yield bean(CONNECT, "connect-worker-metrics", counts, connector=one.name)
    since_s, times = facts.since_rebalance_s, facts.rebalance_times_ms
    yield bean(
        CONNECT,
        "connect-worker-rebalance-metrics",
        [
            ("connect-protocol", facts.protocol),
            ("leader-name", facts.leader),
            ("epoch", facts.epoch),
            ("completed-rebalances-total", facts.rebalances),
            ("rebalancing", int(facts.rebalancing)),
            ("rebalance-max-time-ms", max(times, default=nan)),
            ("rebalance-avg-time-ms", sum(times) / len(times) if times else nan),
            ("time-since-last-rebalance-ms", nan if since_s is None else since_s * 1000),
        ],
    )
    yield bean(
        CONNECT,
        "connect-coordinator-metrics",
        [("assigned-connectors", len(facts.connectors)), ("assigned-tasks", tasks)],
        client_id=facts.client_id,
    )


def _startups(what: str, facts: WorkerFacts) -> list[tuple[str, Value]]:
    """The startups of connectors or tasks: a connector of twinlog and its tasks begin together."""
    attempts, failed = facts.starts, facts.failed_starts
    good = attempts - failed
    return [
        (f"{what}-startup-attempts-total", attempts),
        (f"{what}-startup-success-total", good),
        (f"{what}-startup-success-percentage", good / attempts if attempts else nan),
        (f"{what}-startup-failure-total", failed),
        (f"{what}-startup-failure-percentage", failed / attempts if attempts else nan),
    ]


def connector_beans(one: ConnectorFacts, version: str, now: float, meters: FlowMeters | None) -> Iterator[BeanTable]:
    """A connector and its tasks; `meters` belong to a source connector."""
    about: list[tuple[str, Value]] = [
        ("connector-class", one.connector_class),
        ("connector-type", "source"),
        ("connector-version", version),
    ]
    yield bean(CONNECT, "connector-metrics", [("status", one.status), *about], connector=one.name)
    task_class = PACKAGE + one.kind.replace("Connector", "Task")
    for task, status in one.tasks.items():
        tags = {"connector": one.name, "task": str(task)}
        own: list[tuple[str, Value]] = [
            ("status", status),
            ("running-ratio", float(status == "running")),
            ("pause-ratio", float(status == "paused")),
            *about,
            ("task-class", task_class),
            ("task-version", version),
        ]
        totals = None if meters is None else meters.tasks.get(task)
        if totals is not None:
            recent = totals.recent(now)
            own += [
                ("offset-commit-max-time-ms", recent.commit_max_ms),
                ("offset-commit-avg-time-ms", recent.commit_avg_ms),
                ("offset-commit-success-percentage", 1 - recent.commit_failures),
                ("offset-commit-failure-percentage", recent.commit_failures),
                ("batch-size-max", recent.batch_max),
                ("batch-size-avg", recent.batch_avg),
            ]
            yield bean(
                CONNECT,
                "source-task-metrics",
                [
                    ("source-record-poll-rate", recent.read_rate),
                    ("source-record-poll-total", totals.counters.read_records),
                    ("source-record-write-rate", recent.write_rate),
                    ("source-record-write-total", totals.written_records),
                    ("source-record-active-count", totals.counters.waiting_records),
                    ("source-record-active-count-max", recent.waiting_max),
                    ("source-record-active-count-avg", recent.waiting_avg),
                ],
                **tags,
            )
        yield bean(CONNECT, "connector-task-metrics", own, **tags)
        # Events belong to the flow as a whole: the first task shows them for all tasks.
        events: Mapping[str, int] = {} if meters is None or task else meters.events
        failed, left_out = (0, 0) if totals is None else (totals.counters.failed, totals.counters.left_out)
        yield bean(
            CONNECT,
            "task-error-metrics",
            [
                ("total-record-failures", events.get("gap", 0) + events.get("held", 0) + failed),
                ("total-record-errors", left_out + events.get("gap", 0) + events.get("held", 0) + failed),
                ("total-records-skipped", left_out + failed),
                ("total-retries", 0),
                ("total-errors-logged", sum(events.values())),
                ("deadletterqueue-produce-requests", 0 if totals is None else totals.counters.dead_letters),
                ("deadletterqueue-produce-failures", 0 if totals is None else totals.counters.dead_letter_failures),
                ("last-error-timestamp", 0 if meters is None or task else meters.event_ms),
            ],
            **tags,
        )


def source_beans(facts: CopyFacts) -> Iterator[BeanTable]:
    """Beans of each copied partition, in the forms of names that the settings ask for."""
    values = {
        here: (*(NOTHING if (meter := facts.meters.get(here)) is None else meter.values(facts.now)), _lag(facts, here))
        for here in facts.remote
    }
    attributes = (*SOURCE_ATTRIBUTES, LAG)
    ends = (facts.source, facts.target)
    if "legacy" in facts.formats:
        tags = ("source", "target", "topic", "partition") if facts.has_source else ("target", "topic", "partition")
        shown = ends if facts.has_source else ends[1:]
        rows: list[Row] = [
            ((*shown, there.topic, str(there.partition)), values[here]) for here, there in facts.remote.items()
        ]
        yield BeanTable(MIRROR, "MirrorSourceConnector", tags, attributes, rows)
    if "new" in facts.formats:
        yield BeanTable(
            CONNECT,
            "plugins",
            ("connector", "task", "source", "target", "topic", "partition"),
            attributes,
            [
                (
                    (facts.connector, str(facts.tasks.get(here, 0)), *ends, there.topic, str(there.partition)),
                    values[here],
                )
                for here, there in facts.remote.items()
            ],
        )


def checkpoint_beans(facts: GroupFacts) -> Iterator[BeanTable]:
    """Beans of each partition in which a group has a checkpoint, by its name on the target."""
    found = [
        (group, there, meter.values(facts.now))
        for (group, there), meter in facts.meters.items()
        if group in facts.groups
    ]
    ends = (facts.source, facts.target)
    if "legacy" in facts.formats:
        yield BeanTable(
            MIRROR,
            "MirrorCheckpointConnector",
            ("source", "target", "group", "topic", "partition"),
            CHECKPOINT_ATTRIBUTES,
            [((*ends, group, there.topic, str(there.partition)), values) for group, there, values in found],
        )
    if "new" in facts.formats:
        yield BeanTable(
            CONNECT,
            "plugins",
            ("connector", "task", "source", "target", "group", "topic", "partition"),
            CHECKPOINT_ATTRIBUTES,
            [
                ((facts.connector, "0", *ends, group, there.topic, str(there.partition)), values)
                for group, there, values in found
            ],
        )


def client_beans(facts: CopyFacts, *, partitions: bool) -> Iterator[BeanTable]:
    """The clients of the tasks that copy, under the names of MirrorMaker 2's clients."""
    if partitions:
        rows: Sequence[Row] = [
            ((_consumer(facts, facts.tasks.get(here, 0)), here.topic, str(here.partition)), (_lag(facts, here),))
            for here in facts.remote
        ]
        tags = ("client-id", "topic", "partition")
        yield BeanTable("kafka.consumer", "consumer-fetch-manager-metrics", tags, ("records-lag",), rows)
    for task, totals in facts.totals.items():
        consumer, producer = _consumer(facts, task), f"connector-producer-{facts.connector}-{task}"
        recent = totals.recent(facts.now)
        yield bean(
            "kafka.consumer",
            "consumer-fetch-manager-metrics",
            [
                ("bytes-consumed-total", totals.counters.read_bytes),
                ("records-consumed-total", totals.counters.read_records),
                ("records-consumed-rate", recent.read_rate),
            ],
            client_id=consumer,
        )
        yield bean(
            "kafka.consumer",
            "consumer-metrics",
            [("incoming-byte-total", totals.counters.read_bytes)],
            client_id=consumer,
        )
        yield bean(
            "kafka.producer",
            "producer-metrics",
            [
                ("outgoing-byte-total", totals.counters.written_bytes),
                ("buffer-available-bytes", totals.counters.free_bytes),
                ("record-send-total", totals.written_records),
                ("record-send-rate", recent.write_rate),
            ],
            client_id=producer,
        )


def _lag(facts: CopyFacts, here: TopicPartition) -> float:
    part = facts.progress.get(here)
    return float("nan") if part is None or part.lag < 0 else part.lag


def _consumer(facts: CopyFacts, task: int) -> str:
    return f"{facts.source}->{facts.target}|{facts.connector}-{task}|replication-consumer"
