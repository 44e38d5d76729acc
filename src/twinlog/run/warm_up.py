"""Starts Spark once, lets it run an empty lease, and keeps what its JVM learned for later starts."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path

from twinlog.errors import TwinlogError
from twinlog.run.desk import Desk
from twinlog.run.leases import Leases
from twinlog.settings import AdminSettings, ClientSettings, ConsumerSettings, FlowSettings, ProducerSettings
from twinlog.spark.archive import archive_file, record_options
from twinlog.spark.session import SparkEngine, local_master
from twinlog.task.grant import Grant
from twinlog.types import Alias, TopicName, TopicPartition

LEASE_S = 60.0
END_S = 180.0
NOWHERE = ClientSettings(("127.0.0.1:1",))
"""No cluster is contacted: the lease ends before its copier has anything to copy."""


def warm_up() -> Path:
    """Make the class archive anew; returns its file. Takes about a minute, and some 160 MB of disk.

    Raises TwinlogError when it could not be made.
    """
    path = archive_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(f".{os.getpid()}.new")
    settings = FlowSettings(
        Alias("warm"),
        Alias("up"),
        ConsumerSettings(NOWHERE),
        ProducerSettings(NOWHERE),
        AdminSettings(NOWHERE),
        AdminSettings(NOWHERE),
    )
    claimed = threading.Event()

    def grants(_: Sequence[TopicPartition]) -> list[Grant]:
        claimed.set()
        return []

    leases = Leases(settings.name, grants, lambda *_: None, lambda *_: None)
    desk = Desk("127.0.0.1", {settings.name: leases})
    engine = SparkEngine(local_master(1), {}, java_options=record_options(fresh))
    try:
        query = engine.query(settings, desk.address)
        leases.renew((frozenset({TopicPartition(TopicName("none"), 0)}),))
        ran = claimed.wait(LEASE_S)
        leases.stop(5.0)
        query.stop()
    finally:
        desk.close()
        engine.stop(END_S)
    if not ran or not fresh.is_file():
        fresh.unlink(missing_ok=True)
        raise TwinlogError("Spark did not leave a class archive; starts stay as they are")
    fresh.replace(path)
    return path
