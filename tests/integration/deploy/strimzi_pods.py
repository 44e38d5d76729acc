"""Containers of Strimzi's operator for tests, with twinlog's worker or with Kafka's own.

The operator's side is `harness.containers.strimzi`, written after Strimzi's public sources, without Kubernetes.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.connect.worker import ConnectWorker as JavaWorker
from harness.containers.strimzi.operator import Desired, Operator
from harness.containers.strimzi.pod import PodContainer
from harness.containers.strimzi.release import Release, Resource, connector_configs
from harness.jvm.jars import KAFKA_VERSION
from harness.ports import claim_port, release_port
from harness.wait import wait_for

DEADLINE_S = 240.0
SOURCE, CHECKPOINT = "MirrorSourceConnector", "MirrorCheckpointConnector"
OURS = Path(sys.executable).parent / "connect-distributed.sh"
QUICK = {"refresh.topics.interval.seconds": "1", "refresh.groups.interval.seconds": "1"}
CONNECTORS: Mapping[str, Mapping[str, str]] = {
    SOURCE: {
        "replication.factor": "-1",
        "offset-syncs.topic.replication.factor": "-1",
        "sync.topic.acls.enabled": "false",
        "heartbeats.replication.enabled": "false",
        **QUICK,
    },
    CHECKPOINT: {
        "checkpoints.topic.replication.factor": "-1",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
        "emit.checkpoints.interval.seconds": "1",
        **QUICK,
    },
}
STORAGE = {
    **{f"{kind}.storage.replication.factor": "-1" for kind in ("config", "offset", "status")},
    "offset.storage.partitions": "3",
}


@dataclass
class PodWorker:
    """A pod of the operator on a port of its own, and the operator beside it."""

    pod: PodContainer
    operator: Operator
    port: int

    def start(self) -> PodWorker:
        """Start the container, and wait until the operator's readiness probe succeeds."""
        self.pod.process.start()
        return self.wait_until_ready()

    def wait_until_ready(self) -> PodWorker:
        wait_for(lambda: self.health() == 200, DEADLINE_S, f"{self.pod.process.name} is ready")
        return self

    def health(self) -> int:
        """The status of the probe; 0 without an answer."""
        self.pod.process.require_alive()
        try:
            return self.operator.ask("GET", "/health")[0]
        except (OSError, ValueError):
            # Jetty itself answers before a worker of Kafka's does.
            return 0

    def wait_for_state(self, name: str, state: str, tasks: int | None = None) -> Any:
        """Wait until a connector and `tasks` tasks are in a state, and return its status."""
        last: list[Any] = []

        def reached() -> bool:
            self.pod.process.require_alive()
            code, answer = self.operator.ask("GET", f"/connectors/{name}/status")
            last[:] = [code, answer]
            return (
                code == 200
                and answer["connector"]["state"] == state
                and (tasks is None or [task["state"] for task in answer["tasks"]] == [state] * tasks)
            )

        try:
            wait_for(reached, DEADLINE_S, f"{name} is {state}")
        except TimeoutError as error:
            raise TimeoutError(f"{error}: {last}\n{self.pod.log[-4000:]}") from error
        return last[1]

    def close(self) -> None:
        self.pod.process.kill()
        release_port(self.port)


def kafkas_worker(folder: Path) -> Path:
    """The file connect-distributed.sh of Kafka's own image."""
    java = JavaWorker(version=KAFKA_VERSION, work_dir=folder, settings=folder / "unused.properties", parts="all")
    *command, _ = java.process.command
    script = folder / "kafkas-connect-distributed.sh"
    quoted = " ".join(f"'{word}'" for word in command)
    script.write_text(f'#!/bin/sh\nexec {quoted} "$1"\n')
    script.chmod(0o755)
    return script


@dataclass
class Pods:
    """Starts containers, and ends them with the test."""

    folder: Path
    made: list[PodWorker] = field(default_factory=list)

    def make(
        self,
        release: Release,
        resource: Resource,
        secrets: Mapping[str, Mapping[str, str]],
        *,
        kafkas: bool = False,
        api_server: Mapping[str, str] | None = None,
        more: Mapping[str, str] | None = None,
    ) -> PodWorker:
        """A container of the operator with twinlog's worker, or with Kafka's own."""
        root = self.folder / f"pod-{len(self.made)}"
        root.mkdir()
        port = claim_port()
        # The class that asks Kubernetes is in Strimzi's image alone.
        plain = {"config.providers": "strimzienv,strimzifile,strimzidir", "plugin.discovery": "service_load"}
        lines = {"rest.advertised.host.name": "127.0.0.1", **(plain if kafkas else {}), **(more or {})}
        worker = kafkas_worker(root) if kafkas else OURS
        pod = PodContainer(root, release, resource, secrets, worker, port=port, api_server=api_server, more=lines)
        self.made.append(PodWorker(pod, Operator(release, f"http://127.0.0.1:{port}"), port))
        return self.made[-1]


def desired(release: Release, resource: Resource, pod: PodContainer) -> dict[str, Desired]:
    """The connectors of the resource, as the operator wants them."""
    configs = connector_configs(release, resource)
    return {name: Desired({key: pod.here(value) for key, value in one.items()}) for name, one in configs.items()}
