"""A flow that gets a positions topic of its own goes on where it stood by the shared one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from confluent_kafka import Producer

from harness.cluster import KafkaCluster
from harness.topics import create_topic, topics
from harness.wait import wait_for
from tests.connected_admins import connected_admin
from tests.integration.copying import SOURCE, TARGET, flow_settings
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.mirror.offsets.exact_map import CopiedRun, Translated
from twinlog.mirror.offsets.position_store import PositionStore
from twinlog.mirror.offsets.positions import Position, encode_position
from twinlog.mirror.offsets.segments import SegmentWriter, segments_topic
from twinlog.model.types import Alias, TopicName, TopicPartition
from twinlog.worker.read_ahead import StoredOffsets


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
    with connected_admin(TARGET, settings.target_admin.client) as admin:
        positions = PositionStore(settings, admin)
        found = positions.read([first, second, third])
        assert {part: position.next_source for part, position in found.items()} == {first: 10, second: 25}
        store(own, first, 11)
        store(own, third, 30)
        found = positions.read_all()
        assert {part: position.next_source for part, position in found.items()} == {first: 11, second: 25, third: 30}
        # Until the flow is taken over another process may have gone on with the shared one; its word is the older one.
        store(shared, second, 99)
        fourth = TopicPartition(TopicName("orders"), 3)
        store(shared, fourth, 40)
        assert fourth not in positions.read([fourth])
        positions.look_again()
        found = positions.read([second, fourth])
        assert {part: position.next_source for part, position in found.items()} == {second: 25, fourth: 40}
        missing = replace(settings, earlier_positions_topic=new_name("never"))
        assert set(PositionStore(missing, admin).read_all()) == {first, second, third}


def test_positions_of_another_alias_are_known_where_names_are_kept(
    clusters: tuple[KafkaCluster, KafkaCluster], new_name: Callable[[str], str]
) -> None:
    source, target = clusters
    topic = new_name("stray")
    create_topic(target, topic, config={"cleanup.policy": "compact"})
    first, second = (TopicPartition(TopicName("orders"), number) for number in range(2))
    producer = Producer({**target.client_config(), "acks": "all"})
    for alias, partition, next_source in (("", first, 10), ("", second, 20), (SOURCE, second, 25)):
        record = encode_position(Alias(alias), partition, Position(next_source, next_source))
        producer.produce(topic, record.value, record.key, headers=list(record.headers))
    assert producer.flush(30) == 0
    settings = replace(flow_settings(source, target), offset_storage_topic=topic)
    with connected_admin(TARGET, settings.target_admin.client) as admin:
        assert PositionStore(settings, admin).under_other_alias([first, second]) == {}
        kept = PositionStore(replace(settings, policy="identity"), admin)
        assert kept.under_other_alias([first, second]) == {first: ("", Position(10, 10))}
        assert kept.read_all() == {second: Position(25, 25)}
        # The alias of a flow may be empty, too.
        empty = replace(settings, separator="", source_cluster_alias=Alias(""))
        assert set(PositionStore(empty, admin).read_all()) == {first, second}


def test_who_stands_by_reads_along_and_goes_on_there(
    clusters: tuple[KafkaCluster, KafkaCluster], new_name: Callable[[str], str]
) -> None:
    """Also where nothing is stored yet, and the topics come later."""
    source, target = clusters
    own = new_name("own")
    settings = replace(flow_settings(source, target), offset_storage_topic=own)
    part = TopicPartition(TopicName(new_name("orders")), 0)
    writer = SegmentWriter(part, 0, 0, complete=True)
    producer = Producer({**target.client_config(), "acks": "all"})

    def store(next_source: int) -> None:
        writer.add_runs([CopiedRun(next_source - 1, next_source - 1, 1)])
        for segment in writer.changed():
            producer.produce(segments_topic(SOURCE), segment.value, segment.key)
        record = encode_position(SOURCE, part, Position(next_source, next_source, generation=writer.generation))
        producer.produce(own, record.value, record.key, headers=list(record.headers))
        assert producer.flush(30) == 0

    stored = StoredOffsets(settings)
    admin = ClusterAdmin(TARGET, settings.target_admin.client)
    try:
        stored.start_reading()
        create_topic(target, own, config={"cleanup.policy": "compact"})
        if segments_topic(SOURCE) not in topics(target):
            create_topic(target, segments_topic(SOURCE), config={"cleanup.policy": "compact"})
        store(10)
        wait_for(lambda: stored.looked and stored.maps.tips([part]), 60, "it has read along")
        admin.connect()
        stored.hand_over(admin)
        assert not stored._thread.is_alive()
        store(20)
        stored.maps.read()
        known = stored.maps.maps.map(part)
        assert known is not None
        assert known.to_target(19) == Translated(19, True)
        assert stored.positions.read([part])[part].next_source == 20
    finally:
        stored.close()
        admin.close()
