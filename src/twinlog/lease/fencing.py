"""Lends the transactional ids of a flow to its copiers, and fences earlier copiers that may still write under an id.

The driver alone makes a producer the writer of an id. A copier gets producer id and epoch from the driver, and can
raise the epoch only while it is still the writer. So a copier that was given up stays fenced, however late it wakes.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from twinlog.errors import TwinlogError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.coordinator.transactions import ProducerEpoch, TransactionCoordinator, list_transactional_ids
from twinlog.lease.messages import LentId
from twinlog.settings.flow import FlowSettings

log = logging.getLogger(__name__)

AT_ONCE = 20
"""How many ids are fenced at the same time."""


class TransactionalIds:
    """The ids of a flow: number n is `<group.id>-<connector>-<n>`, as a task of MirrorMaker 2 would use it.

    `retry(step, what)` repeats a step until the cluster answers; it returns False when the flow was stopped meanwhile,
    and raises RefusedError.
    """

    def __init__(
        self, settings: FlowSettings, target: ClusterAdmin, retry: Callable[[Callable[[], None], str], bool]
    ) -> None:
        self._settings = settings
        self._target = target
        self._retry = retry
        self._lock = threading.Lock()
        self._busy = threading.Lock()
        """Held while ids change hands, so that a lent id is never fenced right away."""
        self._lent: dict[str, int] = {}
        self._lost: set[int] = set()

    def take_over(self, tasks: int) -> None:
        """Abort the open transactions of earlier processes, and fence the processes that still run.

        Connect does the same for the task count of the generation before (Kafka class DistributedHerder). Here the
        cluster is asked for the ids; the first `tasks` ids count in any case. Raises ClusterError, RefusedError.
        """
        prefix = self._settings.transactional_id(0)[:-1]
        wanted = {self._settings.transactional_id(index) for index in range(tasks)}
        found = self._target.call(list_transactional_ids, self._target.client, prefix)
        names = sorted(wanted.union(found or ()))
        for start in range(0, len(names), AT_ONCE):
            self._target.call(self._fence, names[start : start + AT_ONCE])
        log.debug("%s: fenced %d transactional ids", self._settings.name, len(names))

    async def _fence(self, names: Sequence[str]) -> None:
        running = [self._target.client.loop.spawn(self._coordinator(name).init) for name in names]
        failed: TwinlogError | None = None
        for fencing in running:
            try:
                await fencing
            except TwinlogError as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def lend_id(self, copier: str) -> LentId | None:
        """Make a copier the only writer of an id of its own; returns None when the flow was stopped meanwhile.

        A copier that has an id already gets the same id, with a new epoch. Raises RefusedError without the rights.
        """
        with self._busy:
            with self._lock:
                free = next(index for index in range(len(self._lent) + 1) if index not in self._lent.values())
                index = self._lent.setdefault(copier, free)
            name = self._settings.transactional_id(index)
            holders: list[ProducerEpoch] = []
            init = self._coordinator(name).init
            if not self._retry(lambda: holders.append(self._target.call(init)), f"use transactional id {name}"):
                return None
            with self._lock:
                self._lost.discard(index)
        return LentId(name, holders[-1])

    def give_back(self, copier: str) -> None:
        """A copier has committed and ended."""
        with self._lock:
            self._lent.pop(copier, None)

    def mark_lost(self, copier: str) -> None:
        """A copier is lost and may still write; `fence_lost` stops it."""
        with self._lock:
            index = self._lent.pop(copier, None)
            if index is not None:
                self._lost.add(index)

    def fence_lost(self) -> None:
        """Fence the lost copiers. After this their transactions are decided. Raises ClusterError."""
        with self._busy:
            with self._lock:
                lost = sorted(self._lost)
            if lost:
                self._target.call(self._fence, [self._settings.transactional_id(index) for index in lost])
            with self._lock:
                self._lost.difference_update(lost)

    def _coordinator(self, name: str) -> TransactionCoordinator:
        return TransactionCoordinator(self._target.client, name, self._settings.producer.transaction_timeout_ms)
