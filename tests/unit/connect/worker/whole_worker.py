"""A whole worker in this process, REST API and herder, without clusters: in memory, with connectors that pretend.

What a connector does is counted, so that a test sees whether one ever ran twice at a time.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from harness.wait import wait_for
from tests.unit.connect.serving import LOOPBACK, Client
from tests.unit.worker.connectors.test_validation import WORKER
from twinlog.clock import SYSTEM
from twinlog.config.properties import parse_properties
from twinlog.config.worker import worker_of
from twinlog.connect import running
from twinlog.connect.group.group import StandaloneGroup
from twinlog.connect.group.state import Changed, GroupState
from twinlog.connect.herder import Herder
from twinlog.connect.rest.api import RestApi
from twinlog.connect.rest.server import RestServer
from twinlog.connect.rest.serving import Limits
from twinlog.connect.storage import config_records, offset_records, status_records
from twinlog.connect.storage.config_records import StoredRecord
from twinlog.connect.storage.record_log import MemoryLog
from twinlog.kafka.admin.cluster import ClusterAdmin, ClusterIdentity
from twinlog.model.groups import CommittedOffset, GroupOffsets
from twinlog.model.types import GroupId, TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings
from twinlog.settings.worker import RestSettings
from twinlog.worker.spark_flows import SparkOptions

BODY_BYTES = 20_000
"""The largest body that it takes."""


END_S = 0.05


class Beats:
    """What runs of heartbeat connectors now, and the most that ever ran of one at a time, by its name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()

    def count(self, name: str, by: int) -> None:
        with self._lock:
            self.now[name] += by
            self.most[name] = max(self.most[name], self.now[name])


class Nowhere(ClusterAdmin):
    """In the place of the worker's own cluster: nothing is kept there."""

    def connect(self, timeout_s: float = 5.0) -> None:
        pass

    def identity(self) -> ClusterIdentity:
        return ClusterIdentity("cluster-id", frozenset())


def _pretended(beats: Beats) -> type:
    """A class in the place of IdleFlow and of GroupsFlow, which finds its groups when it is attended first."""

    class Pretended:
        def __init__(self, settings: FlowSettings, *_: object, **__: object) -> None:
            self.settings = settings
            self.failure: str | None = None
            self.trouble: str | None = None
            self.groups: tuple[GroupId, ...] | None = None
            self.has_beaten = True
            self._name = str(settings.connector_name)

        def positions(self) -> dict[GroupId, GroupOffsets]:
            return {GroupId("g"): {TopicPartition(TopicName("a.t"), 1): CommittedOffset(7)}}

        def start(self) -> None:
            beats.count(self._name, 1)

        def poll_flow(self) -> None:
            self.groups = self.groups or (GroupId("g"),)

        def take_written(self) -> set[str]:
            return {"heartbeats"}

        def stop(self, timeout_s: float = 0.0) -> None:
            # What begins before this has ended would run beside it.
            SYSTEM.sleep(END_S)

        def close(self) -> None:
            beats.count(self._name, -1)

    return Pretended


class SlowLog(MemoryLog[Any]):
    """Takes its time to append, as brokers do."""

    append_s = 0.0

    def append_and_read(self, records: Iterable[StoredRecord]) -> list[Any]:
        if self.append_s:
            SYSTEM.sleep(self.append_s)
        return super().append_and_read(records)


class OffsetLog(MemoryLog[Any]):
    """Keeps what is only appended until it is read, as a topic does."""

    def __init__(self) -> None:
        super().__init__(offset_records.decode)
        self._appended: list[Any] = []

    def append(self, records: Iterable[StoredRecord]) -> None:
        self._appended += self.append_and_read(records)

    def read(self) -> list[Any]:
        found, self._appended = self._appended, []
        return found


@contextmanager
def whole_worker(config_append_s: float = 0.0) -> Iterator[tuple[Client, Beats]]:
    """A worker that is healthy, at a port of loopback; to keep a configuration takes it `config_append_s` seconds."""
    beats = Beats()
    config = worker_of(parse_properties(WORKER, "worker.properties"), "worker.properties")

    def state(changed: Changed) -> GroupState:
        configs, statuses = (SlowLog(module.decode) for module in (config_records, status_records))
        configs.append_s = config_append_s
        return GroupState(configs, statuses, OffsetLog(), changed)

    with pytest.MonkeyPatch.context() as patch:
        for name in ("IdleFlow", "GroupsFlow"):
            patch.setattr(running, name, _pretended(beats))
        admin = Nowhere("worker", config.settings.client)
        herder = Herder(config, state, StandaloneGroup, admin, SparkOptions())
        limits = Limits(body_bytes=BODY_BYTES)
        with RestServer(RestApi(herder, RestSettings(LOOPBACK), SYSTEM, limits=limits)) as server:
            client = Client(server.urls[0], cast(Any, herder), server)
            herder.start(server.advertised_url, "worker:8083")
            try:
                wait_for(lambda: client.get("/health").status == 200, 60, "the worker is healthy")
                yield client, beats
            finally:
                herder.stop()
                admin.close()
