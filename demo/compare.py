"""Reads source and remote topics with librdkafka and compares them record by record."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Mapping
from typing import Literal, cast

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from harness.cluster import KafkaCluster
from harness.errors import HarnessError

Side = Literal["source", "target"]
Partition = tuple[str, int]
Content = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]] | None, tuple[int, int]]
_NAMES = ("key", "value", "headers", "timestamp")
MOST_DIFFERENCES = 5


class Comparison:
    """Pairs the records of each partition in the order of their offsets; `partitions` are named as on the source."""

    def __init__(self) -> None:
        self.records = 0
        self.bytes = 0
        """Of keys and values."""
        self.partitions: set[Partition] = set()
        self.differences: list[str] = []
        self.different = 0
        self._waiting: dict[Side, dict[Partition, deque[tuple[int, Content]]]] = {
            "source": defaultdict(deque),
            "target": defaultdict(deque),
        }

    def see(self, side: Side, partition: Partition, offset: int, content: Content) -> None:
        """Take the next record of one side's partition."""
        self.partitions.add(partition)
        other: Side = "target" if side == "source" else "source"
        opposite = self._waiting[other][partition]
        if not opposite:
            self._waiting[side][partition].append((offset, content))
            return
        its_offset, its_content = opposite.popleft()
        self.records += 1
        self.bytes += len(content[0] or b"") + len(content[1] or b"")
        if content != its_content:
            pairs = zip(_NAMES, content, its_content, strict=True)
            what = ", ".join(name for name, mine, theirs in pairs if mine != theirs)
            where = offset if side == "source" else its_offset
            self._differ(f"{partition[0]}-{partition[1]}: the copy of source offset {where} has another {what}")

    def end(self) -> None:
        """Both sides have been read to their ends: what is still unpaired is missing or too much."""
        for side, what in (("source", "missing from the target"), ("target", "on the target only")):
            for (topic, number), left in self._waiting[cast(Side, side)].items():
                if left:
                    are = "record is" if len(left) == 1 else "records are"
                    self._differ(f"{topic}-{number}: {len(left)} {are} {what}, from offset {left[0][0]} on")

    def _differ(self, text: str) -> None:
        self.different += 1
        if len(self.differences) < MOST_DIFFERENCES:
            self.differences.append(text)


class _Reader:
    """One side's topics, from their beginnings to their present ends."""

    def __init__(
        self, cluster: KafkaCluster, user: str, names: Mapping[str, str], partitions: Mapping[str, int]
    ) -> None:
        self.seen = 0
        self.open: set[Partition] = {(topic, number) for topic, count in partitions.items() for number in range(count)}
        self._source_names = {name: topic for topic, name in names.items()}
        self._consumer = Consumer(
            {
                **cluster.client_config(user),
                "group.id": "demo",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
                "isolation.level": "read_uncommitted",
                "check.crcs": True,
                "fetch.wait.max.ms": 50,
            }
        )
        self._consumer.assign([TopicPartition(names[topic], number, OFFSET_BEGINNING) for topic, number in self.open])

    def read(self) -> list[tuple[Partition, Message]]:
        """Some more records."""
        found = []
        for message in self._consumer.consume(num_messages=5_000, timeout=0.1):
            where = (self._source_names[str(message.topic())], int(message.partition() or 0))
            error = message.error()
            if error is None:
                found.append((where, message))
            elif error.code() == KafkaError._PARTITION_EOF:
                self.open.discard(where)
            elif not error.retriable():
                raise KafkaException(error)
        self.seen += len(found)
        return found

    def close(self) -> None:
        self._consumer.close()


def compare(
    source: KafkaCluster,
    target: KafkaCluster,
    user: str,
    partitions: Mapping[str, int],
    prefix: str,
    deadline_s: float = 60.0,
) -> Comparison:
    """Compare every topic of `partitions` (name to partition count) with the one of the same name after `prefix`."""
    names = {topic: topic for topic in partitions}
    comparison = Comparison()
    readers: dict[Side, _Reader] = {
        "source": _Reader(source, user, names, partitions),
        "target": _Reader(target, user, {topic: prefix + topic for topic in names}, partitions),
    }
    end = time.monotonic() + deadline_s
    try:
        while open_sides := [side for side, reader in readers.items() if reader.open]:
            if time.monotonic() > end:
                raise HarnessError(f"comparing did not end within {deadline_s:g} s")
            # The side that is behind reads next, so that few records wait for their partner.
            side = min(open_sides, key=lambda one: readers[one].seen)
            for where, message in readers[side].read():
                content = (message.key(), message.value(), message.headers(), message.timestamp())
                comparison.see(side, where, int(message.offset() or 0), cast(Content, content))
    finally:
        for reader in readers.values():
            reader.close()
    comparison.end()
    return comparison
