"""Decides where the topics of a flow begin, and stores that on the target before anything of them is copied.

Nothing is stored, and no broker is asked, as long as every topic begins at its earliest record.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from twinlog.clock import wall_ms
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.producer.topic_writer import OwnRecord, TopicWriter
from twinlog.mirror.offsets.position_store import StoredPositions
from twinlog.mirror.offsets.position_writer import LEADER_S
from twinlog.mirror.offsets.starts import (
    AT_FIRST,
    REFUSED,
    Begin,
    ChosenTopics,
    FirstStart,
    TopicStart,
    encode_start,
    start_key,
)
from twinlog.model.moment import shown_moment
from twinlog.model.topics import Topic, listed
from twinlog.model.types import SourceOffset, TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings
from twinlog.worker.topics.first_start import TopicPlan, differs, first_start, plan_topics
from twinlog.worker.topics.start_places import find_places, offsets_since

log = logging.getLogger(__name__)


class Starts:
    """Where the partitions of one flow begin that have no position. `decide` is for one thread, the rest for any."""

    def __init__(
        self, settings: FlowSettings, source: ClusterAdmin, target: ClusterAdmin, positions: StoredPositions
    ) -> None:
        self._settings = settings
        self._source = source
        self._target = target
        self._positions = positions
        kinds = {(start or settings.consumer.auto_offset_reset).kind for start in settings.start.values}
        self.needed = bool(kinds - {"earliest", "none"})
        """Whether anything has to be decided: some topics may not begin at their earliest record."""
        self._read = False
        self._first: FirstStart | None = None
        self._first_stored = True
        self._topics: dict[TopicName, TopicStart] = {}
        self._seen: dict[TopicName, tuple[object, int]] = {}
        """By topic its id and how many partitions were looked at."""
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

    def begin(self, partition: TopicPartition) -> Begin:
        """Where a partition begins if it has no position."""
        kind = self._settings.start_of(partition.topic).kind
        if kind == "none":
            return REFUSED
        start = self._topics.get(partition.topic)
        if kind == "earliest" or start is None or partition.partition >= len(start.begins):
            return AT_FIRST
        return start.begins[partition.partition] or AT_FIRST

    def decide(self, topics: Sequence[Topic]) -> None:
        """Decide for those of `topics`, all that the flow is to copy, that were not looked at yet, and store that.

        A step that failed is done again from the moment of the first try. Raises ClusterError, and RefusedError where
        the positions topic may not be written.
        """
        if not self.needed:
            return
        unknown = [topic for topic in topics if self._seen.get(topic.name) != (topic.topic_id, topic.partitions)]
        # A topic that begins elsewhere than at its earliest record may appear later: the first start counts then.
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
        # Only the try that begins a start may take ends as they are: at a later one records have come since.
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

    def pin(self) -> None:
        """Store the offsets at which partitions begin whose leaders did not answer when that was decided.

        A transaction stores no position before it has records: until then a partition is looked for by time each time
        that it is granted, and a record with an older timestamp might be passed over. Raises ClusterError.
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
        """One line for each rule of those that begin with the flow, and one for each topic that appeared later."""
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
            log.info(
                "%s: start: no leader answers for %s: each begins by timestamp, as of %s",
                *(self._settings.name, listed(waiting), shown_moment(at_ms)),
            )

    def _appeared(self, plan: TopicPlan) -> str:
        name, key = plan.topic.name, self._settings.start_key(plan.topic.name)
        if plan.recreated:
            return f"{name} was recreated before it was copied: it begins at its earliest record, not by {key}"
        if plan.in_part:
            parts = listed(f"{name}-{number}" for number in plan.later)
            return f"{parts} had no position after the first start: each begins at its earliest record, not by {key}"
        return f"{name} appeared after the flow's first start: it begins at its earliest record, not by {key}"


def _stored(plan: TopicPlan, at_ms: int) -> TopicStart:
    topic_id = plan.topic.topic_id
    return TopicStart(at_ms, None if topic_id is None else str(topic_id), tuple(plan.begins))


def _pinned(
    name: TopicName,
    start: TopicStart,
    have: Collection[TopicPartition],
    found: Mapping[TopicPartition, SourceOffset],
) -> Iterable[Begin | None]:
    for number, begin in enumerate(start.begins):
        part = TopicPartition(name, number)
        if part in have:
            yield None
        else:
            yield Begin(offset=found[part]) if part in found else begin
