"""Apache Kafka's own MirrorMaker 2 in its dedicated mode: to compare with, take over from and hand back to."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from harness.child import Child
from harness.jvm.command import Jit, jvm_command
from harness.jvm.jars import KAFKA_VERSION, Parts

MAIN_CLASS = "org.apache.kafka.connect.mirror.MirrorMaker"

EVERY_SECOND: Mapping[str, str] = {
    "emit.checkpoints.interval.seconds": "1",
    "refresh.topics.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
}
"""A file's keys with which topics, groups and their offsets are followed within a test's patience."""

CONNECTORS_ONE_REPLICA: Mapping[str, str] = {
    "replication.factor": "1",
    **{f"{kind}.topic.replication.factor": "1" for kind in ("checkpoints", "heartbeats", "offset-syncs")},
}
"""The keys of connectors for clusters of a single broker."""

ONE_REPLICA: Mapping[str, str] = {
    **CONNECTORS_ONE_REPLICA,
    **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
}
"""The keys of a file for clusters of a single broker."""


def _quick_plugins(properties: str) -> str:
    """Lines by which Connect takes its plugins as their jars list them (KIP-898).

    It would look through all classes of the class path, for each cluster anew: seconds of a processor.
    """
    listed = re.search(r"^clusters\s*=(.*)$", properties, re.MULTILINE)
    aliases = [] if listed is None else [f"{alias.strip()}." for alias in listed[1].split(",")]
    return "".join(f"\n{prefix}plugin.discovery = service_load" for prefix in ("", *aliases)) + "\n"


class MirrorMaker2:
    """`connect-mirror-maker` with the given properties text; the log file stays in `work_dir`.

    `clusters` is its `--clusters` option. It counts as started once the process runs: wait for what it should have
    done (a topic, records) with `harness.wait.wait_for`, and pass `process.require_alive` failures on.
    """

    def __init__(
        self,
        properties: str,
        *,
        heap: str = "1g",
        jit: Jit = "full",
        clusters: Sequence[str] = (),
        version: str = KAFKA_VERSION,
        work_dir: Path | None = None,
    ) -> None:
        home = work_dir or Path(tempfile.mkdtemp(prefix="twinlog-mm2-"))
        home.mkdir(parents=True, exist_ok=True)
        file = home / "mm2.properties"
        file.write_text(properties + (_quick_plugins(properties) if jit == "quick" else ""), encoding="utf-8")
        # Of another version than the brokers' only MirrorMaker 2 itself is fetched.
        parts: Parts = "all" if version == KAFKA_VERSION else "mirror"
        command = [*jvm_command(heap, jit, MAIN_CLASS, version, parts), str(file)]
        if clusters:
            command += ["--clusters", *clusters]
        self.process = Child("MirrorMaker 2", command, home / "mm2.log")

    @property
    def pid(self) -> int:
        """For CPU time and resident memory."""
        return self.process.pid

    def start(self) -> MirrorMaker2:
        self.process.start()
        return self

    def stop(self, deadline_s: float = 30.0) -> bool:
        """SIGTERM, on which it commits its offsets; SIGKILL and False after the deadline."""
        return self.process.terminate(deadline_s)

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()

    def __enter__(self) -> MirrorMaker2:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
