"""The connectors that a running worker has become the flows of an audit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.cli.scripted_worker import ScriptedWorker, scripted_worker
from twinlog.clock import SYSTEM
from twinlog.errors import ConfigError, TwinlogError
from twinlog.ops.audit.audited_file import read_running

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
        "target.cluster.bootstrap.servers": "w:9092",
        **{key.replace("_", "."): value for key, value in more.items()},
    }
    return {"info": {"name": kind, "config": config, "tasks": [], "type": "source"}}


def read(worker: ScriptedWorker, folder: Path, connectors: dict[str, object]) -> tuple[list[str], tuple[str, ...]]:
    worker.on("GET /connectors?expand=info", connectors)
    file = folder / "worker.properties"
    file.write_text(WORKER, "utf-8")
    found = read_running(file, worker.url, lambda text: None, SYSTEM)
    assert found.worker is not None
    assert found.worker.group is not None
    assert found.worker.group.offset_storage.name == "o"
    return [flow.name for flow in found.flows], tuple(map(str, found.warnings))


def test_enabled_connectors_of_mirror_maker_are_flows(worker: ScriptedWorker, tmp_path: Path) -> None:
    connectors = {
        "copy": connector("Source", topics="orders", tasks_max=None),
        "off": connector("Source", enabled="false"),
        "follow": connector("Checkpoint"),
        "files": {"info": {"config": {"connector.class": "FileStreamSource"}}},
    }
    names, _ = read(worker, tmp_path, connectors)
    assert names == ["copy", "follow"]


def test_a_wrong_connector_and_an_idle_worker_are_errors(worker: ScriptedWorker, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"copy: .*tasks\.max"):
        read(worker, tmp_path, {"copy": connector("Source", tasks_max="many")})
    with pytest.raises(ConfigError, match="connectors of MirrorMaker 2 that are enabled"):
        read(worker, tmp_path, {})


def test_a_silent_worker_and_another_file_are_errors(tmp_path: Path) -> None:
    file = tmp_path / "worker.properties"
    file.write_text(WORKER, "utf-8")
    with pytest.raises(TwinlogError, match="the port is closed"):
        read_running(file, "http://127.0.0.1:9", lambda text: None, SYSTEM)
    file.write_text("clusters = a, b\n", "utf-8")
    with pytest.raises(ConfigError, match="the file of a Connect worker beside --url"):
        read_running(file, "http://127.0.0.1:9", lambda text: None, SYSTEM)
