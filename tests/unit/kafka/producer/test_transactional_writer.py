"""One writer at a time: who begins last, whatever an earlier one sends."""

from __future__ import annotations

import pytest

from harness.virtual.cluster import VirtualCluster
from harness.virtual.faults import Fault
from harness.virtual.loop import virtual_loop
from harness.virtual.requests import END_TXN, PRODUCE
from twinlog.errors import FencedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.consumer.topic_reader import TopicReader
from twinlog.kafka.producer.claimed_topic import TransactionalWriter
from twinlog.kafka.protocol.error_codes import Code
from twinlog.model.types import TopicName
from twinlog.settings.client import ClientSettings

TOPIC = TopicName("journal")


def test_a_second_writer_fences_the_first() -> None:
    with virtual_loop(1) as loop:
        cluster = VirtualCluster(loop, "west")
        (log,) = cluster.create(TOPIC)
        client = ClusterClient(loop, "west", ClientSettings(cluster.bootstrap))
        loop.run(client.connect)
        first, second = (TransactionalWriter(client, TOPIC, "journal") for _ in range(2))
        loop.run(first.begin)
        loop.run(first.append, [(b"a", b"1"), (b"b", b"2")])
        loop.run(first.append, [(b"a", None)])
        written = log.end
        loop.run(second.begin)
        with pytest.raises(FencedError):
            loop.run(first.append, [(b"a", b"late")])
        loop.run(second.append, [(b"c", b"3")])
        assert log.end > written
        client.close()


@pytest.mark.parametrize(
    ("key", "fault"),
    [
        (PRODUCE, Fault(code=Code.NOT_LEADER_OR_FOLLOWER)),
        (PRODUCE, Fault(lost=True)),
        (END_TXN, Fault(code=Code.NOT_COORDINATOR)),
    ],
)
def test_what_failed_is_appended_again_under_a_higher_epoch(key: int, fault: Fault) -> None:
    with virtual_loop(1) as loop:
        cluster = VirtualCluster(loop, "west")
        cluster.create(TOPIC)
        admin = ClusterAdmin("west", ClientSettings(cluster.bootstrap), loop)
        admin.connect()
        first, second = (TransactionalWriter(admin.client, TOPIC, "journal") for _ in range(2))
        admin.call(first.begin)
        if fault.code and key == PRODUCE:
            cluster.codes(PRODUCE, TOPIC, fault.code)
        else:
            cluster.fault(key, fault)
        admin.call(first.append, [(b"a", b"1"), (b"b", b"2")])
        admin.call(first.append, [(b"c", b"3")])
        records = [(one.key, one.value) for _, one in TopicReader(admin, TOPIC, committed=True).read()]
        assert records == [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]
        admin.call(second.begin)
        with pytest.raises(FencedError):
            admin.call(first.append, [(b"a", b"late")])
        admin.close()
