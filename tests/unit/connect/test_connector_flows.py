"""The flows of a worker's connectors are built anew for another configuration, or when somebody has them forgotten."""

from __future__ import annotations

from pathlib import Path

from tests.unit.config.files import kafkas_files
from twinlog.config.properties import parse_properties
from twinlog.config.worker import worker_of
from twinlog.connect.connector_flows import MOST_TASKS, ConnectorFlows
from twinlog.connect.group.state import state_alone
from twinlog.connect.storage import offset_records
from twinlog.connect.storage.record_log import MemoryLog
from twinlog.worker.connectors.model import ConnectorName, TargetState
from twinlog.worker.placement.processes import ConnectorWeight

C = ConnectorName("c")
CONFIG = {
    "connector.class": "MirrorSourceConnector",
    "source.cluster.alias": "a",
    "source.cluster.bootstrap.servers": "a:1",
    "source.cluster.security.protocol": "SASL_PLAINTEXT",
    "source.cluster.sasl.mechanism": "PLAIN",
}
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
PROVIDER = """\
config.providers = file
config.providers.file.class = org.apache.kafka.common.config.provider.FileConfigProvider
"""


def test_a_secret_counts_from_the_next_beginning_on(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("password = old\n")
    state = state_alone(MemoryLog(offset_records.decode), lambda _: None)
    worker = worker_of(parse_properties(kafkas_files.STANDALONE + PROVIDER, "w"), "w", distributed=False)
    flows = ConnectorFlows(worker, state)
    login = f'{LOGIN} username="u" password="${{file:{secret}:password}}";'
    state.put(C, {**CONFIG, "source.cluster.sasl.jaas.config": login})

    def password() -> str | None:
        flow, why = flows.build(C)
        assert flow is not None, why
        return flow.settings.consumer.client.sasl_password

    assert password() == "old"
    secret.write_text("password = newer\n")
    assert password() == "old"
    flows.forget_connector(C)
    assert password() == "newer"


def test_those_that_copy_are_started_sources_that_are_not_switched_off() -> None:
    state = state_alone(MemoryLog(offset_records.decode), lambda _: None)
    worker = worker_of(parse_properties(kafkas_files.STANDALONE, "w"), "w", distributed=False)
    flows = ConnectorFlows(worker, state)

    def put(name: str, kind: str, started: TargetState = TargetState.STARTED, **more: str) -> None:
        config = {
            "connector.class": f"Mirror{kind}Connector",
            "source.cluster.alias": "a",
            "source.cluster.bootstrap.servers": "a:1",
            "target.cluster.bootstrap.servers": "b:1",
            **more,
        }
        state.put(ConnectorName(name), config, started)

    put("beats", "Heartbeat")
    put("translates", "Checkpoint")
    put("stands", "Source", TargetState.STOPPED)
    put("waits", "Source", TargetState.PAUSED)
    put("off", "Source", enabled="false")
    put("wrong", "Source", **{"tasks.max": "many"})
    assert flows.to_copy() == []
    put("copies", "Source", **{"tasks.max": "7"})
    assert [one.tasks_max for one in flows.to_copy()] == [7]
    state.set_target_state(ConnectorName("stands"), TargetState.STARTED)
    assert len(flows.to_copy()) == 2


def test_a_connector_that_copies_weighs_its_tasks() -> None:
    state = state_alone(MemoryLog(offset_records.decode), lambda _: None)
    worker = worker_of(parse_properties(kafkas_files.STANDALONE, "w"), "w", distributed=False)
    flows = ConnectorFlows(worker, state)
    for name, kind, tasks in (
        ("s", "Source", "8"),
        ("m", "Source", "1000"),
        ("h", "Heartbeat", "8"),
        ("w", "Source", "${a}"),
    ):
        state.put(ConnectorName(name), {"connector.class": f"Mirror{kind}Connector", "tasks.max": tasks})
    state.put(ConnectorName("o"), {"connector.class": "org.example.Other"})
    assert flows.weights() == {
        "s": ConnectorWeight("source", 8),
        "m": ConnectorWeight("source", MOST_TASKS),
        "h": ConnectorWeight("heartbeat", 1),
        "w": ConnectorWeight("source", 1),
        "o": ConnectorWeight("", 1),
    }
