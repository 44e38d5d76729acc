"""Measures one system copying one topic from its first record to its last."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.items.kinds import CopyItem, RepeatedItem
from bench.stage.meter import MB, cpu_of, wait_calm
from bench.stage.wire import EndWatch
from bench.systems import Setup, System
from harness.checks.requests import Traffic, traffic
from harness.cluster import KafkaCluster
from harness.consume import Record, consume
from harness.errors import HarnessError
from harness.topics import create_topic, delete_topics_of_users, offsets

LOOK_EVERY_S = 0.02
RELAXED_S = 0.1
"""Between looks while neither the first nor the last record can be near."""
FIRST_RECORD_S = 120.0
STALLED_S = 60.0
COMPARED = 100
"""Records at the end of each partition that are compared with the source's."""


@dataclass(frozen=True, slots=True)
class CopyFigures:
    """What one run came to; times in s, memory in MB.

    `records_per_s`, `mb_per_s` (of values), `copy_s`, `cpu_s` and the brokers' CPU are over the time from the last look
    at which the remote topic was empty to the first look at which it was complete, at most two looks longer than the
    truth. `start_s` is from the start of the process to the first record on the target; `whole_s` and `whole_cpu_s`
    are from there to the last record. CPU is of all processes of the system, `brokers_cpu_s` of both clusters. Peaks
    are over the whole run, and `peak_parts_mb` is the PSS of each process at its peak.

    Requests are those that the brokers answered from the start of the process to half a second after the last record:
    `produce_requests` of the target with `produce_kb` of records in each, and `fetch_requests` of the source with
    `fetch_kb` of records in each answer. They are None if the brokers do not count.
    """

    records_per_s: float
    mb_per_s: float
    copy_s: float
    cpu_s: float
    cpu_s_per_million: float
    brokers_cpu_s: float
    source_cpu_s: float
    target_cpu_s: float
    start_s: float
    whole_s: float
    whole_cpu_s: float
    peak_pss_mb: float
    peak_rss_mb: float
    peak_parts_mb: dict[str, float]
    produce_requests: int | None = None
    produce_kb: float | None = None
    fetch_requests: int | None = None
    fetch_kb: float | None = None


@dataclass(frozen=True, slots=True)
class Kept:
    """Whether a system keeps each quality of records, by `bench.copies.fidelity`.

    `complete`: each record arrives once, with its key and its value. `order`: the records of a partition arrive in one
    partition in their order.
    """

    complete: bool = True
    order: bool = True
    partition: bool = True
    timestamps: bool = True
    headers: bool = True


def measure_copy(
    item: CopyItem,
    setup: Setup,
    source: KafkaCluster,
    target: KafkaCluster,
    work: Path,
    say: Callable[[str], None],
    then: Callable[[], None] = lambda: None,
    kept: Kept = Kept(),
) -> CopyFigures:
    """Run a system on a filled topic until the remote topic is complete, check that the copy has what the system
    keeps, do what comes `then`, and clear the target.

    Raises HarnessError or TimeoutError, and the target is not cleared then.
    """
    # What was written before must not be written back to disk now.
    os.sync()
    wait_calm()
    say("starts")
    if not setup.makes_topics:
        create_topic(target, setup.remote, item.partitions)
    counts = all(broker.counts for cluster in (source, target) for broker in cluster.brokers.values())
    fetches, produces = (traffic(source), traffic(target)) if counts else (None, None)
    watch = EndWatch(target.bootstrap, setup.remote, item.partitions)
    try:
        with System(setup, source, target, work, memory=True) as system:
            meter = system.meter
            if setup.held:
                system.release()
            seen = 0
            begin, cpu_begin, source_begin, target_begin = system.started, 0.0, cpu_of(source.pids), cpu_of(target.pids)
            while not seen:
                begin, cpu_begin = time.monotonic(), meter.cpu_s()
                source_begin, target_begin = cpu_of(source.pids), cpu_of(target.pids)
                time.sleep(LOOK_EVERY_S)
                seen = watch.total()
                system.require_alive()
                if time.monotonic() - system.started > FIRST_RECORD_S:
                    raise system.failed(f"no record of {setup.remote} came within {FIRST_RECORD_S:g} s")
            first = time.monotonic()
            moved = first
            # A process that nobody had seen yet has used its time until now for its start.
            cpu_begin += meter.discover()
            while seen < item.records:
                time.sleep(RELAXED_S if _far(seen, item.records, time.monotonic() - begin) else LOOK_EVERY_S)
                before, seen = seen, watch.total()
                now = time.monotonic()
                moved = now if seen != before else moved
                system.require_alive()
                if now - moved > STALLED_S:
                    raise system.failed(f"{setup.remote} stopped growing at {seen} of {item.records} records")
            end = time.monotonic()
            meter.discover()
            cpu = meter.cpu_s() - cpu_begin
            source_cpu, target_cpu = cpu_of(source.pids) - source_begin, cpu_of(target.pids) - target_begin
            produced = _requests("Produce", target, produces)
            fetched = _requests("FetchConsumer", source, fetches)
    finally:
        watch.close()
    check_copy(item, setup, source, target, kept)
    then()
    delete_topics_of_users(target)
    taken = end - begin
    figures = CopyFigures(
        records_per_s=item.records / taken,
        mb_per_s=item.payload_bytes / taken / MB,
        copy_s=taken,
        cpu_s=cpu,
        cpu_s_per_million=cpu / item.records * 1e6,
        brokers_cpu_s=source_cpu + target_cpu,
        source_cpu_s=source_cpu,
        target_cpu_s=target_cpu,
        start_s=first - system.started,
        whole_s=end - system.started,
        whole_cpu_s=cpu_begin + cpu,
        peak_pss_mb=meter.peak_pss / MB,
        peak_rss_mb=meter.peak_rss / MB,
        peak_parts_mb={name: round(pss / MB, 1) for name, pss in meter.peak_parts.items()},
        produce_requests=produced[0],
        produce_kb=produced[1],
        fetch_requests=fetched[0],
        fetch_kb=fetched[1],
    )
    say(
        f"{figures.records_per_s:,.0f} records/s, {figures.mb_per_s:,.1f} MB/s, {figures.cpu_s:.2f} s CPU and "
        f"{figures.brokers_cpu_s:.2f} s of the brokers in {taken:.2f} s, first record after "
        f"{figures.start_s:.1f} s, peak PSS {figures.peak_pss_mb:,.0f} MB"
    )
    return figures


