"""The command line of each mirror that `make bench` measures beside twinlog and MirrorMaker 2."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Literal

from harness.broker import to_properties
from harness.errors import HarnessError
from harness.jvm.command import jvm_command
from harness.jvm.jars import OLDER_VERSION, cache_dir, locked, spark_source_jars

PeerName = Literal["mm1", "spark", "librdkafka", "franz"]

MM1_HEAP = "2g"
MM1_STREAMS = 4
MM1_CONSUMER = {
    "auto.offset.reset": "earliest",
    "max.partition.fetch.bytes": "2097152",
    "fetch.max.bytes": "52428800",
    "max.poll.records": "5000",
}
MM1_PRODUCER = {
    "enable.idempotence": "true",
    "max.in.flight.requests.per.connection": "5",
    "batch.size": "262144",
    "linger.ms": "5",
}
"""The tuning of MirrorMaker 2; with idempotence five requests in flight keep their order."""

BUILD_DEADLINE_S = 600.0
_ROOT = Path(__file__).parents[2]
_FRANZ = Path(__file__).with_name("franz")


@dataclass(frozen=True, slots=True)
class PeerJob:
    """A topic to copy: bootstrap servers of both clusters, the remote topic, which exists, and its codec.

    `group` is a consumer group that has no offsets yet. `home` is an empty directory for files of the process.
    """

    source: str
    target: str
    topic: str
    remote: str
    codec: str
    group: str
    home: Path


def peer_command(peer: PeerName, job: PeerJob) -> list[str]:
    """The command line that copies the topic until SIGTERM. Raises HarnessError if a program is missing."""
    where = [job.source, job.target, job.topic, job.remote]
    if peer == "mm1":
        return _mirror_maker_1(job)
    if peer == "spark":
        jars = ",".join(map(str, spark_source_jars()))
        module = [sys.executable, "-m", "bench.peers.spark_job"]
        return [*module, *where, str(job.home / "checkpoint"), job.codec, jars]
    if peer == "librdkafka":
        return [sys.executable, "-m", "bench.peers.librdkafka_loop", *where, job.group, job.codec]
    return [str(franz_program()), *where, job.group, job.codec]


def peer_environment(peer: PeerName) -> dict[str, str]:
    """Variables that the process needs beside those of this process."""
    return {"PYTHONPATH": str(_ROOT)} if peer in ("spark", "librdkafka") else {}


def prepare_peer(system: str) -> None:
    """Fetch or build the program of a system that is a peer, once. Raises HarnessError with the reason if that is
    impossible."""
    if system == "mm1":
        jvm_command(MM1_HEAP, "full", "", OLDER_VERSION, "broker")
    elif system == "spark":
        spark_source_jars()
    elif system == "franz":
        franz_program()


def franz_program() -> Path:
    """The program of `franz/main.go`, built on first use. Raises HarnessError if Go is missing or the build fails."""
    files = [_FRANZ / name for name in ("main.go", "go.mod", "go.sum")]
    digest = sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:12]
    program = cache_dir() / "bench" / f"franz-{digest}"
    with locked(program.with_suffix(".lock")):
        if program.is_file():
            return program
        go = shutil.which("go")
        if go is None:
            raise HarnessError("go is missing")
        fresh = program.with_suffix(f".{os.getpid()}")
        command = [go, "build", "-o", str(fresh), "."]
        done = subprocess.run(
            command, cwd=_FRANZ, capture_output=True, text=True, check=False, timeout=BUILD_DEADLINE_S
        )
        if done.returncode != 0:
            raise HarnessError(f"go build failed: {done.stderr.strip()}")
        fresh.rename(program)
    return program


def franz_version() -> str:
    """The version of franz-go that `franz/go.mod` pins."""
    lines = (_FRANZ / "go.mod").read_text(encoding="utf-8").splitlines()
    return next(line.split()[-1] for line in lines if line.startswith("require github.com/twmb/franz-go "))


def go_version() -> str:
    """The version of the Go that builds the loop, such as `go1.26.0`; empty without Go."""
    go = shutil.which("go")
    if go is None:
        return ""
    done = subprocess.run([go, "env", "GOVERSION"], cwd=_FRANZ, capture_output=True, text=True, check=False, timeout=60)
    return done.stdout.strip()


def _mirror_maker_1(job: PeerJob) -> list[str]:
    consumer, producer = job.home / "consumer.properties", job.home / "producer.properties"
    consumer.write_text(
        to_properties({"bootstrap.servers": job.source, "group.id": job.group, **MM1_CONSUMER}), encoding="utf-8"
    )
    producer.write_text(
        to_properties({"bootstrap.servers": job.target, "compression.type": job.codec, **MM1_PRODUCER}),
        encoding="utf-8",
    )
    command = jvm_command(MM1_HEAP, "full", "kafka.tools.MirrorMaker", OLDER_VERSION, "broker")
    command += ["--consumer.config", str(consumer), "--producer.config", str(producer)]
    return [*command, "--num.streams", str(MM1_STREAMS), "--include", job.topic]
