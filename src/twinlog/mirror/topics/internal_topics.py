"""The internal topics of a flow: the cluster of each topic, its cleanup policy, its bounds, and its creation.

By default a broker keeps a week or a gigabyte of overwritten records. A compacted topic is never cleaned in its active
segment, which Kafka closes after `segment.ms` (7 days by default) or `segment.bytes` (1 GiB). twinlog and MirrorMaker 2
read these records at each start (KAFKA-15086).
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from twinlog.errors import NotAppendedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.topics import (
    alter_command,
    alter_configs,
    describe_configs,
    replace_configs,
    supports_incremental_alter,
)
from twinlog.kafka.producer.topic_writer import TopicWriter
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.mirror.offsets.segments import segments_topic
from twinlog.mirror.topics.create import require_topics
from twinlog.mirror.topology.plugins import policy_of
from twinlog.model.topic_names import HEARTBEATS, RELOADS, control_topic, progress_topic
from twinlog.model.topics import ConfigChange, ConfigEntry, ConfigSource, NewTopic, Refusal
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

BATCH_RECORDS = 2_000
"""Records that are encoded at a time, on a thread that serves further work, too."""

TIMEOUT_S = 15.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A topic with the state of a flow: compacted, or deleted after `retention_ms` if that is set.

    A new topic gets `bounds`, and an existing topic should stay within each bound. `loss` is the effect of missing
    compaction; None for a topic that needs no compaction. With `fatal` missing compaction stops the flow at its start.
    An `on_demand` topic is created only by the first command that needs it.
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
    loss = "the exact translation of old offsets would be lost with time"
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
        "MirrorMaker 2 and its clients would lose the translation of offsets for consumers that are far behind",
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


class CompactedTopic:
    """Appends to partition 0 of a compacted topic; used by a single thread."""

    def __init__(self, flow: str, target: ClusterAdmin, topic: InternalTopic, what: str) -> None:
        """`what` names the records in messages."""
        self._topic = topic
        self._flow = flow
        self._target = target
        self._there = False
        self._writer = TopicWriter(target.client, topic.name, TIMEOUT_S, f"writing {what}")

    def ensure(self, *, look: bool = False) -> bool:
        """Create a missing topic, compacted and with a single partition, as MirrorMaker 2 does.

        With `look` a topic that existed at the last call is looked up again: it may be deleted since. Returns whether
        the topic was created. Raises RefusedError when its creation is refused, ClusterError when the target is silent.
        """
        if self._there and not look:
            return False
        client = self._target.client
        found = self._target.call(client.refresh, [self._topic.name])[self._topic.name]
        if error_codes.refused(found.error):
            raise self._writer.lacks_write()
        self._there = found.error != Code.UNKNOWN_TOPIC_OR_PARTITION
        if self._there:
            return False
        require_topics(self._flow, self._target, [self._topic.new()])
        self._there = True
        return True

    def append(self, records: Iterable[tuple[bytes, bytes]], timestamp_ms: int | None = None) -> None:
        """Append (key, value) pairs with a common timestamp (None: now), acknowledged by all in-sync replicas.

        The records appended before an error stay. Raises ClusterError for a failure that may pass, RefusedError if the
        login lacks WRITE on the topic.
        """
        for part in _portions(records, BATCH_RECORDS):
            try:
                self._target.call(partial(self._writer.append, part, timestamp_ms=timestamp_ms))
            except NotAppendedError as error:
                # The topic was deleted: the next turn creates it.
                self._there = error.code != Code.UNKNOWN_TOPIC_OR_PARTITION
                raise


def _portions(records: Iterable[tuple[bytes, bytes]], size: int) -> Iterator[list[tuple[bytes, bytes]]]:
    rest = iter(records)
    while part := list(islice(rest, size)):
        yield part


def too_loose(entries: Iterable[ConfigEntry], bounds: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The bounds that a topic exceeds: the bounds to set, and the bounds for which the topic has its own setting.

    A stricter setting stays, whatever its source; a setting unknown to the broker is left out.
    """
    missing: dict[str, str] = {}
    own: dict[str, str] = {}
    for entry in entries:
        bound = bounds.get(entry.name)
        if bound is None or entry.value is None or float(entry.value) <= float(bound):
            continue
        (own if entry.source == ConfigSource.TOPIC else missing)[entry.name] = bound
    return missing, own


