"""Topics as DataFrames: broker to DataFrame and back, on two cores, beside Spark's own Kafka source and sink."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.items.kinds import FramesItem
from bench.stage.load import fill
from harness.cluster import KafkaCluster
from harness.errors import HarnessError
from harness.jvm.jars import spark_source_jars
from harness.topics import create_topic

DEADLINE_S = 1_800
MB = 1e6


@dataclass(frozen=True, slots=True)
class FramesFigures:
    """The best of the rounds, as the first ones compile; `spark_` is Spark's own source, nan where it cannot be had."""

    read_1k_mb_per_s: float
    read_100_records_per_s: float
    write_1k_mb_per_s: float
    spark_read_1k_mb_per_s: float
    spark_read_100_records_per_s: float
    spark_write_1k_mb_per_s: float


def measure_frames(item: FramesItem, cluster: KafkaCluster, work: Path, talk: Callable[[str], None]) -> FramesFigures:
    """Fill two topics, and have each format read both and write a third."""
    for copy in (item.large, item.small):
        talk(f"writing {copy.records:,} records, {copy.title}")
        fill(cluster, copy.name, copy, work)
    own = _best(item, "twinlog-kafka", "", cluster, talk)
    try:
        jars = ",".join(map(str, spark_source_jars()))
    except HarnessError as error:
        talk(f"without Spark's own source: {error}")
        return figures_of(item, own, None)
    return figures_of(item, own, _best(item, "kafka", jars, cluster, talk))


def figures_of(item: FramesItem, own: dict[str, float], spark: dict[str, float] | None) -> FramesFigures:
    """The speeds that go with the best seconds of each."""

    def speeds(best: dict[str, float] | None) -> list[float]:
        if best is None:
            return [float("nan")] * 3
        large = item.large.payload_bytes / MB
        return [large / best["read_1k"], item.small.records / best["read_100"], large / best["write_1k"]]

    return FramesFigures(*speeds(own), *speeds(spark))


def _best(
    item: FramesItem, kind: str, jars: str, cluster: KafkaCluster, talk: Callable[[str], None]
) -> dict[str, float]:
    talk(f"format {kind}: {item.rounds} rounds")
    out = create_topic(cluster, f"written-by-{kind}", item.large.partitions)
    command = [sys.executable, "-m", "bench.spark.frames_job", kind, cluster.bootstrap, str(item.rounds), jars]
    command += [item.large.name, item.small.name, out, str(item.large.records)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    if done.returncode:
        raise HarnessError(f"{kind}: {done.stderr[-2_000:]}")
    took: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return {what: min(seconds) for what, seconds in took.items()}
