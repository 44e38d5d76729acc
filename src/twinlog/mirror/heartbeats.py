"""Writes heartbeats, and tells heartbeats topics of a cluster from a user's topics by their records.

On a hub `north.heartbeats` may come from a mirror of another file. The records tell whether `north` is a cluster: each
heartbeat names the source and the target of the flow that wrote it (Kafka class Heartbeat). `ops.status.flow` reads
the last heartbeat of a flow.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping

from twinlog.clock import LONG_AGO, wall_ms
from twinlog.errors import ClusterError, CorruptBatchError, RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.consumer.leader_fetch import fetch_once
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.fetch import PartitionResponse
from twinlog.kafka.protocol.offsets import EARLIEST, LATEST
from twinlog.kafka.record.batch import scan
from twinlog.kafka.record.records import Record, decode_records
from twinlog.mirror.records import Heartbeat, decode_heartbeat
from twinlog.mirror.topics.internal_topics import CompactedTopic, heartbeats
from twinlog.model.topic_names import HEARTBEATS, HeartbeatNames, passes_as_heartbeats
from twinlog.model.topics import listed
from twinlog.model.types import Alias, TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings

log = logging.getLogger(__name__)

OWN_LAST, LAST = 2_000, 16
"""The offsets before the end to read: of `heartbeats`, and of a topic whose kind is in question.

All flows to the cluster write to `heartbeats`.
"""

PART_BYTES, MOST_BYTES = 256 << 10, 4 << 20
"""The most bytes of a topic, and of an answer."""

LOOK_S, AGAIN_S = 3.0, 30.0
"""The longest time of a look, and the wait after a silent broker, in seconds.

