"""What the tests of switchovers share: a pair of clusters, commands on their files, and groups with members."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from harness.cluster import KafkaCluster, side_by_side
from tests.integration.ops.switchover.commands import QUICK, Commands


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    """East has an authorizer, for which producers are no super users; west has none."""
    east = KafkaCluster("east", acls=True, heap="256m", config=QUICK)
    west = KafkaCluster("west", sasl=False, heap="256m", config=QUICK)
    with side_by_side(east, west) as both:
        yield both


@pytest.fixture
def commands(tmp_path: Path, pair: tuple[KafkaCluster, KafkaCluster], topic_name: str) -> Commands:
    return Commands(tmp_path, pair, topic_name, f"g-{topic_name}")


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack
