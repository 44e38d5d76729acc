"""Plans a replay: chooses source offsets and target topics, and refuses wrong requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from twinlog.clock import wall_ms
from twinlog.errors import ClusterError, OptionError
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect, both_clusters
from twinlog.kafka.retry import COMMAND_CONNECT_S
from twinlog.mirror.topics.create import require_topics
from twinlog.mirror.topology.filters import spelled_out
from twinlog.mirror.topology.topology import Topology, topology_of
from twinlog.mirror.unlisted_topics import raise_for_hidden
from twinlog.model.amounts import counted
from twinlog.model.topics import DEFAULT_MAX_MESSAGE_BYTES, MAX_MESSAGE_BYTES, ConfigEntry, NewTopic, Topic
from twinlog.model.types import Alias, TopicName, TopicPartition
from twinlog.ops.inventory import LogOffsets, logs_of
from twinlog.ops.replay.bounds import ReplayBound, Side, offsets_of, require_order
from twinlog.ops.replay.model import INTO, PartitionToReplay, ReplayRules
from twinlog.ops.verify.log_reader import ClusterLogs, LogReader
from twinlog.ops.verify.planner import named, share_out
from twinlog.settings.flow import FlowSettings

KEPT = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "CreateTime",
}
"""Replayed records stay until a user deletes them, at any age."""

PATIENCE_S = 30.0
"""The time that a partition may stay silent while its first record is looked at."""

_LOOK_BYTES = 64 << 10

_RETENTION = "retention.ms"

Config = dict[str, str | None]
"""A topic's settings by name."""


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """The options of a replay.

    `topics` are topics of the source by Java expressions. Records are copied from a bound to below another bound, of
    all `partitions` or of the given partitions.

    `into` names the topics on the target, with {topic} and {remote} for the names of the source topic and of its copy.
    """

    topics: tuple[str, ...]
    start: ReplayBound
    end: ReplayBound
    partitions: frozenset[int] = frozenset()
    into: str = INTO


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """The ranges to copy; `create` are the topics that the target lacks. `there` has the present offsets of each
    existing topic."""

    rules: ReplayRules
    parts: tuple[PartitionToReplay, ...]
    create: tuple[NewTopic, ...]
    there: Mapping[TopicPartition, LogOffsets]

    def shares(self, most: int) -> list[tuple[PartitionToReplay, ...]]:
        """At most so many shares of about the same size."""
        return share_out(self.parts, most)


