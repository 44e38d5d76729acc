"""Whoever sees that a worker's REST API answers may create a connector at once."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.cluster import KafkaCluster
from harness.jvm.jars import KAFKA_VERSION
from harness.wait import wait_for
from tests.integration.connect_worker import ConnectWorker, connector, path_of, shared
from twinlog.config.properties import parse_properties
from twinlog.config.worker import worker_of
from twinlog.connect.worker import Worker
from twinlog.worker.spark_flows import SparkOptions

ROUNDS = 20
REQUEST_S = 100.0


def ask(url: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """The status of an answer and its JSON; 0 while nothing listens, None in place of what is no JSON."""
    headers = {"Content-Type": "application/json"} if body else {}
    data = json.dumps(body).encode() if body else None
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url + path, data, headers, method=method), timeout=REQUEST_S
        ) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        content = error.read()
        # Jetty answers in HTML before Kafka's worker knows its resources.
        return error.code, json.loads(content) if content.startswith(b"{") else None
    except urllib.error.URLError:
        return 0, None


def create_at_once(url: str, config: dict[str, str], name: str, *, look: bool) -> None:
    """Poll `GET /` until it answers, with `look` also ask for the list, as a second check does; create a connector."""
    wait_for(lambda: ask(url, "GET", "/")[0] == 200, REQUEST_S, "GET / is answered")
    if look:
        assert ask(url, "GET", "/connectors") == (200, [])
    status, answer = ask(url, "POST", "/connectors", {"name": name, "config": config})
    assert status == 201, answer
    assert ask(url, "GET", "/connectors") == (200, [name])
    assert ask(url, "DELETE", path_of(name)) == (204, None)


def test_a_connector_is_created_as_soon_as_the_worker_answers(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, new_name: Callable[[str], str]
) -> None:
    group = new_name("starting")
    config = connector("Heartbeat", source_cluster, target_cluster, f"{group}->there")
    lines = {
        "bootstrap.servers": target_cluster.bootstrap,
        "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "listeners": "http://127.0.0.1:0",
        **shared(group),
    }
    text = "".join(f"{key} = {value}\n" for key, value in lines.items())
    settings = worker_of(parse_properties(text, "worker"), "worker", distributed=True)
    for number in range(ROUNDS):
        worker = Worker(settings, SparkOptions())
        worker.start()
        try:
            create_at_once(worker.server.urls[0], config, f"{group}-{number}", look=number % 2 == 1)
        finally:
            worker.stop()


@pytest.mark.scenario
@pytest.mark.parametrize(("kafka", "rounds"), [(None, ROUNDS), (KAFKA_VERSION, 3)], ids=["twinlog", "Kafka's own"])
def test_the_same_with_processes(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    new_name: Callable[[str], str],
    tmp_path: Path,
    kafka: str | None,
    rounds: int,
) -> None:
    group = new_name("processes")
    config = connector("Heartbeat", source_cluster, target_cluster, f"{group}->there")
    for number in range(rounds):
        worker = ConnectWorker(tmp_path / str(number), target_cluster, group, kafka=kafka)
        worker.process.start()
        try:
            create_at_once(worker.url, config, f"{group}-{number}", look=number % 2 == 1)
            worker.process.terminate()
        finally:
            worker.close()
