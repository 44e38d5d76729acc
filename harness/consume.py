"""Reads records back with librdkafka, so that what twinlog wrote is not judged by twinlog."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, cast

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from harness.cluster import KafkaCluster
from harness.errors import HarnessError
from harness.wait import wait_for

TimestampType = Literal["none", "create", "append"]
_MOVED = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.UNKNOWN_TOPIC_OR_PART)
"""Errors of a broker that does not know yet that it leads the partition; the last is that of a new topic."""
_TIMESTAMP_TYPES: tuple[TimestampType, ...] = ("none", "create", "append")


@dataclass(frozen=True, slots=True)
class Record:
    """A record as a consumer sees it; `timestamp` is in ms since 1970."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int
    timestamp_type: TimestampType

    @property
    def content(self) -> tuple[object, ...]:
        """What a copy must keep: key, value, headers, timestamp and its type."""
        return (self.key, self.value, self.headers, self.timestamp, self.timestamp_type)


def consume(
    cluster: KafkaCluster,
    topic: str,
    *,
    partitions: Iterable[int] | None = None,
    start: int | Mapping[int, int] | None = None,
    isolation: Literal["read_uncommitted", "read_committed"] = "read_committed",
    deadline_s: float = 60.0,
    user: str | None = None,
) -> list[Record]:
    """Every record from `start` (default: the log start) to the present end, by partition and then by offset.

    `start` may differ by partition; one that it lacks is read from its log start.

    Raises HarnessError when the end is not reached within the deadline or the broker refuses.
    """
    consumer = _consumer(cluster, isolation, user)
    try:
        if partitions is None:
            listed = consumer.list_topics(topic, timeout=deadline_s).topics[topic]
            if listed.error is not None:
                raise HarnessError(f"{topic}: {listed.error}")
            partitions = listed.partitions
        parts = set(partitions)
        begin = {} if start is None else start if isinstance(start, Mapping) else dict.fromkeys(parts, start)
        places = {(topic, part): begin.get(part, OFFSET_BEGINNING) for part in parts}
        return sorted(_to_the_end(consumer, places, deadline_s), key=lambda one: (one.partition, one.offset))
    finally:
        consumer.close()


def consume_topics(
    cluster: KafkaCluster, topics: Iterable[str], *, deadline_s: float = 60.0
) -> dict[str, list[Record]]:
    """What `consume` returns for each of several topics, with one client for all."""
    consumer = _consumer(cluster, "read_committed", None)
    try:
        listed = consumer.list_topics(timeout=deadline_s).topics
        found: dict[str, list[Record]] = {topic: [] for topic in topics}
        places = {(topic, part): OFFSET_BEGINNING for topic in found for part in listed[topic].partitions}
        for record in _to_the_end(consumer, places, deadline_s):
            found[record.topic].append(record)
        for records in found.values():
            records.sort(key=lambda one: (one.partition, one.offset))
        return found
    finally:
        consumer.close()


def ends(cluster: KafkaCluster, topics: Iterable[str], *, deadline_s: float = 60.0) -> dict[str, int]:
    """Records ever appended to each of several topics, over all partitions, markers of transactions included.

    Topics that are not there are left out.
    """
    consumer = _consumer(cluster, "read_uncommitted", None)
    try:
        listed = consumer.list_topics(timeout=deadline_s).topics
        return {
            topic: sum(
                _end(consumer, TopicPartition(topic, partition), deadline_s) for partition in listed[topic].partitions
            )
            for topic in topics
            if topic in listed
        }
    finally:
        consumer.close()


def wait_until_decided(cluster: KafkaCluster, topic: str, deadline_s: float = 30.0) -> None:
    """Wait until each transaction in a topic has its marker: readers of committed records stop at the first without.

    Raises TimeoutError.
    """
    readers = [_consumer(cluster, isolation, None) for isolation in ("read_uncommitted", "read_committed")]
    try:
        partitions = readers[0].list_topics(topic, timeout=deadline_s).topics[topic].partitions
        places = [TopicPartition(topic, partition) for partition in partitions]

        def decided() -> bool:
            every, committed = ([_end(reader, place, deadline_s) for place in places] for reader in readers)
            return every == committed

        wait_for(decided, deadline_s, f"each transaction in {topic} has its marker")
    finally:
        for reader in readers:
            reader.close()


def _end(consumer: Consumer, where: TopicPartition, deadline_s: float) -> int:
    """Where a partition ends, whose leader may just be chosen."""

    def watermarks() -> tuple[int, int] | None:
        try:
            return consumer.get_watermark_offsets(where, timeout=deadline_s)
        except KafkaException as error:
            if error.args[0].code() not in _MOVED:
                raise
            return None

    return wait_for(watermarks, deadline_s, f"{where} has a leader")[1]


def _consumer(cluster: KafkaCluster, isolation: str, user: str | None) -> Consumer:
    return Consumer(
        {
            **cluster.client_config(user),
            "group.id": "harness",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "check.crcs": True,
            "fetch.message.max.bytes": 8_000_000,
            # The end of a partition is only seen in an answer without records. It is asked for beyond that until this
            # process gets to hear of it, which is to be no loop for `harness.checks.requests`.
            "fetch.wait.max.ms": 25,
        }
    )


def _to_the_end(consumer: Consumer, places: Mapping[tuple[str, int], int], deadline_s: float) -> list[Record]:
    """Everything from these offsets on, in no order across partitions."""
    consumer.assign([TopicPartition(*place, offset) for place, offset in places.items()])
    open_ends = set(places)
    records: list[Record] = []

    def at_the_end() -> bool:
        for message in _next(consumer) if open_ends else ():
            error = message.error()
            if error is None:
                records.append(to_record(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                end = str(message.topic()), int(message.partition() or 0)
                open_ends.discard(end)
                # Else its end is asked for again and again until all others have been read.
                consumer.pause([TopicPartition(*end)])
            elif not error.retriable():
                raise HarnessError(f"{message.topic()}: {error}")
        return not open_ends

    try:
        wait_for(at_the_end, deadline_s, "every partition is read to its end", every_s=0)
    except TimeoutError as late:
        raise HarnessError(f"{late}; not read to their ends: {sorted(open_ends)}") from late
    return records


def _next(consumer: Consumer) -> list[Message]:
    """What has come, as soon as something has: `consume` alone waits until it has as many as it was asked for."""
    first = consumer.poll(0.1)
    return [] if first is None else [first, *consumer.consume(num_messages=10_000, timeout=0)]


def to_record(message: Message) -> Record:
    """The same record without its client."""
    kind, timestamp = message.timestamp()
    return Record(
        topic=str(message.topic()),
        partition=int(message.partition() or 0),
        offset=int(message.offset() or 0),
        key=message.key(),
        value=message.value(),
        headers=tuple(cast("list[tuple[str, bytes | None]]", message.headers() or [])),
        timestamp=timestamp,
        timestamp_type=_TIMESTAMP_TYPES[kind],
    )
