"""Many topics of the same shape on the source: their creation, their records, and the records of their copies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from harness.cluster import KafkaCluster
from harness.errors import HarnessError

AT_ONCE = 100
"""Topics created by one request."""
FLUSH_S = 300.0


@dataclass(frozen=True, slots=True)
class ManyTopics:
    """Topics `<prefix>0000`, `<prefix>0001` and so on, each with `partitions` partitions."""

    prefix: str
    topics: int
    partitions: int

    @property
    def names(self) -> list[str]:
        return [f"{self.prefix}{number:04d}" for number in range(self.topics)]

    def places(self, alias: str = "") -> list[TopicPartition]:
        """All partitions; with an `alias` those of the remote topics."""
        before = f"{alias}." if alias else ""
        return [TopicPartition(before + name, part) for name in self.names for part in range(self.partitions)]

    def create(self, cluster: KafkaCluster) -> None:
        admin = AdminClient(cluster.client_config())
        names = self.names
        for begin in range(0, len(names), AT_ONCE):
            wanted = [NewTopic(name, self.partitions, 1) for name in names[begin : begin + AT_ONCE]]
            for future in admin.create_topics(wanted, operation_timeout=60).values():
                future.result(60)

    def write(self, cluster: KafkaCluster, records: int) -> None:
        """Write so many records into each partition. Raises HarnessError if some remain unwritten."""
        producer = Producer({**cluster.client_config(), "linger.ms": 50, "acks": "1"})
        for name, part in self._partitions():
            for number in range(records):
                producer.produce(name, b"%d" % number, partition=part)
            producer.poll(0)
        left = producer.flush(FLUSH_S)
        if left:
            raise HarnessError(f"{left} records could not be written")

    def _partitions(self) -> Iterator[tuple[str, int]]:
        return ((name, part) for name in self.names for part in range(self.partitions))


def count_records(cluster: KafkaCluster, places: list[TopicPartition]) -> int:
    """Records in these partitions, by their ends; a partition that has no leader yet counts as empty."""
    admin = AdminClient(cluster.client_config())
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    found = admin.list_offsets(dict.fromkeys(places, latest), request_timeout=60)
    return sum(0 if future.exception(60) else int(future.result().offset) for future in found.values())