The flow waits for a look, and uses names alone until the next look.
"""


class HeartbeatTopics:
    """The heartbeats topics of a cluster; `names` holds the known aliases.

    A topic whose kind is in question is read until it holds records. A topic is a heartbeats topic only if it holds
    heartbeats alone; until then it counts as a user's topic.
    """

    def __init__(
        self,
        cluster: ClusterAdmin,
        names: HeartbeatNames,
        copies: Callable[[TopicName], TopicName] = lambda topic: topic,
    ) -> None:
        """`copies(topic)` returns the cluster's name of its copy of a topic, if the topics are another cluster's."""
        self.names = names
        self.others: set[TopicName] = set()
        """Topics that hold records of users, or heartbeats under another name."""
        self._cluster = cluster
        self._copies = copies
        self._unread: set[TopicName] = set()
        """The topics for which this login lacks READ."""
        self._look_at = LONG_AGO

    def inspect_topics(self, topics: Collection[TopicName]) -> HeartbeatNames:
        """Return the known aliases after a look at the records of the topics whose kind is in question.

        If a broker is silent, or refuses the login, the known aliases stay the same.
        """
        open_ = [topic for topic in topics if self._in_question(topic)]
        if not open_ or self._cluster.clock.monotonic() < self._look_at:
            return self.names
        own = (HEARTBEATS,) if HEARTBEATS in topics else ()
        records = self._read({**dict.fromkeys(open_, LAST), **dict.fromkeys(own, OWN_LAST)})
        for topic, found in records.items():
            beats = [decode_heartbeat(record.key, record.value) for record in found]
            if topic == HEARTBEATS or None not in beats:
                self.names = self.names.knowing(_aliases(topic, self.names.separator, filter(None, beats)))
        self.others.update(topic for topic in records if topic in open_ and not self.names.is_heartbeats(topic))
        return self.names

    def _in_question(self, topic: TopicName) -> bool:
        return (
            passes_as_heartbeats(topic, self.names.separator)
            and not self.names.is_heartbeats(topic)
            and topic not in self.others
            and topic not in self._unread
        )

    def _read(self, last: Mapping[TopicName, int]) -> dict[TopicName, list[Record]]:
        """Return the last records of topics that hold any; `last` is the number of offsets to read of each topic."""
        here = {self._copies(topic): topic for topic in last}
        wanted = {copy: last[topic] for copy, topic in here.items()}
        cluster = self._cluster
        found: dict[TopicName, list[Record]] = {}
        try:
            try:
                found = cluster.call(_limited, cluster.client, wanted)
            except RefusedError:
                # A topic that the login may not read makes the whole read fail.
                for copy, most in wanted.items():
                    found |= self._one(copy, most, here[copy])
        except ClusterError as error:
            self._look_at = cluster.clock.monotonic() + AGAIN_S
            log.debug("whether these hold heartbeats is looked at later: %s: %s", listed(wanted), error)
        return {here[copy]: records for copy, records in found.items()}

    def _one(self, copy: TopicName, most: int, topic: TopicName) -> dict[TopicName, list[Record]]:
        try:
            return self._cluster.call(_limited, self._cluster.client, {copy: most})
        except RefusedError as error:
            self._unread.add(topic)
            log.warning("TW-TOPIC-21: %s is taken for a topic of a user: %s", copy, error)
            return {}


def _aliases(topic: TopicName, separator: str, beats: Iterable[Heartbeat]) -> set[Alias]:
    """The aliases in the heartbeats of `topic`, and the aliases in its name.

    The name counts if its last alias is the target of a heartbeat.
    """
    found: set[Alias] = set()
    way = topic.removesuffix(HEARTBEATS)
    for beat in beats:
        found |= {beat.source, beat.target}
        end = f"{beat.target}{separator}"
        if way == end or way.endswith(f"{separator}{end}"):
            found.update(map(Alias, filter(None, way.removesuffix(end).split(separator))))
    return found


async def _limited(client: ClusterClient, topics: Mapping[TopicName, int]) -> dict[TopicName, list[Record]]:
    ended = client.loop.signal()
    running = client.loop.spawn(last_records, client, topics)
    running.add_both(lambda _: ended.set())
    if not await ended.wait(LOOK_S):
        raise ClusterError(f"cluster {client.alias}: no answer within {LOOK_S:.0f} s")
    found: dict[TopicName, list[Record]] = await running
    return found


async def last_records(client: ClusterClient, topics: Mapping[TopicName, int]) -> dict[TopicName, list[Record]]:
    """Return the last records of each topic's first partition; MirrorMaker 2 writes heartbeats to that partition.

    The value in `topics` is the number of offsets before the end. Topics that are empty, lack a leader, or hold
    undecodable records are left out. Raises ClusterError, and RefusedError if the login lacks READ on a topic.
    """
    await client.refresh(topics)
    parts = {TopicPartition(topic, 0): most for topic, most in topics.items()}
    ends, starts = await client.list_offsets(parts, LATEST), await client.list_offsets(parts, EARLIEST)
    wanted = {
        part: max(starts[part], end - parts[part])
        for part, end in ends.items()
        if part in starts and starts[part] < end
    }
    answers = await _fetch(client, wanted)
    # Of an answer with many partitions a broker returns only the first batch whole.
    for part in [part for part, answer in answers.items() if not answer.error and not scan(answer.records)]:
        answers |= await _fetch(client, {part: wanted[part]})
    found: dict[TopicName, list[Record]] = {}
    for part, answer in answers.items():
        if error_codes.refused(answer.error):
            raise client.lacks("READ", f"topic {part.topic}", "telling heartbeats from other records")
        try:
            records = [
                record
                for batch in scan(answer.records)
                if not batch.is_control
                for record in decode_records(answer.records, batch)
                if record.offset >= wanted[part]
            ]
        except CorruptBatchError as error:
            log.debug("%s: %s", part, error)
            continue
        if records:
            found[part.topic] = records
    return found


async def _fetch(
    client: ClusterClient, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, PartitionResponse]:
    return await fetch_once(client, offsets, read_committed=False, partition_bytes=PART_BYTES, most_bytes=MOST_BYTES)


class HeartbeatWriter:
    """Heartbeats of a flow in the topic `heartbeats` of its target (Kafka class MirrorHeartbeatTask)."""

    def __init__(self, settings: FlowSettings, target: ClusterAdmin) -> None:
        self._settings = settings
        self._target = target
        self._compacted = CompactedTopic(settings.name, target, heartbeats(settings), "heartbeats")

    def write_heartbeat(self) -> None:
        """Write a heartbeat, its time also the record's; the first call creates the topic. Raises ClusterError."""
        if not self._target.client.connected:
            self._target.connect()
        self._compacted.ensure()
        now = wall_ms(self._target.clock)
        heartbeat = Heartbeat(self._settings.source_name, self._settings.target_name, now)
        self._compacted.append([(heartbeat.key, heartbeat.value)], now)
