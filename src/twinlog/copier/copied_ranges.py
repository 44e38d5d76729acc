"""What a copier has copied of each partition since somebody asked last: the rows that Spark gets of a flow."""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass, replace

from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import SourceOffset, TargetOffset, TopicPartition

UNKNOWN = TargetOffset(-1)


@dataclass(frozen=True, slots=True)
class CopiedRange:
    """Records of one source partition, from an offset up to another one, which is the next to copy.

    Target offsets are those of the remote partition (-1 unknown), `records` and `bytes` what was acknowledged or
    committed. `lag` is how many source offsets follow the range (-1 unknown, or in a later range).
    """

    topic: str
    partition: int
    first_source: SourceOffset
    next_source: SourceOffset
    first_target: TargetOffset
    next_target: TargetOffset
    records: int
    bytes: int
    lag: int


class CopiedRanges:
    """Collected by the copier's thread, and taken by its task's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends: dict[TopicPartition, Position] = {}
        self._ranges: defaultdict[TopicPartition, list[CopiedRange]] = defaultdict(list)

    def add(self, source: TopicPartition, begin: Position, end: Position, records: int, size: int, lag: int) -> None:
        """A partition that was taken at position `begin` has come to `end`, `records` after the last call."""
        with self._lock:
            known = self._ends.get(source)
            # A partition that comes back from another copier begins a new range.
            start = known if known is not None and known.next_source >= begin.next_source else begin
            self._ends[source] = end
            ranges = self._ranges[source]
            last = ranges[-1] if ranges else None
            if last is not None and last.next_source == start.next_source:
                ranges[-1] = replace(
                    last,
                    next_source=end.next_source,
                    next_target=_offset(end),
                    records=last.records + records,
                    bytes=last.bytes + size,
                    lag=lag,
                )
            elif records:
                if last is not None:
                    ranges[-1] = replace(last, lag=-1)
                ranges.append(
                    CopiedRange(
                        source.topic,
                        source.partition,
                        first_source=start.next_source,
                        next_source=end.next_source,
                        first_target=_offset(start),
                        next_target=_offset(end),
                        records=records,
                        bytes=size,
                        lag=lag,
                    )
                )

    def left(self, source: TopicPartition) -> None:
        """The copier has released a partition."""
        with self._lock:
            self._ends.pop(source, None)

    def take(self) -> list[CopiedRange]:
        """A range for each partition of which records were copied since the last call; several where it was away."""
        with self._lock:
            taken, self._ranges = self._ranges, defaultdict(list)
        return [one for ranges in taken.values() for one in ranges]


def _offset(position: Position) -> TargetOffset:
    return UNKNOWN if position.next_target is None else position.next_target
