"""`connect-mirror-maker` in place of MirrorMaker 2: the command line of a unit file, its environment, its signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from harness.child import Child
from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.produce import numbered, produce
from harness.topics import create_topic, offsets, topics
from harness.wait import wait_for
from tests.integration.mirror_process import flow_properties

SCRIPT = (sys.executable, "-m", "twinlog.connect_mirror_maker")
COPY_S = 120.0
POLICY = """
class After:
    def remote_name(self, alias, topic): return f"{topic}.of-{alias}"
    def source_alias(self, topic): return topic.partition(".of-")[2] or None
    def upstream_name(self, topic): return topic.partition(".of-")[0] if ".of-" in topic else None
"""
STOP_S = 60.0


@pytest.fixture
def children() -> Iterator[list[psutil.Process]]:
    """Processes that a test detached; each leads a group of its own."""
    started: list[psutil.Process] = []
    yield started
    for process in started:
        with suppress(ProcessLookupError):
            if process.is_running():
                os.killpg(process.pid, signal.SIGKILL)


def detached(file: Path) -> psutil.Process:
    """The process that runs with this file and has no terminal any more."""

    def find() -> psutil.Process | None:
        for process in psutil.process_iter(["cmdline"]):
            # The processes in between end.
            with suppress(ProcessLookupError):
                if str(file) in (process.info["cmdline"] or ()) and os.getsid(process.pid) == process.pid:
                    return process
        return None

    found = wait_for(find, 60, "the detached process is there")
    assert found is not None
    return found


def test_as_a_daemon_it_copies_and_ends_at_sigterm(
    clusters: tuple[KafkaCluster, KafkaCluster],
    new_name: Callable[[str], str],
    tmp_path: Path,
    children: list[psutil.Process],
) -> None:
    left, right = clusters
    here, there, topic = new_name("here"), new_name("there"), new_name("t")
    create_topic(left, topic)
    produce(left, topic, numbered(500))
    file = tmp_path / "mm2.properties"
    (tmp_path / "own_names.py").write_text(POLICY)
    settings = {"topics": topic, "replication.policy.class": "own_names:After"}
    file.write_text(
        f"clusters = {here}, {there}\n"
        + flow_properties(f"{here}->{there}", left, right, settings)
        + f"{there}->{here}.enabled = true\nemit.heartbeat.enabled = true\nemit.heartbeats.enabled = false\n"
    )
    logs = tmp_path / "logs"
    environment = {
        **os.environ,
        "LOG_DIR": str(logs),
        "KAFKA_HEAP_OPTS": "-Xms256M -Xmx2G",
        "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
    }
    command = [*SCRIPT, "-daemon", str(file), "--clusters", there]
    started = subprocess.run(command, env=environment, timeout=120, check=False, capture_output=True, text=True)
    assert (started.returncode, started.stdout) == (0, "")
    assert started.stderr.endswith(f"continues in the background and logs to {logs / 'mirrorMaker.out'}\n")
    process = detached(file)
    children.append(process)
    remote = f"{topic}.of-{here}"

    def copied() -> bool:
        assert process.is_running(), log()
        return remote in topics(right) and offsets(right, remote, 0)[1] >= 500

    def log() -> str:
        return (logs / "mirrorMaker.out").read_text("utf-8", "replace")

    wait_for(copied, COPY_S, "the records are copied")
    process.terminate()
    process.wait(STOP_S)
    assert [record.value for record in consume(right, remote)] == [record.value for record in numbered(500)]
    logged = log()
    assert logged.count("KAFKA_HEAP_OPTS: meant for a Java process of Kafka") == 1
    assert "emit.heartbeat.enabled: unknown key, ignored" in logged
    assert "did you mean emit.heartbeats.enabled?" in logged
    assert "Traceback" not in logged
    # The way back was enabled too, but its target was not asked for.
    assert not [name for name in topics(left) if name.endswith(f".of-{there}")]


def test_where_no_flow_leads_it_writes_heartbeats(
    clusters: tuple[KafkaCluster, KafkaCluster], new_name: Callable[[str], str], tmp_path: Path
) -> None:
    left, right = clusters
    here, there = new_name("here"), new_name("there")
    file = tmp_path / "mm2.properties"
    file.write_text(
        f"clusters = {here}, {there}\nheartbeats.topic.replication.factor = 1\n"
        + flow_properties(f"{here}->{there}", left, right, {})
    )
    child = Child("connect-mirror-maker", [*SCRIPT, str(file), "--clusters", here], tmp_path / "log")
    child.start()
    try:
        wait_for(lambda: _beats(left, there, here), 60, "heartbeats of the way back are there")
        psutil.Process(child.pid).send_signal(signal.SIGTERM)
        assert child.wait(STOP_S) == 0
    finally:
        child.kill()


def _beats(cluster: KafkaCluster, source: str, target: str) -> bool:
    key = b"".join(len(name).to_bytes(2, "big") + name.encode() for name in (source, target))
    return "heartbeats" in topics(cluster) and any(record.key == key for record in consume(cluster, "heartbeats"))
