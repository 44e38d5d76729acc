"""`twinlog run` as a child process, with a properties file made for a test."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from harness.child import Child, below, named
from harness.cluster import KafkaCluster
from harness.wait import wait_for

START_DEADLINE_S = 120.0
COMMAND = (sys.executable, "-m", "twinlog", "run")
WITHOUT_PAGES = ("--conf", "spark.ui.enabled=false")
"""Nobody looks at Spark's pages, and each start would start a web server for them."""


GROUPS_EVERY_SECOND = {
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
    "emit.checkpoints.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "offset-syncs.topic.replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
}
"""Settings of a flow whose groups follow within a second, on clusters of a single broker."""


def flow_properties(flow: str, source: KafkaCluster, target: KafkaCluster, settings: Mapping[str, str]) -> str:
    """Lines of a properties file for one flow `a->b`; `settings` are those of the flow, without its prefix.

    Every topic has one replica; new topics are looked for every second. Nothing but topics is mirrored.
    """
    here, there = flow.split("->")
    lines = {
        f"{here}.bootstrap.servers": source.bootstrap,
        f"{there}.bootstrap.servers": target.bootstrap,
        f"{there}.offset.storage.replication.factor": "1",
        f"{there}.offset.storage.partitions": "3",
    }
    own = {
        "enabled": "true",
        "replication.factor": "1",
        "refresh.topics.interval.seconds": "1",
        "heartbeats.replication.enabled": "false",
        **settings,
    }
    lines |= {f"{flow}.{key}": value for key, value in own.items()}
    return "".join(f"{key} = {value}\n" for key, value in lines.items())


class MirrorProcess:
    """One `twinlog run`; its log goes on over restarts, what is waited for was logged since the last start.

    `command` is another one that takes the file and the options, such as spark-submit's.
    """

    def __init__(
        self, home: Path, clusters: str, properties: str, *options: str, command: Sequence[str] | None = None
    ) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.file = home / "mm2.properties"
        self.file.write_text(f"clusters = {clusters}\n{properties}")
        words = [*COMMAND, str(self.file), *WITHOUT_PAGES] if command is None else [*command, str(self.file)]
        self.process = Child("twinlog", [*words, *options], home / "twinlog.log")
        self._begin = 0

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process.alive

    def start(self) -> MirrorProcess:
        """Start without waiting for anything."""
        self._begin = len(self._text())
        self.process.start()
        return self

    def restart(self) -> MirrorProcess:
        """Start again; it must have ended."""
        return self.start()

    def _text(self) -> str:
        return self.process.log.read_text(encoding="utf-8", errors="replace") if self.process.log.exists() else ""

    @property
    def log(self) -> str:
        """What it logged since it was started last."""
        return self._text()[self._begin :]

    def wait_for_line(self, pattern: str, deadline_s: float = START_DEADLINE_S, *, times: int = 1) -> str:
        """Wait until lines that match were logged `times` times since the last start, and return the last of these.

        Fails at once when it ended.
        """
        wanted = re.compile(pattern)

        def logged() -> str | None:
            alive = self.process.alive
            found = [line for line in self.log.splitlines() if wanted.search(line)]
            if len(found) < times and not alive:
                raise AssertionError(f"twinlog ended before it logged {pattern!r}:\n{self.log}")
            return found[times - 1] if len(found) >= times else None

        try:
            return wait_for(logged, deadline_s, f"twinlog logs {pattern!r}")
        except TimeoutError as late:
            raise AssertionError(f"{late}\n{self.log}") from late

    def wait(self, deadline_s: float) -> int:
        """Wait until it ends by itself; its exit code."""
        try:
            return self.process.wait(deadline_s)
        except TimeoutError as late:
            raise AssertionError(f"{late}\n{self.log}") from late

    def terminate(self, deadline_s: float = 60.0) -> int:
        """SIGTERM; its exit code. Fails when it does not end in time."""
        psutil.Process(self.pid).terminate()
        return self.wait(deadline_s)

    def kill(self) -> None:
        """SIGKILL the driver, as a crashed machine would; what it started has to end by itself."""
        self.process.kill()

    def jvm(self) -> psutil.Process:
        """Spark's, of which there is one."""
        (jvm,) = named("java", self.descendants())
        return jvm

    def bridges(self) -> list[psutil.Process]:
        """The processes of the bridge, which copies while Spark has no task."""
        return [one for one in self.descendants() if "twinlog.spark.bridge" in " ".join(one.cmdline())]

    def wait_for_tasks(self, flow: str) -> None:
        """Wait until Spark's tasks copy a flow in place of the bridge."""
        self.wait_for_line(rf"{re.escape(flow)}: Spark's tasks copy now", START_DEADLINE_S)

    def descendants(self) -> list[psutil.Process]:
        """Processes that it started and that still run."""
        return below(self.pid)
