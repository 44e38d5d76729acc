"""Beans of MirrorMaker 2's connectors (Kafka classes MirrorSourceMetrics and MirrorCheckpointMetrics), and of clients.

`replication-record-lag` is an addition of twinlog; KIP-971 proposes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from twinlog.metrics.beans import CONNECT, MIRROR, BeanTable, Value, bean
from twinlog.metrics.facts import CopyFacts, GroupFacts
from twinlog.metrics.meters import CHECKPOINT_ATTRIBUTES, NOTHING, SOURCE_ATTRIBUTES
from twinlog.model.types import TopicPartition

LAG = "replication-record-lag"
Row = tuple[tuple[str, ...], tuple[Value, ...]]


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
