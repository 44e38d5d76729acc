"""The connectors of a running worker become flows; a group and topics without a file are found on the target."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.virtual.cluster import VirtualCluster
from harness.virtual.groups import Member, VirtualGroup
from harness.virtual.loop import VirtualLoop, virtual_loop
from tests.unit.cli.scripted_worker import ScriptedWorker, scripted_worker
from twinlog.cli.main import app
from twinlog.clock import SYSTEM
from twinlog.connect.group.member import WorkerState
from twinlog.console.flow_files import FlowsOfFile
from twinlog.errors import ConfigError, TwinlogError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.record.builder import encode_batch, record_body
from twinlog.kafka.record.stamp import stamp
from twinlog.model.groups import TWINLOG_PROTOCOL
from twinlog.ops.running_worker import read_running
from twinlog.ops.status import flow
from twinlog.settings.client import ClientSettings

CONVERTER = "org.apache.kafka.connect.converters.ByteArrayConverter"
WORKER = f"""\
bootstrap.servers = w:9092
group.id = mirror
config.storage.topic = c
offset.storage.topic = o
status.storage.topic = s
key.converter = {CONVERTER}
value.converter = {CONVERTER}
"""
JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="m" password="{}";'


@pytest.fixture
def worker() -> Iterator[ScriptedWorker]:
    with scripted_worker() as running:
        yield running


def connector(kind: str, **more: str | None) -> dict[str, object]:
    config = {
        "connector.class": f"org.apache.kafka.connect.mirror.Mirror{kind}Connector",
        "source.cluster.alias": "east",
        "target.cluster.alias": "west",
        "source.cluster.bootstrap.servers": "e:9092",
        "target.cluster.bootstrap.servers": "w-1:9092",
        **{key.replace("_", "."): value for key, value in more.items()},
    }
    return {"info": {"name": kind, "config": config, "tasks": [], "type": "source"}}


def login(password: str) -> dict[str, str]:
    return {
        "source_cluster_security_protocol": "SASL_PLAINTEXT",
        "source_cluster_sasl_mechanism": "SCRAM-SHA-512",
        "source_cluster_sasl_jaas_config": password if password == "[hidden]" else JAAS.format(password),
    }


def read(
    worker: ScriptedWorker, folder: Path, connectors: dict[str, object], logins: str = "", more: str = ""
) -> tuple[FlowsOfFile, list[str]]:
    worker.on("GET /connectors?expand=info", connectors)
    file, passwords = folder / "worker.properties", folder / "logins.properties"
    file.write_text(WORKER + more, "utf-8")
    passwords.write_text(logins, "utf-8")
    found = read_running(worker.url, file, passwords if logins else None, lambda text: None, SYSTEM)
    assert found.worker is not None
    assert found.worker.group is not None
    assert found.worker.group.offset_storage.name == "o"
    return found, [one.name for one in found.flows]


def test_enabled_connectors_of_mirror_maker_are_flows(worker: ScriptedWorker, tmp_path: Path) -> None:
    connectors = {
        "copy": connector("Source", topics="orders", tasks_max=None),
        "off": connector("Source", enabled="false"),
        "follow": connector("Checkpoint"),
        "files": {"info": {"config": {"connector.class": "FileStreamSource"}}},
    }
    assert read(worker, tmp_path, connectors)[1] == ["copy", "follow"]


def test_a_wrong_connector_and_an_idle_worker_are_errors(worker: ScriptedWorker, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"copy: .*tasks\.max"):
        read(worker, tmp_path, {"copy": connector("Source", tasks_max="many")})
    with pytest.raises(ConfigError, match="connectors of MirrorMaker 2 that are enabled"):
        read(worker, tmp_path, {})


def test_a_silent_worker_and_another_file_are_errors(tmp_path: Path) -> None:
    file = tmp_path / "worker.properties"
    file.write_text(WORKER, "utf-8")
    with pytest.raises(TwinlogError, match="the port is closed"):
        read_running("http://127.0.0.1:9", file, None, lambda text: None, SYSTEM)
    file.write_text("clusters = a, b\n", "utf-8")
    with pytest.raises(ConfigError, match="the file of a Connect worker beside --url"):
        read_running("http://127.0.0.1:9", file, None, lambda text: None, SYSTEM)


@pytest.mark.parametrize("password", ["${file:/opt/mm2/east.properties:password}", "[hidden]", "********"])
def test_a_secret_of_the_workers_host_is_an_error_until_a_file_has_it(
    worker: ScriptedWorker, tmp_path: Path, password: str
) -> None:
    connectors = {"copy": connector("Source", **login(password), source_consumer_sasl_jaas_config=JAAS.format("old"))}
    with pytest.raises(ConfigError) as refused:
        read(worker, tmp_path, connectors)
    (problem,) = refused.value.problems
    assert (problem.file, problem.key, problem.id) == ("copy", "source.cluster.sasl.jaas.config", "TW-FILE-41")
    assert "east.sasl.jaas.config = ..." in problem.sentence
    assert "--client-config" in problem.sentence
    found, _ = read(worker, tmp_path, connectors, f"east.sasl.jaas.config = {JAAS.format('new')}\n")
    (only,) = found.flows
    assert {only.consumer.client.sasl_password, only.source_admin.client.sasl_password} == {"new"}


def test_a_file_of_logins_has_the_aliases_of_the_connectors(worker: ScriptedWorker, tmp_path: Path) -> None:
    connectors: dict[str, object] = {"copy": connector("Source")}
    found, _ = read(worker, tmp_path, connectors, "west.bootstrap.servers = outside:9094\n")
    assert found.flows[0].target_admin.client.bootstrap_servers == ("outside:9094",)
    assert found.flows[0].source_admin.client.bootstrap_servers == ("e:9092",)
    with pytest.raises(ConfigError, match=r"logins.properties:1: north\.sasl.*ALIAS\.KEY.*an alias of east, west"):
        read(worker, tmp_path, connectors, "north.sasl.mechanism = PLAIN\n")


def test_in_a_pod_of_strimzis_operator_the_workers_file_resolves_secrets(
    worker: ScriptedWorker, tmp_path: Path
) -> None:
    (tmp_path / "password").write_text("of the pod")
    providers = (
        "config.providers = strimzidir\n"
        "config.providers.strimzidir.class = org.apache.kafka.common.config.provider.DirectoryConfigProvider\n"
        f"config.providers.strimzidir.param.allowed.paths = {tmp_path}\n"
    )
    connectors: dict[str, object] = {"copy": connector("Source", **login(f"${{strimzidir:{tmp_path}:password}}"))}
    found, _ = read(worker, tmp_path, connectors, more=providers)
    assert found.flows[0].consumer.client.sasl_password == "of the pod"
    with pytest.raises(ConfigError, match="only the worker knows this secret"):
        read(worker, tmp_path, connectors)


def test_a_key_store_of_the_workers_host_has_the_same_way_out(worker: ScriptedWorker, target: Target) -> None:
    store = {
        "source_cluster_security_protocol": "SSL",
        "source_cluster_ssl_truststore_location": "/tmp/kafka/clusters/east.truststore.p12",
        "source_cluster_ssl_truststore_password": "${strimzidir:/opt/kafka:password}",
    }
    with pytest.raises(ConfigError) as refused:
        ask(worker, target, connectors={"copy": connector("Source", **store)})
    found = {problem.key: problem for problem in refused.value.problems}
    assert set(found) == {f"source.cluster.ssl.truststore.{name}" for name in ("location", "password")}
    for key, problem in found.items():
        assert f"{key.replace('source.cluster', 'east')} = ..." in problem.sentence


@pytest.mark.parametrize(
    "command", ["acls", "audit", "groups", "plan", "status", "topics list", "topics", "translate", "verify"]
)
def test_a_command_takes_a_worker_in_place_of_a_file(worker: ScriptedWorker, tmp_path: Path, command: str) -> None:
    worker.on("GET /connectors?expand=info", {"copy": connector("Source", **login("${file:/x:y}"))})
    more = ["--group", "shop"] if command == "translate" else []
    done = CliRunner().invoke(app, [*command.split(), "--url", worker.url, *more])
    assert done.exit_code == 2, done.output
    assert "copy: error: source.cluster.sasl.jaas.config: only the worker knows this secret" in done.output
    done = CliRunner().invoke(app, [*command.split(), "--url", worker.url, str(tmp_path), "x.json", *more])
    assert "leave out their files" in " ".join(done.output.split())


def test_a_command_without_file_and_worker_names_both(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["status"], env={"COLUMNS": "300"})
    assert (done.exit_code, "name a file, or a worker with --url" in done.output) == (2, True)
    done = CliRunner().invoke(app, ["status", "x", "--client-config", "y"], env={"COLUMNS": "300"})
    assert (done.exit_code, "it counts only with --url" in done.output) == (2, True)


# Without the worker's file.


class Target:
    """The cluster of a worker with the group `mirrors`, beside another group of workers."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.cluster = VirtualCluster(loop, "w")
        for name, address in (("others", "connect-9:8083"), ("mirrors", "connect-1:8083")):
            metadata = json.dumps({"url": f"http://{address}/", "worker": address}).encode()
            member = Member("c", 10.0, 60.0, {"sessioned": metadata}, 0.0)
            self.cluster.groups.groups[name] = VirtualGroup(
                "Stable", "connect", 1, "m", "sessioned", {"m": member}, {"m": b""}
            )

    def put(self, topic: str, key: str, value: str = "{}", at_ms: int = 1) -> None:
        """A record of a topic, which is created for its first record."""
        if (topic, 0) not in self.cluster.topics.parts:
            self.cluster.create(topic, 1, **{"cleanup.policy": "compact"})
        batch = encode_batch([(at_ms, record_body(key.encode(), value.encode()))])
        stamp(batch, -1, -1, -1)
        self.cluster.log(topic).append(bytes(batch))
        self.cluster.news()

    def connect(self, alias: str, client: ClientSettings) -> ClusterAdmin:
        assert client.bootstrap_servers in (("w-1:9092",), ("e-1:9092",))
        return ClusterAdmin(alias, client, VirtualLoop(self.loop.world))


