"""Stores positions on the target, after the appends they speak of were acknowledged."""

from __future__ import annotations

from collections.abc import Mapping

from twinlog.clock import wall_ms
from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.metadata import TopicMetadata
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.partitioner import partition_for
from twinlog.model.types import TopicName, TopicPartition
from twinlog.offsets.positions import Position, encode_position
from twinlog.record.own_records import own_batch, portions, record_body
from twinlog.settings.flow import FlowSettings


class PositionWriter:
    """Appends changed positions to the positions topic, one write at a time so that none overtakes a newer one."""

    def __init__(self, loop: Loop, client: ClusterClient, settings: FlowSettings) -> None:
        self._loop = loop
        self._client = client
        self._settings = settings
        self._topic = TopicName(settings.positions_topic)
        self._stored: dict[TopicPartition, Position] = {}
        self._moved = False
        """Whether leaders may be others by now."""
        self._busy = False
        self._free = loop.signal()

    async def write(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Store what changed; returns once the target has it on all in-sync replicas.

        Raises ClusterError when it could not be stored now, RefusedError when it never will be.
        """
        while self._busy:
            await self._free.wait(0.05)
        self._busy = True
        try:
            changed = {part: pos for part, pos in positions.items() if self._stored.get(part) != pos}
            if changed:
                await self._append(changed)
                self._stored.update(changed)
        finally:
            self._busy = False
            self._free.set()

    def forget(self, partition: TopicPartition) -> None:
        """Somebody else writes this partition's position from now on."""
        self._stored.pop(partition, None)

    async def _append(self, positions: Mapping[TopicPartition, Position]) -> None:
        topic = await self._look_up()
        now = wall_ms(self._client.loop.clock)
        records: dict[int, list[bytes]] = {}
        for part, position in positions.items():
            record = encode_position(self._settings.source, part, position, self._settings.connector_name)
            where = partition_for(record.key, topic.partitions)
            records.setdefault(where, []).append(record_body(record.key, record.value, record.headers))
        requests: dict[tuple[int, int], list[tuple[int, bytes | bytearray | memoryview]]] = {}
        """By number and broker; a request takes one batch of a partition."""
        troubled: ClusterError | None = None
        for where, bodies in records.items():
            leader = topic.leaders.get(where)
            if leader is None:
                troubled = ClusterError(f"cluster {self._client.alias}: {self._topic}-{where} has no leader")
                continue
            for number, portion in enumerate(portions(bodies)):
                batch = own_batch((now, body) for body in portion)
                requests.setdefault((number, leader.node), []).append((where, batch))
        # Positions on a broker that does not answer keep nobody else's waiting.
        for (_, node), batches in requests.items():
            try:
                await self._append_on(node, batches)
            except RefusedError:
                raise
            except ClusterError as error:
                troubled = error
        self._moved = troubled is not None
        if troubled is not None:
            raise troubled

    async def _look_up(self) -> TopicMetadata:
        """The topic with its leaders, asked for again when the last append failed."""
        topic = None if self._moved else self._client.topic(self._topic)
        if topic is None or topic.error or not topic.leaders:
            await self._client.wait_for([self._topic], timeout_s=5.0)
            topic = self._client.topic(self._topic)
            assert topic is not None
        return topic

    async def _append_on(self, node: int, batches: list[tuple[int, bytes | bytearray | memoryview]]) -> None:
        timeout_s = self._settings.producer.client.request_timeout_ms / 1000
        answers = await self._client.produce(node, {self._topic: batches}, timeout_s)
        for code, _ in answers.values():
            if error_codes.refused(code):
                raise self._client.lacks("WRITE", f"topic {self._topic}", "storing positions")
            if code:
                raise ClusterError(f"cluster {self._client.alias}: positions not stored: {error_codes.explain(code)}")
