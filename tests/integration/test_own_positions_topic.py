"""A flow that gets a positions topic of its own goes on where the shared one says that it stood."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from confluent_kafka import Producer

from harness.cluster import KafkaCluster
from harness.topics import create_topic
from tests.integration.copying import SOURCE, TARGET, flow_settings
from twinlog.kafka.admin import ClusterAdmin
from twinlog.offsets.positions import Position, encode_position
from twinlog.offsets.store import PositionStore
from twinlog.types import TopicName, TopicPartition


def test_what_it_lacks_comes_from_the_shared_one(
    clusters: tuple[KafkaCluster, KafkaCluster], new_name: Callable[[str], str]
) -> None:
    source, target = clusters
    shared, own = new_name("shared"), new_name("own")
    create_topic(target, shared, config={"cleanup.policy": "compact"})
    create_topic(target, own, config={"cleanup.policy": "compact"})
    first, second, third = (TopicPartition(TopicName("orders"), number) for number in range(3))
    producer = Producer({**target.client_config(), "acks": "all"})

    def store(topic: str, partition: TopicPartition, next_source: int) -> None:
        record = encode_position(SOURCE, partition, Position(next_source, next_source))
        producer.produce(topic, record.value, record.key, headers=list(record.headers))
        assert producer.flush(30) == 0

    store(shared, first, 10)
    store(shared, second, 20)
    store(own, second, 25)
    settings = replace(flow_settings(source, target), offset_storage_topic=own, earlier_positions_topic=shared)
    admin = ClusterAdmin(TARGET, settings.target_admin.client)
    try:
        admin.connect()
        positions = PositionStore(settings, admin)
        found = positions.read([first, second, third])
        assert {part: position.next_source for part, position in found.items()} == {first: 10, second: 25}
        store(own, first, 11)
        store(own, third, 30)
        found = positions.read_all()
        assert {part: position.next_source for part, position in found.items()} == {first: 11, second: 25, third: 30}
        missing = replace(settings, earlier_positions_topic=new_name("never"))
        assert set(PositionStore(missing, admin).read_all()) == {first, second, third}
    finally:
        admin.close()
