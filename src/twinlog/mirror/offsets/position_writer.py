"""Stores positions on the target, after the appends that they count were acknowledged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from twinlog.kafka.client import ClusterClient
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.producer.topic_writer import OwnRecord, TopicWriter
from twinlog.mirror.offsets.positions import Position, encode_position
from twinlog.model.types import TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings

LEADER_S = 5.0
"""The longest wait in seconds for a leader of the topic."""


def positions_writer(client: ClusterClient, settings: FlowSettings) -> TopicWriter:
    """The writer of a flow's positions topic, over the connection of the records that positions count."""
    return TopicWriter(
        client,
        TopicName(settings.positions_topic),
        settings.producer.client.request_timeout_ms / 1000,
        "storing positions",
        by_key=True,
        control=False,
        wait_s=LEADER_S,
    )


def position_records(settings: FlowSettings, positions: Mapping[TopicPartition, Position]) -> Iterator[OwnRecord]:
    """Positions by source partition, as records of the positions topic."""
    for partition, position in positions.items():
        record = encode_position(settings.source_name, partition, position, settings.connector_name)
        yield record.key, record.value, record.headers


class PositionWriter:
    """Appends changed positions to the positions topic.

    Writes run in turn, so that a newer position always comes later.
    """

    def __init__(self, loop: Loop, client: ClusterClient, settings: FlowSettings) -> None:
        self._settings = settings
        self._topic = positions_writer(client, settings)
        self._stored: dict[TopicPartition, Position] = {}
        self._writing = loop.lock()

    async def write(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Store changed positions; returns once the target has them on all in-sync replicas.

        Raises ClusterError for a failure that may pass, RefusedError for a permanent failure.
        """
        async with self._writing:
            changed = {part: pos for part, pos in positions.items() if self._stored.get(part) != pos}
            if changed:
                await self._topic.append(position_records(self._settings, changed))
                self._stored.update(changed)

    def forget_partition(self, partition: TopicPartition) -> None:
        """Forget the partition: another copier writes its position from now on."""
        self._stored.pop(partition, None)
