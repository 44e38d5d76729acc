"""Ends partitions whose appends are not acknowledged within `delivery.timeout.ms`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from twinlog.copier.partition.partition import PartitionCopy
from twinlog.copier.partition.routes import Routes
from twinlog.kafka.net.loop import Loop
from twinlog.model.types import TopicPartition

NO_LIMIT_MS = 2**31 - 1
"""Connect's own `delivery.timeout.ms`: batches are tried for ever."""


class DeliveryTimeout:
    """Of one copier, which has `partitions` and `routes`; `stopped()` is True once it ends."""

    def __init__(
        self,
        loop: Loop,
        timeout_ms: int,
        partitions: Mapping[TopicPartition, PartitionCopy],
        routes: Routes,
        stopped: Callable[[], bool],
    ) -> None:
        self._loop = loop
        self._timeout_ms = timeout_ms
        self._partitions = partitions
        self._routes = routes
        self._stopped = stopped

    def start(self) -> None:
        """Begin to look, if there is a limit."""
        if self._timeout_ms < NO_LIMIT_MS:
            self._loop.start(self._keep)

    async def _keep(self) -> None:
        while not self._stopped():
            await self._loop.sleep(min(1.0, self._timeout_ms / 10_000))
            now = self._loop.clock.monotonic()
            for part in list(self._partitions.values()):
                part.check_overdue(now)
            self._routes.check_overdue(now)
