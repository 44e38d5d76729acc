"""The clusters of a replay."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.virtual.cluster import VirtualCluster
from harness.virtual.loop import virtual_loop
from tests.unit.ops.replay.replaying import Clusters


@pytest.fixture
def clusters() -> Iterator[Clusters]:
    with virtual_loop(1) as loop:
        source, target = VirtualCluster(loop, "s"), VirtualCluster(loop, "w")
        source.create("t")
        target.create("s.t.replay")
        yield source, target
