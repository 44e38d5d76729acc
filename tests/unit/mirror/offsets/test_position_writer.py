"""A position is stored again only when it changed, or when somebody else may have stored another one meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from twinlog.errors import ClusterError
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.producer.topic_writer import OwnRecord
from twinlog.mirror.offsets.position_writer import PositionWriter
from twinlog.mirror.offsets.positions import Position, encode_position
from twinlog.model.types import Alias, TopicName, TopicPartition
from twinlog.settings.client import AdminSettings, ClientSettings, ConsumerSettings, ProducerSettings
from twinlog.settings.flow import FlowSettings

EAST = Alias("east")
HERE, THERE = (TopicPartition(TopicName("orders"), number) for number in range(2))
CLIENT = ClientSettings(("west:1",))
SETTINGS = FlowSettings(
    EAST, Alias("west"), ConsumerSettings(CLIENT), ProducerSettings(CLIENT), AdminSettings(CLIENT),
    AdminSettings(CLIENT),
)  # fmt: skip


class Topic:
    """In the place of the positions topic."""

    def __init__(self) -> None:
        self.records: list[OwnRecord] = []
        self.works = True

    async def append(self, records: Iterable[OwnRecord]) -> None:
        if not self.works:
            raise ClusterError("no answer")
        self.records += records

    def taken(self) -> list[OwnRecord]:
        records, self.records = self.records, []
        return records


def stored(partition: TopicPartition, offset: int) -> OwnRecord:
    record = encode_position(EAST, partition, Position(offset))
    return record.key, record.value, record.headers


def test_only_what_changed_is_stored(loop: Loop) -> None:
    client: Any = None
    writer = PositionWriter(loop, client, SETTINGS)
    topic: Any = Topic()
    writer._topic = topic
    loop.run(writer.write, {HERE: Position(7), THERE: Position(3)})
    assert topic.taken() == [stored(HERE, 7), stored(THERE, 3)]
    loop.run(writer.write, {HERE: Position(7), THERE: Position(4)})
    assert topic.taken() == [stored(THERE, 4)]
    writer.forget_partition(HERE)
    loop.run(writer.write, {HERE: Position(7), THERE: Position(4)})
    assert topic.taken() == [stored(HERE, 7)]
    topic.works = False
    with pytest.raises(ClusterError):
        loop.run(writer.write, {HERE: Position(8)})
    topic.works = True
    loop.run(writer.write, {HERE: Position(8)})
    assert topic.taken() == [stored(HERE, 8)]
