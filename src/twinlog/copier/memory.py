"""The memory of a copier: a budget of bytes for requested answers, received answers, and waiting appends.

The budget keeps memory constant while the target is slow; otherwise memory would grow with the number of partitions
that have a backlog.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

from twinlog.clock import LONG_AGO
from twinlog.copier.partition.append_memory import AppendMemory
from twinlog.copier.partition.partition import PartitionCopy
from twinlog.kafka.net.frame_memory import FrameMemory
from twinlog.kafka.producer.appends import Append
from twinlog.model.types import TopicPartition

LEAST_FETCH_BYTES = 256 << 10
"""Fetches need room for at least twice this many bytes."""

ANSWERS = 4
"""A quarter of the budget is for requested answers, of all fetch sessions together."""

STUCK_S = 2.0
"""When fetches lacked room for this time, stuck partitions free their memory: partitions whose last acknowledgement is
older. Their unsent records are dropped, and read again later."""

SPARSE = 0.25
"""From half of the budget on, an answer is freed if at most this share of its bytes waits."""

LOOK_PAUSE_S = 0.05
"""Shortest time between two looks at all waiting appends."""


class CopierMemory(AppendMemory):
    """Grants the memory of answers, and frees memory of partitions whose target is slow; for a single thread.

    Each partition may read ahead by as many bytes as there is room left at that moment
    (Choudhury and Hahne's dynamic thresholds). So many waiting partitions leave room for a further partition.
    """

    def __init__(
        self,
        limit_bytes: int,
        frames: FrameMemory,
        partitions: Mapping[TopicPartition, PartitionCopy],
        now: Callable[[], float],
    ) -> None:
        super().__init__(limit_bytes, frames)
        self._now = now
        self._partitions = partitions
        self._looked_at = LONG_AGO
        self._served_at = self._now()

    def share_bytes(self, sessions: int) -> int:
        """The largest answer to request in a fetch session, for a number of sessions."""
        return self.limit_bytes // ANSWERS // max(1, sessions)

    def reserve(self, place: Hashable, most_bytes: int) -> int:
        """Make room for an answer in a fetch session, which has one answer at a time.

        Returns the bytes that the answer may have, 0 while the budget is used up.
        """
        now = self._now()
        size = self._most(most_bytes)
        if self.used_bytes > self.limit_bytes // 2 and now - self._looked_at > LOOK_PAUSE_S:
            self._looked_at = now
            self._free_responses(1.0 if self._tight and size < most_bytes else SPARSE)
            size = self._most(most_bytes)
        if not size and now - self._served_at > STUCK_S:
            self._free_stuck(now)
            size = self._most(most_bytes)
        if size:
            self._served_at = now
            self._asked[place] = size
            self._frames.keep_at_most(self.limit_bytes - self.used_bytes)
        return size

    def _most(self, most_bytes: int) -> int:
        # Half of the room, so that the next session gets room, too.
        size = min(most_bytes, self.room_bytes // 2)
        return size if size >= min(most_bytes, LEAST_FETCH_BYTES) else 0

    def _free_responses(self, share: float) -> None:
        """Copy the waiting batches out of answers of which at most `share` waits, so that the answers are freed."""
        shared: dict[int, tuple[int, list[Append]]] = {}
        for part in self._partitions.values():
            for append in part.queue.waiting():
                data = append.data
                if type(data) is memoryview:
                    shared.setdefault(id(data.obj), (memoryview(data.obj).nbytes, []))[1].append(append)
        # The answers are freed in turn, because the room is too small for copies of all of them.
        for size, appends in shared.values():
            if sum(append.bytes for append in appends) <= share * size:
                for append in appends:
                    self._copy_out(append)

    def _free_stuck(self, now: float) -> None:
        """Free the appends that waited longest for the target, up to half of the budget, after a long lack of memory.

        With less freed memory, a single answer would fill it with records of the same partitions again, because
        partitions are read as long as there is room.
        """
        stuck = [part for part in self._partitions.values() if now - part.waits_since > STUCK_S]
        for part in sorted(stuck, key=lambda part: part.waits_since):
            if self.used_bytes <= self.limit_bytes // 2:
                return
            part.free_memory(now)
