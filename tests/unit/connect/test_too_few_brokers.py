"""A worker whose topics are to have more replicas than there are brokers ends, and says what to set."""

from __future__ import annotations

import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.connect.worker.whole_worker import Nowhere
from tests.unit.worker.connectors.test_validation import WORKER
from twinlog.config.properties import parse_properties
from twinlog.config.worker import worker_of
from twinlog.connect.group.group import StandaloneGroup
from twinlog.connect.group.state import state_in_topics
from twinlog.connect.herder import Herder
from twinlog.connect.storage import record_log as module
from twinlog.errors import TooFewBrokersError
from twinlog.kafka.admin.cluster import ClusterIdentity
from twinlog.kafka.protocol.error_codes import Code
from twinlog.model.topics import NewTopic, Refusal
from twinlog.settings.worker import StorageTopic
from twinlog.worker.spark_flows import SparkOptions


class OneBroker:
    """Refuses more than one replica, as brokers do."""

    alias = "worker"

    def __init__(self, partitions: int = 0) -> None:
        self.created: list[NewTopic] = []
        found = SimpleNamespace(error=Code.UNKNOWN_TOPIC_OR_PARTITION, partitions=partitions)
        self.client = SimpleNamespace(refresh=lambda names: dict.fromkeys(names, found))

    def call(self, step: Any, *arguments: Any) -> Any:
        return step(*arguments)

    def identity(self) -> ClusterIdentity:
        return ClusterIdentity("id", frozenset({"one:9092"}))

    def create_topics(self, topics: list[NewTopic]) -> dict[str, Refusal]:
        refused = [one for one in topics if one.replication_factor > 1]
        self.created += [one for one in topics if one not in refused]
        text = "only 1 broker(s) are registered"
        return {one.name: Refusal(Code.INVALID_REPLICATION_FACTOR, text) for one in refused}


@pytest.fixture(autouse=True)
def _without_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TopicReader", "TopicWriter"):
        monkeypatch.setattr(module, name, lambda *_, **__: None)


def topic(admin: OneBroker, factor: int = 3, **more: str) -> module.StateTopic[Any]:
    return module.StateTopic(
        cast(Any, admin), StorageTopic("t", 5, factor), "status.storage.topic", cast(Any, None), **more
    )


def test_the_error_names_the_key_and_what_to_set() -> None:
    admin = OneBroker()
    with pytest.raises(TooFewBrokersError) as refused:
        topic(admin, factor_key="status.storage.replication.factor").ensure()
    assert str(refused.value) == (
        "cluster worker: topic t (status.storage.topic) could not be created: only 1 broker(s) are registered; it is "
        "to have 3 replicas, and the cluster has 1 broker: write status.storage.replication.factor = 1, or -1 for the "
        "brokers' default, or start the other brokers"
    )
    assert admin.created == []


def test_a_default_of_the_brokers_that_they_cannot_fulfil_is_no_number_to_name() -> None:
    admin = OneBroker()
    admin.create_topics = lambda topics: {  # type: ignore[method-assign]
        one.name: Refusal(Code.INVALID_REPLICATION_FACTOR, "only 1 broker(s) are registered") for one in topics
    }
    with pytest.raises(TooFewBrokersError) as refused:
        topic(admin, -1, factor_key="status.storage.replication.factor").ensure()
    assert str(refused.value).endswith(
        "it is to have as many replicas as the brokers' default.replication.factor, and the cluster has 1 broker: "
        "write status.storage.replication.factor = 1, or start the other brokers"
    )


def test_positions_of_a_connector_take_the_brokers_default() -> None:
    admin = OneBroker()
    topic(admin).ensure()
    assert [one.replication_factor for one in admin.created] == [-1]


def test_the_worker_ends_with_that_error() -> None:
    config = worker_of(parse_properties(WORKER, "worker.properties"), "worker.properties")
    client = replace(config.settings.client, default_api_timeout_ms=0)
    ended = threading.Event()
    group = config.settings.group
    assert group is not None
    admin = Nowhere("worker", client)
    herder = Herder(
        config,
        lambda changed: state_in_topics(cast(Any, OneBroker()), group, changed),
        StandaloneGroup,
        admin,
        SparkOptions(),
        crashed=ended.set,
    )
    herder.start("http://worker:8083/", "worker:8083")
    assert ended.wait(60)
    herder.stop()
    admin.close()
    assert "write config.storage.replication.factor = 1" in (herder.failure or "")
    assert "write config.storage.replication.factor = 1" in herder.stage()
