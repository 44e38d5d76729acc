"""A virtual cluster, and what plans the reading of its topics."""

from __future__ import annotations

from harness.virtual.cluster import VirtualCluster
from harness.virtual.loop import VirtualLoop
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.settings.client import ClientSettings
from twinlog.spark.dataframes.options import TopicOptions, Use, read_options
from twinlog.spark.dataframes.planner import TopicPlanner
from twinlog.spark.dataframes.stream import TopicStream


def options_of(cluster: VirtualCluster, use: Use, **options: str) -> TopicOptions:
    named = {} if any(key.startswith(("assign", "subscribe")) for key in options) else {"subscribe": "t"}
    return read_options({"kafka.bootstrap.servers": ",".join(cluster.bootstrap), **named, **options}, use)


def planner_of(cluster: VirtualCluster, options: TopicOptions) -> TopicPlanner:
    def connect(alias: str, settings: ClientSettings) -> ClusterAdmin:
        return ClusterAdmin(alias, settings, VirtualLoop(cluster.loop.world))

    return TopicPlanner(options, cluster.loop.clock, connect)


def stream_of(cluster: VirtualCluster, **options: str) -> TopicStream:
    read = options_of(cluster, "stream", **options)
    return TopicStream(read, planner_of(cluster, read), cluster.loop.clock)
