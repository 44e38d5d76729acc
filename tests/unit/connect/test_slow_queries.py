"""What other requests see of a worker that has Spark look at a query, which takes seconds; without Spark."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.unit.connect.worker.whole_worker import whole_worker
from twinlog.errors import EngineError
from twinlog.transforms.sql import query

QUICK, SLOW = "SELECT key FROM records", "SELECT value FROM records"


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "_known", {})


def stopped(name: str, query: str) -> dict[str, Any]:
    """One that starts no Spark."""
    config = {
        "connector.class": "MirrorSource",
        "source.cluster.alias": "a",
        "source.cluster.bootstrap.servers": "127.0.0.1:1",
        "target.cluster.alias": "b",
        "target.cluster.bootstrap.servers": "127.0.0.1:2",
        "transform.sql": query,
    }
    return {"name": name, "config": config, "initial_state": "STOPPED"}


def test_a_query_that_spark_looks_at_holds_up_no_change_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, answers = threading.Event(), threading.Event()

    def ask(texts: list[str]) -> dict[str, str | None]:
        if SLOW in texts:
            asked.set()
            assert answers.wait(60)
        return dict.fromkeys(texts)

    monkeypatch.setattr(query, "_ask", ask)
    with whole_worker() as (client, _):
        quick = stopped("quick", QUICK)
        assert client.ask("POST", "/connectors", quick).status == 201
        statuses: list[int] = []
        slow = threading.Thread(
            target=lambda: statuses.append(client.ask("POST", "/connectors", stopped("slow", SLOW)).status)
        )
        slow.start()
        assert asked.wait(60)
        try:
            assert client.ask("PUT", "/connectors/quick/config", quick["config"]).status == 200
            assert client.ask("PATCH", "/connectors/quick/config", {"topics": "t"}).status == 200
            assert client.get("/connectors").json == ["quick"]
            assert statuses == []
        finally:
            answers.set()
            slow.join(60)
        assert statuses == [201]


def test_a_jvm_that_does_not_start_is_not_tried_again_while_others_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[list[str]] = []

    def ask(texts: list[str]) -> dict[str, str | None]:
        tries.append(texts)
        raise EngineError("there is no Java")

    monkeypatch.setattr(query, "_ask", ask)
    with whole_worker() as (client, _):
        assert client.ask("POST", "/connectors", stopped("c", QUICK)).status == 201
    assert tries == [[QUICK]]


def test_a_query_that_is_not_good_is_refused_by_the_answer_from_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "_ask", lambda texts: dict.fromkeys(texts, "it is none"))
    with whole_worker() as (client, _):
        answer = client.ask("POST", "/connectors", stopped("c", QUICK))
        assert answer.status == 400
        assert "transform.sql: it is none" in answer.message
        assert client.ask("PATCH", "/connectors/none/config", {"transform.sql": QUICK}).status == 404
