"""Runs an empty lease, so that what Spark must load and start for the first one is there when it counts."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from twinlog.run.bundle import Bundle
from twinlog.run.desk import Desk
from twinlog.run.leases import Leases
from twinlog.settings import AdminSettings, ClientSettings, ConsumerSettings, FlowSettings, ProducerSettings
from twinlog.spark.session import SparkEngine
from twinlog.task.grant import Grant
from twinlog.types import Alias, TopicName, TopicPartition

LEASE_S = 60.0
STOP_S = 5.0
NOWHERE = ClientSettings(("127.0.0.1:1",))
"""No cluster is contacted: the lease ends before its copier has anything to copy."""

SETTINGS = FlowSettings(
    Alias("warm"),
    Alias("up"),
    ConsumerSettings(NOWHERE),
    ProducerSettings(NOWHERE),
    AdminSettings(NOWHERE),
    AdminSettings(NOWHERE),
)


def rehearse(engine: SparkEngine, desk: Desk) -> bool:
    """Let Spark run a task that takes up a lease without partitions; False when none did within a minute."""
    claimed = threading.Event()

    def grants(_: Sequence[TopicPartition]) -> list[Grant]:
        claimed.set()
        return []

    leases = Leases(SETTINGS.name, grants, lambda *_: None, lambda *_: None)
    desk.flows[SETTINGS.name] = leases
    desk.bundles[SETTINGS.name] = Bundle(SETTINGS.name, [leases])
    query = engine.query(SETTINGS.name, [SETTINGS], desk.address)
    try:
        leases.renew((frozenset({TopicPartition(TopicName("none"), 0)}),))
        return claimed.wait(LEASE_S)
    finally:
        leases.stop(STOP_S)
        query.stop()
        desk.flows.pop(SETTINGS.name, None)
        desk.bundles.pop(SETTINGS.name, None)
