"""Plans a verification: the compared partitions, their sections, their division among tasks, and refusals."""

from __future__ import annotations

import heapq
import logging
import threading
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from twinlog.config import load
from twinlog.errors import ClusterError, OptionError, PatternError
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect, both_clusters
from twinlog.kafka.consumer.topic_reader import TopicReader
from twinlog.kafka.retry import COMMAND_CONNECT_S
from twinlog.mirror.offsets.exact_map import ExactMap
from twinlog.mirror.offsets.map_store import MapStore
from twinlog.mirror.offsets.position_store import PositionStore, copied_topics
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.offsets.sync_store import MirrorSyncStore
from twinlog.mirror.topology.filters import compile_list, spelled_out
from twinlog.mirror.topology.topology import Topology, topology_of
from twinlog.mirror.unlisted_topics import find_hidden_copied
from twinlog.model.topics import Topic, is_compacted
from twinlog.model.types import TopicName, TopicPartition
from twinlog.ops.inventory import LogOffsets, logs_of
from twinlog.ops.verify.model import PartitionToVerify, UncomparedRange, VerifyRules
from twinlog.ops.verify.sections import Bounds, sections_of
from twinlog.settings.client import ConsumerSettings
from twinlog.settings.flow import FlowSettings
from twinlog.spark.dataframes.options import flag

log = logging.getLogger(__name__)

NOT_COPIED = "nothing of them was copied yet"
RECREATED = "the source topic was recreated since its last position was stored: nothing of it is known to be copied"
TRANSFORMED = "flow {} changes records on their way (transform): its copies are other records, and cannot be verified"

Progress = Callable[[str, str, int, int], None]
"""Called with a cluster, the kind of content read from it, the number read, and the total number."""

MOST_TASKS = 64
LARGEST = (1 << 63) - 1

_KNOWN = {
    "twinlog.config",
    "flow",
    "topics",
    "startingtimestamp",
    "endingtimestamp",
    "everyrecord",
    "ignoreforeign",
    "maxtasks",
}


