"""The time at which the oldest waiting record of each partition was written, as well as reports of copiers show it."""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.lease.progress import PartitionProgress
from twinlog.model.types import TopicPartition


@dataclass(slots=True)
class _Mark:
    """The source ended at `end` at the time `at_ms`.

    `clear_ms` is the newest time of this kind whose end has been reached by now. So all records from before it are
    copied. It is -1 before the first time.
    """

    end: int
    at_ms: int
    clear_ms: int = -1


class OldestRecords:
    """For a single thread at a time. Times are Unix ms.

    A record that waits to be appended was read, so its timestamp is known. An unread record was written after the last
    time at which the source ended at or before the present position.
    """

    def __init__(self) -> None:
        self._marks: dict[TopicPartition, _Mark] = {}
        self._own: dict[TopicPartition, int] = {}

    def add_progress(self, key: TopicPartition, part: PartitionProgress, at_ms: int) -> None:
        """Note a report of a partition; its end was requested at `at_ms` at the latest."""
        if part.waiting_ms >= 0:
            self._own[key] = part.waiting_ms
        else:
            self._own.pop(key, None)
        mark = self._marks.get(key)
        if mark is None:
            if part.end >= 0:
                self._marks[key] = _Mark(part.end, at_ms, at_ms if part.lag == 0 else -1)
            return
        if 0 <= part.end < mark.end and at_ms > mark.at_ms:
            # The source topic was recreated, or lost records: the old end may be out of reach for ever.
            self._marks[key] = _Mark(part.end, at_ms, at_ms if part.lag == 0 else -1)
        elif part.source_offset >= mark.end:
            mark.clear_ms = max(mark.clear_ms, mark.at_ms)
            if part.end >= 0:
                mark.end, mark.at_ms = part.end, at_ms
                if part.lag == 0:
                    mark.clear_ms = at_ms

    def forget_partition(self, key: TopicPartition) -> None:
        """Forget a partition that has left the plan."""
        self._marks.pop(key, None)
        self._own.pop(key, None)

    def get_oldest_ms(self, key: TopicPartition) -> int | None:
        """The time for a partition with waiting records; None while it is unknown."""
        own = self._own.get(key)
        if own is not None:
            return own
        mark = self._marks.get(key)
        return None if mark is None or mark.clear_ms < 0 else mark.clear_ms
