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
from harness.cluster import KafkaCluster, side_by_side
from harness.connect.mm2 import CONNECTORS_ONE_REPLICA
from harness.produce import numbered, produce
from harness.topics import create_topic, offsets
from harness.wait import wait_for
from twinlog.ops.verify.signing import VerifyingKey
from twinlog.ops.verify.statement import read_statement

COMMAND_S = 240.0
PARTITIONS = 2
MORE = 100
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
            **CONNECTORS_ONE_REPLICA,
            "offset.storage.replication.factor": "1",
            "topics": topic,
            "emit.heartbeats.enabled": "false",
            "east->west.enabled": "true",
            "east->west.twinlog.proof": "true",
            "refresh.topics.interval.seconds": "1",
        }
        self.file.write_text("".join(f"{key} = {value}\n" for key, value in lines.items()))
        self.process = Child("flow", [sys.executable, "-m", "twinlog", "run", str(self.file)], home / "flow.log")

    def run(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        command = [sys.executable, "-m", "twinlog", *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=COMMAND_S)

    def ask(self, *words: str | Path, code: int = 0) -> str:
        """What a command prints that ends with this code; both outputs unless the code is 0."""
        done = self.run(*words)
        assert done.returncode == code, done.stdout + done.stderr + self.process.log_tail()
        return done.stdout if code == 0 else done.stdout + done.stderr

    def switchover(self, *words: str | Path, wave: str = "first", code: int = 0) -> str:
        there = ("--from", "east", "--to", "west", "--fence", "none", "--wave", wave)
        return self.ask("switchover", self.file, *there, *words, code=code)

    def wait_proven(self, records: int) -> None:
        """Wait until so many records are proven by `twinlog status`, or out of the proof."""

        def reached() -> bool:
            # While the flow starts, the command ends with 1.
            (flow,) = json.loads(self.run("status", self.file, "-o", "json").stdout)["flows"]
            proof = flow["proof"]
            return proof is not None and proof["records"] + proof["unproved"] >= records and not proof["lag_s"]

        wait_for(reached, COMMAND_S, f"{records} records are proven", every_s=1.0)


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
        flow.wait_proven(560 * PARTITIONS)
        # Spark's tasks may have taken the partitions over: a range of theirs has these records.
        for partition in range(PARTITIONS):
            produce(east, topic, numbered(MORE, start=560), partition=partition, per_batch=20)
        flow.wait_proven((560 + MORE) * PARTITIONS)
        rehearsed = json.loads(flow.switchover("--dry-run", "-o", "json"))
        assert (rehearsed["problems"], rehearsed["proven"]) == ([], [topic])

        path, key = tmp_path / "handover", tmp_path / "proof.key"
        flow.ask("keygen", "--out", key)
        flow.switchover("--report", path, "--sign", key)
        report = json.loads(path.with_name("handover.json").read_text())
        assert report["state"] == "done"
        assert (report["proof"]["partitions"], report["proof"]["differences"]) == (PARTITIONS, 0)
        records = report["proof"]["records"]
        assert MORE * PARTITIONS <= records <= (560 + MORE) * PARTITIONS
        ends = [offsets(east, topic, number)[1] for number in range(PARTITIONS)]
        assert [row["proof"]["source_offset"] for row in report["partitions"]] == ends
        assert f"Proven equal in 2 partitions: {records:,} records" in path.with_name("handover.md").read_text()

        statement, public = path.with_name("handover.statement.json"), Path(f"{key}.pub.pem")
        (stated,) = read_statement(statement, VerifyingKey.read(public)).flows
        assert sum(one.records for part in stated.partitions for one in part.proven) == records
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
        assert (again["equal"], again["records"]) == (True, records)
        assert [side["side"] for part in again["partitions"] for side in part["sides"]] == ["target"] * PARTITIONS

        # The flow still runs, and another program writes into a copy.
        produce(west, remote, numbered(1))
        wait_for(lambda: "TW-PROOF-01" in flow.process.log_tail(50), 60.0, "the difference is found")
        wait_for(lambda: "held" in flow.run("topics", "list", flow.file).stdout, 30.0, "it is reported", every_s=1.0)
        refused = flow.switchover("--dry-run", wave="second", code=1)
        assert "TW-PROOF-01" in refused
        # Another copier may hold the partition by now, and has the offsets of the difference alone.
        assert "differs" in refused
    finally:
        flow.process.terminate()
