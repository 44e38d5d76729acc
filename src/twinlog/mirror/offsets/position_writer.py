"""Stores positions on the target, after the acknowledged appends that they count.

Without transactions a position is a record of its own (`PositionWriter`). A transactional producer appends the
positions within the transaction of the records (`PositionLog`), by the queues that also take records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from twinlog.errors import ClusterError, RefusedError, TwinlogError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.producer.append_queue import AppendQueue
from twinlog.kafka.producer.appends import Append
from twinlog.kafka.producer.produce_errors import Remedy, SentAppend, decide
from twinlog.kafka.producer.topic_writer import OwnRecord, TopicWriter
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.record.stamp import ProducerIdentity
from twinlog.mirror.offsets.positions import Position, encode_position
from twinlog.model.types import TargetOffset, TopicName, TopicPartition
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


class PositionLog:
    """The positions topic of a transactional producer.

    `offer(queue)` is called when a queue has batches to send, `leaderless()` when its leader is unknown.
    `answered(None)` is called after an acknowledged append. `answered(error)` is called with the error that ends the
    transaction; a RefusedError is permanent.
    """

    def __init__(
        self,
        client: ClusterClient,
        settings: FlowSettings,
        offer: Callable[[AppendQueue], None],
        leaderless: Callable[[], None],
        answered: Callable[[TwinlogError | None], None],
    ) -> None:
        self._client = client
        self._writer = positions_writer(client, settings)
        self.topic = self._writer.topic
        self._settings = settings
        self._offer = offer
        self._leaderless = leaderless
        self._answered = answered
        self._identity: ProducerIdentity
        self._queues: dict[TopicPartition, AppendQueue] = {}

    @property
    def queues(self) -> Iterable[AppendQueue]:
        return self._queues.values()

    @property
    def all_acknowledged(self) -> bool:
        """Whether all sent batches are acknowledged."""
        return all(queue.idle for queue in self._queues.values())

    def clear(self, identity: ProducerIdentity) -> None:
        """Forget the batches on their way, and continue as `identity`."""
        self._identity = identity
        for queue in self._queues.values():
            queue.clear(identity)

    async def encode(self, positions: Mapping[TopicPartition, Position]) -> dict[TopicPartition, list[Append]]:
        """Positions by source partition as batches for each partition of the topic. Raises ClusterError."""
        return await self._writer.encode(position_records(self._settings, positions))

    def send(self, batches: Mapping[TopicPartition, list[Append]]) -> None:
        """Append batches; their partitions take part in the open transaction."""
        for where, some in batches.items():
            queue = self._queues.get(where)
            if queue is None:
                queue = self._queues[where] = AppendQueue(
                    where,
                    self._identity,
                    self._acknowledged,
                    partial(self._troubled, where),
                    now=self._client.loop.clock.monotonic,
                )
            queue.open()
            queue.put(some)
            self._offer(queue)

    def _acknowledged(self, _append: Append, _base_offset: TargetOffset) -> None:
        self._answered(None)

    def _troubled(self, where: TopicPartition, sent: SentAppend) -> None:
        queue = self._queues[where]
        decision = decide(sent, self._settings.producer.client, transactional=True)
        match decision.remedy:
            case Remedy.RETRY:
                queue.retry_failed(self._client.loop.clock.monotonic() + decision.pause_s)
                # Records wait for their positions, so this queue alone notices that the leader moved.
                self._leaderless()
                self._offer(queue)
            case Remedy.AUTHORIZE:
                self._answered(self._writer.lacks_write())
            case Remedy.RESOLVE | Remedy.FENCE | Remedy.ABORT:
                self._answered(ClusterError(f"{where}: {error_codes.explain(sent.code)}"))
            case _:
                self._answered(
                    RefusedError(
                        f"{where} does not take positions: {error_codes.explain(sent.code)}", message_id="TW-TARGET-07"
                    )
                )
