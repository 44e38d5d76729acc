"""Appends positions as a part of a transaction: the positions topic behind the queues that also take records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from twinlog.errors import ClusterError, RefusedError, TwinlogError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.producer.append_queue import AppendQueue, ProducerIdentity
from twinlog.kafka.producer.appends import Append
from twinlog.kafka.producer.produce_errors import Remedy, SentAppend, decide
from twinlog.kafka.protocol import error_codes
from twinlog.mirror.offsets.position_writer import position_records, positions_writer
from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import TargetOffset, TopicPartition
from twinlog.settings.flow import FlowSettings


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
                self._answered(RefusedError(f"{where} does not take positions: {error_codes.explain(sent.code)}"))
