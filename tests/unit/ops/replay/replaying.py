"""A range of topic `t` of one virtual cluster that goes into `s.t.replay` of another one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.virtual.cluster import VirtualCluster
from harness.virtual.loop import VirtualLoop
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.record.builder import encode_batch, record_body
from twinlog.kafka.record.compression import CODECS
from twinlog.kafka.record.records import Record
from twinlog.kafka.record.stamp import stamp
from twinlog.model.types import Alias, TopicName, TopicPartition
from twinlog.ops.replay.bounds import ReplayBound
from twinlog.ops.replay.model import PartitionToReplay, ReplayResult, ReplayRules
from twinlog.ops.replay.planner import ReplayOptions, ReplayPlanner
from twinlog.ops.replay.task import Replay
from twinlog.settings.client import AdminSettings, ClientSettings, ConsumerSettings, ProducerSettings
from twinlog.settings.flow import FlowSettings

NOW = 1_700_000_000_000
SOURCE, INTO = TopicPartition(TopicName("t"), 0), TopicPartition(TopicName("s.t.replay"), 0)
Clusters = tuple[VirtualCluster, VirtualCluster]


def put(
    cluster: VirtualCluster, topic: str, count: int, per_batch: int, *, first: int = 0, codec: str = "none"
) -> None:
    for start in range(first, first + count, per_batch):
        records = [
            (NOW + number, record_body(b"k%d" % number, b"value %d" % number, (("h", b"%d" % number),)))
            for number in range(start, min(start + per_batch, first + count))
        ]
        batch = encode_batch(records, CODECS[codec])
        stamp(batch, -1, -1, -1)
        assert cluster.log(topic).append(bytes(batch))[0] == 0


def flow_of(clusters: Clusters, **consumer: Any) -> FlowSettings:
    here, there = (ClientSettings(cluster.bootstrap) for cluster in clusters)
    return FlowSettings(
        Alias("s"),
        Alias("w"),
        ConsumerSettings(here, max_partition_fetch_bytes=2_000, **consumer),
        ProducerSettings(there, merge_batch_bytes=900),
        AdminSettings(here),
        AdminSettings(there),
    )


def replay(clusters: Clusters, start: int, end: int, *, begin_lost: bool = False, **consumer: Any) -> ReplayResult:
    work = Replay(ReplayRules(flow_of(clusters, **consumer), patience_s=20), VirtualLoop(clusters[0].loop.world))
    try:
        part = PartitionToReplay(SOURCE, INTO, start, end, 1_000, clusters[0].topics.ids["t"], begin_lost=begin_lost)
        return work.copy(part)
    finally:
        work.close()


def contents(records: Sequence[Record]) -> list[tuple[object, ...]]:
    return [(one.timestamp, one.key, one.value, one.headers) for one in records]


def expected(clusters: Clusters, start: int, end: int, *, committed: bool = False) -> list[tuple[object, ...]]:
    found = clusters[0].log("t").records(committed=committed)
    return contents([one for one in found if start <= one.offset < end])


def copied(clusters: Clusters) -> list[tuple[object, ...]]:
    return contents(clusters[1].log("s.t.replay").records())


def planner_of(
    clusters: Clusters, options: ReplayOptions, others: Sequence[FlowSettings] = (), **consumer: Any
) -> ReplayPlanner:
    def connect(alias: str, settings: ClientSettings) -> ClusterAdmin:
        return ClusterAdmin(alias, settings, VirtualLoop(clusters[0].loop.world))

    return ReplayPlanner(flow_of(clusters, **consumer), options, others, connect)


def options_of(**others: Any) -> ReplayOptions:
    return ReplayOptions(**{"topics": ("t",), "start": ReplayBound("earliest"), "end": ReplayBound("latest"), **others})
