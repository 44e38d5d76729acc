"""The files of the examples fit together: what one names, another has."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import javaproperties
import pytest

from harness.containers.compose_file import Service, read_compose, read_env
from harness.containers.images import broker_settings
from twinlog import __version__
from twinlog.config.connector import build_connector
from twinlog.config.load import load
from twinlog.config.worker import load_worker

EXAMPLES = Path(__file__).parents[3] / "examples"
STACKS = sorted(path.parent for path in EXAMPLES.glob("*/docker-compose.yaml"))
WORKERS = [stack for stack in STACKS if stack.name.startswith("seed-")]
"""The installations of a Connect worker."""
ADDRESS = re.compile(r"(?<![\w.-])([a-z][\w-]*):(\d{4,5})\b")
REFERENCE = re.compile(r"\$\{file:([^:}]+):([^}]+)\}")
LOGIN = re.compile(r'username="([^"]*)" password="([^"]*)"')


@pytest.fixture(params=STACKS, ids=lambda path: str(path.name))
def stack(request: pytest.FixtureRequest) -> Path:
    """The folder of an example."""
    folder = request.param
    assert isinstance(folder, Path)
    return folder


@pytest.fixture(params=WORKERS, ids=lambda path: str(path.name))
def worker_stack(request: pytest.FixtureRequest) -> Path:
    """The folder of an example with a Connect worker."""
    folder = request.param
    assert isinstance(folder, Path)
    return folder


def services_of(stack: Path) -> dict[str, Service]:
    return read_compose(stack / "docker-compose.yaml")


def texts(stack: Path) -> dict[Path, str]:
    return {path: path.read_text(encoding="utf-8") for path in stack.rglob("*") if path.is_file()}


def listeners(service: Service) -> dict[str, str]:
    """Names of listeners by their ports."""
    named = re.findall(r"(\w+)://[^,]*:(\d+)", service.environment.get("KAFKA_LISTENERS", ""))
    return {port: name for name, port in named}


def test_there_is_one_for_each_installation() -> None:
    assert [stack.name for stack in STACKS] == ["quick-start", "seed-000", "seed-002"]


def test_every_address_is_one_where_a_service_listens(stack: Path) -> None:
    services = services_of(stack)
    asked = {found for path, text in texts(stack).items() for found in ADDRESS.findall(text) if path.name != ".env"}
    open_ports = {(name, port) for name, service in services.items() for port in listeners(service)}
    worker = {("connect", "8083")}
    here = {(name, port) for name, port in asked if name == "localhost"}
    assert here <= {("localhost", port) for _, port in open_ports | worker} | {("localhost", "8080")}
    assert {one for one in asked - here if one[0] != "image"} <= open_ports | worker


def test_every_reference_names_a_mounted_file_that_has_the_key(worker_stack: Path) -> None:
    mounts = {mount.target: mount.source for mount in services_of(worker_stack)["connect"].mounts}
    for text in texts(worker_stack).values():
        for path, key in REFERENCE.findall(text):
            source = mounts[path]
            assert source is not None
            assert key in javaproperties.loads(source.read_text(encoding="utf-8"))


def test_connectors_have_the_names_of_their_files(worker_stack: Path) -> None:
    files = sorted((worker_stack / "connect/connectors").glob("*.json"))
    assert len(files) == 3
    for file in files:
        body = json.loads(file.read_text(encoding="utf-8"))
        assert body.get("name", file.stem) == file.stem
        config = body.get("config", body)
        assert config["connector.class"].startswith("org.apache.kafka.connect.mirror.Mirror")


def test_the_connectors_of_seed_002_are_flows_of_its_worker() -> None:
    folder = EXAMPLES / "seed-002/connect"
    worker = load_worker(folder / "connect.properties")
    found = {}
    for file in folder.glob("connectors/*.json"):
        body = json.loads(file.read_text(encoding="utf-8"))
        found[body["name"]] = build_connector(body["name"], body["config"], worker)
    assert {name: flow.kind for name, flow in found.items()} == {
        "mm2-msc": "source",
        "mm2-cpc": "checkpoint",
        "mm2-hbc": "heartbeat",
    }
    assert not any(flow.idle for flow in found.values())
    # The one that writes offset syncs and the one that may read them name the clusters alike.
    source, checkpoint = (found[name].settings for name in ("mm2-msc", "mm2-cpc"))
    assert (source.source, source.target) == (checkpoint.source, checkpoint.target) == ("sourcemsc", "targetmsc")
    assert source.offset_syncs_location == checkpoint.offset_syncs_location == "target"
    assert checkpoint.sync_group_offsets_interval_s


def test_the_script_of_seed_002_creates_what_is_not_there() -> None:
    """Against a worker that only remembers names."""
    there: list[str] = []

    class Worker(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer(200)

        def do_POST(self) -> None:
            name = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["name"]
            self.answer(409 if name in there else 201)
            there.append(name)

        def answer(self, status: int) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    folder = EXAMPLES / "seed-002/connect"
    with ThreadingHTTPServer(("127.0.0.1", 0), Worker) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        variables = {
            "CONNECT_REST_API": f"http://127.0.0.1:{server.server_port}",
            "connector_config_dir": str(folder / "connectors"),
        }
        first, again = (
            subprocess.run(
                ["bash", str(folder / "scripts/create-connectors.sh")],
                env={**os.environ, **variables},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            for _ in range(2)
        )
        server.shutdown()
    assert first.count("[INFO] Created mm2-") == 3
    assert again.count("is there already") == 3
    assert there == ["mm2-cpc", "mm2-hbc", "mm2-msc"] * 2


def test_every_login_is_a_user_of_some_broker() -> None:
    stack = EXAMPLES / "seed-000"
    users = {
        (name, password)
        for file in (stack / "kafka").glob("*.conf")
        for name, password in re.findall(r'user_(\w+)="([^"]*)"', file.read_text(encoding="utf-8"))
    }
    asked = {login for text in texts(stack).values() for login in LOGIN.findall(text) if "$" not in login[0]}
    values = javaproperties.loads((stack / "connect/kafka.properties").read_text(encoding="utf-8"))
    asked |= {(values["broker.username"], values["broker.password"])}
    asked |= {(values["mirrormaker.username"], values[f"mirrormaker{number}.password"]) for number in (1, 2)}
    assert len(asked) == 5
    assert asked <= users


def test_the_console_may_use_the_rest_api() -> None:
    stack = EXAMPLES / "seed-000"
    users = javaproperties.loads((stack / "connect/restapi-users.txt").read_text(encoding="utf-8"))
    services = services_of(stack)
    console, worker = services["kafka-ui"].environment, services["connect"].environment
    for who, prefix in ((console, "KAFKA_CLUSTERS_1_KAFKACONNECT_0_"), (worker, "CONNECT_")):
        assert users[who[f"{prefix}USERNAME"]] == who[f"{prefix}PASSWORD"]
    asked = re.search(r"-u (\w+):(\S+)", services["connect"].healthy[-1])
    assert asked is not None
    assert users[asked[1]] == asked[2]


def test_images_are_those_of_this_version(stack: Path) -> None:
    assert read_env(stack / ".env")["TWINLOG_VERSION"] == __version__
    for file in stack.glob("connect/Dockerfile"):
        assert f"ARG TWINLOG_VERSION={__version__}\n" in file.read_text(encoding="utf-8")


def test_the_file_of_the_quick_start_is_right() -> None:
    config = load(EXAMPLES / "quick-start/mm2.properties")
    assert not config.warnings
    assert [(flow.source, flow.target) for flow in config.all_enabled] == [("east", "west")]


def test_variables_of_kafkas_image_become_settings() -> None:
    made = broker_settings(
        {"KAFKA_NODE_ID": "1", "KAFKA_A___B__C": "2", "KAFKA_OPTS": "-D", "KAFKA_JMX_PORT": "1", "CLUSTER_ID": "x"}
    )
    assert made == {"node.id": "1", "a-b_c": "2"}
