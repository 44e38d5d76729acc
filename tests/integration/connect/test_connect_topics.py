"""A worker reads a config topic as years leave it: long, with leftovers of compaction, and with what nobody knows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from harness.cluster import KafkaCluster
from harness.produce import NewRecord, produce
from harness.topics import create_topic
from harness.topics import topics as all_topics
from tests.connected_admins import connected_admin
from tests.integration.copying import TARGET, flow_settings
from twinlog.connect.storage import config_records, record_log
from twinlog.connect.storage.cluster_state import ClusterState
from twinlog.connect.storage.config_records import ConfigRecord
from twinlog.connect.storage.record_log import StateTopic
from twinlog.errors import ClusterError, TooFewBrokersError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.fetch_session import Fetched, FetchSession
from twinlog.settings.worker import StorageTopic
from twinlog.worker.connectors.model import ConnectorName, TargetState, TaskId

GENERATIONS = 250
CONNECTORS = 100
TASKS = 2
"""Together 100,000 records: a configuration, two tasks and a commit of each connector in each generation."""


@pytest.fixture
def here(target_cluster: KafkaCluster) -> Iterator[ClusterAdmin]:
    with connected_admin(TARGET, flow_settings(target_cluster, target_cluster).target_admin.client) as admin:
        yield admin


def record(key: str, value: Any) -> NewRecord:
    return NewRecord(None if value is None else json.dumps(value).encode(), key.encode())


def properties(**settings: str) -> Mapping[str, Any]:
    return {"properties": settings}


def generations() -> Iterator[NewRecord]:
    for generation in range(GENERATIONS):
        for number in range(CONNECTORS):
            name = f"a->b.{number}"
            yield record(f"connector-{name}", properties(generation=str(generation)))
            for task in range(TASKS):
                yield record(f"task-{name}-{task}", properties(generation=str(generation), task=str(task)))
            yield record(f"commit-{name}", {"tasks": TASKS})


LEFTOVERS = [
    # Removed; its commit outlived its configuration and the tombstone.
    record("task-gone-0", properties(a="1")),
    record("commit-gone", {"tasks": 1}),
    record("connector-removed", properties(a="1")),
    record("connector-removed", None),
    record("target-state-removed", None),
    # The leader died between tasks and commit; and one of two tasks is gone with compaction.
    record("connector-half", properties(a="1")),
    record("task-half-0", properties(a="half-written")),
    record("connector-torn", properties(a="1")),
    record("task-torn-1", properties(a="1")),
    record("commit-torn", {"tasks": 2}),
    # As a worker before 3.5 pauses, and what nobody has written yet.
    record("target-state-half", {"state": "PAUSED"}),
    record("tomorrow-half", {"a": 1}),
    record("connector-wrapped", {"schema": {"type": "map"}, "payload": properties(a="1")}),
    NewRecord(b"no json", b"connector-broken"),
]


def test_a_long_topic_with_leftovers_is_read_once(
    here: ClusterAdmin,
    target_cluster: KafkaCluster,
    new_name: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    name = create_topic(target_cluster, new_name("configs"), 1, config={"cleanup.policy": "compact"})
    produce(target_cluster, name, generations(), per_batch=1000)
    produce(target_cluster, name, LEFTOVERS)
    fetch = FetchSession.fetch
    answers: list[int] = []

    async def broken_off(self: FetchSession, *asked: Any, **how: Any) -> list[Fetched]:
        answers.append(1)
        if len(answers) == 3:
            raise ClusterError("the connection broke")
        return await fetch(self, *asked, **how)

    decoded: list[bytes | None] = []

    def decode(key: bytes | None, value: bytes | None) -> ConfigRecord | config_records.UnreadableRecord | None:
        decoded.append(key)
        return config_records.decode(key, value)

    monkeypatch.setattr(FetchSession, "fetch", broken_off)
    monkeypatch.setattr("twinlog.kafka.consumer.topic_pages.FETCH_BYTES", 2_000_000)
    topic = StateTopic[ConfigRecord](here, StorageTopic(name, 1, 1), "config.storage.topic", decode)
    topic.ensure()
    with monkeypatch.context() as impatient:
        impatient.setattr("twinlog.kafka.consumer.topic_pages.STALLED_S", 0.0)
        with pytest.raises(ClusterError):
            topic.read()
    assert 0 < len(decoded) < GENERATIONS * CONNECTORS * (TASKS + 2)
    state = ClusterState()
    state.apply_records(topic.read())
    assert len(decoded) == GENERATIONS * CONNECTORS * (TASKS + 2) + len(LEFTOVERS)
    assert topic.read() == []

    last = {"generation": str(GENERATIONS - 1)}
    every = {ConnectorName(f"a->b.{number}") for number in range(CONNECTORS)}
    half, torn = ConnectorName("half"), ConnectorName("torn")
    assert state.connectors.keys() == every | {half, torn}
    for one in every:
        assert state.connectors[one].config == last
        assert state.connectors[one].tasks == tuple({**last, "task": str(task)} for task in range(TASKS))
    assert state.tasks(half) == state.tasks(torn) == []
    assert (state.connectors[half].consistent, state.connectors[torn].consistent) == (True, False)
    assert state.target_state(half) is TargetState.PAUSED
    # Written on, it is whole again.
    written = topic.append_and_read([(b"task-half-0", b'{"properties":{}}'), (b"commit-half", b'{"tasks":1}')])
    state.apply_records(written)
    assert state.tasks(half) == [TaskId(half, 0)]
    passed_over = [one.getMessage() for one in caplog.records if one.name == record_log.__name__]
    assert len(passed_over) == 2
    assert "connector-wrapped" in passed_over[0]
    assert "internal.value.converter.schemas.enable" in passed_over[0]
    assert "connector-broken" in passed_over[1]


def test_a_topic_of_more_replicas_than_brokers_is_not_created(
    here: ClusterAdmin, target_cluster: KafkaCluster, new_name: Callable[[str], str]
) -> None:
    name, factor = new_name("configs"), "config.storage.replication.factor"
    topic = StateTopic[ConfigRecord](
        here, StorageTopic(name, 1, 3), "config.storage.topic", config_records.decode, factor_key=factor
    )
    with pytest.raises(TooFewBrokersError) as refused:
        topic.ensure()
    assert f"write {factor} = 1, or -1 for the brokers' default" in str(refused.value)
    assert name not in all_topics(target_cluster)
