"""Fills source topics by Kafka's own load tool with records that look like JSON documents."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.items.kinds import CopyItem
from bench.stage.progress import say
from bench.stage.wire import Connection, EndWatch, fetch_frame, fetched, leaders
from harness.cluster import KafkaCluster
from harness.errors import HarnessError
from harness.jvm.tools import PRODUCER_PERF, run_tool
from harness.topics import create_topic
from harness.wait import wait_for
from twinlog.kafka.record.batch import Batch, read_batch

DISTINCT = 20_000
DISTINCT_BYTES = 20_000_000
"""Different values at most; the tool picks among them at random."""
_SYLLABLES = [consonant + vowel for consonant in "bdklmnr" for vowel in "aeiou"]
FILL_DEADLINE_S = 900.0
REPLICATED_S = 60.0


def documents(size: int, count: int = DISTINCT, seed: int = 11) -> list[str]:
    """JSON documents of exactly `size` ASCII characters: some numbers, some ids, and words."""
    pick = random.Random(seed)
    words = ["".join(pick.choices(_SYLLABLES, k=pick.randrange(1, 5))) for _ in range(3_000)]
    made = []
    for number in range(count):
        head: dict[str, object] = {"id": number, "at": 1_750_000_000_000 + pick.randrange(10**9)}
        head["v"] = round(pick.random() * 1_000, 3)
        if size >= 500:
            head |= {
                "customer": f"{pick.getrandbits(64):016x}",
                "order": f"{pick.getrandbits(128):032x}",
                "paid": pick.random() < 0.5,
                "items": [{"sku": pick.randrange(10**8), "n": pick.randrange(1, 9)} for _ in range(6)],
            }
        head["text"] = ""
        room = size - len(json.dumps(head, separators=(",", ":")))
        head["text"] = " ".join(pick.choices(words, k=room // 2 + 1))[:room]
        made.append(json.dumps(head, separators=(",", ":")))
    return made


@dataclass(frozen=True, slots=True)
class Shape:
    """How a topic lies in the source's log; batch figures are means over the first fetch of each partition."""

    log_bytes: int
    batch_records: float
    batch_bytes: float


def fill(cluster: KafkaCluster, topic: str, item: CopyItem, work: Path, *, idempotent: bool = False) -> Shape:
    """Create `topic` and write the item's records to it; checks their number and the batches on the broker."""
    create_topic(cluster, topic, item.partitions)
    payload = work / f"payload-{item.record_bytes}.txt"
    if not payload.exists():
        count = min(DISTINCT, DISTINCT_BYTES // item.record_bytes)
        payload.write_text("\n".join(documents(item.record_bytes, count)), encoding="ascii")
    settings = {
        "acks": "all" if idempotent else "1",
        "compression.type": item.codec,
        "batch.size": item.batch_bytes,
        "linger.ms": 0 if item.batch_bytes == 1 else 100,
        "max.in.flight.requests.per.connection": 100 if item.batch_bytes == 1 and not idempotent else 5,
        "enable.idempotence": str(idempotent).lower(),
        "buffer.memory": 64 << 20,
    }
    arguments: list[str | Path] = ["--bootstrap-server", cluster.bootstrap, "--topic", topic]
    arguments += ["--num-records", str(item.records), "--throughput", "-1", "--payload-file", payload]
    arguments += ["--reporting-interval", "3600000"]
    arguments += ["--command-property", *(f"{key}={value}" for key, value in settings.items())]
    run_tool(PRODUCER_PERF, arguments, deadline_s=FILL_DEADLINE_S, heap="1g")
    watch = EndWatch(cluster.bootstrap, topic, item.partitions)
    try:
        # A producer with `acks=1` does not wait for replicas, and readers see replicated records only.
        with contextlib.suppress(TimeoutError):
            wait_for(lambda: watch.total() >= item.records, REPLICATED_S, f"{topic} is replicated")
        found = watch.total()
    finally:
        watch.close()
    if found != item.records:
        raise HarnessError(f"{topic} holds {found} records, {item.records} were written")
    shape = _shape(cluster, topic, item.partitions)
    if item.batch_bytes == 1 and shape.batch_records != 1:
        raise HarnessError(f"{topic} should hold batches of 1 record, but there are {shape.batch_records:.2f} in each")
    return shape


def fill_loud(item: CopyItem, source: KafkaCluster, work: Path) -> Shape:
    """Fill the item's topic, and say so."""
    say(f"{item.name}: writing {item.records:,} records, {item.title}")
    shape = fill(source, item.name, item, work)
    say(
        f"{item.name}: {shape.log_bytes / 1e6:,.0f} MB in the log, {shape.batch_records:,.1f} records and "
        f"{shape.batch_bytes:,.0f} bytes in a batch"
    )
    return shape


def _shape(cluster: KafkaCluster, topic: str, partitions: int) -> Shape:
    logs = [path for part in range(partitions) for path in cluster.brokers[1].data.glob(f"{topic}-{part}/*.log")]
    batches: list[Batch] = []
    for part, leader in leaders(cluster, topic).items():
        connection = Connection(leader)
        try:
            connection.send(fetch_frame(topic, {part: 0}, 1 << 20))
            (records,) = fetched(connection.receive()).values()
            batches += read_batches(records)
        finally:
            connection.close()
    return Shape(
        log_bytes=sum(path.stat().st_size for path in logs),
        batch_records=sum(batch.record_count for batch in batches) / len(batches),
        batch_bytes=sum(batch.size for batch in batches) / len(batches),
    )


def read_batches(records: memoryview) -> Iterator[Batch]:
    """The complete batches of a fetch."""
    at = 0
    while (batch := read_batch(records, at)) is not None:
        yield batch
        at = batch.end
