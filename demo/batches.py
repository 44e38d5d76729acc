"""Looks at the batches on both brokers' disks with Kafka's own dump tool: how many, and how compressed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.cluster import KafkaCluster
from harness.jvm.tools import DUMP_LOG, run_tool

_FILE = re.compile(r"^Dumping .*/(.+)-\d+/[^/]+\.log$")
_BATCH = re.compile(r"^baseOffset: .*\bcompresscodec: (\w+)")


@dataclass(slots=True)
class Batches:
    """Batches of one topic: their number and their codecs' names."""

    count: int = 0
    codecs: set[str] = field(default_factory=set)


def batches(clusters: Mapping[KafkaCluster, list[str]]) -> dict[str, Batches]:
    """Batches of topics by name; one run of the tool for all clusters, so names must differ between them."""
    files = [
        str(segment)
        for cluster, topics in clusters.items()
        for broker in cluster.brokers.values()
        for topic in topics
        for segment in sorted(broker.data.glob(f"{topic}-[0-9]*/*.log"))
    ]
    found: dict[str, Batches] = {}
    topic = Batches()
    for line in run_tool(DUMP_LOG, ["--files", ",".join(files)]).splitlines():
        if named := _FILE.match(line):
            topic = found.setdefault(named[1], Batches())
        elif batch := _BATCH.match(line):
            topic.count += 1
            topic.codecs.add(batch[1].lower())
    return found
