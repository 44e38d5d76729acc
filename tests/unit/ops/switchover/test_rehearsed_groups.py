"""A rehearsal reads the groups of both clusters once: a hundred thousand offsets take seconds."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from harness.virtual.cluster import VirtualCluster
from harness.virtual.loop import VirtualLoop, virtual_loop
from tests.unit.ops.switchover.test_one_cluster import between
from tests.unit.worker.topics.test_topic_conflicts import flow
from twinlog.kafka.admin.cluster import ClusterAdmin, both_clusters
from twinlog.kafka.record.builder import encode_batch, record_body
from twinlog.kafka.record.stamp import stamp
from twinlog.mirror.offsets.positions import Position, encode_position
from twinlog.model.types import Alias, SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.ops.switchover import clusters
from twinlog.ops.switchover.clusters import LiveClusters
from twinlog.ops.switchover.group_facts import SwitchoverGroups
from twinlog.ops.switchover.journal import JournalEntries
from twinlog.ops.switchover.model import FenceMethod, SwitchoverKind, SwitchoverOptions
from twinlog.ops.switchover.rehearsal import rehearse
from twinlog.settings.client import ClientSettings

PLANNED = SwitchoverOptions(SwitchoverKind.PLANNED, FenceMethod.NONE)


def test_a_rehearsal_reads_the_groups_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []
    read_groups = SwitchoverGroups.read_groups

    def counting(self: SwitchoverGroups, *arguments: Any) -> Any:
        reads.append(1)
        return read_groups(self, *arguments)

    monkeypatch.setattr(SwitchoverGroups, "read_groups", counting)
    with virtual_loop(1) as loop:
        east, west = VirtualCluster(loop, "east"), VirtualCluster(loop, "west")

        def connect(alias: str, client: ClientSettings) -> ClusterAdmin:
            return ClusterAdmin(alias, client, VirtualLoop(loop.world))

        monkeypatch.setattr(clusters, "both_clusters", partial(both_clusters, connect=connect))
        there = replace(between(flow("east", "west", "default"), east, west), kind="source")
        back = between(flow("west", "east", "default"), west, east)
        east.create("orders")
        east.write("orders", b"1", b"2")
        for name in ("east.orders", there.positions_topic, "mm2-twinlog-progress.east.internal"):
            west.create(name)
        place = TopicPartition(TopicName("orders"), 0)
        stored = encode_position(Alias("east"), place, Position(SourceOffset(1), TargetOffset(1)))
        batch = encode_batch([(0, record_body(stored.key, stored.value, stored.headers))])
        stamp(batch, -1, -1, -1)
        west.log(there.positions_topic).append(bytes(batch))
        found = LiveClusters(there, back, [Alias("east"), Alias("west")])
        try:
            found.connect(5.0)
            preflight, steps = rehearse(found, PLANNED, JournalEntries())
        finally:
            found.close()
    assert preflight.problems == ()
    assert "groups" in {one.step for one in steps}
    assert len(reads) == 1
