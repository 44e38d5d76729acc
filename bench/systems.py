"""Both systems as processes: the same work from files that differ in the source's alias and in the tuning."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

import psutil

from bench.items import Side
from bench.meter import Meter
from harness.child import Child
from harness.cluster import KafkaCluster
from harness.errors import HarnessError
from harness.jars import cache_dir
from harness.mm2 import MirrorMaker2
from twinlog.jvm import archive_file


class Scraper(Protocol):
    """Asks a process for its metrics at the address where it is to listen."""

    listener: str

    def start(self) -> None: ...

    def stop(self) -> None: ...


SystemName = Literal["mm2", "twinlog"]
TITLES: Mapping[SystemName, str] = {"mm2": "MirrorMaker 2", "twinlog": "twinlog"}
TARGET = "dst"
ALIASES: Mapping[SystemName, str] = {"mm2": "m", "twinlog": "t"}
"""The source's alias with each system, so that their remote topics differ in name."""

MM2_HEAP = "2g"
TASKS = 4

COMMON = {
    "tasks.max": str(TASKS),
    "replication.factor": "1",
    "config.storage.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "refresh.topics.interval.seconds": "1",
    # Only records are copied: what runs beside them is another matter, and both leave it out.
    "emit.heartbeats.enabled": "false",
    "emit.checkpoints.enabled": "false",
    "emit.offset-syncs.enabled": "false",
    "sync.topic.configs.enabled": "false",
    "sync.topic.acls.enabled": "false",
}

MM2_TUNING = {
    "{target}.producer.batch.size": "262144",
    "{target}.producer.linger.ms": "5",
    "{source}.consumer.max.partition.fetch.bytes": "2097152",
    "{source}.consumer.fetch.max.bytes": "52428800",
    "{source}.consumer.max.poll.records": "5000",
}
"""twinlog runs with its defaults."""

TRANSFORM: Mapping[SystemName, Mapping[str, str]] = {
    # Each looks at every record, and changes none.
    "mm2": {
        "{source}->{target}.transforms": "none",
        "{source}->{target}.transforms.none.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "{source}->{target}.transforms.none.regex": "there is no such topic",
        "{source}->{target}.transforms.none.replacement": "nowhere",
    },
    "twinlog": {"{source}->{target}.transform": "bench.unchanged:unchanged"},
}
QUERY = {
    "{source}->{target}.transform.sql": "SELECT cast(concat(cast(value AS STRING), '') AS BINARY) AS value FROM records"
}
"""Each value goes to the JVM and comes back."""

ROOT = Path(__file__).parents[1]

MM2_EAGER = {"{target}.producer.linger.ms": "0"}

STOP_S = 20.0
WARM_UP_S = 300.0
COMMAND = Path(sys.executable).with_name("twinlog")


@dataclass(frozen=True, slots=True)
class Setup:
    """What one run of a system is to do.

    `extra` properties win over the tuning, with `{source}` and `{target}` for the aliases. Without `prepared` twinlog
    starts as on a machine where `twinlog warm-up` was never run. It reaches the cluster that is `far` by its relay. A
    `scraper` asks it for its metrics for as long as it runs.
    """

    system: SystemName
    topic: str
    extra: Mapping[str, str] = field(default_factory=dict)
    prepared: bool = True
    far: Side | None = None
    scraper: Scraper | None = None

    @property
    def alias(self) -> str:
        return ALIASES[self.system]

    @property
    def remote(self) -> str:
        return f"{self.alias}.{self.topic}"

    def properties(self, source: str, target: str) -> str:
        """The text of the file it is started with, for clusters at these bootstrap servers."""
        tuning = {**(MM2_TUNING if self.system == "mm2" else {}), **self.extra}
        lines = {
            "clusters": f"{self.alias}, {TARGET}",
            f"{self.alias}.bootstrap.servers": source,
            f"{TARGET}.bootstrap.servers": target,
            f"{self.alias}->{TARGET}.enabled": "true",
            f"{self.alias}->{TARGET}.topics": self.topic,
            **COMMON,
            **{key.format(source=self.alias, target=TARGET): value for key, value in tuning.items()},
        }
        return "".join(f"{key} = {value}\n" for key, value in lines.items())


class System:
    """A started system; use as a context manager."""

    def __init__(self, setup: Setup, source: KafkaCluster, target: KafkaCluster, work: Path, *, memory: bool) -> None:
        home = work / f"{setup.system}-{setup.topic}"
        home.mkdir(parents=True, exist_ok=True)
        source_at = source.far_bootstrap if setup.far == "source" else source.bootstrap
        target_at = target.far_bootstrap if setup.far == "target" else target.bootstrap
        properties = setup.properties(source_at, target_at)
        if setup.system == "mm2":
            made = MirrorMaker2(properties, heap=MM2_HEAP, jit="full", clusters=[TARGET], work_dir=home)
            self.process = made.process
        else:
            file = home / "twinlog.properties"
            file.write_text(properties, encoding="utf-8")
            command = [str(COMMAND), "run", str(file), "--clusters", TARGET]
            if setup.scraper is not None:
                command += ["--metrics-listener", setup.scraper.listener]
            cache = {} if setup.prepared else {"TWINLOG_CACHE": str(home / "empty")}
            # Where the transform is found, in tasks too.
            self.process = Child("twinlog", command, home / "twinlog.log", {**cache, "PYTHONPATH": str(ROOT)})
        self.setup = setup
        self.process.start()
        self.started = time.monotonic()
        self.meter = Meter(self.process.pid, memory=memory)
        if setup.scraper is not None:
            setup.scraper.start()

    def require_alive(self) -> None:
        """Raises HarnessError with the end of its log when it has ended."""
        self.process.require_alive()

    def failed(self, why: str) -> HarnessError:
        """An error that brings the end of the log along."""
        return HarnessError(f"{TITLES[self.setup.system]}: {why}. Its log ends:\n{self.process.log_tail(40)}")

    def stop(self) -> None:
        """SIGTERM; whatever is left of it after a while is killed."""
        if self.setup.scraper is not None:
            self.setup.scraper.stop()
        family = self.meter.stop()
        self.process.terminate(STOP_S)
        for process in psutil.wait_procs(family, timeout=3)[1]:
            process.send_signal(signal.SIGKILL)

    def __enter__(self) -> System:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()


def prepare_twinlog(say: Callable[[str], None]) -> None:
    """Run `twinlog warm-up` into the checkout's cache, unless that was done. Raises HarnessError when it fails."""
    if not COMMAND.is_file():
        raise HarnessError(f"{COMMAND} does not exist. Run this with the interpreter of .venv: make bench")
    os.environ["TWINLOG_CACHE"] = str(cache_dir())
    if archive_file().is_file():
        return
    say("twinlog warm-up, once, takes about a minute")
    done = subprocess.run([COMMAND, "warm-up"], capture_output=True, text=True, check=False, timeout=WARM_UP_S)
    if done.returncode != 0:
        raise HarnessError(f"twinlog warm-up ended with status {done.returncode}:\n{done.stdout}{done.stderr}")
