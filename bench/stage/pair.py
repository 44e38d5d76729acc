"""The two fresh clusters that items are measured on, and what they do first so that nobody pays for going first."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.copies.limit import measure_limit
from bench.items.catalogue import COPIES
from bench.items.kinds import CopyItem
from bench.stage.load import fill
from bench.stage.progress import say, silent
from harness.cluster import KafkaCluster
from harness.topics import delete_topic
from harness.traffic.relay import Distance

BROKER_HEAP = "1g"
BROKER_CONFIG = {
    # Kafka's own defaults, where the harness has smaller ones.
    "num.network.threads": "3",
    "num.io.threads": "8",
    "log.cleaner.dedupe.buffer.size": str(128 << 20),
    "group.initial.rebalance.delay.ms": "3000",
}
AT_ONCE_CONFIG = {**BROKER_CONFIG, "group.initial.rebalance.delay.ms": "0"}
"""Brokers that do not wait for more members of a new group."""
WARM_UP_ITEMS = 4
WARM_UP_RECORDS = 150_000
MOST_REPLAYS = 6
STEADY = 0.9
"""A replay that takes more than this of the time of the one before is as fast as it gets."""
SOME = 0.2
"""Share of the requests with one record each: Kafka's tool takes its time to send them."""


@contextlib.contextmanager
def clusters(
    work: Path,
    *,
    nodes: int = 1,
    counted: bool = False,
    distance: Distance | None = None,
    config: Mapping[str, str] = BROKER_CONFIG,
) -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    """Source and target of `nodes` brokers each, their data below `work`; with a `distance` each has a relay before it,
    `counted` ones count what passes."""
    made = [
        KafkaCluster(
            name,
            nodes,
            sasl=False,
            heap=BROKER_HEAP,
            jit="full",
            config=config,
            counted=counted,
            distance=distance,
            work_dir=work / name,
        )
        for name in ("source", "target")
    ]
    try:
        say(f"{2 * nodes} brokers are starting")
        for cluster in made:
            cluster.start_async()
        for cluster in made:
            cluster.wait_ready()
        yield made[0], made[1]
    finally:
        for cluster in made:
            cluster.close()


def warm_up(source: KafkaCluster, target: KafkaCluster, work: Path, scale: float) -> None:
    """Let the brokers' JVMs compile what they will need, so that the system that goes first has no disadvantage."""
    for item in COPIES[:WARM_UP_ITEMS]:
        small = item.scaled(min(1.0, scale * 2) * WARM_UP_RECORDS / item.records)
        topic = f"warm-{item.name}"
        say(f"warming up the brokers: {small.records:,} records, {item.title}")
        fill(source, topic, small, work)
        for _ in range(2):
            measure_limit(small, topic, source, target, silent)
        delete_topic(source, topic)


def warm(item: CopyItem, source: KafkaCluster, target: KafkaCluster, work: Path) -> None:
    """Replay a filled topic until that takes no less time than before, and write as much as an idempotent producer.

    A broker's JVM goes on compiling for gigabytes, and memory that the machine touches for the first time is slow:
    whoever went first would pay for both. MirrorMaker 2's producer is not idempotent, twinlog's is.
    """
    say(f"{item.name}: warming up the brokers with the same load")
    last = float("inf")
    for _ in range(MOST_REPLAYS):
        figures = measure_limit(item, item.name, source, target, silent)
        taken = max(figures.append_s, figures.fetch_s)
        if taken > STEADY * last:
            break
        last = taken
    some = item.scaled(SOME) if item.batch_bytes == 1 else item
    fill(target, f"warm-{item.name}", some, work, idempotent=True)
    delete_topic(target, f"warm-{item.name}")
