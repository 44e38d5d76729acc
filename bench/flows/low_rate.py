"""Measures the CPU time of a mirror that has nothing or little to copy."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from pathlib import Path

from confluent_kafka import Producer

from bench.flows.many_topics import ManyTopics, count_records
from bench.items.kinds import LowRateItem
from bench.stage.load import documents
from bench.stage.meter import cpu_of, wait_calm
from bench.systems import MirrorName, Setup, System
from harness.clients import ClientConfig
from harness.cluster import KafkaCluster
from harness.errors import HarnessError
from harness.wait import wait_for

PREFIX = "low-"
DEADLINE_S = 300.0
SETTLE_S = 20.0
"""From the last of the first records to the first measurement: compilers and first refreshes are over."""
LEAD_S = 3.0
"""From the first record of a rate to its measurement."""
PROPERTIES = {
    "refresh.topics.interval.seconds": "600",
    "emit.heartbeats.enabled": "true",
    "emit.checkpoints.enabled": "true",
    "emit.offset-syncs.enabled": "true",
    "sync.topic.configs.enabled": "true",
    "checkpoints.topic.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
}
"""MirrorMaker 2's defaults, where the other items have none."""


@dataclass(frozen=True, slots=True)
class LowRateFigures:
    """CPU seconds per second of all processes of a system, and of both brokers, by records per second."""

    cpu_at_0: float
    cpu_at_10: float
    cpu_at_100: float
    cpu_at_1000: float
    brokers_cpu_at_0: float
    brokers_cpu_at_10: float
    brokers_cpu_at_100: float
    brokers_cpu_at_1000: float


def measure_low_rate(
    item: LowRateItem,
    system: MirrorName,
    source: KafkaCluster,
    target: KafkaCluster,
    work: Path,
    say: Callable[[str], None],
) -> LowRateFigures:
    """Copy a record of each partition, then measure at each rate in turn; the topics are on the source.

    Raises HarnessError or TimeoutError, also if a record that was sent is not on the target at the end.
    """
    wait_calm()
    topics = ManyTopics(PREFIX, item.topics, item.partitions)
    setup = Setup(system, f"{PREFIX}.*", PROPERTIES, bridge=True)
    remote = topics.places(setup.alias)
    found: dict[str, float] = {}
    with System(setup, source, target, work, memory=False) as running:

        def all_copied() -> bool:
            running.require_alive()
            return count_records(target, remote) >= count_records(source, topics.places())

        wait_for(all_copied, DEADLINE_S, f"{setup.system} has copied the first records")
        time.sleep(SETTLE_S)
        for rate in item.rates:
            with _sending(topics, source, rate):
                time.sleep(LEAD_S)
                began, own, brokers = time.monotonic(), running.meter.cpu_s(), cpu_of(source.pids + target.pids)
                time.sleep(item.seconds)
                taken = time.monotonic() - began
                found[f"cpu_at_{rate}"] = (running.meter.cpu_s() - own) / taken
                found[f"brokers_cpu_at_{rate}"] = (cpu_of(source.pids + target.pids) - brokers) / taken
            say(
                f"{rate:,} records/s: {found[f'cpu_at_{rate}']:.3f} CPU s per s, "
                f"brokers {found[f'brokers_cpu_at_{rate}']:.3f}"
            )
        wait_for(all_copied, DEADLINE_S, f"{setup.system} has copied every record")
    return LowRateFigures(**found)


@contextlib.contextmanager
def _sending(topics: ManyTopics, source: KafkaCluster, rate: int) -> Iterator[None]:
    """Let another process send `rate` records a second. Raises HarnessError if that process failed."""
    if not rate:
        yield
        return
    context = multiprocessing.get_context("spawn")
    over = context.Event()
    sender = context.Process(target=_send, args=(topics, source.client_config(), rate, over), daemon=True)
    sender.start()
    try:
        yield
    finally:
        over.set()
        sender.join(150)
        if sender.is_alive():
            sender.kill()
            sender.join()
    if sender.exitcode:
        raise HarnessError(f"the producer ended with status {sender.exitcode}")


def _send(topics: ManyTopics, config: ClientConfig, rate: int, over: Event) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid()
    producer = Producer({**config, "linger.ms": 0, "acks": "1"})
    bodies = [text.encode() for text in documents(100, 1_000)]
    places = topics.places()
    begin = time.monotonic()
    number = 0
    while not over.is_set() and os.getppid() == parent:
        wait = begin + number / rate - time.monotonic()
        if wait > 0:
            time.sleep(min(wait, 0.1))
            continue
        place = places[number % len(places)]
        producer.produce(place.topic, bodies[number % len(bodies)], partition=place.partition)
        producer.poll(0)
        number += 1
    if producer.flush(120):
        raise SystemExit(1)
