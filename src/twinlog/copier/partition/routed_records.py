"""The records that a transform routes to other partitions: their fetch, their topics, their appends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from twinlog.copier.partition.context import CopierContext
from twinlog.copier.partition.copier_transform import CopierTransform
from twinlog.copier.partition.copy_state import CopyState
from twinlog.errors import ClusterError, CopyError, TransformError
from twinlog.kafka.admin.topics import create_topic, describe_configs
from twinlog.kafka.producer.append_queue import AppendQueue
from twinlog.kafka.producer.appends import Append, PreparedFetch, RoutedRows
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.model.amounts import counted
from twinlog.model.topics import NewTopic, Refusal, own_settings
from twinlog.model.types import SourceOffset, TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings


class RoutedFetch:
    """`own` appends and routed `rows` of a fetch from source offset `begin` on, made at `since` (monotonic seconds).

    `owner` is the partition that was read. The routed appends are `sent` once they are queued, and `left` of them are
    unacknowledged. `topics` are their target topics, each with True if the topic is for failed records.
    """

    __slots__ = (
        "_open",
        "_prepared",
        "begin",
        "given_up",
        "left",
        "own",
        "owner",
        "rows",
        "sent",
        "since",
        "topics",
    )

    def __init__(
        self,
        owner: CopyState,
        opened: PendingRoutedFetch,
        begin: SourceOffset,
        prepared: PreparedFetch,
        since: float,
    ) -> None:
        self.begin = begin
        self.owner = owner
        self.own = list(prepared.appends)
        self.rows: Sequence[RoutedRows] = prepared.routed
        self._prepared: PreparedFetch | None = prepared
        self.topics: dict[TopicName, bool] = {}
        for routed in self.rows:
            self.topics[routed.topic] = routed.dead or self.topics.get(routed.topic, False)
        self.since = since
        self.sent = False
        self.left = 0
        self.given_up = False
        """The partition has stopped waiting for the unit before all of it arrived."""
        self._open = opened

    @property
    def wanted(self) -> bool:
        """Whether the partition waits for this unit."""
        return self._open.unit is self

    @property
    def arrived(self) -> bool:
        """All routed appends are acknowledged."""
        return self.sent and not self.left

    def is_news(self, text: str) -> bool:
        """Whether a report differs from the last report about its partition; the same records may be read again."""
        news, self._open.reported = text != self._open.reported, text
        return news

    def count_queued(self, appends: int) -> None:
        """The rows became `appends` routed appends, which are sent from now on."""
        self.sent, self.left, self.rows = True, appends, ()
        prepared, self._prepared = self._prepared, None
        if prepared is not None:
            self.owner.count_fetch(prepared)

    def take_own(self) -> list[Append]:
        """Return the appends that stay in the partition.

        The unit drops these appends, so that a holder of the unit lets their memory go.
        """
        own, self.own = self.own, []
        return own

    def append_own(self) -> None:
        """Queue the appends that stay in the partition, beside the routed appends in the same transaction."""
        if self.own:
            self._open.append_own(self)

    def free_rows(self) -> None:
        """Free the memory of a dropped unit: a look-up of its topics may hold the unit for long."""
        self.own, self.rows, self._prepared = [], (), None

    def read_again(self) -> None:
        """Drop the unit if it is unsent, and have its fetch read again."""
        if self.wanted and self._open.drop_unsent() is not None:
            self.owner.read_again(self.begin)

    def count_acknowledged(self, append: Append) -> None:
        """The target acknowledged a routed append of the unit, or the append is dropped."""
        self.left -= 1
        if self.wanted:
            self._open.count_routed(append)

    def count_split(self, more: int) -> None:
        """A routed append was split, which makes `more` appends more."""
        self.left += more


class PendingRoutedFetch:
    """The `unit` that a partition waits for, if any: the partition reads nothing until the unit is over.

    `queue` has the partition's own appends. `append(appends)` queues appends of the partition that follow the routed
    records; with an empty list, the position moves over skipped records. `route(unit)` appends the routed rows.
    """

    __slots__ = (
        "_append",
        "_context",
        "_owner",
        "_queue",
        "_route",
        "reported",
        "routed_to",
        "sends_all",
        "unit",
    )

    def __init__(
        self,
        owner: CopyState,
        queue: AppendQueue,
        context: CopierContext,
        append: Callable[[list[Append]], None],
        route: Callable[[RoutedFetch], None],
    ) -> None:
        self.unit: RoutedFetch | None = None
        self.reported: str | None = None
        """The last reported reason for which a unit waits."""
        self.sends_all = False
        """Some read records were routed, or are a part of the rows of a record: the remaining records must follow
        them."""
        self.routed_to = SourceOffset(0)
        """Records before this source offset were routed, and would be routed again if they were read again."""
        self._owner = owner
        self._queue = queue
        self._context = context
        self._append = append
        self._route = route

    def begin_fetch(self, begin: SourceOffset, prepared: PreparedFetch) -> bool:
        """Wait for the results of a fetch from source offset `begin` on.

        Returns False if the fetch goes straight to the queue.
        """
        self.sends_all = self.sends_all or prepared.spread or bool(prepared.routed)
        if not prepared.routed and not (prepared.spread and self._owner.transactional):
            return False
        if prepared.routed:
            self.routed_to = prepared.position
        self.unit = RoutedFetch(self._owner, self, begin, prepared, self._context.loop.clock.monotonic())
        self._route(self.unit)
        return True

    @property
    def waits_since(self) -> float:
        """The time since which the unit is unsent, in monotonic seconds; else infinite."""
        return float("inf") if self.unit is None or self.unit.sent else self.unit.since

    def append_own(self, unit: RoutedFetch) -> None:
        """Queue the appends of a unit that stay in the partition."""
        self._append(unit.take_own())

    def count_routed(self, append: Append) -> None:
        """The target acknowledged a routed append of the unit, perhaps the last append of the unit."""
        self._owner.clear_trouble()
        self._owner.copied.routed(append)
        self._owner.take_acknowledgement(self._queue.queued_bytes)
        if self._owner.transactional:
            self.end_if_arrived()
        elif self.unit is not None and self.unit.arrived:
            unit, self.unit = self.unit, None
            self.append_own(unit)
            self._owner.wake_reader()
        self._context.notify_progress()

    def drop_unsent(self) -> SourceOffset | None:
        """Stop waiting for an unsent unit; returns its first source offset, or None."""
        unit = self.unit
        if unit is None or unit.sent:
            return None
        self.drop_fetch()
        return unit.begin

    def drop_fetch(self) -> None:
        """Stop waiting for a unit."""
        if self.unit is not None:
            self.unit.given_up = True
            self.unit.free_rows()
        self.unit = None

    def end_if_arrived(self) -> None:
        """Within a transaction, end the unit once all its appends, own and routed, are acknowledged."""
        if self.unit is not None and self.unit.arrived and self._queue.idle:
            self.unit = None
            self._append([])
            self._owner.wake_reader()


class RoutePlacement:
    """Places the routed records of a copier in `topics`, as its transform asks."""

    def __init__(self, settings: FlowSettings, topics: RoutedTopics, transform: CopierTransform) -> None:
        self._settings = settings
        self._topics = topics
        self._transform = transform
        self._limits: dict[TopicName, int] = {}

    def check_route(self, topic: TopicName, source: TopicPartition) -> None:
        """Raise TransformError where rows of a partition cannot be routed to a topic."""
        self._transform.loaded().check_route(topic, source, same_cluster=self._topics.same_cluster)

    def confirm_partitions(self, topic: TopicName) -> None:
        """The target was just asked: the transform now fails on records for partitions that the topic lacks."""
        self._transform.loaded().confirm_partitions(topic, self._topics.partitions(topic))

    def set_limit(self, topic: TopicName, most_bytes: int) -> None:
        """A topic takes batches of at most `most_bytes`."""
        self._limits[topic] = most_bytes

    def forget_topic(self, topic: TopicName) -> None:
        """Forget the limit of a topic after its last routed record."""
        self._limits.pop(topic, None)

    def place_rows(self, unit: RoutedFetch) -> dict[TopicPartition, list[Append]]:
        """The routed appends of a unit, by their target partition. Raises TransformError, NoPartitionError."""
        found: dict[TopicPartition, list[Append]] = {}
        source, rules = unit.owner.source, unit.owner.rules
        name = self._settings.transform.shown if self._settings.transform else ""
        for routed in unit.rows:
            limit = min(rules.max_batch_bytes, self._limits.get(routed.topic, rules.max_batch_bytes))
            try:
                if not routed.dead:
                    self.check_route(routed.topic, source)
                placed = self._transform.loaded().place_rows(
                    routed, source, self._topics.partitions(routed.topic), replace(rules, max_batch_bytes=limit)
                )
            except TransformError as error:
                text = f"{source}: the transform {name}: {error}"
                raise type(error)(text, message_id=error.message_id) from None
            for number, appends in placed.items():
                for append in appends:
                    append.route = unit
                found.setdefault(TopicPartition(routed.topic, number), []).extend(appends)
        return found


PURPOSE = "routing records to it"
DEAD_PARTITIONS = 1
"""The number of partitions of a dead-letter topic that is created here, as in Connect."""


class RoutedTopics:
    """The routed topics of a copier; `same_cluster` is True if source and target are the same cluster."""

    def __init__(self, context: CopierContext) -> None:
        self.names: set[TopicName] = set()
        self.same_cluster = False
        self._source = context.source
        self._target = context.target
        self._settings = context.settings
        self._compared = False
        self._counts: dict[TopicName, int] = {}
        self._used: dict[TopicName, float] = {}
        """The time of the last routed record for each topic, in monotonic seconds."""
        self._finding = context.loop.lock()

    def has_topic(self, topic: TopicName) -> bool:
        """Whether the topic existed at the last look."""
        return topic in self.names

    def partitions(self, topic: TopicName) -> int:
        """The number of partitions of a topic, or the last known number."""
        known = self._target.topic(topic)
        if known is not None and known.partitions:
            self._counts[topic] = known.partitions
        return self._counts.get(topic, 1)

    def forget_topic(self, topic: TopicName) -> None:
        """The topic was deleted, as far as its broker knows."""
        self.names.discard(topic)

    def touch_topics(self, topics: Iterable[TopicName], now: float) -> None:
        """Note that records are routed to the topics at `now` (monotonic seconds)."""
        self._used.update(dict.fromkeys(topics, now))

    def unused(self, since: float) -> set[TopicName]:
        """Topics whose last routed record is older than a time in monotonic seconds."""
        return {topic for topic, at in self._used.items() if at < since}

    def drop_topic(self, topic: TopicName) -> None:
        """Forget a topic that is apparently out of use."""
        self.names.discard(topic)
        self._counts.pop(topic, None)
        self._used.pop(topic, None)

    async def compare_clusters(self) -> None:
        """Find out whether the target is the source cluster. Raises ClusterError."""
        if not self._compared:
            here, there = await self._target.cluster_id(), await self._source.cluster_id()
            self.same_cluster = here is not None and here == there
            self._compared = True

    async def ensure_topic(self, topic: TopicName, unit: RoutedFetch, *, dead: bool) -> str | None:
        """Make sure that a topic exists, if its unit still waits.

        Returns an event when the topic was created, else None. The topic gets as many partitions as the source topic,
        and the settings of the remote topic. A dead-letter topic gets a single partition. Raises RefusedError without
        the rights, CopyError when the target refuses the topic, ClusterError while the target is silent.
        """
        async with self._finding:
            if topic in self.names or not unit.wanted:
                return None
            return await self._find(topic, unit.owner, dead=dead)

    async def _find(self, topic: TopicName, owner: CopyState, *, dead: bool) -> str | None:
        found = (await self._target.refresh([topic]))[topic]
        event = None
        if found.error == Code.UNKNOWN_TOPIC_OR_PARTITION:
            event = await self._make(topic, owner, dead=dead)
            found = (await self._target.refresh([topic]))[topic]
        if error_codes.refused(found.error):
            raise self._target.lacks("DESCRIBE", f"topic {topic}", PURPOSE)
        if found.error or not found.leaders:
            raise ClusterError(f"cluster {self._target.alias}: topic {topic} has no leaders yet")
        self.names.add(topic)
        self._counts[topic] = found.partitions
        return event

    async def _make(self, topic: TopicName, owner: CopyState, *, dead: bool) -> str:
        known = self._source.topic(owner.source.topic)
        partitions = 1 if known is None else max(1, known.partitions)
        transform = self._settings.transform
        if dead and transform is not None:
            new = NewTopic(topic, DEAD_PARTITIONS, transform.dead_letter_replication_factor)
        else:
            described, _ = await describe_configs(self._target, [owner.remote.topic])
            own = own_settings(described.get(owner.remote.topic, ()))
            configs = {name: value for name, value in own.items() if value is not None}
            new = NewTopic(topic, partitions, self._settings.replication_factor, configs)
        refusal = await self._create(new)
        if refusal is not None:
            raise CopyError(f"cluster {self._target.alias} does not create topic {topic}: {refusal.text}")
        return (
            f"topic {topic} was created with {counted(new.partitions, 'partition')}: the transform routes records to it"
        )

    async def _create(self, new: NewTopic) -> Refusal | None:
        refusal = await create_topic(self._target, new, PURPOSE)
        if refusal is not None and refusal.code == Code.INVALID_REPLICATION_FACTOR:
            # As for remote topics: a target with fewer brokers uses its own default.
            refusal = await create_topic(self._target, replace(new, replication_factor=-1), PURPOSE)
        return refusal
