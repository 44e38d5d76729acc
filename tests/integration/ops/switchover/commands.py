"""Runs `twinlog switchover` and other commands on files of a pair of clusters, and reads the results."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from harness.acls import Acl
from harness.child import Child
from harness.cluster import KafkaCluster
from harness.connect.mm2 import CONNECTORS_ONE_REPLICA
from harness.groups import group_offsets
from harness.topics import offsets
from tests.integration.consuming import Member
from twinlog.console.signals import INTERRUPTED

COMMAND_S = 240.0
WRITER, MIRROR = "connect", "mirrormaker"
NOBODY = "127.0.0.1:1"
CHECKPOINTS = "east.checkpoints.internal"
PARTITIONS = 2
QUICK = {"quota.window.num": "3", "group.initial.rebalance.delay.ms": "0"}


class Commands:
    """Runs commands on the files of a test."""

    def __init__(self, home: Path, pair: tuple[KafkaCluster, KafkaCluster], topic: str, group: str) -> None:
        self.home = home
        self._pair = pair
        self._topic = topic
        self._group = group
        self._count = 0
        self.killed = 0

    def file(self, *flows: str, identity: bool = False, east_is_lost: bool = False) -> Path:
        """A file of both clusters in which these flows are enabled; nobody listens where a lost one was."""
        lines = {
            "clusters": "east, west",
            "east.bootstrap.servers": NOBODY if east_is_lost else self._pair[0].bootstrap,
            "west.bootstrap.servers": self._pair[1].bootstrap,
            **CONNECTORS_ONE_REPLICA,
            "offset.storage.replication.factor": "1",
            "topics": self._topic,
            "groups": f"{self._group}.*",
            "emit.heartbeats.enabled": "false",
            "sync.topic.configs.enabled": "false",
        }
        if identity:
            lines["replication.policy.class"] = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
        lines |= {f"{flow}.enabled": "true" for flow in flows}
        self._count += 1
        path = self.home / f"{self._count}.properties"
        path.write_text("".join(f"{key} = {value}\n" for key, value in lines.items()))
        return path

    def start(self, *words: str | Path) -> Child:
        self._count += 1
        command = [sys.executable, "-m", "twinlog", *map(str, words)]
        child = Child(f"command {self._count}", command, self.home / f"command-{self._count}.log")
        child.start()
        return child

    def text(self, child: Child) -> str:
        return child.log.read_text(encoding="utf-8") if child.log.exists() else ""

    def run(self, *words: str | Path, code: int | None = 0) -> str:
        """What a command wrote that ended with this code; None is any code: other topics have findings, too."""
        child = self.start(*words)
        ended = child.wait(COMMAND_S)
        assert code in (None, ended), self.text(child)
        return self.text(child)

    def kill_at(self, step: str, *words: str | Path, number: signal.Signals = signal.SIGKILL) -> str:
        """Send it a signal as soon as it says that a step has begun; what it wrote. Now and then it is at its end."""
        command = [sys.executable, "-m", "twinlog", *map(str, words)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
            assert process.stderr is not None
            told = []
            for line in process.stderr:
                told.append(line)
                if f" s  {step} " in line:
                    process.send_signal(number)
                    break
            told += list(process.stderr)
            code = process.wait(COMMAND_S)
        assert code in ((-number, 0) if number == signal.SIGKILL else (INTERRUPTED,)), "".join(told)
        self.killed += code != 0
        return "".join(told)

    def report(self, path: Path) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(path.with_name(path.name + ".json").read_text())
        return found


def producer_rights(topic: str) -> list[Acl]:
    return [Acl(topic, f"User:{WRITER}", "WRITE")]


def ends(cluster: KafkaCluster, topic: str) -> list[int]:
    return [offsets(cluster, topic, number)[1] for number in range(PARTITIONS)]


def stands(cluster: KafkaCluster, group: str, topic: str) -> list[int | None]:
    found = group_offsets(cluster, [group])[group]
    return [one.offset if (one := found.get((topic, number))) else None for number in range(PARTITIONS)]


def enter_group(stack: ExitStack, cluster: KafkaCluster, group: str, topic: str) -> None:
    """Have a consumer in the group of a flow's processes, where the process of a light flow would be; `topic` has
    records."""
    stack.enter_context(Member(cluster, group, [topic], "classic")).read(1)
