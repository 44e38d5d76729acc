"""The scene of the rounds: two clusters of three brokers, and twinlog between them as its own process."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import psutil
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from faults.disk import SmallDisk
from faults.windows import Windows
from harness.child import Child, Started
from harness.cluster import KafkaCluster
from harness.connect.filled import Filled
from harness.errors import HarnessError
from harness.jvm.jars import cache_dir
from harness.topics import create_topic
from harness.wait import wait_for
from twinlog.clock import LONG_AGO
from twinlog.model.types import Alias
from twinlog.spark.supervisor import WAITS_S, WINDOW_S

Mode = Literal["default", "exactly-once"]
Role = Literal["driver", "jvm", "copier", "helper"]
"""The process that was started, Spark's JVM, Pythons with lines to both clusters, and the others among them."""

HERE, THERE = "here", "there"
PLAIN, PAID, STAMPED = "plain", "paid", "stamped"
"""Written as they come, in transactions, and to a remote topic that stamps records with the time of its appends."""
TOPICS = (PLAIN, PAID, STAMPED)
KEPT = {"retention.ms": "-1", "segment.bytes": str(16 << 20)}
"""Records go only when a fault deletes them; segments are small, so that it frees disk then."""
RESTAMPED = {"message.timestamp.type": "LogAppendTime"}
COMPACTED, EXPIRING = "compacted", "expiring"
CLEANED: Mapping[str, dict[str, str]] = {
    COMPACTED: {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "2000"},
    EXPIRING: {"retention.ms": "60000", "segment.ms": "2000"},
}
"""Topics of a flow that proves: both clusters clean them all the time, so that the proof alone judges their records."""
PARTITIONS = 2
GROUP = "walker"
POSITION_PARTITIONS = 3
BROKERS = 3
FILLED = 20_000
"""Records of earlier months in each internal topic."""
SMALL = 3
"""The broker of the target whose disk can be full."""
CLOCK = Path(__file__).parent / "clock"
COMMAND = (sys.executable, "-m", "twinlog", "run")
START_S = 180.0
HEALTHY_S = 120.0

_EXACTLY_ONCE: Mapping[Mode, dict[str, str]] = {
    "default": {},
    "exactly-once": {f"{THERE}.exactly.once.source.support": "enabled"},
}


def properties(source: KafkaCluster, target: KafkaCluster, mode: Mode, *, proves: bool = False) -> str:
    """The file twinlog is started with; leases end every ten seconds, so that rounds meet that, too.

    A flow that `proves` holds the partition of each difference that it finds, so that a false alarm makes a round
    wrong.
    """
    flow = f"{HERE}->{THERE}"
    lines = {
        "clusters": f"{HERE}, {THERE}",
        f"{HERE}.bootstrap.servers": source.bootstrap,
        f"{THERE}.bootstrap.servers": target.bootstrap,
        f"{HERE}.consumer.isolation.level": "read_committed",
        f"{THERE}.offset.storage.partitions": str(POSITION_PARTITIONS),
        **_EXACTLY_ONCE[mode],
        f"{flow}.enabled": "true",
        f"{flow}.topics": ", ".join((*TOPICS, *CLEANED) if proves else TOPICS),
        f"{flow}.groups": GROUP,
        f"{flow}.twinlog.lease.seconds": "10",
        **({f"{flow}.twinlog.proof": "true"} if proves else {}),
        "tasks.max": "2",
        "replication.factor": str(BROKERS),
        "emit.heartbeats.enabled": "false",
        f"{flow}.emit.heartbeats.enabled": "true",
        "refresh.topics.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
        "emit.checkpoints.interval.seconds": "1",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
    }
    return "".join(f"{key} = {value}\n" for key, value in lines.items())


