"""Rows that wait for more of their partition, so that a batch of records is worth its request."""

from __future__ import annotations

from typing import Any

from twinlog.dataframes.outgoing import copied, joined
from twinlog.model.types import TopicPartition

MOST_WAITING_BYTES = 16 << 20
"""Bytes of rows that wait; beyond it each partition's go as they are."""

MOST_HELD_BYTES = 64 << 20
"""Bytes of Spark's batches that rows which wait may hold in memory; beyond it they are copied."""


class WaitingRows:
    """The rows of each partition that are fewer than `batch_bytes`.

    They are slices of the batches that Spark handed over, and a slice of one row holds all of its batch: with keys that
    are rare, a partition that gets a row now and then would hold everything that was written meanwhile.
    """

    def __init__(self, batch_bytes: int) -> None:
        self._batch_bytes = batch_bytes
        self._rows: dict[TopicPartition, list[Any]] = {}
        self._sizes: dict[TopicPartition, int] = {}
        self._held_bytes = 0

    def put(self, partition: TopicPartition, some: Any) -> None:
        """Rows that go after those of the partition that are here."""
        self._rows.setdefault(partition, []).append(some)
        self._sizes[partition] = self._sizes.get(partition, 0) + some.nbytes

    def ready(self) -> list[TopicPartition]:
        """The partitions with enough rows for a batch, or all, when too many wait."""
        crowded = sum(self._sizes.values()) > MOST_WAITING_BYTES
        return [partition for partition, size in self._sizes.items() if crowded or size >= self._batch_bytes]

    def left(self) -> list[TopicPartition]:
        """All partitions with rows."""
        return list(self._sizes)

    def take(self, partition: TopicPartition) -> Any:
        """The rows of a partition, which wait no longer."""
        del self._sizes[partition]
        return joined(self._rows.pop(partition))

    def note_batch(self, size: int) -> None:
        """Note that a batch of so many bytes was divided, of which rows may wait."""
        self._held_bytes += size
        if self._held_bytes > MOST_HELD_BYTES:
            self._rows = {partition: [copied(some)] for partition, some in self._rows.items()}
            self._held_bytes = sum(self._sizes.values())