class ReplayPlanner:
    """Asks both clusters of a flow; use it as a context manager. Raises ClusterError, RefusedError and OptionError.

    `others` are the flows of the same file; their remote topics are refused as targets, too.
    """

    def __init__(
        self,
        settings: FlowSettings,
        options: ReplayOptions,
        others: Sequence[FlowSettings] = (),
        connect: Connect = ClusterAdmin,
        connect_s: float = COMMAND_CONNECT_S,
    ) -> None:
        self._connect_s = connect_s
        self._settings = settings
        self._options = options
        self._others = others
        self._source, self._target = both_clusters(settings, connect)

    def __enter__(self) -> ReplayPlanner:
        return self

    def __exit__(self, *_: object) -> None:
        self._source.close()
        self._target.close()

    def plan(self) -> ReplayPlan:
        """Return the ranges that a replay would copy now; only reads."""
        settings, options = self._settings, self._options
        start, end = options.start, options.end
        require_order(start, end)
        self._source.connect(self._connect_s)
        self._target.connect(self._connect_s)
        topology = topology_of(settings)
        topics = self._source.topics()
        chosen = self._chosen(topology, topics)
        into = self._named(topology, topics, chosen)
        there = self._target.topics()
        configs = self._target.configs([name for name in into.values() if name in there])
        kept = {name: _values(entries) for name, entries in configs.items()}
        limits = self._limits(chosen, into, there, kept)
        parts = [
            TopicPartition(topic.name, number)
            for topic in chosen
            for number in range(topic.partitions)
            if not options.partitions or number in options.partitions
        ]
        lacking_numbers = options.partitions - {part.partition for part in parts}
        if lacking_numbers:
            raise OptionError(f"the topics lack partition {', '.join(map(str, sorted(lacking_numbers)))}")
        committed = settings.consumer.isolation_level == "read_committed"
        logs = logs_of(self._source, parts, committed=committed)
        _require_leaders(settings.source, parts, logs)
        hidden = self._hidden(logs) if committed else {}
        starts = self._offsets(start, logs, hidden, "start")
        ends = self._offsets(end, logs, hidden, "end")
        if parts and all(starts[part] > ends[part] for part in parts):
            raise OptionError(
                f"the range from {start} to {end} is empty in every partition: it has to begin before its end"
            )
        found = [
            PartitionToReplay(
                part,
                TopicPartition(into[part.topic], part.partition),
                starts[part],
                max(starts[part], ends[part]),
                limits[into[part.topic]],
                topics[part.topic].topic_id,
                begin_lost=starts[part] == logs[part].start > 0,
            )
            for part in parts
        ]
        existing = [one.into for one in found if one.into.topic in there]
        ranges = tuple(one for one in found if one.offsets)
        self._require_kept(ranges, kept)
        return ReplayPlan(
            ReplayRules(settings),
            ranges,
            tuple(
                NewTopic(
                    into[topic.name],
                    topic.partitions,
                    settings.replication_factor,
                    KEPT | {MAX_MESSAGE_BYTES: str(limits[into[topic.name]])},
                )
                for topic in chosen
                if into[topic.name] not in there
            ),
            logs_of(self._target, existing),
        )

    def create(self, plan: ReplayPlan) -> None:
        """Create the topics that the target lacks. Raises RefusedError, ClusterError."""
        if plan.create:
            require_topics(self._settings.name, self._target, plan.create)

    def _chosen(self, topology: Topology, topics: Mapping[TopicName, Topic]) -> list[Topic]:
        usable = [name for name in topics if not _is_internal(topology, name)]
        found, lacking = named(self._options.topics, usable)
        if lacking or not found:
            raise_for_hidden(self._source, spelled_out(self._options.topics) - topics.keys(), "replaying its records")
            raise OptionError(f"cluster {self._settings.source} lacks the topic {lacking}, or it is an internal topic")
        return [topics[name] for name in found]

    def _named(
        self, topology: Topology, topics: Mapping[TopicName, Topic], chosen: Sequence[Topic]
    ) -> dict[TopicName, TopicName]:
        """The target topic of each source topic. Raises OptionError for a name at which a replay would do harm."""
        settings = self._settings
        copies = {topology.remote_name(topic.name): (topic.name, settings.name) for topic in chosen}
        for flow in (*self._others, settings):
            if (flow.source, flow.target) == (settings.source, settings.target):
                # Several connectors may lead from here to there.
                other = topology_of(flow)
                copies |= {other.remote_name(name): (name, flow.name) for name in topics if other.mirrors(name)}
        written: dict[TopicName, TopicName] = {}
        for topic in chosen:
            try:
                name = TopicName(self._options.into.format(topic=topic.name, remote=topology.remote_name(topic.name)))
            except (KeyError, IndexError, ValueError, AttributeError, TypeError):
                raise OptionError("--into is a name that may contain {topic} and {remote}") from None
            if name in copies:
                copied, by = copies[name]
                raise OptionError(
                    f"{name} is the remote topic of {copied}: its readers would get old records again, after newer "
                    f"records, and {by} takes them for foreign records; choose another name (--into)"
                )
            owner = next((flow for flow in self._others if _writes(flow, settings, name)), None)
            if owner is not None:
                raise OptionError(f"{name} is a remote topic of flow {owner.name}; choose another name (--into)")
            if _is_internal(topology, name):
                raise OptionError(f"{name} is the name of an internal topic; choose another name (--into)")
            if name in written.values():
                raise OptionError(f"several topics would go into {name}; --into needs {{topic}} or {{remote}} in it")
            written[topic.name] = name
        return written

    def _limits(
        self,
        chosen: Sequence[Topic],
        into: Mapping[TopicName, TopicName],
        there: Mapping[TopicName, Topic],
        configs: Mapping[TopicName, Config],
    ) -> dict[TopicName, int]:
        """The largest batch of each topic that is replayed into. Raises OptionError for a topic that is unfit for the
        records."""
        sources = self._source.configs([topic.name for topic in chosen if into[topic.name] not in there])
        found = {}
        for topic in chosen:
            name = into[topic.name]
            own = configs.get(name, {}) if name in there else _values(sources.get(topic.name, ()))
            found[name] = int(own.get(MAX_MESSAGE_BYTES) or DEFAULT_MAX_MESSAGE_BYTES)
            if name not in there:
                continue
            if there[name].partitions < topic.partitions:
                raise OptionError(
                    f"{name} has {counted(there[name].partitions, 'partition')} and {topic.name} has "
                    f"{topic.partitions}; choose another name (--into), or add partitions"
                )
            if own.get("message.timestamp.type") == "LogAppendTime" or "compact" in (own.get("cleanup.policy") or ""):
                raise OptionError(
                    f"{name} is compacted, or stamps records with the time of appending: it would change the replayed "
                    "records; choose another name (--into)"
                )
        return found

    def _require_kept(self, ranges: Sequence[PartitionToReplay], configs: Mapping[TopicName, Config]) -> None:
        """Raise OptionError for a topic whose retention would delete replayed records at once."""
        now_ms = wall_ms(self._target.client.loop.clock)
        for name, own in sorted(configs.items()):
            retention_ms = int(own.get(_RETENTION) or -1)
            mine = {one.source: one for one in ranges if one.into.topic == name}
            if retention_ms < 0 or not mine:
                continue
            found = self._source.first_since(mine, max(0, now_ms - retention_ms))
            for part, one in sorted(mine.items()):
                young = found.get(part, -1)
                if self._has_record(one, one.end if young < 0 else min(young, one.end)):
                    raise OptionError(
                        f"{name} deletes records by their age ({_RETENTION} = {retention_ms}), and {part} is older "
                        f"than that from offset {one.start} on: the copies would be gone at once; set {_RETENTION} = "
                        "-1 on it, or choose another name (--into)"
                    )

    def _has_record(self, one: PartitionToReplay, end: int) -> bool:
        """Whether a range has a record before an offset: it may begin with a hole, as of compaction."""
        if one.start >= end:
            return False
        settings = self._settings
        reader = LogReader(
            ClusterLogs(self._source.client.loop, settings.source, settings.consumer, self._source.client),
            one.source,
            one.start,
            end,
            committed=settings.consumer.isolation_level == "read_committed",
            topic_id=one.source_id,
            patience_s=PATIENCE_S,
            fetch_bytes=_LOOK_BYTES,
            ahead=False,
        )
        return reader.rows(end)[0] is not None

    def _hidden(self, logs: Mapping[TopicPartition, LogOffsets]) -> dict[TopicPartition, LogOffsets]:
        """The offsets that an open transaction hides at the end of each log."""
        ends = self._source.offsets(logs, latest=True)
        _require_leaders(self._settings.source, logs, ends)
        return {part: LogOffsets(one.end, ends[part]) for part, one in logs.items() if ends[part] > one.end}

    def _offsets(
        self,
        bound: ReplayBound,
        logs: Mapping[TopicPartition, LogOffsets],
        hidden: Mapping[TopicPartition, LogOffsets],
        side: Side,
    ) -> dict[TopicPartition, int]:
        found = self._source.first_since(logs, bound.value) if bound.kind == "timestamp" else {}
        return offsets_of(bound, logs, hidden, found, side)


def _require_leaders(
    alias: Alias, partitions: Iterable[TopicPartition], answered: Mapping[TopicPartition, object]
) -> None:
    lacking = sorted(set(partitions) - answered.keys())
    if lacking:
        raise ClusterError(f"cluster {alias}: {lacking[0]} lacks a leader")


def _is_internal(topology: Topology, name: TopicName) -> bool:
    return topology.policy.is_internal(name) or name.startswith("__")


def _writes(flow: FlowSettings, settings: FlowSettings, name: TopicName) -> bool:
    """Whether another flow to the same cluster copies to this topic, by its name."""
    if flow.target != settings.target or (flow.source, flow.target) == (settings.source, settings.target):
        return False
    topology = topology_of(flow)
    upstream = topology.source_topic(name)
    return upstream is not None and not flow.keeps_names and topology.mirrors(upstream)


def _values(entries: Sequence[ConfigEntry]) -> Config:
    return {one.name: one.value for one in entries}
