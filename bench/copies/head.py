"""Measures how long the begin of a remote log takes with identical offsets: `python -m bench.copies.head`.

The log of the source begins at a large offset. twinlog fills the remote log up to this offset and deletes the fillers
(`docs/identical-offsets.md`).
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from bench.stage.meter import cpu_of
from bench.stage.pair import clusters
from bench.systems import Setup, System
from harness.cluster import KafkaCluster
from harness.produce import numbered, produce
from harness.topics import create_topic, delete_records, offsets
from harness.wait import wait_for
from twinlog.batches.fillers import make_fillers
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.compression import ZSTD
from twinlog.kafka.record.stamp import stamp
from twinlog.model.types import SourceOffset, TopicName, TopicPartition
from twinlog.settings.client import ClientSettings

TOPIC = TopicName("head")
RECORDS = 100
AT_ONCE = 2
TIMEOUT_S, DEADLINE_S = 30.0, 1_200.0
BATCH_BYTES = 1_000_000
PROPERTIES = {
    "twinlog.offsets": "identical",
    "emit.checkpoints.enabled": "false",
    "sync.topic.configs.enabled": "false",
}


def make_head(cluster: KafkaCluster, head: int) -> float:
    """Let the log of the topic begin at offset `head`; returns the seconds of all appends."""
    loop = Loop()
    client = ClusterClient(loop, "source", ClientSettings(tuple(cluster.bootstrap.split(","))))
    part = TopicPartition(TOPIC, 0)
    first = SourceOffset(0)

    async def append_next() -> None:
        nonlocal first
        while first < head:
            fillers = make_fillers(first, SourceOffset(head), 0, ZSTD, BATCH_BYTES)[:1]
            first = fillers[-1].next_source_offset
            for one in fillers:
                stamp(one.data, -1, -1, -1)
                leader = client.require_leader(part)
                answers = await client.append(leader.node, {TOPIC: [(0, one.data)]}, TIMEOUT_S)
                assert all(answer.code == Code.NONE for answer in answers.values()), answers

    async def append_all() -> None:
        await client.refresh([TOPIC])
        await loop.gather([loop.spawn(append_next) for _ in range(AT_ONCE)])

    loop.run(client.connect)
    began = time.monotonic()
    loop.run(append_all)
    took = time.monotonic() - began
    client.close()
    delete_records(cluster, TOPIC, head)
    return took


def measure(source: KafkaCluster, target: KafkaCluster, head: int, work: Path) -> None:
    """Print how long the remote log takes to begin at `head`, the CPU seconds, and the largest log on disk."""
    create_topic(source, TOPIC)
    alone = make_head(source, head)
    produce(source, TOPIC, numbered(RECORDS))
    print(f"{head:,} fillers appended by a bare client: {alone:.1f} s, {head / alone / 1e6:.1f} M/s", flush=True)
    setup = Setup("twinlog", TOPIC, PROPERTIES, bridge=True)
    with System(setup, source, target, work, memory=False) as running:

        def begun() -> bool:
            running.require_alive()
            return _end(target, setup.remote) > 0

        wait_for(begun, DEADLINE_S, "the first filler is there")
        began, own, broker = time.monotonic(), running.meter.cpu_s(), cpu_of(target.pids)
        filled = 0.0
        while offsets(target, setup.remote)[0] < head:
            running.require_alive()
            if not filled and _end(target, setup.remote) >= head:
                filled = time.monotonic() - began
            time.sleep(0.1)
        took = time.monotonic() - began
        cpu = running.meter.cpu_s() - own, cpu_of(target.pids) - broker
        logs = sum(file.stat().st_size for file in (work / "target").rglob(f"*{TOPIC}-0/*.log"))
        wait_for(lambda: _end(target, setup.remote) == head + RECORDS, DEADLINE_S, "the records are copied")
    print(
        f"| {head:,} | {took:.1f} | {filled:.1f} | {head / took / 1e6:.1f} | {cpu[0]:.1f} | {cpu[1]:.1f} | "
        f"{logs / 1e6:.0f} |",
        flush=True,
    )


def _end(cluster: KafkaCluster, topic: str) -> int:
    try:
        return offsets(cluster, topic)[1]
    except Exception:
        return 0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.copies.head", description=__doc__)
    parser.add_argument("--offsets", type=int, default=1_000_000_000, help="before the first record")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as home, clusters(Path(home)) as (source, target):
        print("| offsets | s | of it filling | M/s | CPU s of twinlog | CPU s of the target | MB on the target |")
        print("|--:|--:|--:|--:|--:|--:|--:|", flush=True)
        measure(source, target, asked.offsets, Path(home))


if __name__ == "__main__":
    main()