@pytest.fixture
def target() -> Iterator[Target]:
    with virtual_loop(1) as loop:
        yield Target(loop)


def position(name: str) -> str:
    return json.dumps([name, {"cluster": "east", "partition": 0, "topic": "orders"}], separators=(",", ":"))


def ask(
    worker: ScriptedWorker, target: Target, connectors: dict[str, object] | None = None, **more: Any
) -> FlowsOfFile:
    known = connectors or {"copy": connector("Source"), "follow": connector("Checkpoint")}
    worker.on("GET /connectors?expand=info", known)
    status = {"connector": {"state": "RUNNING", "worker_id": "connect-1:8083"}, "tasks": []}
    worker.on("GET /connectors?expand=status", {"copy": {"status": status}})
    return read_running(worker.url, None, None, lambda text: None, SYSTEM, connect=target.connect, **more)


def test_group_and_topics_are_found_by_their_records_and_members(worker: ScriptedWorker, target: Target) -> None:
    target.put("old-offsets", position("copy"), at_ms=1)
    target.put("mirror-offsets", position("copy"), at_ms=2)
    target.put("other-offsets", position("copy-of-others"), at_ms=3)
    target.put("mm2-offsets.east.internal", position("copy"), at_ms=4)
    target.cluster.create("offset-events", 1, **{"cleanup.policy": "delete"})[0].write(b"x")
    target.put("mirror-configs", "connector-copy")
    target.put("mirror-status", "status-connector-copy")
    found = ask(worker, target, whole=True)
    assert [one.positions_topic for one in found.flows] == ["mirror-offsets", "mirror-offsets"]
    assert found.worker is not None
    group = found.worker.group
    assert group is not None
    assert (group.group_id, group.config_storage.name, group.status_storage.name) == (
        "mirrors",
        "mirror-configs",
        "mirror-status",
    )
    assert found.worker.client.bootstrap_servers == ("w-1:9092",)


