"""Measures the driver alone with many partitions and copiers: what it computes while nothing happens, and a refresh."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka.admin import AdminClient, NewTopic

from bench.items.kinds import DriverItem
from bench.stage.meter import MB, rss_and_pss
from harness.cluster import KafkaCluster
from harness.connect.mm2 import CONNECTORS_ONE_REPLICA
from harness.errors import HarnessError
from harness.wait import wait_for
from twinlog.model.types import Alias

SOURCE, TARGET = Alias("near"), Alias("far")
PREFIX = "many-"
AT_ONCE = 20
"""Topics created by one request."""
DEADLINE_S = 600.0
SETTLE_S = 20.0
LOOK_S = 60.0
REFRESHES = 3


@dataclass(frozen=True, slots=True)
class DriverFigures:
    """Times in s, memory in MB; shares are CPU seconds per second, of the driver's process alone.

    `first_refresh_s` includes creating every remote topic. `idle_share` is with copiers that have nothing to do,
    `busy_share` with all of them reporting all their partitions once a second.
    """

    first_refresh_s: float
    refresh_s: float
    idle_share: float
    busy_share: float
    driver_pss_mb: float


def make_topics(item: DriverItem, source: KafkaCluster) -> None:
    """Create the topics, empty."""
    admin = AdminClient(source.client_config())
    for begin in range(0, item.topics, AT_ONCE):
        numbers = range(begin, min(begin + AT_ONCE, item.topics))
        wanted = [NewTopic(f"{PREFIX}{number:04d}", item.partitions, 1) for number in numbers]
        for future in admin.create_topics(wanted, operation_timeout=120, request_timeout=180).values():
            future.result(180)


def measure_driver(
    item: DriverItem, source: KafkaCluster, target: KafkaCluster, work: Path, say: Callable[[str], None]
) -> DriverFigures:
    """Raises HarnessError or TimeoutError."""
    work.mkdir(parents=True, exist_ok=True)
    file = work / "flow.properties"
    file.write_text(_properties(item, source, target), encoding="utf-8")
    with ExitStack() as stack:
        driver = stack.enter_context(
            _program("driver", work, "bench.flows.driver_process", str(file), str(item.copiers))
        )
        began = driver.answer()
        say(f"every remote topic made and planned after {began['first_refresh_s']:.1f} s")
        copiers = stack.enter_context(
            _program(
                "copiers",
                work,
                "bench.flows.copiers",
                *(str(began["port"]), began["secret"], began["flow"], str(began["lease"]), str(item.copiers)),
            )
        )
        wanted = item.topics * item.partitions
        wait_for(
            lambda: copiers.ask("idle")["held"] == wanted and driver.ask("status")["partitions"] == wanted,
            DEADLINE_S,
            f"{item.copiers} copiers hold {wanted} partitions and have reported each",
        )
        say("every copier has its partitions and has reported")
        idle = _share(driver.process)
        say(f"{idle:.0%} of a core while nothing happens")
        refresh = sorted(driver.ask("refresh")["seconds"] for _ in range(REFRESHES))[REFRESHES // 2]
        say(f"a refresh takes {refresh:.2f} s")
        copiers.ask("busy")
        busy = _share(driver.process)
        say(f"{busy:.0%} of a core while all partitions move")
        pss = rss_and_pss(psutil.Process(driver.process.pid))[1] / MB
    return DriverFigures(began["first_refresh_s"], refresh, idle, busy, pss)


def _share(process: subprocess.Popen[str]) -> float:
    """CPU seconds per second, from some seconds on, for a minute."""
    time.sleep(SETTLE_S)
    watched = psutil.Process(process.pid)

    def used() -> float:
        times = watched.cpu_times()
        return float(times.user + times.system)

    began, before = time.monotonic(), used()
    time.sleep(LOOK_S)
    return (used() - before) / (time.monotonic() - began)


class _Program:
    """A module of ours as a process that answers lines with JSON."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.process = process
        self._log = log

    def ask(self, question: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        print(question, file=self.process.stdin, flush=True)
        return self.answer()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            tail = "\n".join(self._log.read_text(encoding="utf-8").splitlines()[-20:])
            raise HarnessError(f"{self._log.stem} ended with status {self.process.wait()}:\n{tail}")
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def _program(name: str, work: Path, module: str, *arguments: str) -> Iterator[_Program]:
    log = work / f"{name}.log"
    with log.open("w", encoding="utf-8") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            cwd=Path(__file__).parents[2],
        )
    try:
        yield _Program(process, log)
    finally:
        process.kill()
        process.communicate()


def _properties(item: DriverItem, source: KafkaCluster, target: KafkaCluster) -> str:
    """Everything in its defaults but what one broker cannot do."""
    lines = {
        "clusters": f"{SOURCE}, {TARGET}",
        f"{SOURCE}.bootstrap.servers": source.bootstrap,
        f"{TARGET}.bootstrap.servers": target.bootstrap,
        f"{SOURCE}->{TARGET}.enabled": "true",
        f"{SOURCE}->{TARGET}.topics": f"{PREFIX}.*",
        "tasks.max": str(item.copiers),
        **CONNECTORS_ONE_REPLICA,
        "offset.storage.replication.factor": "1",
    }
    return "".join(f"{key} = {value}\n" for key, value in lines.items())
