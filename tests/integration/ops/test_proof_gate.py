"""A switchover of a flow that proves its copies: it waits for the proof, signs it, and a difference prevents it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.child import Child
from harness.cluster import KafkaCluster
from harness.pair import side_by_side
from harness.produce import numbered, produce
from harness.topics import create_topic, offsets
from harness.wait import wait_for
from twinlog.ops.verify.signing import VerifyingKey
from twinlog.ops.verify.statement import read_statement

COMMAND_S = 240.0
PARTITIONS = 2
QUICK = {"group.initial.rebalance.delay.ms": "0"}


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    east, west = (KafkaCluster(name, sasl=False, heap="256m", config=QUICK) for name in ("east", "west"))
    with side_by_side(east, west) as both:
        yield both


class ProvingFlow:
    """A flow in a process of its own, and the commands of an operator beside it."""

    def __init__(self, home: Path, east: KafkaCluster, west: KafkaCluster, topic: str) -> None:
        self.home = home
        self.file = home / "mm2.properties"
        lines = {
            "clusters": "east, west",
            "east.bootstrap.servers": east.bootstrap,
            "west.bootstrap.servers": west.bootstrap,
            "replication.factor": "1",
            "offset.storage.replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "topics": topic,
            "emit.heartbeats.enabled": "false",
            "east->west.enabled": "true",
            "east->west.twinlog.proof": "true",
            "refresh.topics.interval.seconds": "1",
        }
        self.file.write_text("".join(f"{key} = {value}\n" for key, value in lines.items()))
        self.process = Child("flow", [sys.executable, "-m", "twinlog", "run", str(self.file)], home / "flow.log")

    def ask(self, *words: str | Path, code: int = 0) -> str:
        """Run a command to its end; returns both outputs."""
        done = subprocess.run(
            [sys.executable, "-m", "twinlog", *map(str, words)],
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_S,
        )
        assert done.returncode == code, done.stdout + done.stderr + self.process.log_tail()
        return done.stdout if code == 0 else done.stdout + done.stderr

    def switchover(self, *words: str | Path, wave: str = "first", code: int = 0) -> str:
        there = ("--from", "east", "--to", "west", "--fence", "none", "--wave", wave)
        return self.ask("switchover", self.file, *there, *words, code=code)

    def proven(self) -> dict[str, object] | None:
        """The proof of the flow by `twinlog status`."""
        (flow,) = json.loads(self.ask("status", self.file, "-o", "json"))["flows"]
        found: dict[str, object] | None = flow["proof"]
        return found


@pytest.mark.scenario
def test_a_switchover_waits_for_the_proof_signs_it_and_refuses_a_difference(
    pair: tuple[KafkaCluster, KafkaCluster], tmp_path: Path, topic_name: str
) -> None:
    east, west = pair
    topic, remote = topic_name, f"east.{topic_name}"
    create_topic(east, topic, PARTITIONS)
    for partition in range(PARTITIONS):
        produce(east, topic, numbered(400), partition=partition, codec="lz4", per_batch=40)
        produce(east, topic, numbered(100, start=400), partition=partition, per_batch=1)
        produce(east, topic, numbered(60, start=500), partition=partition, transactional_id=f"tx-{partition}")
    flow = ProvingFlow(tmp_path, east, west, topic)
    flow.process.start()
    try:
        wait_for(
            lambda: (found := flow.proven()) is not None and found["partitions"] == PARTITIONS and found["records"],
            COMMAND_S,
            "the flow proves its copies",
            every_s=1.0,
        )
        rehearsed = json.loads(flow.switchover("--dry-run", "-o", "json"))
        assert (rehearsed["problems"], rehearsed["proven"]) == ([], [topic])

        path, key = tmp_path / "handover", tmp_path / "proof.key"
        flow.ask("keygen", "--out", key)
        flow.switchover("--report", path, "--sign", key)
        report = json.loads(path.with_name("handover.json").read_text())
        assert report["state"] == "done"
        assert (report["proof"]["partitions"], report["proof"]["differences"]) == (PARTITIONS, 0)
        assert report["proof"]["records"] == 560 * PARTITIONS
        # The last offset of the source is that of a marker.
        ends = [offsets(east, topic, number)[1] for number in range(PARTITIONS)]
        assert all(
            row["proof"]["source_offset"] >= end - 1 for row, end in zip(report["partitions"], ends, strict=True)
        )
        assert "Proven equal in 2 partitions: 1,120 records" in path.with_name("handover.md").read_text()

        statement, public = path.with_name("handover.statement.json"), Path(f"{key}.pub.pem")
        (stated,) = read_statement(statement, VerifyingKey.read(public)).flows
        assert sum(one.records for part in stated.partitions for one in part.proven) == 560 * PARTITIONS
        if shutil.which("openssl") is not None:
            words = ["pkeyutl", "-verify", "-pubin", "-inkey", public, "-rawin", "-in", statement]
            done = subprocess.run(
                ["openssl", *map(str, words), "-sigfile", f"{statement}.sig"],
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
            assert (done.returncode, "Signature Verified Successfully" in done.stdout + done.stderr) == (0, True)
        again = json.loads(flow.ask("verify", flow.file, "--against", statement, "--key", public, "-o", "json"))
        assert (again["equal"], again["records"]) == (True, 560 * PARTITIONS)
        assert [side["side"] for part in again["partitions"] for side in part["sides"]] == ["target"] * PARTITIONS

        # The flow still runs, and another program writes into a copy.
        produce(west, remote, numbered(1))
        wait_for(lambda: "TW-PROOF-01" in flow.process.log_tail(50), 60.0, "the difference is found")
        refused = wait_for(
            lambda: (text := flow.switchover("--dry-run", wave="second", code=1)) and "TW-PROOF-01" in text and text,
            30.0,
            "the difference is reported",
        )
        assert "has a record of another program" in refused
    finally:
        flow.process.terminate()
