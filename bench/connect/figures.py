"""Measures a Connect worker: its start, its first record, lists of many connectors, and what it takes while idle."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench.connect.worker import BenchWorker, connector
from bench.flows.latency import percentile
from bench.items.kinds import ConnectItem
from bench.stage.meter import wait_calm
from bench.stage.wire import EndWatch
from bench.systems import ALIASES, MirrorName
from harness.cluster import KafkaCluster
from harness.errors import HarnessError
from harness.groups import commit_offsets
from harness.produce import numbered, produce
from harness.topics import create_topic, delete_topics_of_users

TOPIC = "posted"
GROUP = "posted-readers"
RECORDS = 1_000
FIRST_RECORD_S = 180.0
LOOK_EVERY_S = 0.02
WARM_UP_S = 10
UP_S = 30.0
"""How long a worker is up and idle that then gets its first connector."""

SETTLE_S = 30.0
LOOK_S = 30.0
SLOW_S = "60"
"""Between heartbeats of listed connectors: lists are measured, not heartbeats."""


@dataclass(frozen=True, slots=True)
class ConnectFigures:
    """What a worker came to; times in s where they are not in ms, memory in MB.

    `answer_s` is from the start of the process to the first good answer to `GET /`; `start_s` to the first record on
    the target of a source connector that is POSTed as soon as the worker takes it, `posted_s` from that to the record:
    each the median of some starts. `warm_posted_s` is the same on a worker that was up and idle for `UP_S`. Lists are
    those of `bench.connect.listing`, with status and configuration. The rest is of a worker with as many heartbeat as
    checkpoint connectors and nothing to do.
    """

    answer_s: float
    start_s: float
    posted_s: float
    warm_posted_s: float
    list_p50_ms: float
    list_p99_ms: float
    lists_per_s: float
    list_bytes: int
    idle_pss_mb: float
    idle_rss_mb: float
    idle_threads: int
    idle_connections: int
    idle_cpu: float


def prepare_records(source: KafkaCluster) -> None:
    """Fill the topic that posted connectors copy; a group has read some of it: without one MirrorMaker 2's checkpoint
    connectors would have no tasks."""
    create_topic(source, TOPIC, 1)
    produce(source, TOPIC, numbered(RECORDS))
    commit_offsets(source, {GROUP: {(TOPIC, 0): RECORDS // 2}})


def measure_connect(
    item: ConnectItem,
    system: MirrorName,
    source: KafkaCluster,
    target: KafkaCluster,
    work: Path,
    say: Callable[[str], None],
) -> ConnectFigures:
    """Raises HarnessError or TimeoutError. The target is empty afterwards."""
    starts = []
    for number in range(item.starts):
        wait_calm()
        starts.append(_start(f"{system}-start-{number}", system, source, target, work))
        say("first answer after {:.2f} s, first record after {:.1f} s, {:.1f} s after its POST".format(*starts[-1]))
    wait_calm()
    _, _, warm_posted_s = _start(f"{system}-up", system, source, target, work, up_s=UP_S)
    say(f"first record {warm_posted_s:.1f} s after a POST to a worker that is up for {UP_S:g} s")
    lists = _lists(item, system, source, target, work)
    took = lists["ms"]
    say(f"{len(took)} lists of {lists['bytes']:,} bytes, p99 {percentile(took, 0.99):,.0f} ms")
    idle = _idle(item, system, source, target, work)
    say("idle: {:.0f} MB PSS, {:.0f} MB RSS, {} threads, {} connections, {:.3f} CPU s per s".format(*idle))
    answer_s, start_s, posted_s = (median(one) for one in zip(*starts, strict=True))
    pss_mb, rss_mb, threads, connections, cpu = idle
    return ConnectFigures(
        answer_s=answer_s,
        start_s=start_s,
        posted_s=posted_s,
        warm_posted_s=warm_posted_s,
        list_p50_ms=percentile(took, 0.5),
        list_p99_ms=percentile(took, 0.99),
        lists_per_s=len(took) / item.seconds,
        list_bytes=lists["bytes"],
        idle_pss_mb=pss_mb,
        idle_rss_mb=rss_mb,
        idle_threads=threads,
        idle_connections=connections,
        idle_cpu=cpu,
    )


def _start(
    group: str, system: MirrorName, source: KafkaCluster, target: KafkaCluster, work: Path, *, up_s: float = 0.0
) -> tuple[float, float, float]:
    alias = ALIASES[system]
    # Only records are copied, as in the other items.
    config = connector(
        "Source",
        alias,
        source,
        target,
        topics=TOPIC,
        emit_offset_syncs_enabled="false",
        sync_topic_acls_enabled="false",
    )
    watch = EndWatch(target.bootstrap, f"{alias}.{TOPIC}", 1)
    try:
        with BenchWorker(system, group, target, work) as worker:
            answer_s = worker.answered()
            time.sleep(up_s)
            worker.post_at_once("posted", config)
            posted = time.monotonic()
            while not watch.total():
                worker.process.require_alive()
                if time.monotonic() - posted > FIRST_RECORD_S:
                    raise worker.failed(f"no record came within {FIRST_RECORD_S:g} s")
                time.sleep(LOOK_EVERY_S)
            now = time.monotonic()
            figures = answer_s, now - worker.started, now - posted
    finally:
        watch.close()
    delete_topics_of_users(target)
    return figures


def _lists(
    item: ConnectItem, system: MirrorName, source: KafkaCluster, target: KafkaCluster, work: Path
) -> dict[str, Any]:
    connectors = {
        f"listed-{number:03d}": connector(
            "Heartbeat", f"s{number}", source, target, emit_heartbeats_interval_seconds=SLOW_S
        )
        for number in range(item.listed)
    }
    with BenchWorker(system, f"{system}-lists", target, work) as worker:
        worker.answered()
        worker.create(connectors)
        wait_calm()
        command = [
            sys.executable,
            "-m",
            "bench.connect.listing",
            worker.url,
            str(item.clients),
            str(WARM_UP_S),
            str(item.seconds),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
        if done.returncode != 0:
            raise worker.failed(f"a list failed: {done.stderr}")
        lists: dict[str, Any] = json.loads(done.stdout)
    delete_topics_of_users(target)
    if lists["connectors"] != item.listed:
        raise HarnessError(f"a list of {system} has {lists['connectors']} of {item.listed} connectors")
    return lists


def _idle(
    item: ConnectItem, system: MirrorName, source: KafkaCluster, target: KafkaCluster, work: Path
) -> tuple[float, float, int, int, float]:
    kinds = ("Heartbeat", "Checkpoint")
    connectors = {
        f"idle-{number}": connector(kinds[number % 2], f"s{number // 2}", source, target, groups=GROUP)
        for number in range(item.idle)
    }
    with BenchWorker(system, f"{system}-idle", target, work) as worker:
        worker.answered()
        worker.create(connectors)
        time.sleep(SETTLE_S)
        began, before = time.monotonic(), worker.cpu_s()
        time.sleep(LOOK_S)
        cpu = (worker.cpu_s() - before) / (time.monotonic() - began)
        figures = *worker.memory_mb(), worker.threads(), worker.connections(), cpu
    delete_topics_of_users(target)
    return figures
