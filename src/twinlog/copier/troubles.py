"""Finds what holds a partition up, for reports: its own trouble, its transaction's, or that of a broker."""

from __future__ import annotations

from collections.abc import Callable

from twinlog.copier.partition.partition import PartitionCopy
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.consumer.partition_reader import SourceReader
from twinlog.kafka.net.unreachable import throttles
from twinlog.model.amounts import shown_age

SILENT_S = 5.0
"""A source broker that does not answer for so long is reported as the trouble of its partitions, and so is a target
broker that throttles while appends wait for so long."""


OPEN_S = 900.0
"""A transaction of the source that is open for so long is reported as the trouble of its partitions. Brokers allow no
longer ones by default (`transaction.max.timeout.ms`), and a hanging one never ends by itself (KIP-664)."""


class Troubles:
    """Of one copier's partitions; `transaction()` is what keeps its open transaction from going on, if anything."""

    def __init__(
        self,
        source: ClusterClient,
        target: ClusterClient,
        reader: SourceReader,
        transaction: Callable[[], str | None],
    ) -> None:
        self._source = source
        self._target = target
        self._reader = reader
        self._transaction = transaction
        self._now = source.loop.clock.monotonic

    def of(self, part: PartitionCopy) -> str | None:
        """What holds a partition up, None when nothing does."""
        trouble = part.trouble or self._transaction() or self._silent_target(part) or self._silent_source(part)
        return trouble or self._open_transaction(part)

    def source_answered_at(self, part: PartitionCopy) -> float | None:
        """When it was last known where a partition's source ends (monotonic seconds), None while it is not known."""
        # A released partition was followed up to that moment.
        if part.read.answered_at is None or part.held_back or (part.paused and not part.left):
            return part.read.answered_at
        return max(part.read.answered_at, self._reader.answered_at(part.source) or part.read.answered_at)

    def _silent_target(self, part: PartitionCopy) -> str | None:
        if not part.queue.overdue(self._now(), SILENT_S):
            return None
        leader = self._target.leader(part.remote)
        if leader is None:
            return "target: no leader is known"
        return f"target: {throttles(leader.node)}" if self._target.throttled_s(leader.node) else None

    def _open_transaction(self, part: PartitionCopy) -> str | None:
        since = part.read.open_since
        if since is None or part.paused or part.held_back or self._now() - since < OPEN_S:
            return None
        age = shown_age(self._now() - since)
        kept = f"a transaction that has been open for {age} keeps the records from offset {part.read.end} on"
        return f"source: {kept}; kafka-transactions.sh find-hanging names it"

    def _silent_source(self, part: PartitionCopy) -> str | None:
        if part.paused or part.held_back:
            return None
        answered_at = self.source_answered_at(part)
        if answered_at is not None and self._now() - answered_at < SILENT_S:
            return None
        leader = self._source.leader(part.source)
        if leader is None:
            return "source: no leader is known"
        throttled_by = self._reader.throttled_by(part.source)
        if throttled_by is not None:
            return f"source: {throttles(throttled_by)}"
        return None if answered_at is None else f"source: no answer from broker {leader.node}"
