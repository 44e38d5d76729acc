"""Runs `twinlog run` with a properties file, and ends what a test leaves running."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.cluster import KafkaCluster
from harness.wait import wait_for
from tests.integration.mirror_process import MirrorProcess


class RunTwinlog:
    """Call it with the aliases of the file, its other lines, and options of the command: the process has started then.

    Each process has a directory of its own below `home`, with the file and the log.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._started: list[tuple[MirrorProcess, int]] = []

    def __call__(
        self, clusters: str, properties: str, *options: str, command: Sequence[str] | None = None
    ) -> MirrorProcess:
        home = self._home / f"run-{len(self._started)}"
        process = MirrorProcess(home, clusters, properties, *options, command=command)
        process.start()
        self._started.append((process, process.pid))
        return process

    def close(self) -> None:
        """Kill what still runs, with everything that it started."""
        for process, group in self._started:
            process.kill()
            try:
                os.killpg(group, signal.SIGKILL)
            except ProcessLookupError:
                continue


def sasl_properties(aliases: Mapping[str, KafkaCluster], user: str) -> str:
    """Lines by which clusters are reached with SASL/PLAIN; they win over what stands before them."""
    return "".join(
        f"{key} = {value}\n"
        for alias, cluster in aliases.items()
        for key, value in cluster.java_settings(user, f"{alias}.").items()
    )


def wait_until_gone(group: int, deadline_s: float) -> None:
    """Wait until no process of a group is left, and so neither Spark's JVM nor its workers."""

    def gone() -> bool:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        return False

    wait_for(gone, deadline_s, f"no process of group {group} is left")
