"""Two clusters of a test, started side by side."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from harness.cluster import KafkaCluster


@contextmanager
def side_by_side(source: KafkaCluster, target: KafkaCluster) -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    """Start both at once and wait for them; both are closed with the block, also where one does not start."""
    try:
        source.start_async()
        target.start_async()
        yield source.wait_ready(), target.wait_ready()
    finally:
        source.close()
        target.close()
