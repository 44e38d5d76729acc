"""The clusters that hold the two logs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.virtual.cluster import VirtualCluster
from harness.virtual.loop import virtual_loop


@pytest.fixture
def clusters() -> Iterator[tuple[VirtualCluster, VirtualCluster]]:
    with virtual_loop(1) as loop:
        source, target = VirtualCluster(loop, "s"), VirtualCluster(loop, "w")
        source.create("t")
        target.create("s.t")
        yield source, target