class TopicBounds:
    """Sets missing bounds on existing internal topics of a flow; logs each topic once."""

    def __init__(self, settings: FlowSettings, source: ClusterAdmin, target: ClusterAdmin) -> None:
        self._settings = settings
        self._clusters = (source, target)
        self._done: set[tuple[Alias, TopicName]] = set()

    def set_missing_bounds(self) -> None:
        """Look at topics that were missing or silent before, and set their missing bounds.

        A topic's own settings stay. If the login lacks the permission, or the cluster refuses, the topic stays the same
        and a warning has the command. Raises ClusterError when a cluster is silent.
        """
        for admin in self._clusters:
            here = [
                topic
                for topic in internal_topics(self._settings)
                if topic.cluster == admin.alias and (topic.cluster, topic.name) not in self._done
            ]
            if not here:
                continue
            found, unread = admin.call(describe_configs, admin.client, [topic.name for topic in here])
            for topic in here:
                if topic.name in found:
                    self._bound(admin, topic, found[topic.name])
                elif error_codes.refused(unread.get(topic.name, 0)):
                    lacks = admin.client.lacks("DESCRIBE_CONFIGS", f"topic {topic.name}", "keeping it small")
                    log.info("%s: not looked at: %s", self._settings.name, lacks)
                else:
                    continue
                self._done.add((topic.cluster, topic.name))

    def _bound(self, admin: ClusterAdmin, topic: InternalTopic, entries: Sequence[ConfigEntry]) -> None:
        missing, own = too_loose(entries, topic.bounds)
        if own:
            settings = ", ".join(f"{entry.name}={entry.value}" for entry in entries if entry.name in own)
            self._warn(admin, topic, f"it has {settings} of its own, which is left alone", own)
        if not missing:
            return
        mine = {
            entry.name: entry.value
            for entry in entries
            if entry.source == ConfigSource.TOPIC and entry.value is not None
        }
        refused = self._alter(admin, topic, missing, mine)
        if refused is not None and not error_codes.refused(refused.code) and len(missing) > 1:
            # A managed cluster may refuse a single bound: then each bound is tried by itself.
            single = {name: self._alter(admin, topic, {name: value}, mine) for name, value in missing.items()}
            refused = next((refusal for refusal in single.values() if refusal is not None), None)
            left = {name: missing[name] for name, refusal in single.items() if refusal is not None}
        else:
            left = {} if refused is None else missing
        made = {name: value for name, value in missing.items() if name not in left}
        if made:
            before = {entry.name: entry.value for entry in entries}
            changes = ", ".join(f"{name} {before[name]} -> {value}" for name, value in made.items())
            log.info("%s: internal topic %s is kept small from now on: %s", self._settings.name, topic.name, changes)
        if refused is not None:
            why = refused.text
            if error_codes.refused(refused.code):
                why = str(admin.client.lacks("ALTER_CONFIGS", f"topic {topic.name}", "keeping it small"))
            self._warn(admin, topic, why, left)

    def _alter(
        self, admin: ClusterAdmin, topic: InternalTopic, wanted: Mapping[str, str], mine: dict[str, str]
    ) -> Refusal | None:
        """Set the wanted bounds, beside the topic's own settings (`mine`, with the bounds that were set before)."""
        if not supports_incremental_alter(admin.client):
            # The request resets each unnamed setting (before KIP-339).
            refused = admin.call(replace_configs, admin.client, {topic.name: {**mine, **wanted}}).get(topic.name)
            if refused is None:
                mine.update(wanted)
            return refused
        changes = {topic.name: [ConfigChange(name, value) for name, value in wanted.items()]}
        return admin.call(alter_configs, admin.client, changes).get(topic.name)

    def _warn(self, admin: ClusterAdmin, topic: InternalTopic, why: str, bounds: Mapping[str, str]) -> None:
        log.warning(
            "TW-INTERNAL-03: %s: cluster %s: internal topic %s may keep much that is overwritten, which makes every "
            "start slower: %s; to bound it: %s",
            self._settings.name,
            admin.alias,
            topic.name,
            why,
            alter_command(admin.client, topic.name, bounds),
        )