class Scene(Started):
    """Use as a context manager; everything it started ends with it. Logs and data lie in `home`."""

    def __init__(
        self,
        home: Path,
        mode: Mode,
        *,
        filled: int = FILLED,
        heap: str = "256m",
        counted: bool = False,
        proves: bool = False,
    ) -> None:
        self.mode = mode
        self._proves = proves
        self.disk = SmallDisk(home / "target" / f"node-{SMALL}" / "data")
        # Acknowledged means on two brokers: no single one can take it along.
        safe = {"min.insync.replicas": "2"}
        self.source, self.target = (
            KafkaCluster(name, BROKERS, sasl=False, heap=heap, config=safe, counted=counted, work_dir=home / name)
            for name in ("source", "target")
        )
        self.filled = Filled(Alias(HERE), Alias(THERE), records=filled, position_partitions=POSITION_PARTITIONS)
        self.windows = Windows(self.source, self.target, self.remotes, PARTITIONS, restamped={STAMPED})
        self.file = home / "mm2.properties"
        self._clock = home / "clock"
        env = {"TWINLOG_CACHE": str(cache_dir()), "PYTHONPATH": str(CLOCK), "FAULTS_CLOCK": str(self._clock)}
        self.twinlog, self.standby = (
            Child(name, [*COMMAND, str(self.file)], home / f"{name}.log", env) for name in ("twinlog", "standby")
        )
        self.started_at = LONG_AGO
        """When twinlog was started last, monotonic."""
        self._groups: list[int] = []
        self._unasked: list[str] = []
        self._engines_killed: list[float] = []

    @property
    def cleaned(self) -> tuple[str, ...]:
        """The topics that the clusters clean all the time."""
        return tuple(CLEANED) if self._proves else ()

    @property
    def remotes(self) -> dict[str, str]:
        """Remote topic of each topic whose records are judged."""
        return {topic: f"{HERE}.{topic}" for topic in TOPICS}

    def start_twinlog(self) -> None:
        """As its supervisor would, without waiting."""
        self.started_at = time.monotonic()
        self.twinlog.start()
        self._groups.append(self.twinlog.pid)
        self._engines_killed.clear()

    def start_standby(self) -> None:
        """A second process on the same file, without waiting."""
        self.standby.start()
        self._groups.append(self.standby.pid)

    def lose_driver(self) -> None:
        """Kill twinlog; from then on the standby is `twinlog`."""
        self.twinlog.kill()
        self.twinlog, self.standby = self.standby, self.twinlog
        self._engines_killed.clear()

    def supervise(self) -> None:
        """Start twinlog again when it has ended, and remember when it should not have."""
        if not self.twinlog.alive:
            if not self._may_end:
                self._unasked.append(f"twinlog ended by itself: {self.twinlog.log_tail(1)}")
            self.start_twinlog()

    def unasked_ends(self) -> list[str]:
        """What it printed last, each time that it ended for no reason since this was asked before."""
        printed, self._unasked = self._unasked, []
        return printed

    def copiers(self) -> list[psutil.Process]:
        """Python workers that have lines to both clusters; waits until there is one."""

        def found() -> list[psutil.Process]:
            self.supervise()
            return [process for process in self._family() if self._copies(process)]

        return wait_for(found, START_S, "a worker copies")

    @property
    def _may_end(self) -> bool:
        """Whether this twinlog lost so many JVMs that it gives up."""
        now = time.monotonic()
        return len([at for at in self._engines_killed if now - at < WINDOW_S + START_S]) > len(WAITS_S)

    def kill_engine(self) -> int:
        """Spark's JVM, which may only just start; returns its process."""
        while True:
            engine = self.wait_for_engine()
            try:
                engine.kill()
            except psutil.NoSuchProcess:
                # It has just handed over to the next step of its start.
                continue
            self._engines_killed.append(time.monotonic())
            return engine.pid

    def wait_for_engine(self, other_than: int | None = None) -> psutil.Process:
        """Spark's JVM, or that which Spark's scripts ask for the command of it."""

        def found() -> psutil.Process | None:
            self.supervise()
            family = (process for process in self._family() if process.pid != other_than)
            return next((process for process in family if "java" in _name(process)), None)

        return wait_for(found, START_S, "Spark has a JVM")

    def jump_clock(self, seconds: int) -> None:
        """Let the driver's clock be so far from the true one; its copiers' clocks stay."""
        self._clock.write_text(str(seconds), encoding="ascii")
        os.kill(self.twinlog.pid, signal.SIGUSR2)

    def wait_healthy(self) -> None:
        """Every replica on both clusters in sync, every leader there."""
        for cluster in (self.source, self.target):
            admin = AdminClient(cluster.client_config())

            def whole(admin: AdminClient = admin) -> bool:
                try:
                    listed = admin.list_topics(timeout=10).topics.values()
                except KafkaException:
                    return False
                found = [part for topic in listed for part in topic.partitions.values()]
                return bool(found) and all(part.leader >= 0 and len(part.isrs) == len(part.replicas) for part in found)

            wait_for(whole, HEALTHY_S, f"every replica in {cluster.name} is in sync")

    def start(self) -> None:
        for cluster in (self.source, self.target):
            cluster.start_async()
        for cluster in (self.source, self.target):
            cluster.wait_ready()
        for topic in TOPICS:
            create_topic(self.source, topic, PARTITIONS, config=KEPT)
        for topic in self.cleaned:
            create_topic(self.source, topic, PARTITIONS, config=CLEANED[topic])
        create_topic(self.target, self.remotes[STAMPED], PARTITIONS, config={**KEPT, **RESTAMPED})
        if self.filled.records:
            self.filled.fill(self.source, self.target)
        text = properties(self.source, self.target, self.mode, proves=self._proves)
        self.file.write_text(text, encoding="utf-8")
        self.start_twinlog()

    def close(self) -> None:
        """Kill what still runs, also what killed drivers left."""
        self.twinlog.kill()
        self.standby.kill()
        for group in self._groups:
            try:
                os.killpg(group, signal.SIGKILL)
            except ProcessLookupError:
                continue
        for cluster in (self.source, self.target):
            cluster.close()
        self.disk.close()

    def family(self) -> Iterator[tuple[Role, psutil.Process]]:
        """Every process of twinlog and what it is for."""
        with contextlib.suppress(HarnessError, psutil.Error):
            yield "driver", psutil.Process(self.twinlog.pid)
        for process in self._family():
            name = _name(process)
            yield "jvm" if "java" in name else "copier" if self._copies(process) else "helper", process

    def _family(self) -> list[psutil.Process]:
        try:
            return psutil.Process(self.twinlog.pid).children(recursive=True)
        except (HarnessError, psutil.Error):
            return []

    def _copies(self, process: psutil.Process) -> bool:
        if "python" not in _name(process):
            return False
        try:
            ports = {line.raddr.port for line in process.net_connections("tcp") if line.raddr}
        except psutil.Error:
            return False
        return all(
            ports & {broker.ports.plaintext for broker in cluster.brokers.values()}
            for cluster in (self.source, self.target)
        )


def _name(process: psutil.Process) -> str:
    try:
        return str(process.name())
    except psutil.Error:
        return ""


def pause(seconds: float) -> None:
    """A fault lasts, or lets the load run for a while: chance decides how long, nothing is waited for."""
    time.sleep(seconds)
