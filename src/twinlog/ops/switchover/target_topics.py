"""Topics on the cluster that takes over: topics of producers, first positions of the flow, and logs with markers
only."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.consumer.leader_fetch import fetch_once
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.batch import scan
from twinlog.mirror.offsets.position_writer import position_records, positions_writer
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.topics.configs import settings_at_creation
from twinlog.mirror.topics.create import create_topics, require_topics
from twinlog.mirror.topics.internal_topics import positions as positions_topic
from twinlog.mirror.topology.plugins import config_filter_of
from twinlog.model.topics import NewTopic
from twinlog.model.types import SourceOffset, TopicName, TopicPartition
from twinlog.ops.switchover.model import Data, MovedTopic
from twinlog.settings.flow import FlowSettings


def create_positions_topic(flow: FlowSettings, admin: ClusterAdmin) -> None:
    """Create the topic of a flow's positions if it is missing, which takes about a second.

    `admin` is connected to the target of the flow. Raises RefusedError and ClusterError.
    """
    topic = positions_topic(flow)
    found = admin.call(admin.client.refresh, [topic.name])[topic.name]
    if found.error == Code.UNKNOWN_TOPIC_OR_PARTITION:
        require_topics(flow.name, admin, [topic.new()])
    elif error_codes.refused(found.error):
        raise admin.client.lacks("WRITE", f"topic {topic.name}", "storing where the way back begins")


def store_start(flow: FlowSettings, admin: ClusterAdmin, positions: Mapping[TopicPartition, int]) -> None:
    """See `SwitchoverClusters.seed_positions`; `admin` is connected to the target of the flow."""
    create_positions_topic(flow, admin)
    writer = positions_writer(admin.client, flow)
    stored = {where: Position(SourceOffset(offset)) for where, offset in positions.items()}
    records = list(position_records(flow, stored))
    admin.call(writer.append, records)


FETCH_BYTES = 1 << 16
WAIT_MS = 100


async def is_hollow(client: ClusterClient, where: TopicPartition, start: int, end: int) -> bool:
    """Whether a partition has only markers of transactions in these offsets. Raises ClusterError."""
    await client.refresh([where.topic])
    while start < end:
        found = await fetch_once(
            client,
            {where: start},
            read_committed=False,
            partition_bytes=FETCH_BYTES,
            most_bytes=FETCH_BYTES,
            wait_ms=WAIT_MS,
        )
        batches = [batch for answer in found.values() for batch in scan(answer.records)]
        if not batches or not all(batch.is_control or not batch.record_count for batch in batches):
            return False
        start = batches[-1].last_offset + 1
    return True


def missing_topics(
    flow: FlowSettings, source: ClusterAdmin | None, target: ClusterAdmin, topics: Collection[MovedTopic]
) -> Data:
    """See `SwitchoverClusters.missing_topics`; of a source that is lost the copies have the settings."""
    there = target.topics()
    lacking = [topic for topic in topics if topic.producers and topic.producers not in there]
    admin, names = (
        (target, {topic.remote: topic for topic in lacking})
        if source is None
        else (source, {topic.name: topic for topic in lacking})
    )
    configs = admin.configs(names) if names else {}
    filter_ = config_filter_of(flow)
    return {
        "topics": {
            topic.producers: {
                "partitions": topic.partitions,
                "configs": settings_at_creation(configs.get(name, []), filter_),
            }
            for name, topic in names.items()
        }
    }


def make_topics(flow: FlowSettings, target: ClusterAdmin, plan: Data) -> Data:
    """See `SwitchoverClusters.create_topics`."""
    wanted = [
        NewTopic(TopicName(name), one["partitions"], flow.replication_factor, one["configs"], frozenset(one["configs"]))
        for name, one in plan["topics"].items()
    ]
    if not wanted:
        return {}
    return {name: refusal.text for name, refusal in create_topics(flow.name, target, wanted).items()}
