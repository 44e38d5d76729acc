"""How far away a cluster is: the quickest of all answers shows it, not the first one."""

from __future__ import annotations

import pytest
from kafka.protocol.metadata import ApiVersionsRequest

from harness.wait import wait_for
from tests.unit.kafka.fake_broker import FakeBroker
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.net.loop import Loop
from twinlog.settings.client import ClientSettings

PAUSE_S = 0.5
ENOUGH_S = 60.0


@pytest.fixture
def loop(turning_loop: Loop) -> Loop:
    return turning_loop


def test_a_near_cluster_that_was_slow_once_is_not_far(loop: Loop) -> None:
    with FakeBroker() as broker:
        broker.brokers = {1: broker.port}
        client = ClusterClient(loop, "north", ClientSettings((broker.address,)))
        assert not client.far
        broker.pause_s = PAUSE_S
        loop.run(client.connect)
        loop.run(client.refresh, [])
        assert client.round_trip_s >= PAUSE_S
        assert client.far

        def quick() -> bool:
            loop.run(client.send_request, ApiVersionsRequest())
            return client.round_trip_s < PAUSE_S

        wait_for(quick, ENOUGH_S, "an answer that is not about metadata is quick")
        client.close()
