"""Internal topics as months leave them: many records under keys of topics that are no longer mirrored.

Written before a mirror starts, with the defaults of MirrorMaker 2, so that nothing of them is ever compacted within a
test. Whoever looks for a position has to pass by all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, Message, Producer

from harness.cluster import KafkaCluster
from harness.errors import HarnessError
from harness.topics import create_topic
from twinlog.mirror.offsets.exact_map import Point
from twinlog.mirror.offsets.positions import Position, encode_position
from twinlog.mirror.offsets.segments import Segment, segments_topic
from twinlog.mirror.offsets.syncs import OffsetSync
from twinlog.mirror.records import Checkpoint
from twinlog.model.types import Alias, GroupId, SourceOffset, TargetOffset, TopicName, TopicPartition

DEADLINE_S = 300.0
COMPACTED = {"cleanup.policy": "compact"}
GROUPS = 20
PARTITIONS_OF_EACH = 4

Keyed = tuple[bytes, bytes | None, list[tuple[str, bytes]]]


@dataclass(slots=True)
class Filled:
    """Fills the internal topics of the flow `source -> target`, with `partitions` keys each and `records` in all."""

    source: Alias
    target: Alias
    partitions: int = 2000
    records: int = 50_000
    position_partitions: int = 3
    written: dict[str, int] = field(default_factory=dict)

    def fill(self, here: KafkaCluster, there: KafkaCluster) -> None:
        """Create the four topics on the two clusters and write; raises HarnessError when that fails."""
        near = (here, f"mm2-offset-syncs.{self.target}.internal", 1, self._sync)
        far = [
            (there, f"mm2-offsets.{self.source}.internal", self.position_partitions, self._position),
            (there, segments_topic(self.source), 1, self._segment),
            (there, f"{self.source}.checkpoints.internal", 1, self._checkpoint),
        ]
        for cluster, topic, partitions, make in (near, *far):
            create_topic(cluster, topic, partitions, config=COMPACTED)
            _write(cluster, topic, self._history(make))
            self.written[topic] = self.records

    def _history(self, make: Callable[[TopicPartition, int], Keyed]) -> Iterator[Keyed]:
        for number in range(self.records):
            turn, one = divmod(number, self.partitions)
            topic, partition = divmod(one, PARTITIONS_OF_EACH)
            yield make(TopicPartition(TopicName(f"retired-{topic}"), partition), 1000 * (turn + 1))

    def _position(self, where: TopicPartition, offset: int) -> Keyed:
        record = encode_position(
            self.source, where, Position(SourceOffset(offset), TargetOffset(offset), leader_epoch=0)
        )
        return record.key, record.value, list(record.headers)

    def _segment(self, where: TopicPartition, offset: int) -> Keyed:
        # Each lease of a partition begins another one; segments pile up under keys of their own.
        segment = Segment(where, offset // 1000, True, (Point(SourceOffset(offset), TargetOffset(offset), 0),))
        return segment.key, segment.value, []

    def _checkpoint(self, where: TopicPartition, offset: int) -> Keyed:
        remote = TopicName(f"{self.source}.{where.topic}")
        group = GroupId(f"retired-{where.partition % GROUPS}")
        one = Checkpoint(group, remote, where.partition, SourceOffset(offset), TargetOffset(offset))
        return one.key, one.value, []

    def _sync(self, where: TopicPartition, offset: int) -> Keyed:
        one = OffsetSync(where.topic, where.partition, SourceOffset(offset), TargetOffset(offset))
        return one.key, one.value, []


def _write(cluster: KafkaCluster, topic: str, records: Iterator[Keyed]) -> None:
    wrong: list[str] = []

    def noted(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            wrong.append(str(error))

    settings: Mapping[str, str | int] = {"linger.ms": 50, "batch.num.messages": 10_000, "partitioner": "murmur2_random"}
    producer = Producer({**cluster.client_config(), **settings})
    for key, value, headers in records:
        while True:
            try:
                producer.produce(topic, value, key, headers=list(headers), on_delivery=noted)
            except BufferError:
                producer.poll(0.1)
            else:
                break
    left = producer.flush(DEADLINE_S)
    if left or wrong:
        raise HarnessError(f"{topic} could not be filled: {left} records not written; {wrong[:3]}")
