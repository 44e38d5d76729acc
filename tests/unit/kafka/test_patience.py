"""A step that is tried again says so, once that lasts."""

from __future__ import annotations

import pytest

from harness.virtual.cluster import VirtualCluster
from harness.virtual.loop import virtual_loop
from twinlog.errors import ClusterError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.patience import patiently
from twinlog.settings.flow import ClientSettings


@pytest.mark.parametrize(("down_s", "said"), [(3.0, 0), (50.0, 1), (100.0, 2)])
def test_what_lasts_is_said_now_and_then(down_s: float, said: int, caplog: pytest.LogCaptureFixture) -> None:
    with virtual_loop(1) as loop:
        cluster = VirtualCluster(loop, "west")
        client = ClusterClient(loop, "west", ClientSettings(cluster.bootstrap))
        began = cluster.now()

        async def step() -> str:
            if cluster.now() - began < down_s:
                raise ClusterError("cluster west: no coordinator")
            return "done"

        assert loop.run(patiently, client, 120, step) == "done"
        assert [record.getMessage() for record in caplog.records] == [
            "cluster west: no coordinator; it is tried again for 120 s in all"
        ] * said
        client.close()
