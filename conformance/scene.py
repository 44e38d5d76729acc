"""The two clusters that the connectors mirror, with one topic and one group for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from conformance.mirrors import ORDERS, READERS
from harness.cluster import KafkaCluster
from harness.groups import commit_offsets
from harness.produce import numbered, produce
from harness.topics import create_topic


@contextmanager
def scene() -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    """Source and target; the workers keep their own topics on the target."""
    source = KafkaCluster("source", sasl=False, heap="384m")
    target = KafkaCluster("target", sasl=False, heap="384m")
    try:
        for cluster in (source, target):
            cluster.start_async()
        for cluster in (source, target):
            cluster.wait_ready()
        furnish(source)
        yield source, target
    finally:
        source.close()
        target.close()


def furnish(source: KafkaCluster) -> None:
    """The topic and the group that calls speak of."""
    create_topic(source, ORDERS, 2)
    produce(source, ORDERS, numbered(10))
    commit_offsets(source, {READERS: {(ORDERS, 0): 5}})