def expressions(text: str) -> tuple[str, ...]:
    """The Java expressions of an option, which are separated by commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def named(wanted: tuple[str, ...], topics: Collection[TopicName]) -> tuple[list[TopicName], str]:
    """Return the topics that Java expressions match, and the missing topics: spelled-out names, or all of `wanted`.

    Raises OptionError for a malformed expression, and for an expression that takes too long.
    """
    try:
        compiled = compile_list(wanted)
        found = [] if compiled is None else [name for name in sorted(topics) if compiled.matches(name)]
    except PatternError as error:
        raise OptionError(f"topics: {error}") from None
    lacking = sorted(name for name in spelled_out(wanted) if name not in topics)
    return found, ", ".join(lacking) or ("" if found else ", ".join(wanted))


class Work(Protocol):
    """A partition with something to do."""

    @property
    def offsets(self) -> int:
        """How much that is."""


W = TypeVar("W", bound=Work)


def share_out(parts: Iterable[W], most: int) -> list[tuple[W, ...]]:
    """Return at most `most` shares of about the same size, large parts first; thousands of small parts fit into few
    tasks."""
    loads: list[tuple[int, int, list[W]]] = [(0, number, []) for number in range(max(1, most))]
    for part in sorted(parts, key=lambda one: -one.offsets):
        load, number, share = heapq.heappop(loads)
        share.append(part)
        heapq.heappush(loads, (load + part.offsets + 1, number, share))
    return [tuple(share) for _, _, share in sorted(loads, key=lambda one: (-one[0], one[1])) if share]


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """The part of a flow to verify: topics of the source by Java expressions (empty: all mirrored topics apart from
    heartbeats), records from a timestamp in ms to below another timestamp. The last three fields are as in
    `VerifyRules`."""

    topics: tuple[str, ...] = ()
    since_ms: int | None = None
    until_ms: int | None = None
    every_record: bool = False
    ignore_foreign: bool = False
    range_records: int = 0


@dataclass(frozen=True, slots=True)
class VerifyPlan:
    """The partitions for tasks to compare, and the rules; `tasks` of the flow may run at once.

    `cluster_ids` are the ids of the source and of the target, if a statement needs them.
    """

    rules: VerifyRules
    parts: tuple[PartitionToVerify, ...]
    tasks: int = 1
    cluster_ids: tuple[str | None, str | None] = (None, None)

    def shares(self, most: int) -> list[VerifyPlan]:
        """At most so many plans of about the same size."""
        return [replace(self, parts=parts) for parts in share_out(self.parts, most)]


def rules_of(settings: FlowSettings, options: VerifyOptions) -> VerifyRules:
    """How tasks read the clusters of a flow."""
    consumer = settings.consumer
    return VerifyRules(
        consumer,
        ConsumerSettings(
            settings.target_admin.client,
            fetch_max_bytes=consumer.fetch_max_bytes,
            max_partition_fetch_bytes=consumer.max_partition_fetch_bytes,
        ),
        settings.source,
        settings.target,
        options.every_record,
        options.ignore_foreign,
        range_records=options.range_records,
    )


def compacted_topics(admin: ClusterAdmin, names: Sequence[TopicName]) -> set[TopicName]:
    """The topics with compaction in their `cleanup.policy`. Raises ClusterError and RefusedError."""
    return {name for name, entries in admin.configs(names).items() if is_compacted(entries)}


class VerifyPlanner:
    """Asks both clusters of a flow; use it as a context manager. Raises ClusterError, RefusedError and OptionError."""

    def __init__(
        self,
        settings: FlowSettings,
        options: VerifyOptions,
        connect: Connect = ClusterAdmin,
        progress: Progress = lambda alias, what, done, total: None,
        connect_s: float = COMMAND_CONNECT_S,
    ) -> None:
        self._connect_s = connect_s
        self._settings = settings
        self._options = options
        self._progress = progress
        self._source, self._target = both_clusters(settings, connect)

    def __enter__(self) -> VerifyPlanner:
        return self

    def __exit__(self, *_: object) -> None:
        self._source.close()
        self._target.close()

    def waits(self) -> list[str]:
        """The requests that `plan`, on another thread, waits for just now, in words."""
        return [text for cluster in (self._source, self._target) if (text := cluster.waits()) is not None]

    def plan(self) -> VerifyPlan:
        """Return the partitions to compare now: up to the last stored position, if the flow has stored a position."""
        settings, options = self._settings, self._options
        since, until = options.since_ms, options.until_ms
        if since is not None and until is not None and since >= until:
            raise OptionError(
                f"the range from timestamp {since} to {until} (in ms) is empty: the first must be the earlier timestamp"
            )
        self._source.connect(self._connect_s)
        self._target.connect(self._connect_s)
        ids: tuple[str | None, str | None] = (None, None)
        if options.range_records:
            ids = self._source.identity().cluster_id, self._target.identity().cluster_id
        return VerifyPlan(rules_of(settings, options), tuple(self._parts()), settings.tasks_max, ids)

    def _parts(self) -> Iterable[PartitionToVerify]:
        settings, topology = self._settings, topology_of(self._settings)
        seen = self._source.topics()
        topics = {name: topic for name, topic in seen.items() if topology.mirrors(name)}
        copies = self._target.topics()
        # Positions are read first: the records of stored positions are on the target by then.
        store = MapStore(settings, self._target, PositionStore(settings, self._target, optional=True))
        store.read()
        hidden = self._hidden(topology, seen, copies, store.positions())
        chosen = self._chosen({**topics, **hidden})
        for topic in chosen:
            if topic.name in hidden:
                sentence = str(self._source.client.lacks("DESCRIBE", f"topic {topic.name}", "verifying its copies"))
                for number in range(topic.partitions):
                    yield self._part(topic.name, topology.remote_name(topic.name), number, problem=sentence)
        chosen = [topic for topic in chosen if topic.name not in hidden]
        self._progress(settings.source, "topics", len(chosen), len(chosen))
        pairs = [(topic, topology.remote_name(topic.name)) for topic in chosen]
        if settings.transform is not None:
            sentence = TRANSFORMED.format(settings.name)
            for topic, remote in pairs:
                for number in range(topic.partitions):
                    yield self._part(topic.name, remote, number, problem=sentence)
            return
        compacted = compacted_topics(self._source, [topic.name for topic, remote in pairs if remote in copies])
        compacted_there = compacted_topics(self._target, [remote for _, remote in pairs if remote in copies])
        parts = [TopicPartition(topic.name, number) for topic, _ in pairs for number in range(topic.partitions)]
        there = [
            TopicPartition(remote, number)
            for topic, remote in pairs
            if remote in copies
            for number in range(min(topic.partitions, copies[remote].partitions))
        ]
        committed = settings.consumer.isolation_level == "read_committed"
        logs = logs_of(self._source, parts, committed=committed)
        remote_logs = logs_of(self._target, there, committed=True)
        remote_ends = self._target.offsets(there, latest=True)
        since, until = self._at(logs, self._options.since_ms), self._at(logs, self._options.until_ms)
        syncs = self._syncs([part for part in parts if store.maps.map(part) is None])
        for topic, remote in pairs:
            copy = copies.get(remote)
            for number in range(topic.partitions):
                part, its = TopicPartition(topic.name, number), TopicPartition(remote, number)
                problem = self._problem(part, its, copy, logs, remote_logs, remote_ends)
                if problem is not None or copy is None:
                    yield self._part(topic.name, remote, number, problem=problem)
                    continue
                known, position = store.maps.map(part), store.position(part)
                if position is not None and topic.recreated(position.topic_id):
                    nothing = UncomparedRange("source", logs[part].start, logs[part].end, RECREATED)
                    left = (nothing,) if nothing.end > nothing.start else ()
                    yield replace(self._part(topic.name, remote, number), left=left)
                    continue
                if position is not None and not _is_of(position, copy):
                    # Copies from before the recreation of the remote topic are absent from the present topic.
                    known = position = None
                bounds = Bounds(
                    logs[part].start,
                    logs[part].end,
                    remote_logs[its].start,
                    remote_logs[its].end,
                    None if position is None else int(position.next_source),
                    None if position is None or position.next_target is None else int(position.next_target),
                    self._first(since, part, logs[part].end),
                    self._first(until, part, None),
                    hidden=remote_ends[its] > remote_logs[its].end,
                )
                yield replace(
                    _compared(self._part(topic.name, remote, number), known, position, bounds),
                    syncs=tuple(syncs(part)),
                    source_id=topic.topic_id,
                    target_id=copy.topic_id,
                    source_compacted=topic.name in compacted,
                    target_compacted=remote in compacted_there,
                )

    def _hidden(
        self,
        topology: Topology,
        seen: Container[TopicName],
        copies: Mapping[TopicName, Topic],
        positions: Mapping[TopicPartition, Position],
    ) -> dict[TopicName, Topic]:
        """The copied topics that the source hides, with the partitions that are known from positions or copies."""
        known = {topic.name: topic for topic in copied_topics(positions)}
        names = find_hidden_copied(self._source, topology, positions, seen, lambda: copies)
        return {name: known.get(name) or Topic(name, copies[topology.remote_name(name)].partitions) for name in names}

    def _chosen(self, topics: Mapping[TopicName, Topic]) -> list[Topic]:
        wanted, settings = self._options.topics, self._settings
        if not wanted:
            # Several programs between two clusters copy heartbeats, each in its own order.
            return [topics[name] for name in sorted(topics) if not settings.heartbeat_names.is_heartbeats(name)]
        found, lacking = named(wanted, topics)
        if lacking:
            raise OptionError(
                f"flow {settings.name} mirrors no topic {lacking} of {settings.source}: see `twinlog plan`"
            )
        return [topics[name] for name in found]

    def _part(
        self, topic: TopicName, remote: TopicName, number: int, *, problem: str | None = None
    ) -> PartitionToVerify:
        return PartitionToVerify(
            self._settings.name, TopicPartition(topic, number), TopicPartition(remote, number), problem=problem
        )

    def _problem(
        self,
        part: TopicPartition,
        its: TopicPartition,
        copy: Topic | None,
        logs: Mapping[TopicPartition, LogOffsets],
        remote_logs: Mapping[TopicPartition, LogOffsets],
        remote_ends: Mapping[TopicPartition, int],
    ) -> str | None:
        settings = self._settings
        if copy is None:
            return f"cluster {settings.target} has no topic {its.topic}, or hides it"
        if its.partition >= copy.partitions:
            return f"cluster {settings.target} has no partition {its}"
        if part not in logs:
            return f"cluster {settings.source}: {part} has no leader"
        if its not in remote_logs or its not in remote_ends:
            return f"cluster {settings.target}: {its} has no leader"
        return None

    def _at(self, parts: Iterable[TopicPartition], timestamp: int | None) -> Mapping[TopicPartition, int] | None:
        """The first source offset of each partition with this timestamp or a later timestamp."""
        return None if timestamp is None else self._source.first_since(parts, timestamp)

    def _first(self, found: Mapping[TopicPartition, int] | None, part: TopicPartition, none: int | None) -> int | None:
        """`none` if all records are older."""
        if found is None:
            return None
        offset = found.get(part, -1)
        return none if offset < 0 else offset

    def _syncs(self, parts: Sequence[TopicPartition]) -> Callable[[TopicPartition], list[tuple[int, int]]]:
        """Pairs of offsets of partitions that lack a map; months of offset syncs take long to read."""
        settings = self._settings
        wanted = set(parts)
        here = self._source if settings.offset_syncs_location == "source" else self._target
        reader = TopicReader(here, TopicName(settings.offset_syncs_topic), optional=True)
        store = MirrorSyncStore(reader, lambda sync: sync.source in wanted, threading.Lock())
        if parts:
            try:
                store.read()
            except ClusterError as error:
                log.warning("TW-GROUP-08: %s: where copies begin is found by content alone: %s", settings.name, error)

        def of(part: TopicPartition) -> list[tuple[int, int]]:
            if part not in wanted:
                return []
            return [(int(sync.upstream), int(sync.downstream)) for sync in store.get_translation(part).kept(part)]

        return of


def _compared(
    part: PartitionToVerify, known: ExactMap | None, position: Position | None, bounds: Bounds
) -> PartitionToVerify:
    if position is None and known is None and bounds.target_start == bounds.target_end:
        nothing = [UncomparedRange("source", bounds.source_start, bounds.source_end, NOT_COPIED)]
        return replace(part, left=tuple(one for one in nothing if one.end > one.start))
    sections, left = sections_of(known, bounds)
    return replace(part, sections=tuple(sections), left=tuple(left))


def _is_of(position: Position, copy: Topic) -> bool:
    """Whether a position counts records of this remote topic rather than of a former topic of the same name."""
    return position.remote_topic in {None, copy.name} and not copy.recreated(position.remote_topic_id)


@dataclass(frozen=True, slots=True)
class VerifyRequest:
    """The flow to verify, the selected part of it, and the most tasks."""

    flow: FlowSettings
    options: VerifyOptions
    most_tasks: int = MOST_TASKS


def read_verify_options(given: Mapping[str, str]) -> VerifyRequest:
    """Read and check all options; names are found in any case. Raises OptionError and ConfigError."""
    found = {key.lower(): value for key, value in given.items()}
    unknown = sorted(found.keys() - _KNOWN)
    if unknown:
        raise OptionError(
            f"Option '{unknown[0]}' is unknown; the format twinlog-verify has {', '.join(sorted(_KNOWN))}"
        )
    path = found.get("twinlog.config")
    if path is None:
        raise OptionError("Option 'twinlog.config' must be specified: the file of the flow that is to be verified")
    flows = [flow for flow in load(path).flows if flow.copies]
    names = ", ".join(flow.name for flow in flows)
    wanted = found.get("flow")
    chosen = [flow for flow in flows if wanted in (None, flow.name)]
    if len(chosen) != 1:
        raise OptionError(f"Option 'flow' must be one of the flows that {path} has: {names or 'none is enabled'}")
    return VerifyRequest(
        chosen[0],
        VerifyOptions(
            expressions(found.get("topics", "")),
            _number(found, "startingtimestamp"),
            _number(found, "endingtimestamp"),
            flag(found, "everyrecord"),
            flag(found, "ignoreforeign"),
        ),
        _number(found, "maxtasks") or MOST_TASKS,
    )


def _number(found: Mapping[str, str], name: str) -> int | None:
    value = found.get(name)
    if value is None:
        return None
    try:
        number = int(value)
    except ValueError:
        number = -1
    # Brokers take negative timestamps for something else.
    if not 0 <= number <= LARGEST:
        raise OptionError(f'For input string: "{value}"; option {name} is a whole number, at least 0')
    return number
