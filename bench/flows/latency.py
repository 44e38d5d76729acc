"""Measures how long records are on their way from a producer on the source to a consumer on the target."""

from __future__ import annotations

import multiprocessing
import os
import signal
import struct
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from bench.items.kinds import LatencyItem
from bench.stage.load import documents
from bench.stage.meter import MB, wait_calm
from bench.systems import Setup, System
from harness.clients import ClientConfig
from harness.cluster import KafkaCluster
from harness.errors import HarnessError
from harness.topics import create_topic, delete_topic, delete_topics_of_users, topics
from harness.wait import wait_for

_STAMP = struct.Struct(">qq")
"""Number of the record and when it was sent, in ns of the machine's monotonic clock; at the head of each value."""
QUIET_S = 15.0
"""Nothing received for so long after the last record was sent: what is missing is lost."""
REMOTE_TOPIC_S = 120.0


@dataclass(frozen=True, slots=True)
class LatencyFigures:
    """Milliseconds from just before `produce` to just after `poll`, over all records after the warm-up.

    CPU is that of all processes of the system over the counted time.
    """

    p50_ms: float
    p90_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float
    cpu_meanwhile_s: float
    counted: int
    received_again: int
    peak_pss_mb: float
    peak_rss_mb: float


def measure_latency(
    item: LatencyItem,
    setup: Setup,
    source: KafkaCluster,
    target: KafkaCluster,
    work: Path,
    say: Callable[[str], None],
) -> LatencyFigures:
    """Start a system on an empty topic, send through it at an even pace, count what comes out."""
    create_topic(source, setup.topic, item.partitions)
    os.sync()
    wait_calm()
    total = item.per_second * (item.warm_up_s + item.seconds)
    first = item.per_second * item.warm_up_s
    latencies = array("d", bytes(8 * total))
    context = multiprocessing.get_context("spawn")
    consumer = Consumer(
        {
            **target.client_config(),
            "group.id": "bench-latency",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 10,
            "fetch.min.bytes": 1,
        }
    )
    sender: BaseProcess = context.Process(
        target=_send, args=(item, source.client_config(), setup.topic, total), daemon=True
    )
    try:
        with System(setup, source, target, work, memory=False) as system:

            def there() -> bool:
                system.require_alive()
                return topics(target).get(setup.remote) == item.partitions

            wait_for(there, REMOTE_TOPIC_S, f"{setup.remote} is on the target")
            consumer.assign([TopicPartition(setup.remote, part, OFFSET_BEGINNING) for part in range(item.partitions)])
            _let_through(item, setup, source, consumer, system)
            sender.start()
            received = again = 0
            cpu_begin = 0.0
            last = shown_at = time.monotonic()
            while received < total:
                message = consumer.poll(0.1)
                now = time.monotonic_ns()
                if message is None:
                    system.require_alive()
                    if sender.exitcode:
                        raise HarnessError(f"the producer ended with status {sender.exitcode}")
                    if time.monotonic() - last > (QUIET_S if sender.exitcode is not None else 6 * QUIET_S):
                        raise system.failed(f"{total - received} of {total} records of {setup.remote} never came")
                    continue
                error = message.error()
                if error is not None:
                    if error.retriable():
                        continue
                    raise HarnessError(f"{setup.remote}: {error}")
                number, sent = _STAMP.unpack_from(message.value() or b"")
                if latencies[number]:
                    again += 1
                    continue
                latencies[number] = (now - sent) / 1e6
                received += 1
                last = now / 1e9
                if received == first:
                    cpu_begin = system.meter.cpu_s()
                if last - shown_at >= 60:
                    say(f"{received:,} of {total:,} records")
                    shown_at = last
            cpu = system.meter.cpu_s() - cpu_begin
    finally:
        if sender.is_alive():
            sender.kill()
            sender.join()
        consumer.close()
    delete_topics_of_users(target)
    delete_topic(source, setup.topic)
    counted = sorted(latencies[first:])
    figures = LatencyFigures(
        p50_ms=percentile(counted, 0.5),
        p90_ms=percentile(counted, 0.9),
        p99_ms=percentile(counted, 0.99),
        p999_ms=percentile(counted, 0.999),
        max_ms=counted[-1],
        cpu_meanwhile_s=cpu,
        counted=len(counted),
        received_again=again,
        peak_pss_mb=system.meter.peak_pss / MB,
        peak_rss_mb=system.meter.peak_rss / MB,
    )
    say(
        f"p50 {figures.p50_ms:.2f}, p90 {figures.p90_ms:.2f}, p99 {figures.p99_ms:.2f}, p99.9 {figures.p999_ms:.2f}, "
        f"max {figures.max_ms:.1f} ms; {figures.cpu_meanwhile_s:.1f} s CPU"
    )
    return figures


def _let_through(item: LatencyItem, setup: Setup, source: KafkaCluster, consumer: Consumer, system: System) -> None:
    """Send one record through each partition and wait for them: the remote topic exists before anything is copied."""
    producer = Producer(source.client_config())
    for partition in range(item.partitions):
        producer.produce(setup.topic, b"first", partition=partition)
    producer.flush(30)
    missing = set(range(item.partitions))

    def all_came() -> bool:
        system.require_alive()
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            missing.discard(int(message.partition() or 0))
        return not missing

    wait_for(all_came, REMOTE_TOPIC_S, f"a first record of each partition of {setup.remote} comes")


def percentile(ordered: list[float], share: float) -> float:
    """The smallest value that at least `share` of all values do not exceed."""
    return ordered[max(0, -int(-len(ordered) * share // 1) - 1)]


def _send(item: LatencyItem, config: ClientConfig, topic: str, total: int) -> None:
    """Runs in a process of its own, so that sending and receiving do not wait for one another."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid()
    producer = Producer({**config, "linger.ms": 0, "acks": "1"})
    bodies = [text[_STAMP.size :].encode() for text in documents(item.record_bytes, 1_000)]
    begin = time.monotonic()
    for number in range(total):
        wait = begin + number / item.per_second - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        value = _STAMP.pack(number, time.monotonic_ns()) + bodies[number % len(bodies)]
        producer.produce(topic, value, partition=number % item.partitions)
        producer.poll(0)
        if number % item.per_second == 0 and os.getppid() != parent:
            return
    if producer.flush(30):
        raise SystemExit(1)
