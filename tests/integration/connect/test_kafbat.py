"""kafbat's UI with a worker: what its users do, with the requests of its backend, and the answers as it reads them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from harness.cluster import KafkaCluster
from harness.connect import kafbat
from harness.connect.kafbat import MAX_RETRIES, REBALANCE, KafbatError, KafbatUi, RefusedByWorkerError
from harness.produce import numbered, produce
from harness.topics import create_topic
from harness.wait import wait_for
from tests.integration.connect_worker import MIRROR, ConnectWorker, connector

DEADLINE_S = 120.0


@pytest.fixture
def worker(
    clusters: tuple[KafkaCluster, KafkaCluster], new_name: Callable[[str], str], tmp_path: Path
) -> Iterator[ConnectWorker]:
    made = ConnectWorker(tmp_path, clusters[1], new_name("workers"))
    try:
        yield made.start()
    finally:
        made.close()


def is_in(ui: KafbatUi, name: str, state: str, tasks: dict[int, str]) -> bool:
    try:
        return ui.show_connector(name)[0] == state and ui.list_tasks(name) == tasks
    except RefusedByWorkerError as error:
        # The tasks change, which a user of the UI sees as a conflict.
        if error.status != 409:
            raise
        return False


def wait_until(ui: KafbatUi, name: str, state: str, *tasks: str) -> None:
    """Wait until the pages of a connector show a state and the states of its tasks."""
    wanted = dict(enumerate(tasks))
    wait_for(lambda: is_in(ui, name, state, wanted), DEADLINE_S, f"{name} is {state}, with {wanted}", every_s=0.2)


def test_a_user_of_kafbats_ui_keeps_all_pages_and_buttons(
    clusters: tuple[KafkaCluster, KafkaCluster], worker: ConnectWorker, topic_name: str, new_name: Callable[[str], str]
) -> None:
    source, target = clusters
    create_topic(source, topic_name, 2)
    produce(source, topic_name, numbered(10))
    alias = new_name("s")
    # The names of Strimzi's connectors have characters that a path has to encode.
    name, other = f"{alias}->t.MirrorSourceConnector", f"{alias} heartbeat"
    where = urlsplit(worker.url)
    ui = KafbatUi(where.hostname or "", where.port or 0)

    assert ui.scrape() == {}
    assert ui.list_connectors() == {}
    plugins = ui.list_plugins()
    assert {f"{MIRROR}{kind}Connector" for kind in ("Source", "Checkpoint", "Heartbeat")} <= set(plugins)

    config = connector("Source", source, target, f"{alias}->t", topics=topic_name, tasks_max="2")
    for plugin in plugins:
        ui.validate(plugin, {"connector.class": plugin, "name": "x"})
    assert ui.validate(f"{MIRROR}SourceConnector", {**config, "name": name}) == (0, {})
    count, mistakes = ui.validate(f"{MIRROR}SourceConnector", {**config, "name": name, "tasks.max": "many"})
    assert (count, list(mistakes)) == (1, ["tasks.max"])

    with pytest.raises(RefusedByWorkerError) as refused:
        ui.create_connector(name, {**config, "tasks.max": "many"})
    assert refused.value.status == 400
    assert "tasks.max" in refused.value.message
    _, made = ui.create_connector(name, config)
    assert made == {**config, "name": name}
    wait_until(ui, name, "RUNNING", "RUNNING", "RUNNING")
    with pytest.raises(RefusedByWorkerError, match="already exists"):
        ui.create_connector(name, config)
    assert ui.log[-1].method == "GET"

    wait_for(lambda: ui.scrape() == {name: [f"{alias}.{topic_name}"]}, DEADLINE_S, "its topics are known", every_s=0.2)
    assert ui.list_connectors() == {name: (f"{MIRROR}SourceConnector", "RUNNING", 2, [f"{alias}.{topic_name}"])}
    assert ui.show_config(name) == {**config, "name": name}
    changed = {**ui.show_config(name), "tasks.max": "1"}
    assert ui.change_config(name, changed)["config"] == changed
    wait_until(ui, name, "RUNNING", "RUNNING")

    ui.act(name, "PAUSE")
    wait_until(ui, name, "PAUSED", "PAUSED")
    ui.act(name, "RESUME")
    wait_until(ui, name, "RUNNING", "RUNNING")
    for action in ("RESTART", "RESTART_ALL_TASKS", "RESTART_FAILED_TASKS"):
        ui.act(name, action)
        wait_until(ui, name, "RUNNING", "RUNNING")
    with pytest.raises(RefusedByWorkerError) as refused:
        ui.reset_offsets(name)
    assert refused.value.status == 400
    ui.act(name, "STOP")
    wait_until(ui, name, "STOPPED")
    assert ui.list_connectors()[name][1:3] == ("STOPPED", 0)
    ui.reset_offsets(name)
    ui.act(name, "RESUME")
    wait_until(ui, name, "RUNNING", "RUNNING")

    # A connector that fails is shown as failed, with its pages.
    lost = {**connector("Heartbeat", source, target, f"{alias}->t"), "target.cluster.bootstrap.servers": "127.0.0.1:1"}
    ui.create_connector(other, lost)
    wait_for(lambda: set(ui.list_connectors()) == {name, other}, DEADLINE_S, "both are listed", every_s=0.2)

    for one in (other, name):
        ui.delete_connector(one)
    wait_for(lambda: ui.list_connectors() == {}, DEADLINE_S, "both are deleted", every_s=0.2)
    assert ui.list_tasks(name) == {}
    for asked in (ui.show_connector, ui.show_config, ui.delete_connector):
        with pytest.raises(RefusedByWorkerError) as refused:
            asked(name)
        assert refused.value.status == 404

    # The statuses of Kafka's own worker, as `conformance/golden` has them.
    expected = {
        "POST /connectors": {201, 400},
        "PUT pause": {202},
        "PUT resume": {202},
        "PUT stop": {204},
        "POST restart": {204},
        "DELETE offsets": {200, 400},
        "DELETE connector": {204, 404},
        "PUT config": {200},
        "PUT validate": {200},
    }
    statuses: dict[str, set[int]] = {}
    for exchange in ui.log:
        last = exchange.path.partition("?")[0].rpartition("/")[2]
        kind = "/connectors" if exchange.path == "/connectors" else "connector" if last.startswith(alias) else last
        if exchange.method != "GET" and exchange.status != 409:
            statuses.setdefault(f"{exchange.method} {kind}", set()).add(exchange.status)
    assert statuses == expected


class RebalancingWorker(KafbatUi):
    """The UI with a worker that answers each request by a conflict."""

    def _send(self, method: str, path: str, body: Any, *, reads: bool) -> tuple[int, str, bytes]:
        return 409, "application/json", json.dumps({"error_code": 409, "message": REBALANCE}).encode()


@pytest.mark.parametrize(
    ("ask", "count"),
    [
        (lambda ui: ui.show_config("c"), 1 + MAX_RETRIES),
        (lambda ui: ui.act("c", "PAUSE"), 1 + MAX_RETRIES),
        (lambda ui: ui.act("c", "RESUME"), 1),
        (lambda ui: ui.change_config("c", {}), 1),
    ],
)
def test_a_user_of_kafbats_ui_reads_some_conflicts_at_once(ask: Callable[[KafbatUi], Any], count: int) -> None:
    ui = RebalancingWorker("127.0.0.1", 1)
    with pytest.raises(RefusedByWorkerError) as refused:
        ask(ui)
    assert (refused.value.status, len(ui.log)) == (409, count)


@pytest.mark.parametrize(
    ("shape", "value", "problem"),
    [
        (kafbat.STATUS, {"connector": {"state": "DESTROYED"}}, "body.connector.state: 'DESTROYED' is none of"),
        (kafbat.TASK_STATUS, {"id": 0, "state": "STOPPED"}, "body.state: 'STOPPED' is none of"),
        (kafbat.EXPANDED, {"c": {"info": {"name": "c", "config": {}, "type": "source"}}}, "body.c.status: missing"),
        (kafbat.TOPICS, {"c": {"topics": [1]}}, "body.c.topics[0]: 1 is no string"),
        (kafbat.TASKS, {}, "body: {} is no array"),
        (kafbat.TASK, {"task": True}, "body.task: True is no integer"),
        (kafbat.CONNECTOR, [], "body: [] is no object"),
    ],
)
def test_an_answer_that_kafbat_cannot_read_is_found(shape: Any, value: Any, problem: str) -> None:
    with pytest.raises(KafbatError) as found:
        kafbat.require(shape, "application/json", json.dumps(value).encode(), "GET /")
    assert problem in str(found.value)
    with pytest.raises(KafbatError, match="content type"):
        kafbat.require(shape, "text/html", b"{}", "GET /")
