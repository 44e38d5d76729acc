"""A switchover between two aliases of one cluster leads nowhere, and is refused before anything is looked at."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from harness.virtual.cluster import VirtualCluster
from harness.virtual.loop import VirtualLoop, virtual_loop
from tests.unit.worker.topics.test_topic_conflicts import flow
from twinlog.errors import RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin, both_clusters
from twinlog.model.types import Alias
from twinlog.ops.switchover import clusters
from twinlog.ops.switchover.clusters import LiveClusters
from twinlog.settings.client import AdminSettings, ClientSettings
from twinlog.settings.flow import FlowSettings


def between(settings: FlowSettings, source: VirtualCluster, target: VirtualCluster) -> FlowSettings:
    here, there = (AdminSettings(ClientSettings(one.bootstrap)) for one in (source, target))
    return replace(settings, source_admin=here, target_admin=there)


@pytest.mark.parametrize("one_cluster", [True, False])
def test_one_cluster_is_refused(one_cluster: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    with virtual_loop(1) as loop:
        east = VirtualCluster(loop, "east")
        west = east if one_cluster else VirtualCluster(loop, "west")

        def connect(alias: str, client: ClientSettings) -> ClusterAdmin:
            return ClusterAdmin(alias, client, VirtualLoop(loop.world))

        monkeypatch.setattr(clusters, "both_clusters", partial(both_clusters, connect=connect))
        there = between(flow("east", "west", "default"), east, west)
        back = between(flow("west", "east", "default"), west, east)
        found = LiveClusters(there, back, [Alias("east"), Alias("west")])
        try:
            if one_cluster:
                with pytest.raises(
                    RefusedError, match=r"^east and west are the same cluster .*a switchover needs two clusters"
                ):
                    found.connect(5.0)
            else:
                found.connect(5.0)
        finally:
            found.close()
