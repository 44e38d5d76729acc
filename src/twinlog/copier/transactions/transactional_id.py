"""The transactional id under which a copier appends: requests to its coordinator are repeated until an answer comes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any, TypeVar

from twinlog.errors import TwinlogError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.coordinator.transactions import ProducerEpoch, TransactionCoordinator
from twinlog.kafka.producer.append_queue import ProducerIdentity
from twinlog.kafka.producer.appender import TargetAppender
from twinlog.kafka.retry import RetryPolicy, retry
from twinlog.lease.messages import LentId
from twinlog.model.types import TopicPartition
from twinlog.settings.flow import FlowSettings

T = TypeVar("T")


class TransactionalId:
    """The producer of a copier's transactions: a transactional id that the driver lent, and its producer epoch.

    `lend()` gives an id with a fresh epoch. `failed(error)` is called when a request failed, and the request is
    repeated; `ended()` is True once the copier has stopped waiting for answers.
    """

    def __init__(
        self,
        client: ClusterClient,
        settings: FlowSettings,
        appender: TargetAppender,
        *,
        lend: Callable[[], Coroutine[Any, Any, LentId]],
        failed: Callable[[TwinlogError], None],
        ended: Callable[[], bool],
    ) -> None:
        self._client = client
        self._settings = settings
        self._appender = appender
        self._lend = lend
        self._failed = failed
        self._ended = ended
        self._coordinator: TransactionCoordinator
        self._holder: ProducerEpoch

    @property
    def name(self) -> str:
        return self._coordinator.transactional_id

    @property
    def timeout_s(self) -> float:
        """The target aborts a transaction that was open for this time."""
        return self._coordinator.timeout_ms / 1000

    @property
    def identity(self) -> ProducerIdentity:
        """The identity that appends now."""
        return ProducerIdentity(self._holder.producer_id, self._holder.epoch, transactional=True)

    async def take_up(self) -> None:
        """Take a lent id. Raises RefusedError without the rights, ClusterError while the cluster is silent."""
        lent = await self._lend()
        self._coordinator = TransactionCoordinator(
            self._client, lent.transactional_id, self._settings.producer.transaction_timeout_ms
        )
        self._appender.transactional_id = lent.transactional_id
        self._holder = lent.producer

    async def renew_epoch(self) -> None:
        """Take a new producer epoch for the id, while all its transactions are closed."""
        self._holder = await self.retry(lambda: self._coordinator.init(self._holder))

    async def add(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Add partitions to the open transaction; returns the error codes of the refused partitions."""
        return await self.retry(lambda: self._coordinator.add(self._holder, partitions))

    async def end(self, *, commit: bool) -> bool:
        """Commit or abort the open transaction; False when the coordinator has forgotten it."""
        return await self.retry(lambda: self._coordinator.end(self._holder, commit=commit))

    async def retry(self, step: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Repeat `step` until the cluster has answered it."""
        policy = RetryPolicy.of(self._settings.producer.client)
        return await retry(self._client.loop, policy, step, stopped=self._ended, failed=self._note_failure)

    def _note_failure(self, error: TwinlogError) -> None:
        # A partition whose marker is missing may have no requests in flight, so its leader is looked up here.
        self._appender.refresh()
        self._failed(error)
