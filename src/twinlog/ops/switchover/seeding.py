"""Stores where a flow begins, as it stores its own positions."""

from __future__ import annotations

from collections.abc import Mapping

from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.mirror.offsets.position_writer import position_records, positions_writer
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.topics.create import require_topics
from twinlog.mirror.topics.internal_topics import positions as positions_topic
from twinlog.model.types import SourceOffset, TopicPartition
from twinlog.settings.flow import FlowSettings


def store_start(flow: FlowSettings, admin: ClusterAdmin, positions: Mapping[TopicPartition, int]) -> None:
    """See `World.seed`; `admin` is connected to the target of the flow."""
    topic = positions_topic(flow)
    found = admin.call(admin.client.refresh, [topic.name])[topic.name]
    if found.error == Code.UNKNOWN_TOPIC_OR_PARTITION:
        require_topics(flow.name, admin, [topic.new()])
    elif error_codes.refused(found.error):
        raise admin.client.lacks("WRITE", f"topic {topic.name}", "storing where the way back begins")
    writer = positions_writer(admin.client, flow)
    stored = {where: Position(SourceOffset(offset)) for where, offset in positions.items()}
    records = list(position_records(flow, stored))
    admin.call(writer.append, records)
