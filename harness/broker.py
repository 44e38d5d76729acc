"""One KRaft node (broker and controller in one process) that can be killed, suspended and restarted on its ports."""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.child import Child
from harness.errors import HarnessError
from harness.jvm.command import jvm_command
from harness.jvm.jars import Parts, cache_dir, locked
from harness.ports import claim_port, release_port
from harness.traffic.request_counter import counter_settings


def to_properties(settings: Mapping[str, str]) -> str:
    """Settings as the text of a Java properties file, in ASCII."""
    lines = (f"{key}={value}".replace("\\", "\\\\").replace("\n", "\\n") for key, value in settings.items())
    return re.sub(r"[^\x00-\x7e]", lambda match: f"\\u{ord(match[0]):04x}", "\n".join(lines)) + "\n"


def new_kafka_id() -> str:
    """A random id in Kafka's base64 form; never begins with a dash, which Kafka's tools would take for an option."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text


@dataclass(frozen=True, slots=True)
class Ports:
    """Loopback ports of one node: without authentication, with SASL/PLAIN, and the controller's.

    `more` are those of further listeners, by name.
    """

    plaintext: int
    sasl: int
    controller: int
    more: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def claim(cls, more: Iterable[str] = ()) -> Ports:
        return cls(claim_port(), claim_port(), claim_port(), {name: claim_port() for name in more})

    def release(self) -> None:
        for port in (self.plaintext, self.sasl, self.controller, *self.more.values()):
            release_port(port)


class Broker:
    """One node of a KafkaCluster; `home` holds its settings, data and log file.

    `counts` is where it counts requests, see `harness.traffic.request_counter`.
    """

    def __init__(
        self,
        name: str,
        node_id: int,
        ports: Ports,
        home: Path,
        command: list[str],
        version: str,
        parts: Parts,
        counts: Path | None,
    ) -> None:
        self.node_id = node_id
        self.ports = ports
        self.data = home / "data"
        self._settings = home / "server.properties"
        self.counts = counts
        self._version = version
        self._parts = parts
        self.process = Child(name, [*command, str(self._settings)], home / "broker.log")

    @property
    def pid(self) -> int:
        return self.process.pid

    def format(self, cluster_id: str, settings: Mapping[str, str]) -> None:
        """Write settings and an empty, formatted data directory. Called once in a node's life."""
        format_storage(self.data, cluster_id, str(self.node_id), self._version, self._parts)
        self.write_settings(settings)

    def write_settings(self, settings: Mapping[str, str]) -> None:
        """Write the settings that the next start takes."""
        self.data.mkdir(parents=True, exist_ok=True)
        own = {"log.dirs": str(self.data), **(counter_settings(self.counts, self._version) if self.counts else {})}
        self._settings.write_text(to_properties({**settings, **own}), encoding="utf-8")


def format_storage(data: Path, cluster_id: str, node_id: str, version: str, parts: Parts = "all") -> None:
    """Make `data` an empty, formatted data directory of a node."""
    shutil.copytree(_bootstrap_metadata(version, parts), data, dirs_exist_ok=True)
    identity = {"version": "1", "cluster.id": cluster_id, "node.id": node_id, "directory.id": new_kafka_id()}
    (data / "meta.properties").write_text(to_properties(identity), encoding="utf-8")


def _bootstrap_metadata(version: str, parts: Parts) -> Path:
    """A folder with the feature levels a new cluster starts with, as Kafka's own storage tool writes them.

    They are a file `bootstrap.checkpoint`, and since Kafka 4.4 the first snapshot of the metadata's own log.

    They depend on nothing but the version, so the tool (one JVM start, about a second) runs once and not per node.
    """
    kept = cache_dir() / "kafka" / f"{version}.bootstrap"
    with locked(kept.with_name(f"{kept.name}.lock")):
        if kept.is_dir():
            return kept
        with tempfile.TemporaryDirectory(prefix=f".{version}-", dir=kept.parent) as work:
            settings = Path(work, "server.properties")
            settings.write_text(
                to_properties(
                    {
                        "process.roles": "broker,controller",
                        "node.id": "1",
                        "listeners": "CONTROLLER://127.0.0.1:1,PLAINTEXT://127.0.0.1:2",
                        "controller.listener.names": "CONTROLLER",
                        "controller.quorum.voters": "1@127.0.0.1:1",
                        "log.dirs": str(Path(work, "data")),
                    }
                ),
                encoding="utf-8",
            )
            command = jvm_command("128m", "quick", "kafka.tools.StorageTool", version, parts)
            command += ["format", "--cluster-id", new_kafka_id(), "--config", str(settings)]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
            written = Path(work, "data")
            if done.returncode != 0 or not any(written.rglob("*.checkpoint")):
                raise HarnessError(f"Kafka {version}'s storage tool failed:\n{done.stdout}{done.stderr}")
            (written / "meta.properties").unlink()
            written.rename(kept)
    return kept
