"""Topics of the target that a transform routes records to, and the appends for their partitions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from twinlog.copier.partition.context import CopierContext
from twinlog.copier.partition.copier_transform import CopierTransform
from twinlog.copier.partition.copy_state import CopyState
from twinlog.copier.partition.routed_fetch import RoutedFetch
from twinlog.errors import ClusterError, CopyError, TransformError
from twinlog.kafka.admin.configs import describe_configs
from twinlog.kafka.admin.new_topic import create_topic
from twinlog.kafka.producer.appends import Append
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.model.topics import NewTopic, Refusal, own_settings
from twinlog.model.types import TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings


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
                raise type(error)(f"{source}: the transform {name}: {error}") from None
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
        return f"topic {topic} was created with {new.partitions} partitions: the transform routes records to it"

    async def _create(self, new: NewTopic) -> Refusal | None:
        refusal = await create_topic(self._target, new, PURPOSE)
        if refusal is not None and refusal.code == Code.INVALID_REPLICATION_FACTOR:
            # As for remote topics: a target with fewer brokers uses its own default.
            refusal = await create_topic(self._target, replace(new, replication_factor=-1), PURPOSE)
        return refusal
