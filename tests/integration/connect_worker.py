"""`twinlog connect`, or Kafka's own worker, as a child process, and requests to its REST API."""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from harness.child import Child
from harness.cluster import KafkaCluster
from harness.connect.mm2 import CONNECTORS_ONE_REPLICA
from harness.connect.worker import ConnectWorker as JavaWorker
from harness.jvm.jars import KAFKA_VERSION, Parts
from harness.ports import claim_port, release_port
from harness.wait import wait_for

COMMAND = (sys.executable, "-m", "twinlog", "connect")
START_S = 120.0
REQUEST_S = 100.0
MIRROR = "org.apache.kafka.connect.mirror.Mirror"


class ConnectWorker:
    """One worker of the group `group` with the state topics `<group>-configs`, `-offsets` and `-status`.

    Without a group it is a standalone worker with these `connectors`, and has its offsets in `offsets` in `home`.
    With `kafka` it is Connect's own worker of that version.
    """

    def __init__(
        self,
        home: Path,
        cluster: KafkaCluster,
        group: str | None,
        settings: Mapping[str, str] | None = None,
        connectors: Sequence[Path] = (),
        *,
        kafka: str | None = None,
        env: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """`arguments` are more of our command's, `headers` go with every request."""
        self._headers = dict(headers or {})
        home.mkdir(parents=True, exist_ok=True)
        self._port = claim_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self.offset_file = home / "offsets"
        own = {"offset.storage.file.filename": str(self.offset_file)} if group is None else shared(group)
        lines = {
            "bootstrap.servers": cluster.bootstrap,
            "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
            "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
            "listeners": self.url,
            **own,
            # It would look through all classes of the class path.
            **({} if kafka is None else {"plugin.discovery": "service_load"}),
            **(settings or {}),
        }
        self.file = file = home / "worker.properties"
        text = "".join(f"{key} = {value}\n" for key, value in lines.items())
        file.write_text(text.replace("<here>", self.url))
        if kafka is None:
            command = [*COMMAND, str(file), *map(str, connectors), *arguments]
            self.process = Child("twinlog connect", command, home / "worker.log", env)
        else:
            self.process = connect_child(kafka, file, home)

    def start(self) -> ConnectWorker:
        """Start, and wait until the worker is a member of its group."""
        self.process.start()
        return self.wait_until_healthy()

    def wait_until_healthy(self) -> ConnectWorker:
        """Wait until the worker is a member of its group."""
        wait_for(self._healthy, START_S, "the worker is healthy")
        return self

    def close(self) -> None:
        """Kill what still runs."""
        self.process.kill()
        release_port(self._port)

    def _healthy(self) -> bool:
        self.process.require_alive()
        try:
            return self.ask("GET", "/health")[0] == 200
        except (OSError, ValueError):
            # Jetty itself answers before a worker of Kafka's does.
            return False

    @property
    def log(self) -> str:
        return self.process.log.read_text(encoding="utf-8", errors="replace")

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """The status of an answer and its JSON, None without a body."""
        data = None if body is None else json.dumps(body).encode()
        headers = {**self._headers, **({"Content-Type": "application/json"} if data else {})}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=REQUEST_S) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"null")

    def put(self, name: str, config: Mapping[str, str]) -> tuple[int, Any]:
        """Create a connector or change its configuration."""
        return self.ask("PUT", f"{path_of(name)}/config", dict(config))

    def wait_until_it_has(self, name: str) -> None:
        """Wait until this worker, and not the one before it, says of a connector that it has it."""
        me = self.url.removeprefix("http://")

        def mine() -> bool:
            self.process.require_alive()
            status, answer = self.ask("GET", f"{path_of(name)}/status")
            return status == 200 and bool(answer["connector"]["worker_id"] == me)

        wait_for(mine, START_S, f"{name} is on {me}")

    def wait_for_state(self, name: str, state: str, tasks: int | None = None) -> dict[str, Any]:
        """Wait until a connector is in a state, and has so many tasks; returns its status."""
        last: list[Any] = []

        def reached() -> bool:
            self.process.require_alive()
            status, answer = self.ask("GET", f"{path_of(name)}/status")
            last[:] = [status, answer]
            return (
                status == 200
                and answer["connector"]["state"] == state
                and (tasks is None or [task["state"] for task in answer["tasks"]] == [state] * tasks)
            )

        try:
            wait_for(reached, START_S, f"{name} is {state}")
        except TimeoutError as error:
            raise TimeoutError(f"{error}; {last}\n{self.log}") from error
        return dict(last[1])


def shared(group: str) -> dict[str, str]:
    """The settings that the workers of a group have in common."""
    return {
        "group.id": group,
        **{f"{kind}.storage.topic": f"{group}-{name}" for kind, name in STORAGE.items()},
        **{f"{kind}.storage.replication.factor": "1" for kind in STORAGE},
        "offset.storage.partitions": "3",
    }


def connect_child(version: str, properties: Path, home: Path) -> Child:
    """Connect's own worker that starts with a properties file."""
    parts: Parts = "all" if version == KAFKA_VERSION else "connect"
    return JavaWorker(version=version, work_dir=home, settings=properties, parts=parts).process


STORAGE = {"config": "configs", "offset": "offsets", "status": "status"}


def path_of(name: str) -> str:
    """The path of a connector."""
    return f"/connectors/{quote(name, safe='')}"


def connector(kind: str, source: KafkaCluster, target: KafkaCluster, aliases: str, **settings: str) -> dict[str, str]:
    """The configuration of a connector `Source`, `Checkpoint` or `Heartbeat` from `aliases` a->b."""
    here, there = aliases.split("->")
    return {
        "connector.class": f"{MIRROR}{kind}Connector",
        **source.java_settings("mirrormaker", "source.cluster."),
        **target.java_settings("mirrormaker", "target.cluster."),
        **target.java_settings("mirrormaker", "producer.override."),
        "source.cluster.alias": here,
        "target.cluster.alias": there,
        **CONNECTORS_ONE_REPLICA,
        # Other tests of these clusters have heartbeats, too, which would be copied.
        "heartbeats.replication.enabled": "false",
        "refresh.topics.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
        **{key.replace("_", "."): value for key, value in settings.items()},
    }
