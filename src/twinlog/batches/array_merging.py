"""Decides which rows of a fetch's batches numpy takes at once: many small batches, and large neighbours of a backlog.

The arrays of numpy merge a long row faster than the loops of `merge`, and a short row slower. A vain look at a row has
its price, too, so the next look comes later.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from twinlog.kafka.producer.appends import CopyRules
from twinlog.kafka.record.batch import Batch
from twinlog.kafka.record.builder import BatchBuilder
from twinlog.kafka.record.compression import NONE

if TYPE_CHECKING:
    from twinlog.batches.join import Block
    from twinlog.batches.large_batches import JoinedNeighbours

IMPORT_FROM = 1_000
"""Batches in a row for which numpy is imported: the import takes 0.1 s and 18 MB of the task's memory, once."""

FROM = 300
"""Batches in a row from which on numpy is faster than the loops of `merge`."""

LARGEST_SECTION = 512 << 10
"""Bytes of a fetch that are examined together: the notes about their batches fit into a processor's cache."""

SMALLEST_SECTION = 64 << 10

LEAST_JOINED = 32 << 10
"""Fewer bytes of neighbours are merged by the loops of `merge`, or passed on: a look of numpy costs some 100 us."""

PAUSE = 2 << 20
"""Bytes between a vain look and the next look: beside the time of the loops for these bytes a look is cheap."""

_AT_ONCE = "twinlog.batches.join"
"""The module that every read of many batches imports, and numpy with it."""


class ManySmallBatches:
    """The small batches of a fetch, if they are many; `limit` bytes of the source become a batch."""

    __slots__ = ("_begin", "_limit", "_records", "_rules", "_section")

    def __init__(self, records: memoryview, rules: CopyRules, limit: int) -> None:
        self._records = records
        self._rules = rules
        self._limit = limit
        self._section = LARGEST_SECTION
        self._begin = 0

    def may_begin(self, batch: Batch) -> bool:
        """Whether many small batches may begin here: the remaining bytes must hold many batches of this size.

        False unless checksums are compared: numpy would read damaged bytes in another way than the loops.
        """
        if not self._rules.check_crcs:
            return False
        if batch.start < self._begin or batch.codec != NONE or batch.size * FROM > LARGEST_SECTION:
            return False
        many = FROM if _AT_ONCE in sys.modules else IMPORT_FROM
        return len(self._records) - batch.start >= many * batch.size

    def blocks(self, batch: Batch, builder: BatchBuilder | None, room: int, *, transactional: bool) -> list[Block]:
        """The records of the batch and of the small batches after it, in blocks.

        The first block follows the records of `builder`, if given; each later block begins a batch. A call may leave
        small batches for the next call. The result is empty if the batches are few, or if a batch may become larger
        than `room` bytes: the loops take batches up to that size exactly.
        """
        from twinlog.batches.small_batches import merge_small  # noqa: PLC0415 - numpy

        rules, section = self._rules, self._section
        blocks = merge_small(
            self._records[: batch.start + section],
            batch,
            builder,
            limit=self._limit,
            room=room,
            largest=rules.small(NONE),
            most=rules.merge_records,
            least=FROM,
            transactional=transactional,
        )
        taken = sum(block.source_bytes for block in blocks)
        if not taken:
            self._begin = batch.start + PAUSE
        whole = taken > section // 2
        self._section = min(2 * section, LARGEST_SECTION) if whole else max(SMALLEST_SECTION, 2 * taken)
        return blocks


class Neighbours:
    """The large uncompressed batches of a backlog; `limit` bytes of the source become a batch."""

    __slots__ = ("_begin", "_limit", "_records", "_rules")

    def __init__(self, records: memoryview, rules: CopyRules, limit: int) -> None:
        self._records = records
        self._rules = rules
        self._limit = limit
        self._begin = 0

    def may_begin(self, batch: Batch) -> bool:
        """Whether a row of batches may begin here that are joined at less cost than an append of each batch."""
        return (
            batch.record_count <= self._rules.join_records
            and batch.size <= self._limit // 2
            and batch.start >= self._begin
            and len(self._records) - batch.start >= max(2 * batch.size, LEAST_JOINED)
        )

    def join(self, batch: Batch, builder: BatchBuilder | None, room: int, *, transactional: bool) -> JoinedNeighbours:
        """The records of the batch and of its neighbours, as `join_large` returns them."""
        from twinlog.batches.large_batches import join_large  # noqa: PLC0415 - numpy

        most = self._rules.join_records
        joined = join_large(
            self._records, batch, builder, limit=self._limit, room=room, most=most, transactional=transactional
        )
        if not joined.blocks:
            # The next batches are passed on, or taken by the loops.
            self._begin = batch.start + PAUSE
        return joined
