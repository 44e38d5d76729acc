"""Decides the first offset of each partition of a flow, and stores it on the target before any record is copied.

While every topic begins at its earliest record, the positions and the brokers are left alone.

The file's `latest`, a time or a duration means the moment at which the flow first starts with a topic. A topic or a
partition that appears later begins at its earliest record; otherwise records from before its discovery would be lost
(KAFKA-4668). Cluster metadata have no time of creation. So a topic counts as older at the very first start of its flow,
and after a change of the filter that left it out.

A partition whose leader is silent begins by time once the leader answers; all other partitions begin meanwhile.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from twinlog.clock import wall_ms
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.producer.topic_writer import OwnRecord, TopicWriter
from twinlog.kafka.protocol.offsets import LATEST
from twinlog.mirror.offsets.position_store import StoredPositions
from twinlog.mirror.offsets.position_writer import LEADER_S
from twinlog.mirror.offsets.starts import (
    AT_FIRST,
    REFUSED,
    ChosenTopics,
    FirstStart,
    StartSpec,
    TopicStart,
    encode_start,
    start_key,
)
from twinlog.mirror.topology.filters import DefaultTopicFilter, PatternError
from twinlog.model.amounts import shown_moment
from twinlog.model.topics import Topic, listed
from twinlog.model.types import SourceOffset, TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings

log = logging.getLogger(__name__)


def first_start(known: FirstStart | None, chosen: ChosenTopics, now_ms: int) -> FirstStart:
    """The start that counts for topics which the flow finds now with the filter `chosen`.

    Another filter begins another start. While the earlier start is unfinished, it keeps its time and takes the new
    filter.
    """
    if known is None:
        return FirstStart(now_ms, chosen)
    if known.chosen == chosen:
        return known
    if known.done:
        return FirstStart(now_ms, chosen, before=known.chosen)
    return replace(known, chosen=chosen)


@dataclass(slots=True)
class TopicPlan:
    """The first offsets of the partitions of a topic: by partition number, None for a partition with a position.

    The first offsets of partitions in `asked` still have to be found. The partitions in `later` appeared after the flow
    had started.
    """

    topic: Topic
    begins: list[StartSpec | None]
    asked: list[int] = field(default_factory=list)
    later: list[int] = field(default_factory=list)
    recreated: bool = False

    @property
    def decides(self) -> bool:
        """Whether there is anything to store."""
        return bool(self.asked or self.later)

    @property
    def in_part(self) -> bool:
        """Whether other partitions of the topic have a position, or a first offset that was decided before."""
        return not self.recreated and 0 < len(self.later) < self.topic.partitions


def differs(settings: FlowSettings, topic: TopicName) -> bool:
    """Whether a topic may begin at another offset than its earliest record, by other starts than `none`."""
    return settings.start_of(topic).kind not in {"earliest", "none"}


def plan_topics(
    topics: Iterable[Topic],
    stored: Mapping[TopicName, TopicStart],
    first: FirstStart,
    positions: Collection[TopicPartition],
) -> list[TopicPlan]:
    """The decisions for topics at the start `first`.

    `stored` has the earlier decisions, and partitions in `positions` have been copied.
    """
    return [_plan(topic, stored.get(topic.name), first, positions) for topic in topics]


def _plan(
    topic: Topic, stored: TopicStart | None, first: FirstStart, positions: Collection[TopicPartition]
) -> TopicPlan:
    recreated = stored is not None and topic.recreated(stored.topic_id)
    same = None if recreated else stored
    plan = TopicPlan(topic, [], recreated=recreated)
    appeared = recreated or same is not None or _appeared(topic, first)
    for number in range(topic.partitions):
        before = same.begins[number] if same is not None and number < len(same.begins) else None
        if TopicPartition(topic.name, number) in positions:
            plan.begins.append(None)
        elif before is not None:
            plan.begins.append(before)
        elif appeared:
            # A partition whose position a user deleted is here too: the offset by the file's rule is unknown for it.
            plan.begins.append(AT_FIRST)
            plan.later.append(number)
        else:
            plan.begins.append(None)
            plan.asked.append(number)
    return plan


def _appeared(topic: Topic, first: FirstStart) -> bool:
    """Whether a topic without stored start appeared after the flow had started with its filter."""
    return first.done or (first.before is not None and _lets_through(first.before, topic))


def _lets_through(chosen: ChosenTopics, topic: Topic) -> bool:
    """Whether an earlier filter let a topic through; True if the answer is unknown, so that all records are copied."""
    if chosen.class_path is not None:
        return True
    try:
        return DefaultTopicFilter(chosen.include, chosen.exclude).accepts(topic.name)
    except PatternError:
        return True


def find_places(
    plans: Iterable[TopicPlan], settings: FlowSettings, source: ClusterAdmin, at_ms: int, *, now: bool
) -> None:
    """Fill in the first offsets of the `asked` partitions of plans, for a flow that starts with them at `at_ms`.

    With `now`, `at_ms` is the present, and a partition that begins at its end takes the present end. Otherwise records
    have arrived since `at_ms`, and the partition begins by time.
    """
    plans = list(plans)
    starts = {
        TopicPartition(plan.topic.name, number): settings.start_of(plan.topic.name)
        for plan in plans
        for number in plan.asked
    }
    since = {part: start.since_ms(at_ms) for part, start in starts.items()}
    ends = {part for part, start in starts.items() if now and start.kind == "latest"}
    offsets = offsets_since(
        {part: None if part in ends else moment for part, moment in since.items()}, settings, source
    )
    for plan in plans:
        for number in plan.asked:
            part = TopicPartition(plan.topic.name, number)
            plan.begins[number] = (
                StartSpec(offset=offsets[part]) if part in offsets else StartSpec(since_ms=since[part])
            )


def offsets_since(
    wanted: Mapping[TopicPartition, int | None], settings: FlowSettings, source: ClusterAdmin
) -> dict[TopicPartition, SourceOffset]:
    """The first offset of each partition since a time, or its end offset if no record is that young.

    A partition with the time None gets its end offset. Partitions with a silent leader are missing. Raises
    ClusterError.
    """
    committed = settings.consumer.isolation_level == "read_committed"
    # Ends come first: a record that is appended between the two requests is copied at worst, and never passed over.
    ends = source.list_answered_offsets(wanted, LATEST, read_committed=committed)
    found = {part: SourceOffset(end) for part, end in ends.items() if wanted[part] is None}
    by_moment: dict[int, list[TopicPartition]] = defaultdict(list)
    for part in ends:
        moment = wanted[part]
        if moment is not None:
            by_moment[moment].append(part)
    for moment, parts in by_moment.items():
        for part, offset in source.list_answered_offsets(parts, moment, read_committed=committed).items():
            found[part] = SourceOffset(ends[part] if offset < 0 else offset)
    return found


class PartitionStarts:
    """First offsets of partitions that lack a position. A single thread calls `decide_starts`, any thread the rest."""

    def __init__(
        self, settings: FlowSettings, source: ClusterAdmin, target: ClusterAdmin, positions: StoredPositions
    ) -> None:
        self._settings = settings
        self._source = source
        self._target = target
        self._positions = positions
        kinds = {(start or settings.consumer.auto_offset_reset).kind for start in settings.start.values}
        self.needed = bool(kinds - {"earliest", "none"})
        """Whether there is anything to decide: some topics may begin at another offset than their earliest record."""
        self._read = False
        self._first: FirstStart | None = None
        self._first_stored = True
        self._topics: dict[TopicName, TopicStart] = {}
        self._seen: dict[TopicName, tuple[object, int]] = {}
        """By topic its id and the number of partitions with a decision."""
        self._settled = False
        """Whether the first start that counts is stored."""
        self._changing = threading.Lock()
        self._writer = TopicWriter(
            target.client,
            TopicName(settings.positions_topic),
            settings.target_admin.client.request_timeout_ms / 1000,
            "storing where topics begin",
            by_key=True,
            wait_s=LEADER_S,
        )

    def get_start(self, partition: TopicPartition) -> StartSpec:
        """The first offset of a partition that is still to begin."""
        kind = self._settings.start_of(partition.topic).kind
        if kind == "none":
            return REFUSED
        start = self._topics.get(partition.topic)
        if kind == "earliest" or start is None or partition.partition >= len(start.begins):
            return AT_FIRST
        return start.begins[partition.partition] or AT_FIRST

    def decide_starts(self, topics: Sequence[Topic]) -> None:
        """Decide and store the starts of the new topics and partitions of `topics`, which are all topics of the flow.

        A failed step is repeated with the time of the first try. Raises ClusterError, and RefusedError if writing to
        the positions topic is denied.
        """
        if not self.needed:
            return
        unknown = [topic for topic in topics if self._seen.get(topic.name) != (topic.topic_id, topic.partitions)]
        # A topic that begins at another offset than its earliest record may appear later: the first start counts then.
        if unknown or not self._settled:
            with self._changing:
                self._decide([topic for topic in unknown if differs(self._settings, topic.name)])
        self._seen = {topic.name: (topic.topic_id, topic.partitions) for topic in topics}

    def _decide(self, fresh: Sequence[Topic]) -> None:
        parts = [TopicPartition(topic.name, number) for topic in fresh for number in range(topic.partitions)]
        positions = self._positions.read(parts)
        if not self._read:
            stored = self._positions.starts()
            self._first, self._topics, self._read = stored.first, dict(stored.topics), True
        now = wall_ms(self._source.clock)
        first = first_start(self._first, ChosenTopics.of(self._settings), now)
        # Only the try that begins a start may take the present ends; before a later try, more records have arrived.
        begins_now = first.at_ms == now and first != self._first
        if first != self._first:
            self._first, self._first_stored = first, False
        if not self._first_stored:
            self._append([(None, first)])
            self._first_stored = True
        deciding = [plan for plan in plan_topics(fresh, self._topics, first, positions) if plan.decides]
        find_places(deciding, self._settings, self._source, first.at_ms, now=begins_now)
        made = {plan.topic.name: _stored(plan, now if first.done else first.at_ms) for plan in deciding}
        if made:
            self._append(list(made.items()))
            self._topics = {**self._topics, **made}
        if not first.done:
            self._append([(None, replace(first, done=True))])
            self._first = replace(first, done=True)
        self._settled = True
        self._report(deciding, first.at_ms)

    def store_offsets(self) -> None:
        """Store the first offsets of partitions whose leaders were silent at the decision.

        A transaction stores the first position together with the first records. Until then a partition is looked up by
        time at each grant, and a record with an older timestamp might be passed over. Raises ClusterError.
        """
        waiting = {
            TopicPartition(name, number): begin.since_ms
            for name, start in list(self._topics.items())
            for number, begin in enumerate(start.begins)
            if begin is not None and begin.since_ms is not None
        }
        if not waiting:
            return
        have = self._positions.read(waiting)
        asked = {part: since for part, since in waiting.items() if part not in have}
        found = offsets_since(asked, self._settings, self._source)
        with self._changing:
            made = {
                name: replace(start, begins=tuple(_pinned(name, start, have, found)))
                for name, start in self._topics.items()
                if any(part.topic == name for part in (*have, *found))
            }
            if made:
                self._append(list(made.items()))
                self._topics = {**self._topics, **made}

    def _append(self, starts: Sequence[tuple[TopicName | None, FirstStart | TopicStart]]) -> None:
        records: list[OwnRecord] = [
            (start_key(self._settings.source_name, name, self._settings.connector_name), encode_start(start))
            for name, start in starts
        ]
        self._target.call(partial(self._writer.append, records))

    def _report(self, plans: Sequence[TopicPlan], at_ms: int) -> None:
        """Log a line for each rule with the topics that begin by it, and a line for each topic that appeared later."""
        together: dict[str, list[str]] = defaultdict(list)
        waiting: list[str] = []
        for plan in plans:
            name = plan.topic.name
            if plan.later:
                log.info("%s: start: %s", self._settings.name, self._appeared(plan))
            if plan.asked:
                start = self._settings.start_of(name)
                where = (
                    "their ends"
                    if start.kind == "latest"
                    else f"their first records since {shown_moment(start.since_ms(at_ms))}"
                )
                together[f"{where} ({self._settings.start_key(name)})"].append(name)
                waiting += [
                    f"{name}-{number}"
                    for number in plan.asked
                    if (begin := plan.begins[number]) is not None and begin.offset is None
                ]
        for where, names in together.items():
            log.info("%s: start: these topics begin at %s: %s", self._settings.name, where, listed(names))
        if waiting:
            log.warning(
                "TW-START-05: %s: start: no leader answers for %s: each begins by timestamp, as of %s",
                *(self._settings.name, listed(waiting), shown_moment(at_ms)),
            )

    def _appeared(self, plan: TopicPlan) -> str:
        name, key = plan.topic.name, self._settings.start_key(plan.topic.name)
        if plan.recreated:
            return f"{name} was recreated before it was copied: it begins at its earliest record, in spite of {key}"
        if plan.in_part:
            parts = listed(f"{name}-{number}" for number in plan.later)
            return (
                f"{parts} had no position after the first start: each begins at its earliest record, in spite of {key}"
            )
        return f"{name} appeared after the flow's first start: it begins at its earliest record, in spite of {key}"


def _stored(plan: TopicPlan, at_ms: int) -> TopicStart:
    topic_id = plan.topic.topic_id
    return TopicStart(at_ms, None if topic_id is None else str(topic_id), tuple(plan.begins))


def _pinned(
    name: TopicName,
    start: TopicStart,
    have: Collection[TopicPartition],
    found: Mapping[TopicPartition, SourceOffset],
) -> Iterable[StartSpec | None]:
    for number, begin in enumerate(start.begins):
        part = TopicPartition(name, number)
        if part in have:
            yield None
        else:
            yield StartSpec(offset=found[part]) if part in found else begin
