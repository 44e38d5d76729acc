"""Tells heartbeats topics of a cluster from a user's by their records, where the file does not name all aliases.

On a hub `north.heartbeats` may come from a mirror of another file. Who `north` is stands in the records: each heartbeat
names the source and the target of the flow that wrote it (Kafka class Heartbeat).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping

from twinlog.clock import LONG_AGO
from twinlog.errors import ClusterError, CorruptBatchError, RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.consumer.single_fetch import fetch_once
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.fetch_response import PartitionResponse
from twinlog.kafka.protocol.list_offsets import EARLIEST, LATEST
from twinlog.kafka.record.batch import scan
from twinlog.kafka.record.records import Record, decode_records
from twinlog.mirror.heartbeats.records import Heartbeat, decode_heartbeat
from twinlog.model.topic_names import HEARTBEATS, HeartbeatNames, passes_as_heartbeats
from twinlog.model.topics import listed
from twinlog.model.types import Alias, TopicName, TopicPartition

log = logging.getLogger(__name__)

OWN_LAST, LAST = 2_000, 16
"""How many offsets before the end are looked at: of `heartbeats`, where all flows to the cluster write, and of a topic
whose name is in question."""

PART_BYTES, MOST_BYTES = 256 << 10, 4 << 20
"""Of one topic, and of one answer."""

LOOK_S, AGAIN_S = 3.0, 30.0
"""How long one look may take, and how long the next one waits after a broker that did not answer: a flow waits for it,
and goes by names alone meanwhile."""


class HeartbeatTopics:
    """The heartbeats topics of one cluster; `names` is what is known of them.

    A topic is read while its name is in question and it holds nothing, once when it holds something. Only what holds
    nothing but heartbeats can be one: until that is seen a topic counts as a user's.
    """

    def __init__(
        self,
        cluster: ClusterAdmin,
        names: HeartbeatNames,
        copies: Callable[[TopicName], TopicName] = lambda topic: topic,
    ) -> None:
        """`copies(topic)` is what the cluster calls its copy of a topic, where the topics are those of another one."""
        self.names = names
        self.others: set[TopicName] = set()
        """Topics that hold other records than heartbeats, or heartbeats under another name."""
        self._cluster = cluster
        self._copies = copies
        self._unread: set[TopicName] = set()
        """Those that this login may not read."""
        self._look_at = LONG_AGO

    def inspect_topics(self, topics: Collection[TopicName]) -> HeartbeatNames:
        """What is known once the records of those of `topics` were looked at whose names are in question.

        Where a broker does not answer, or refuses the login, no more is known than before.
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
        """The last records of topics that hold any; `last` is how many offsets of each are looked at."""
        here = {self._copies(topic): topic for topic in last}
        wanted = {copy: last[topic] for copy, topic in here.items()}
        cluster = self._cluster
        found: dict[TopicName, list[Record]] = {}
        try:
            try:
                found = cluster.call(_limited, cluster.client, wanted)
            except RefusedError:
                # One that may not be read hides the others.
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
            log.info("%s is taken for a topic of a user: %s", copy, error)
            return {}


def _aliases(topic: TopicName, separator: str, beats: Iterable[Heartbeat]) -> set[Alias]:
    """The aliases that heartbeats in `topic` name, and those it came over: the last of these is their target."""
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
    """The records of each topic's first partition, where MirrorMaker 2 writes heartbeats, in its last so many offsets.

    A topic that holds none, or has no leader, is missing. Records that cannot be decoded are none, and so is what a
    topic holds then. Raises ClusterError, and RefusedError without READ on one of them.
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
