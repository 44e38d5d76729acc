"""What a client sees of a worker whose connectors really begin and end."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from harness.wait import wait_for
from tests.unit.connect.worker.whole_worker import whole_worker
from twinlog.connect.connector_offsets import ConnectorOffsets
from twinlog.connect.requests import RequestGuard
from twinlog.worker.connectors.model import ConnectorName, StoredOffset

CHECKPOINT = {
    "connector.class": "MirrorCheckpoint",
    "source.cluster.alias": "a",
    "source.cluster.bootstrap.servers": "127.0.0.1:1",
    "target.cluster.alias": "b",
    "target.cluster.bootstrap.servers": "127.0.0.1:2",
}


def test_a_task_that_runs_has_its_configuration() -> None:
    with whole_worker(config_append_s=0.5) as (client, _):
        assert client.ask("PUT", "/connectors/c/config", CHECKPOINT).status == 201

        def runs() -> bool:
            answer = client.get("/connectors/c/status")
            return answer.status == 200 and [one["state"] for one in answer.json["tasks"]] == ["RUNNING"]

        wait_for(runs, 60, "it runs", every_s=0.01)
        (task,) = client.get("/connectors/c/tasks").json
        assert task["config"]["task.class"].endswith("MirrorCheckpointTask")
        assert client.get("/connectors/c").json["tasks"] == [{"connector": "c", "task": 0}]


def test_topics_are_active_once_they_are_written_to_and_gone_with_their_connector() -> None:
    with whole_worker() as (client, beats):
        for name in ("c", "off"):
            assert client.ask("PUT", f"/connectors/{name}/config", CHECKPOINT).status == 201

        def topics(name: str) -> list[str]:
            return list(client.get(f"/connectors/{name}/topics").json[name]["topics"])

        wait_for(lambda: topics("c") == topics("off") == ["heartbeats"], 60, "both have written")
        assert client.ask("PUT", "/connectors/off/stop").status == 204
        # That is shown only with the topics that it wrote to last.
        wait_for(lambda: client.get("/connectors/off/status").json["connector"]["state"] == "STOPPED", 60, "one stops")
        assert not beats.now["off"]
        assert topics("off") == ["heartbeats"]
        # One that writes on has its topic again, another one has none.
        for name in ("c", "off"):
            assert client.ask("PUT", f"/connectors/{name}/topics/reset").status == 202
        wait_for(lambda: topics("c") == ["heartbeats"], 60, "one has written again")
        assert topics("off") == []
        assert client.ask("DELETE", "/connectors/c").status == 204
        wait_for(lambda: topics("c") == [], 60, "its topics are gone with it")


def test_connectors_without_a_position_store_what_mirror_makers_own_do() -> None:
    heartbeat = {**CHECKPOINT, "connector.class": "MirrorHeartbeat"}
    with whole_worker() as (client, _):
        stored = {
            "h": {"sourceClusterAlias": "a", "targetClusterAlias": "b"},
            "c": {"group": "g", "topic": "a.t", "partition": 1},
        }
        for name, config in (("h", heartbeat), ("c", CHECKPOINT)):
            assert client.ask("PUT", f"/connectors/{name}/config", config).status == 201

        def offsets(name: str) -> object:
            return client.get(f"/connectors/{name}/offsets").json["offsets"]

        expected = {name: [{"partition": one, "offset": {"offset": 0}}] for name, one in stored.items()}
        wait_for(lambda: {name: offsets(name) for name in stored} == expected, 60, "both have stored theirs")
        # They may be deleted while nothing runs, and come again with what runs.
        assert client.ask("PUT", "/connectors/h/stop").status == 204
        wait_for(lambda: client.ask("DELETE", "/connectors/h/offsets").status == 200, 60, "it stands still")
        assert offsets("h") == []
        assert client.ask("PUT", "/connectors/h/resume").status == 202
        wait_for(lambda: offsets("h") != [], 60, "it has stored it again")


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_a_changed_connector_is_shown_though_the_next_change_removes_it(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_leader = RequestGuard.as_leader

    @contextmanager
    def then_removed(self: RequestGuard) -> Iterator[None]:
        with as_leader(self):
            yield
        self._state.remove(ConnectorName("c"))

    with whole_worker() as (client, _):
        assert client.ask("PUT", "/connectors/c/config", CHECKPOINT).status == 201
        monkeypatch.setattr(RequestGuard, "as_leader", then_removed)
        answer = client.ask(method, "/connectors/c/config", CHECKPOINT)
        assert (answer.status, answer.json["name"]) == (200, "c")
        assert client.get("/connectors/c").status == 404


def test_a_new_connector_restarts_though_its_states_are_missing() -> None:
    # The worker's thread takes no turn.
    with whole_worker() as (client, _), client.herder._thread._following:
        assert client.ask("PUT", "/connectors/c/config", CHECKPOINT).status == 201
        assert client.get("/connectors/c/status").status == 404
        assert client.ask("POST", "/connectors/c/restart").status == 204
        assert client.ask("POST", "/connectors/c/restart?includeTasks=true").status == 404


def test_a_worker_stays_in_its_group_until_a_change_of_offsets_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, completes = threading.Event(), threading.Event()
    replace_offsets = ConnectorOffsets.replace_offsets

    def slowly(self: ConnectorOffsets, name: ConnectorName, offsets: Sequence[StoredOffset]) -> None:
        begun.set()
        assert completes.wait(60)
        assert not client.herder.left
        replace_offsets(self, name, offsets)

    monkeypatch.setattr(ConnectorOffsets, "replace_offsets", slowly)
    with whole_worker() as (client, _), ThreadPoolExecutor(2) as callers:
        thread = client.herder._thread
        assert client.ask("PUT", "/connectors/c/config", CHECKPOINT).status == 201
        assert client.ask("PUT", "/connectors/c/stop").status == 204
        changed = callers.submit(client.ask, "DELETE", "/connectors/c/offsets")
        assert begun.wait(60)
        ending = callers.submit(client.herder.stop)
        wait_for(lambda: not thread.running.connectors, 60, "its connectors have ended")
        # Without a wait the worker would leave its group in this time.
        thread._thread.join(0.5)
        completes.set()
        assert changed.result(60).status == 200
        ending.result(60)
        assert client.herder.left


def test_a_worker_that_stops_leaves_changes_to_another_worker() -> None:
    with whole_worker() as (client, _):
        assert client.ask("PUT", "/connectors/c/config", CHECKPOINT).status == 201
        assert client.ask("PUT", "/connectors/c/stop").status == 204

        def refused(method: str, path: str, body: object = None) -> bool:
            answer = client.ask(method, path, body)
            return (answer.status, answer.headers.get("retry-after")) == (503, "1")

        thread = client.herder._thread
        ending = threading.Thread(target=client.herder.stop)
        # The worker has ended its connectors, and is still a member of its group.
        with thread.changing:
            ending.start()
            wait_for(lambda: not thread.running.connectors, 60, "its connectors have ended")
            assert refused("DELETE", "/connectors/c/offsets")
        ending.join()
        for method, path, body in (
            ("PUT", "/connectors/c/config", CHECKPOINT),
            ("PATCH", "/connectors/c/config", {"topics": "t"}),
            ("POST", "/connectors", {"name": "d", "config": CHECKPOINT}),
            ("POST", "/connectors/c/restart", None),
            ("PUT", "/connectors/c/resume", None),
            ("PUT", "/connectors/c/topics/reset", None),
            ("DELETE", "/connectors/c/offsets", None),
            ("DELETE", "/connectors/c", None),
        ):
            assert refused(method, path, body), path
        assert client.get("/connectors").json == ["c"]
