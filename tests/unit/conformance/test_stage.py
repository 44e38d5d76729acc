"""What workers of an arrangement are started with, and what is sent to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import javaproperties
import pytest

from conformance import stage as staging
from conformance.call import Response
from conformance.stage import Arrangement, Stage
from conformance.worker import Order
from harness.cluster import KafkaCluster

PAIR = Arrangement(
    "pair",
    {"listeners": "HTTP://<here>,https://<here-https>", "admin.listeners": "http://<here-admin>"},
    files={"jaas.conf": 'file="<dir>/users.txt"', "beat.json": "<source>"},
    login="jaas.conf",
    connectors=("beat.json",),
    env={"SERVERS": "<target>"},
    headers={"Authorization": "Basic abc"},
    workers=2,
)


class _Worker:
    def __init__(self, order: Order) -> None:
        self.order = order
        self.log = order.home / "worker.log"
        self.started: list[str] = []

    def start(self, properties: str) -> str:
        self.started.append(properties)
        return ""

    def stop(self) -> bool:
        return True

    def kill(self) -> None:
        self.started.clear()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    source, target = (
        cast(KafkaCluster, SimpleNamespace(bootstrap=f"127.0.0.1:{port}", cluster_id=f"id-{port}")) for port in (1, 2)
    )
    built = Stage(PAIR, _Worker, source, target, tmp_path / "stage")
    yield built
    built.close()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Mapping[str, str]]]:
    """Everybody is healthy and has no connectors."""
    asked: list[tuple[str, Mapping[str, str]]] = []

    def send(url: str, method: str, path: str, body: Any, headers: Mapping[str, str], tls: object) -> Response:
        asked.append((f"{method} {url}{path}", headers))
        return Response(200, {}, [])

    monkeypatch.setattr(staging, "send", send)
    return asked


def _settings(stage: Stage, name: str) -> dict[str, str]:
    (text,) = cast(_Worker, stage.workers[name]).started
    return dict(javaproperties.loads(text))


def test_each_worker_has_its_own_addresses_and_all_share_group_and_topics(
    stage: Stage, sent: list[tuple[str, Mapping[str, str]]]
) -> None:
    with stage:
        one, two = (_settings(stage, name) for name in ("worker-1", "worker-2"))
    assert one["bootstrap.servers"] == "127.0.0.1:2"
    assert one["group.id"] == two["group.id"] == "connect-pair"
    assert one["listeners"] == stage.names.put_in("HTTP://<worker-1>,https://<https-1>")
    assert two["admin.listeners"] == stage.names.put_in("http://<admin-2>")
    assert {key for key in one if one[key] != two[key]} == {"listeners", "admin.listeners"}
    assert sent[0][0] == stage.names.put_in("GET http://<worker-1>/health")


def test_files_and_variables_are_filled_in(stage: Stage, tmp_path: Path) -> None:
    order = cast(_Worker, stage.workers["worker-2"]).order
    files = tmp_path / "stage" / "files"
    assert order.login == files / "jaas.conf"
    assert order.login.read_text() == f'file="{files}/users.txt"'
    assert [path.read_text() for path in order.connectors] == ["127.0.0.1:1"]
    assert order.env == {"SERVERS": "127.0.0.1:2"}
    assert (files / "worker.p12").is_file()
    assert stage.names.take_out("id-2 at 127.0.0.1:2") == "<target cluster> at <target>"


def test_headers_of_the_arrangement_go_along_unless_a_call_has_its_own(
    stage: Stage, sent: list[tuple[str, Mapping[str, str]]]
) -> None:
    stage.send("GET /", to="https-1", headers={"Accept": "*/*"})
    stage.send("GET /", headers={"authorization": ""})
    assert [headers for _, headers in sent] == [
        {"Authorization": "Basic abc", "Accept": "*/*"},
        {"authorization": ""},
    ]
    assert sent[0][0].startswith("GET https://127.0.0.1:")