def test_the_group_of_a_worker_of_twinlog_is_found_beside_the_groups_of_flows(
    worker: ScriptedWorker, target: Target
) -> None:
    groups = target.cluster.groups.groups
    groups["mirrors"].kind = TWINLOG_PROTOCOL
    state = WorkerState("http://connect-1:8083/", "connect-1:8083")
    groups["mirrors"].members["m"].metadata["sessioned"] = state.encode()
    member = Member("c", 10.0, 60.0, {"v2": b"host-1-4711"}, 0.0)
    groups["east-mm2"] = VirtualGroup("Stable", TWINLOG_PROTOCOL, 1, "m", "v2", {"m": member}, {"m": b""})
    for topic, key in (
        ("offsets", position("copy")),
        ("configs", "connector-copy"),
        ("status", "status-connector-copy"),
    ):
        target.put(f"mirror-{topic}", key)
    found = ask(worker, target, whole=True)
    assert found.worker is not None
    assert found.worker.group is not None
    assert found.worker.group.group_id == "mirrors"


def test_without_positions_the_command_asks_for_the_workers_file(worker: ScriptedWorker, target: Target) -> None:
    target.put("other-offsets", position("copy-of-others"))
    with pytest.raises(TwinlogError, match=r"has positions of connector copy.*the worker's file before") as failed:
        ask(worker, target)
    assert failed.value.message_id == "TW-REST-09"


