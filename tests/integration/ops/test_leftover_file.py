"""A file that is left over from a hand-over differs from the file of the running process: the rehearsal finds it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from harness.cluster import KafkaCluster
from harness.produce import numbered, produce
from harness.topics import create_topic
from harness.wait import wait_for
from tests.integration.without_spark import FlowWithoutSpark
from twinlog.config import load
from twinlog.ops.status.flow import FlowReader

COMMAND_S = 120


def test_a_file_that_the_running_process_does_not_read_is_an_obstacle(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, new_name: Callable[[str], str], tmp_path: Path
) -> None:
    alias = new_name("v")
    topics = [create_topic(source_cluster, new_name("t"), 1) for _ in range(2)]
    for topic in topics:
        produce(source_cluster, topic, numbered(10))
    text = (
        f"clusters = {alias}, there\n{alias}.bootstrap.servers = {source_cluster.bootstrap}\n"
        f"there.bootstrap.servers = {target_cluster.bootstrap}\n{alias}->there.enabled = true\n"
        f"replication.factor = 1\noffset.storage.replication.factor = 1\noffset-syncs.topic.replication.factor = 1\n"
        f"{alias}->there.topics = {', '.join(topics)}\nemit.heartbeats.enabled = false\n"
    )

    def rehearse(name: str, more: str) -> tuple[int, str]:
        path = tmp_path / f"{name}.properties"
        path.write_text(text + more)
        command = ["switchover", path, "--from", alias, "--to", "there", "--dry-run", "--fence", "none"]
        done = subprocess.run(
            [sys.executable, "-m", "twinlog", *map(str, command)],
            check=False, capture_output=True, text=True, timeout=COMMAND_S,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    file = tmp_path / "mm2.properties"
    file.write_text(text)
    (settings,) = (one for one in load(file).flows if one.enabled)
    with FlowWithoutSpark(settings, 2), FlowReader(settings) as reader:
        wait_for(lambda: reader.read().lag == 0, 60, "the flow reports that all is copied")
        code, told = rehearse("wave", f"{alias}->there.topics = {topics[0]}\nthere.group.id = {alias}-wave\n")
        assert code == 1, told
        assert f"runs flow {alias}->there in group {alias}-mm2, and FILE has group {alias}-wave" in told
        assert "start the flow" not in told
        code, told = rehearse("part", f"{alias}->there.topics = {topics[0]}\n")
        assert code == 1, told
        assert f"{topics[1]}: process " in told
        code, told = rehearse("same", "")
        assert "FILE has group" not in told
        assert "leaves producers there behind" not in told
