"""What a client sees of a worker whose connectors really begin and end."""

from __future__ import annotations

from harness.wait import wait_for
from tests.unit.connect.whole_worker import whole_worker

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
