"""A flow of a topic that runs, and the console beside it."""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.child import Child, Started
from harness.cluster import KafkaCluster
from harness.groups import commit_offsets
from harness.ports import claim_port, release_port
from harness.produce import numbered, produce
from harness.topics import create_topic
from harness.wait import wait_for
from tests.integration.mirror_process import GROUPS_EVERY_SECOND, MirrorProcess, flow_properties
from tests.integration.ui.visitor import Visitor

START_S = 180.0


class ShownRun(Started):
    """A process that runs flows, and a console beside it."""

    def __init__(self, home: Path, clusters: str, lines: str) -> None:
        self.run = MirrorProcess(home, clusters, lines)
        self.port = claim_port()
        command = [sys.executable, "-m", "twinlog", "console", str(self.run.file), "--output-dir", str(home)]
        self.console = Child("console", [*command, "--listen", f"127.0.0.1:{self.port}"], home / "console.log")
        self.visitor = Visitor(self.port)

    @abstractmethod
    def wait_for_flows(self) -> None:
        """Wait until the process runs its flows."""

    def start(self) -> None:
        self.run.start()
        self.wait_for_flows()
        self.console.start()
        wait_for(self.visitor.is_served, START_S, "the console is served")

    def close(self) -> None:
        self.console.kill()
        self.run.kill()
        release_port(self.port)


class Scene(ShownRun):
    """A topic of two partitions with 40 and 60 records, and a group at offset 10 of the first."""

    def __init__(self, clusters: tuple[KafkaCluster, KafkaCluster], home: Path, names: Callable[[str], str]) -> None:
        self.left, self.right = clusters
        self.topic, self.group = create_topic(self.left, names("t"), 2), names("g")
        here, there = names("here"), names("there")
        self.flow, self.remote = f"{here}->{there}", f"{here}.{self.topic}"
        produce(self.left, self.topic, numbered(40), partition=0)
        produce(self.left, self.topic, numbered(60), partition=1)
        commit_offsets(self.left, {self.group: {(self.topic, 0): 10}})
        settings = {
            "topics": self.topic,
            "groups": self.group,
            "sync.group.offsets.enabled": "true",
            **GROUPS_EVERY_SECOND,
        }
        lines = flow_properties(self.flow, self.left, self.right, settings)
        self.own_port = claim_port()
        lines += f"twinlog.metrics.listeners = http://127.0.0.1:{self.own_port}\n"
        super().__init__(home, f"{here}, {there}", lines)

    def wait_for_flows(self) -> None:
        self.run.wait_for_tasks(self.flow)

    def close(self) -> None:
        super().close()
        release_port(self.own_port)

    def overview(self) -> Any:
        (found,) = self.visitor.json("/overview")["flows"]
        return found

    def partitions(self) -> list[dict[str, Any]]:
        shown = self.visitor.json("/topic", flow=self.flow, topic=self.topic)["partitions"]
        return sorted(shown["rows"], key=lambda row: int(row["partition"]))

    def act(self, verb: str) -> str:
        """Confirm an action as its page asks for it; returns the page of the outcome."""
        form = self.visitor.hidden("/topic/confirm", flow=self.flow, topic=self.topic, verb=verb)
        with self.visitor.open("/topic/act", form) as answer:
            return str(answer.read().decode())
