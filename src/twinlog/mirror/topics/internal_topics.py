"""The internal topics of a flow: the cluster of each topic, its cleanup policy, its bounds, and its creation.

By default a broker keeps a week or a gigabyte of overwritten records. A compacted topic is never cleaned in its active
segment, which Kafka closes after `segment.ms` (7 days by default) or `segment.bytes` (1 GiB). twinlog and MirrorMaker 2
read these records at each start (KAFKA-15086).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

from twinlog.mirror.offsets.segments import segments_topic
from twinlog.mirror.topology.plugins import policy_of
from twinlog.model.topic_names import HEARTBEATS, RELOADS, control_topic, progress_topic
from twinlog.model.topics import NewTopic
from twinlog.model.types import Alias, TopicName
from twinlog.settings.flow import FlowSettings

MIB = 1 << 20
TEN_MINUTES_MS = 600_000
HOUR_MS = 3_600_000
WEEK_MS = 168 * HOUR_MS

_CLEANED = {
    "segment.ms": str(TEN_MINUTES_MS),
    "min.cleanable.dirty.ratio": "0.1",
    "max.compaction.lag.ms": str(HOUR_MS),
}

POSITIONS = {"segment.bytes": str(2 * MIB), **_CLEANED}
"""For each partition of usually 25; twice the largest batch that a broker takes by default."""

JOURNALS = {"segment.bytes": str(8 * MIB), **_CLEANED}
"""Exact maps, checkpoints and heartbeats, each in a single partition."""

OFFSET_SYNCS = {"segment.bytes": str(64 * MIB)}
"""About a million syncs. MirrorMaker 2 translates old offsets by overwritten syncs, so some of them stay."""

PROGRESS = {"segment.bytes": str(16 * MIB), "segment.ms": str(TEN_MINUTES_MS)}
"""Deleted by time, which applies to closed segments only."""


RELOADS_BOUNDS = {"segment.bytes": str(8 * MIB), "segment.ms": str(WEEK_MS)}
"""Few records: requests with their authors and results, for a week or two."""


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A topic with the state of a flow: compacted, or deleted after `retention_ms` if that is set.

    A new topic gets `bounds`, and an existing topic should stay within each bound. `loss` is the effect of missing
    compaction; None for a topic that needs no compaction. With `fatal` missing compaction stops the flow at its start.
    An `on_demand` topic is created by the first command that needs it, and by no flow.
    """

    name: TopicName
    cluster: Alias
    replication_factor: int
    bounds: Mapping[str, str]
    loss: str | None
    fatal: bool = False
    partitions: int = 1
    retention_ms: int | None = None
    on_demand: bool = False

    def new(self) -> NewTopic:
        """The topic for its creation; a cluster that refuses a bound gets the topic without the bound."""
        if self.retention_ms is None:
            cleanup = {"cleanup.policy": "compact"}
        else:
            cleanup = {"cleanup.policy": "delete", "retention.ms": str(self.retention_ms)}
        configs, optional = {**cleanup, **self.bounds}, frozenset(self.bounds)
        return NewTopic(self.name, self.partitions, self.replication_factor, configs, optional)


def positions(flow: FlowSettings) -> InternalTopic:
    """The topic for the positions of the flow, in the form of Connect's `offset.storage.topic`."""
    return InternalTopic(
        TopicName(flow.positions_topic),
        flow.target,
        flow.offset_storage_replication_factor,
        POSITIONS,
        "stored positions would be deleted with time, and everything would be copied again",
        fatal=True,
        partitions=flow.offset_storage_partitions,
    )


def exact_maps(flow: FlowSettings) -> InternalTopic:
    """The topic for the target offset of each source offset."""
    loss = "old offsets could with time no longer be translated exactly"
    factor = flow.offset_storage_replication_factor
    return InternalTopic(segments_topic(flow.source), flow.target, factor, JOURNALS, loss)


def progress(flow: FlowSettings) -> InternalTopic:
    """The topic for reports of copiers to other programs."""
    return InternalTopic(
        TopicName(progress_topic(flow.source)),
        flow.target,
        flow.offset_storage_replication_factor,
        PROGRESS,
        loss=None,
        retention_ms=HOUR_MS,
    )


def reloads(flow: FlowSettings) -> InternalTopic:
    """The topic for requests to read files again, and for the answers of processes.

    `twinlog reload` creates the topic.
    """
    factor = flow.offset_storage_replication_factor
    return InternalTopic(RELOADS, flow.target, factor, RELOADS_BOUNDS, loss=None, retention_ms=WEEK_MS)


def control(flow: FlowSettings) -> InternalTopic:
    """The topic for requests of operators about single topics, and for the flow's results."""
    loss = "topics that were paused would with time be copied again"
    factor = flow.offset_storage_replication_factor
    name = TopicName(control_topic(flow.source))
    return InternalTopic(name, flow.target, factor, JOURNALS, loss, on_demand=True)


def offset_syncs(flow: FlowSettings) -> InternalTopic:
    """The topic for offset syncs, for MirrorMaker 2 and its clients."""
    return InternalTopic(
        TopicName(flow.offset_syncs_topic),
        flow.source if flow.offset_syncs_location == "source" else flow.target,
        flow.offset_syncs_replication_factor,
        OFFSET_SYNCS,
        "offsets of consumers that are far behind could no longer be translated by MirrorMaker 2 and its clients",
    )


def checkpoints(flow: FlowSettings) -> InternalTopic:
    """The topic for the translated offsets of consumer groups."""
    name, loss = (
        policy_of(flow).checkpoints_topic(flow.source_name),
        "positions of idle groups would be forgotten with time",
    )
    return InternalTopic(name, flow.target, flow.checkpoints_replication_factor, JOURNALS, loss)


def heartbeats(flow: FlowSettings) -> InternalTopic:
    """The topic for the heartbeats of all flows to a cluster."""
    loss = "heartbeats of flows that stand still would be forgotten with time"
    return InternalTopic(HEARTBEATS, flow.target, flow.heartbeats_replication_factor, JOURNALS, loss)


def absent(topics: Iterable[InternalTopic], there: Mapping[Alias, Container[TopicName]]) -> list[InternalTopic]:
    """The topics of `topics` that a flow has to create; `there` are the topics of each cluster, by its alias."""
    return [topic for topic in topics if not topic.on_demand and topic.name not in there[topic.cluster]]


def internal_topics(flow: FlowSettings) -> list[InternalTopic]:
    """The internal topics that a flow writes to, including topics by other creators."""
    found = []
    if flow.copies:
        found += [positions(flow), exact_maps(flow), progress(flow), control(flow)]
        if flow.emit_offset_syncs:
            found.append(offset_syncs(flow))
    if flow.enabled and flow.emit_checkpoints_interval_s is not None:
        found.append(checkpoints(flow))
    if flow.emit_heartbeats_interval_s is not None:
        found.append(heartbeats(flow))
    return found