def test_without_the_topic_of_states_the_flows_lack_their_worker(
    worker: ScriptedWorker, target: Target, capsys: pytest.CaptureFixture[str]
) -> None:
    target.put("mirror-offsets", position("copy"))
    found = ask(worker, target)
    assert (found.worker, len(found.flows)) == (None, 2)
    printed = capsys.readouterr().err
    assert f"TW-REST-09: the worker at {worker.url} has names that its target lacks or hides" in printed
    assert ": topic of configurations, topic of states; the result" in printed
    with pytest.raises(TwinlogError, match="the worker's file before --url"):
        ask(worker, target, whole=True)


def test_status_shows_the_lag_by_the_found_positions(
    worker: ScriptedWorker, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = VirtualCluster(target.loop, "e")
    source.create("orders")[0].write(*(b"%d" % one for one in range(10)))
    target.put("mirror-offsets", position("copy"), '{"offset":6}')
    target.put("mirror-configs", "connector-copy")
    state = {"state": "RUNNING", "worker_id": "connect-1:8083", "trace": None, "generation": 1}
    target.put("mirror-status", "status-connector-copy", json.dumps(state))
    known: dict[str, object] = {"copy": connector("Source", source_cluster_bootstrap_servers="e-1:9092")}
    worker.on("GET /connectors?expand=info", known).on("GET /connectors?expand=status", {})
    monkeypatch.setattr("twinlog.kafka.admin.cluster.ClusterAdmin", target.connect)
    monkeypatch.setattr("twinlog.ops.status.command.log_warnings", lambda: None)
    monkeypatch.setattr(flow, "FlowReader", partial(flow.FlowReader, connect=target.connect))
    del target.cluster.groups.groups["others"]
    done = CliRunner().invoke(app, ["status", "--url", worker.url, "-o", "json"])
    (seen,) = json.loads(done.stdout)["flows"]
    assert seen["lag"]["records"] == 3, done.output
    assert "TW-REST-09" not in done.output
