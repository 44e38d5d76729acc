"""One writer at a time: who begins last, whatever an earlier one sends."""

from __future__ import annotations

import pytest

from harness.virtual.cluster import VirtualCluster
from harness.virtual.loop import virtual_loop
from twinlog.errors import FencedError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.transactional_writer import TransactionalWriter
from twinlog.model.types import TopicName
from twinlog.settings.flow import ClientSettings

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
