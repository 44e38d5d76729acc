"""Runs an empty lease, so that Spark has loaded and started everything before the first real lease."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from twinlog.clock import SYSTEM, Clock
from twinlog.lease.lease_server import LeaseServer, QueryFlows
from twinlog.lease.leases import Leases
from twinlog.lease.messages import Grant
from twinlog.model.types import Alias, TopicName, TopicPartition
from twinlog.settings.client import AdminSettings, ClientSettings, ConsumerSettings, ProducerSettings
from twinlog.settings.flow import FlowSettings
from twinlog.spark.engine import Engine

LEASE_S = 60.0
LOOK_S = 0.2
STOP_S = 5.0
NOWHERE = ClientSettings(("127.0.0.1:1",))
"""An unused address: the lease ends before its copier contacts a cluster."""

SETTINGS = FlowSettings(
    Alias("warm"),
    Alias("up"),
    ConsumerSettings(NOWHERE),
    ProducerSettings(NOWHERE),
    AdminSettings(NOWHERE),
    AdminSettings(NOWHERE),
)


def run_warm_up(
    engine: Engine,
    lease_server: LeaseServer,
    *,
    patience_s: float = LEASE_S,
    ending: threading.Event | None = None,
    clock: Clock = SYSTEM,
) -> bool:
    """Let Spark run a task that joins an empty lease; False after `patience_s`, or when `ending` is set."""
    claimed = threading.Event()

    def grants(_: Sequence[TopicPartition]) -> list[Grant]:
        claimed.set()
        return []

    leases = Leases(SETTINGS.name, grants, lambda *_: None, lambda *_: None, clock=clock)
    lease_server.flows[SETTINGS.name] = leases
    lease_server.bundles[SETTINGS.name] = QueryFlows(SETTINGS.name, [leases], clock)
    query = engine.query(SETTINGS.name, [SETTINGS], lease_server.address)
    try:
        leases.renew_lease((frozenset({TopicPartition(TopicName("none"), 0)}),))
        give_up_at = clock.monotonic() + patience_s
        while not clock.wait(claimed, LOOK_S):
            if clock.monotonic() > give_up_at or (ending is not None and ending.is_set()):
                return False
        return True
    finally:
        leases.stop(STOP_S)
        query.stop()
        lease_server.flows.pop(SETTINGS.name, None)
        lease_server.bundles.pop(SETTINGS.name, None)