def measure_by_turns(
    item: RepeatedItem,
    setups: Mapping[str, Setup],
    source: KafkaCluster,
    target: KafkaCluster,
    work: Path,
    talk: Callable[[str], Callable[[str], None]],
    after: Callable[[], None] = lambda: None,
) -> dict[str, list[CopyFigures]]:
    """Copy the filled topic `item.copy.name` so many times in each way, by turns; the first way changes. `after` is
    called after each copy."""
    runs: dict[str, list[CopyFigures]] = {way: [] for way in setups}
    for number in range(item.rounds):
        for way in sorted(setups, reverse=bool(number % 2)):
            runs[way].append(measure_copy(item.copy, setups[way], source, target, work, talk(way)))
            after()
    return runs


def _far(seen: int, wanted: int, taken: float) -> bool:
    """Whether the last record is more than half a second away, at the pace so far."""
    return seen < wanted * taken / (taken + 0.5) and taken > 0.5


def _requests(api: str, cluster: KafkaCluster, before: Traffic | None) -> tuple[int | None, float | None]:
    """How many requests of one API came since then, and the mean of the records in each, in KB."""
    if before is None:
        return None, None
    now = traffic(cluster)
    count = now.requests[api] - before.requests[api]
    return count, (now.data - before.data) / max(count, 1) / 1_000


def check_copy(item: CopyItem, setup: Setup, source: KafkaCluster, target: KafkaCluster, kept: Kept = Kept()) -> None:
    """The remote topic has as many records in each partition as the source's, and the last ones are equal in all that
    the system keeps; if it keeps no partitions, the remote topic has as many records in all.

    Raises HarnessError.
    """
    ends = {
        partition: (offsets(source, setup.topic, partition)[1], offsets(target, setup.remote, partition)[1])
        for partition in range(item.partitions)
    }
    if not kept.partition:
        ours, theirs = (sum(column) for column in zip(*ends.values(), strict=True))
        if ours != theirs:
            raise HarnessError(f"{setup.remote} has {theirs} records, {setup.topic} has {ours}")
        return
    for partition, (end, remote_end) in ends.items():
        if remote_end != end:
            raise HarnessError(
                f"{setup.remote}-{partition} has {remote_end} records, {setup.topic}-{partition} has {end}"
            )
        start = max(0, end - COMPARED)
        here = consume(source, setup.topic, partitions=[partition], start=start)
        there = consume(target, setup.remote, partitions=[partition], start=start)
        if [_content(record, kept) for record in here] != [_content(record, kept) for record in there]:
            raise HarnessError(f"{setup.remote}-{partition}: the last {end - start} records are not the source's")


def _content(record: Record, kept: Kept) -> tuple[object, ...]:
    stamp = (record.timestamp, record.timestamp_type) if kept.timestamps else ()
    return (record.key, record.value, record.headers if kept.headers else (), *stamp)
