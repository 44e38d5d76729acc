"""Measures how many markers of transactions a client can write: `python -m bench.copies.markers`.

Copies with identical offsets write a marker for each marker of the source (`docs/identical-offsets.md`). A marker waits
for the record before it, and the next record waits for the marker. WriteTxnMarkers is compared with transactions
without records, whose markers a coordinator writes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any

from harness.cluster import KafkaCluster
from harness.jvm.jars import KAFKA_VERSION
from harness.topics import create_topic, offsets
from twinlog.errors import ClusterError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.coordinator.transactions import TransactionCoordinator
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.producer.marker_writer import MOST_MARKERS, MarkerWriter
from twinlog.kafka.protocol.offsets import LATEST
from twinlog.kafka.record.builder import encode_batch, record_body
from twinlog.kafka.record.stamp import stamp
from twinlog.kafka.retry import COPIER_STEP, retry
from twinlog.model.types import TopicName, TopicPartition
from twinlog.settings.client import ClientSettings

PARTITIONS = (1, 10, 50)
TIMEOUT_S = 30.0

Step = Callable[[TopicPartition], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class MarkerRate:
    """Markers a second of all partitions, and the CPU seconds a second of the client."""

    what: str
    partitions: int
    markers_s: float
    cpu: float

    def __str__(self) -> str:
        each = self.markers_s / self.partitions
        return f"| {self.what} | {self.partitions} | {self.markers_s:,.0f} | {each:,.0f} | {self.cpu:.2f} |"


class MarkerRates:
    """Measures a cluster, each way of writing markers for `seconds`."""

    def __init__(self, cluster: KafkaCluster, seconds: float) -> None:
        self._cluster = cluster
        self._seconds = seconds
        self._topics = 0
        self._loop = Loop()
        self._client = ClusterClient(self._loop, "target", ClientSettings(tuple(cluster.bootstrap.split(","))))
        self._markers = MarkerWriter(self._client)
        self._batch = bytearray(encode_batch([(0, record_body(None, b"v" * 100))], 0))
        stamp(self._batch, -1, -1, -1)

    def run(self) -> None:
        """Print every figure; each topic is checked to have a marker for each counted marker."""
        self._loop.run(self._client.connect)
        # The coordinators of a new cluster are still loading.
        self._loop.run(retry, self._loop, COPIER_STEP, self._client.init_producer)
        mark, mark_many = (partial(self._markers.write, count=count) for count in (1, MOST_MARKERS))
        for count in PARTITIONS:
            self._measure("markers alone, WriteTxnMarkers", count, mark, 1, 1)
            self._measure("record, marker, record, ..., WriteTxnMarkers", count, self._alternate, 1, 2)
            self._measure("markers alone, transactions without records", count, None, 1, 1)
        self._measure(f"{MOST_MARKERS} markers a request", 1, mark_many, MOST_MARKERS, MOST_MARKERS)
        self._client.close()

    async def _alternate(self, part: TopicPartition) -> None:
        leader = self._client.require_leader(part)
        await self._client.append(leader.node, {part.topic: [(part.partition, self._batch)]}, TIMEOUT_S)
        await self._markers.write(part, 1)

    async def _coordinated(self, part: TopicPartition) -> Step:
        """Transactions without records: the next transaction of an id waits for the marker of the last."""
        name = f"markers-{part.topic}-{part.partition}"
        coordinator = TransactionCoordinator(self._client, name, 60_000)
        holder = await retry(self._loop, COPIER_STEP, coordinator.init)

        async def step(part: TopicPartition) -> None:
            await coordinator.add(holder, [part])
            await coordinator.end(holder, commit=True)

        return step

    async def _require_there(self, part: TopicPartition) -> None:
        if part not in await self._client.list_offsets([part], LATEST):
            raise ClusterError(f"{part} has no leader yet")

    def _measure(self, what: str, count: int, step: Step | None, markers: int, taken: int) -> None:
        """Print a figure: each step writes so many markers to a partition, and takes so many offsets of it."""
        self._topics += 1
        topic = TopicName(create_topic(self._cluster, f"markers-{self._topics}", count))
        done = 0

        async def repeat(part: TopicPartition, each: Step, until: float) -> None:
            nonlocal done
            while time.monotonic() < until:
                await each(part)
                done += 1

        async def measure() -> MarkerRate:
            nonlocal done
            await self._client.refresh([topic])
            parts = [TopicPartition(topic, number) for number in range(count)]
            steps = [step or await self._coordinated(part) for part in parts]
            spawn = self._loop.spawn
            pairs = list(zip(parts, steps, strict=True))
            for part in parts:
                # A broker leads a new partition only after it has heard of it.
                await retry(self._loop, COPIER_STEP, partial(self._require_there, part))
            # The first second warms the broker up.
            until = time.monotonic() + 1
            await self._loop.gather([spawn(repeat, part, each, until) for part, each in pairs])
            begun, cpu, before = time.monotonic(), time.process_time(), done
            until = begun + self._seconds
            await self._loop.gather([spawn(repeat, part, each, until) for part, each in pairs])
            took = time.monotonic() - begun
            return MarkerRate(what, count, (done - before) * markers / took, (time.process_time() - cpu) / took)

        rate = self._loop.run(measure)
        # The marker of a coordinator follows its answer.
        until = time.monotonic() + TIMEOUT_S
        while (ends := sum(offsets(self._cluster, topic, number)[1] for number in range(count))) < done * taken:
            assert time.monotonic() < until, f"{topic}: {ends} offsets after {done} steps"
            time.sleep(0.1)
        print(rate, flush=True)
        if ends != done * taken:
            print(f"{topic}: {ends} offsets, {done * taken} expected: markers were doubled", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.copies.markers", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="for each figure (default: %(default)s)")
    parser.add_argument("--version", default=KAFKA_VERSION, help="Kafka's version (default: %(default)s)")
    asked = parser.parse_args()
    with KafkaCluster("markers", jit="full", version=asked.version) as cluster:
        print("| how | partitions | markers/s | markers/s a partition | CPU s per s of the client |")
        print("|---|--:|--:|--:|--:|", flush=True)
        MarkerRates(cluster, asked.seconds).run()


if __name__ == "__main__":
    main()
