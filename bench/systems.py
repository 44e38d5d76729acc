"""All systems as processes: the same topic to copy, each by its own files and options."""

from __future__ import annotations

import itertools
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

from bench.items.kinds import Codec, Side
from bench.peers.commands import PeerJob, PeerName, peer_command, peer_environment
from bench.stage.meter import Meter
from harness.child import Child
from harness.cluster import KafkaCluster
from harness.connect.mm2 import MirrorMaker2
from harness.errors import HarnessError
from harness.jvm.jars import cache_dir
from harness.wait import wait_for
from twinlog.process.jvm import archive_file


class Watched(Protocol):
    """Asks a process for its pages at the address of its listener."""

    listener: str
    opening_cpu_s: list[float]
    """The CPU of the process from each start of its clients until all of them had their first page."""

    def start(self) -> None: ...

    @property
    def opened(self) -> bool:
        """Whether all clients have had a page since the start."""
        ...

    def stop(self) -> None: ...


MirrorName = Literal["mm2", "twinlog"]
SystemName = MirrorName | PeerName
TITLES: Mapping[SystemName, str] = {
    "mm2": "MirrorMaker 2",
    "mm1": "MirrorMaker 1",
    "spark": "Spark",
    "librdkafka": "librdkafka",
    "franz": "franz-go",
    "twinlog": "twinlog",
}
"""All systems, in the order of their columns."""
TARGET = "dst"
ALIASES: Mapping[SystemName, str] = {"mm2": "m", "twinlog": "t"}
"""The source's alias with the systems that have a name for it, so that their remote topics differ in name."""

MM2_HEAP = "2g"
TASKS = 4

