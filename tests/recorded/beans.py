"""Keeps the MBeans of a real MirrorMaker 2 that copies a topic and follows a group, as `beans.tsv`: run by hand.

$ .venv/bin/python -m tests.recorded.beans
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from harness.child import Child
from harness.cluster import KafkaCluster
from harness.connect.mm2 import MAIN_CLASS
from harness.groups import commit_offsets
from harness.jvm.command import jvm_command
from harness.jvm.java import java_command
from harness.ports import claim_port
from harness.produce import numbered, produce
from harness.topics import create_topic
from harness.wait import wait_for

HERE = Path(__file__).parent
WANTED = ("type=MirrorSourceConnector", "type=MirrorCheckpointConnector", "type=plugins")
START_S = 180.0


def main() -> None:
    home = Path(tempfile.mkdtemp(prefix="twinlog-beans-"))
    east, west = KafkaCluster("east", heap="256m"), KafkaCluster("west", heap="256m")
    port = claim_port()
    mirror: Child | None = None
    try:
        for cluster in (east, west):
            cluster.start_async()
        for cluster in (east, west):
            cluster.wait_ready()
        create_topic(east, "orders")
        produce(east, "orders", numbered(100))
        file = home / "mm2.properties"
        file.write_text(_properties(east, west))
        command = [*jvm_command("512m", "quick", MAIN_CLASS), str(file)]
        command[1:1] = [f"-Dcom.sun.management.jmxremote.{name}" for name in _jmx(port)]
        mirror = Child("MirrorMaker 2", command, home / "mm2.log")
        mirror.start()
        commit_offsets(east, {"app": {("orders", 0): 50}})

        def recorded() -> str | None:
            # Groups are followed while they move.
            produce(east, "orders", numbered(10))
            found = subprocess.run(
                [java_command(), str(HERE / "RecordBeans.java"), str(port)],
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            text = found.stdout
            return text if all(word in text for word in WANTED) else None

        text = wait_for(recorded, START_S, "every connector has its beans")
        (HERE / "beans.tsv").write_text(text or "", encoding="utf-8")
    finally:
        if mirror is not None:
            mirror.kill()
        east.close()
        west.close()


def _jmx(port: int) -> list[str]:
    return [f"port={port}", f"rmi.port={port}", "host=127.0.0.1", "authenticate=false", "ssl=false"]


def _properties(east: KafkaCluster, west: KafkaCluster) -> str:
    factors = ("replication.factor", "checkpoints.topic.replication.factor", "heartbeats.topic.replication.factor")
    factors = (*factors, "offset-syncs.topic.replication.factor", "offset.storage.replication.factor")
    factors = (*factors, "status.storage.replication.factor", "config.storage.replication.factor")
    return "\n".join(
        [
            "clusters = east, west",
            f"east.bootstrap.servers = {east.bootstrap}",
            f"west.bootstrap.servers = {west.bootstrap}",
            "east->west.enabled = true",
            "east->west.topics = orders",
            "metric.names.formats = legacy,new",
            "emit.checkpoints.interval.seconds = 1",
            "refresh.groups.interval.seconds = 1",
            *(f"{name} = 1" for name in factors),
            "",
        ]
    )


if __name__ == "__main__":
    main()
