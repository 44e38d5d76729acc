"""A topic with the state of a worker, on a cluster of this process."""

from __future__ import annotations

from harness.virtual.cluster import VirtualCluster
from harness.virtual.loop import virtual_loop
from twinlog.connect.storage import offset_records
from twinlog.connect.storage.config_records import UnreadableRecord
from twinlog.connect.storage.offset_records import OffsetRecord, OffsetsByConnector
from twinlog.connect.storage.record_log import StateTopic
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.model.compact_json import utf8_json
from twinlog.settings.client import ClientSettings
from twinlog.settings.worker import StorageTopic
from twinlog.worker.connectors.model import ConnectorName, StoredOffset

C = ConnectorName("c")


def stored(topic: str, number: int | None) -> tuple[bytes, bytes | None]:
    partition = {"cluster": "a", "partition": 0, "topic": topic}
    return offset_records.encode(C, StoredOffset(partition, None if number is None else {"offset": number}))


def test_overwritten_positions_stay_undecoded_however_many_the_topic_has() -> None:
    decoded: list[bytes | None] = []

    def decode(key: bytes | None, value: bytes | None) -> OffsetRecord | UnreadableRecord | None:
        decoded.append(value)
        return offset_records.decode(key, value)

    with virtual_loop(1) as loop:
        cluster = VirtualCluster(loop, "worker")
        cluster.create("offsets", 3)
        admin = ClusterAdmin("worker", ClientSettings(cluster.bootstrap), loop)
        admin.connect()
        place = StorageTopic("offsets", 3, 1)
        topic = StateTopic[OffsetRecord](admin, place, "offset.storage.topic", decode, last_only=True)
        for number in range(20):
            topic.append([stored("t", number), stored("u", number)])
        topic.append([stored("u", None)])
        found = {str(one.partition["topic"]): one.offset for one in topic.read()}
        assert found == {"t": {"offset": 19}, "u": None}
        assert len(decoded) == 2
        assert topic.read() == []
        (later,) = topic.append_and_read([stored("u", 20)])
        assert later.offset == {"offset": 20}


def test_the_last_record_of_a_partition_counts_however_its_key_orders_the_fields() -> None:
    """A tool of a user may write the fields in another order than Java's."""
    (java, _), partition = stored("t", 0), {"topic": "t", "partition": 0, "cluster": "a"}
    other = utf8_json([C, partition])
    with virtual_loop(1) as loop:
        cluster = VirtualCluster(loop, "worker")
        cluster.create("offsets", 1)
        admin = ClusterAdmin("worker", ClientSettings(cluster.bootstrap), loop)
        admin.connect()
        topic = StateTopic[OffsetRecord](
            *(admin, StorageTopic("offsets", 1, 1), "offset.storage.topic", offset_records.decode), last_only=True
        )
        topic.append([(java, b'{"offset":1}'), (other, b'{"offset":5}'), (java, b'{"offset":9}')])
        offsets = OffsetsByConnector()
        for record in topic.read():
            offsets.apply_record(record)
        assert [one.offset for one in offsets.get_offsets(C)] == [{"offset": 9}]