REPLICATED = (
    "replication.factor",
    "config.storage.replication.factor",
    "offset.storage.replication.factor",
    "status.storage.replication.factor",
)
COMMON = {
    "tasks.max": str(TASKS),
    **dict.fromkeys(REPLICATED, "1"),
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

TRANSFORM: Mapping[MirrorName, Mapping[str, str]] = {
    # Each looks at every record, and changes none.
    "mm2": {
        "{source}->{target}.transforms": "none",
        "{source}->{target}.transforms.none.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "{source}->{target}.transforms.none.regex": "there is no such topic",
        "{source}->{target}.transforms.none.replacement": "nowhere",
    },
    "twinlog": {"{source}->{target}.transform": "bench.copies.unchanged:unchanged"},
}
QUERY = {
    "{source}->{target}.transform.sql": "SELECT cast(concat(cast(value AS STRING), '') AS BINARY) AS value FROM records"
}
"""Each value goes to the JVM and comes back."""

ROOT = Path(__file__).parents[1]

EAGER = {"{target}.producer.linger.ms": "0"}

_RUNS = itertools.count()
"""Each run of a peer has a consumer group without offsets and a directory of its own."""

HELD_S = 12.0
"""The time of a process to start before its topic is released, and before its watcher begins."""

OPEN_S = 60.0
COMMAND_S = 60.0
STOP_S = 20.0
WARM_UP_S = 300.0
COMMAND = Path(sys.executable).with_name("twinlog")


@dataclass(frozen=True, slots=True)
class Setup:
    """What one run of a system is to do.

    `extra` properties win over the tuning, with `{source}` and `{target}` for the aliases. Without `prepared` twinlog
    starts as on a machine where `twinlog warm-up` was never run. It reaches the cluster that is `far` by its relay.
    While `held`, it copies nothing until `System.release`. A `watcher` asks it for its pages from the release to its
    end. Peers compress by `codec`; the clusters' topics have `copies` replicas. With `bridge` twinlog copies before
    Spark has a task; without it, Spark's tasks are measured.
    """

    system: SystemName
    topic: str
    extra: Mapping[str, str] = field(default_factory=dict)
    prepared: bool = True
    far: Side | None = None
    watcher: Watched | None = None
    held: bool = False
    codec: Codec = "none"
    copies: int = 1
    bridge: bool = False

    @property
    def makes_topics(self) -> bool:
        """Whether the system creates the remote topic itself."""
        return self.system in ALIASES

    @property
    def alias(self) -> str:
        return ALIASES.get(self.system, self.system)

    @property
    def remote(self) -> str:
        """MirrorMaker 1 cannot rename a topic."""
        return self.topic if self.system == "mm1" else f"{self.alias}.{self.topic}"

    def properties(self, source: str, target: str) -> str:
        """The text of the file it is started with, for clusters at these bootstrap servers."""
        tuning = {**(MM2_TUNING if self.system == "mm2" else {}), **self.extra}
        own = {"twinlog.bridge": str(self.bridge).lower()} if self.system == "twinlog" else {}
        lines = {
            **own,
            "clusters": f"{self.alias}, {TARGET}",
            f"{self.alias}.bootstrap.servers": source,
            f"{TARGET}.bootstrap.servers": target,
            f"{self.alias}->{TARGET}.enabled": "true",
            f"{self.alias}->{TARGET}.topics": self.topic,
            **COMMON,
            **dict.fromkeys(REPLICATED, str(self.copies)),
            **{key.format(source=self.alias, target=TARGET): value for key, value in tuning.items()},
        }
        return "".join(f"{key} = {value}\n" for key, value in lines.items())


class System:
    """A started system; use as a context manager."""

    def __init__(self, setup: Setup, source: KafkaCluster, target: KafkaCluster, work: Path, *, memory: bool) -> None:
        home = work / f"{setup.system}-{setup.topic}"
        home.mkdir(parents=True, exist_ok=True)
        self.setup = setup
        source_at = source.far_bootstrap if setup.far == "source" else source.bootstrap
        target_at = target.far_bootstrap if setup.far == "target" else target.bootstrap
        if setup.system == "mm2":
            properties = setup.properties(source_at, target_at)
            made = MirrorMaker2(properties, heap=MM2_HEAP, jit="full", clusters=[TARGET], work_dir=home)
            self.process = made.process
        elif setup.system == "twinlog":
            file = home / "twinlog.properties"
            file.write_text(setup.properties(source_at, target_at), encoding="utf-8")
            if setup.held:
                _steer("pause", file, setup.topic)
            command = [str(COMMAND), "run", str(file), "--clusters", TARGET]
            if setup.watcher is not None:
                command += ["--metrics-listener", setup.watcher.listener]
            cache = {} if setup.prepared else {"TWINLOG_CACHE": str(home / "empty")}
            # Where the transform is found, in tasks too.
            self.process = Child("twinlog", command, home / "twinlog.log", {**cache, "PYTHONPATH": str(ROOT)})
        else:
            run = f"{setup.system}-{next(_RUNS)}"
            (home / run).mkdir()
            job = PeerJob(source_at, target_at, setup.topic, setup.remote, setup.codec, run, home / run)
            command = peer_command(setup.system, job)
            self.process = Child(run, command, home / f"{setup.system}.log", peer_environment(setup.system))
        self.process.start()
        self.started = time.monotonic()
        self.meter = Meter(self.process.pid, memory=memory)
        self._home = home

    def release(self) -> None:
        """Let twinlog copy its `held` topic, once the process has started and its watcher has its first pages.

        Raises HarnessError or TimeoutError.
        """
        time.sleep(max(0.0, self.started + HELD_S - time.monotonic()))
        self.require_alive()
        watcher = self.setup.watcher
        if watcher is not None:
            begun = self.meter.cpu_s()
            watcher.start()
            wait_for(lambda: watcher.opened, OPEN_S, f"all clients of {watcher.listener} have a page")
            watcher.opening_cpu_s.append(self.meter.cpu_s() - begun)
        _steer("resume", self._home / "twinlog.properties", self.setup.topic)

    def require_alive(self) -> None:
        """Raises HarnessError with the end of its log when it has ended."""
        self.process.require_alive()

    def failed(self, why: str) -> HarnessError:
        """An error that brings the end of the log along."""
        return HarnessError(f"{TITLES[self.setup.system]}: {why}. Its log ends:\n{self.process.log_tail(40)}")

    def stop(self) -> None:
        """SIGTERM; whatever is left of it after a while is killed."""
        if self.setup.watcher is not None:
            self.setup.watcher.stop()
        family = self.meter.stop()
        self.process.terminate(STOP_S)
        for process in psutil.wait_procs(family, timeout=3)[1]:
            process.send_signal(signal.SIGKILL)

    def __enter__(self) -> System:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()


def _steer(verb: str, file: Path, topic: str) -> None:
    """Have a topic of a file's flow paused or resumed. Raises HarnessError."""
    command = [str(COMMAND), "topics", verb, str(file), topic]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=COMMAND_S)
    if done.returncode != 0:
        raise HarnessError(f"twinlog topics {verb} ended with status {done.returncode}:\n{done.stdout}{done.stderr}")


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
