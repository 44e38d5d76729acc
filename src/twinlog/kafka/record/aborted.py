"""Finds the batches that a `read_committed` reader must skip."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter

from twinlog.kafka.record.batch import Batch


class AbortedFilter:
    """Follows aborted transactions, given as (producer id, first offset), through the batches of a fetch in order.

    As Kafka's `CompletedFetch`: a producer's transactional batches are aborted from the transaction's first offset up
    to that producer's ABORT marker.
    """

    __slots__ = ("_active", "_waiting")

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._waiting = sorted(aborted, key=itemgetter(1), reverse=True)
        self._active: set[int] = set()

    def hides(self, batch: Batch, *, abort_marker: bool) -> bool:
        """Whether the batch holds aborted records; `abort_marker` is true for a control batch that aborts."""
        waiting = self._waiting
        last_offset = batch.last_offset
        while waiting and waiting[-1][1] <= last_offset:
            self._active.add(waiting.pop()[0])
        if abort_marker:
            self._active.discard(batch.producer_id)
            return False
        return batch.is_transactional and batch.producer_id in self._active
