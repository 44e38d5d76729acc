"""Decides when the position of a partition is stored: soon after it moved, seldom while it moves all the time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from twinlog.clock import LONG_AGO
from twinlog.copier.partition.partition import PartitionCopy
from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import TopicPartition

STEADY = 4
"""A partition that never stands still has its position stored at every fourth interval only."""

UNSTORED_BYTES = 32 << 20
"""Unless a copier has appended so much since: this bounds how many bytes are compared after a crash."""


class _Stored(NamedTuple):
    position: Position
    at: float
    copied_bytes: int


class IdleDetector:
    """Whether a copier has just become idle: once for each idle time, and at most once in `interval_s` seconds."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._seen = self._reported = 0
        self._reported_at = LONG_AGO

    def became_idle(self, batches: int, now: float) -> bool:
        """By the number of batches that it has appended so far."""
        idle, self._seen = batches == self._seen, batches
        if not idle or batches == self._reported or now - self._reported_at < self._interval_s:
            return False
        self._reported, self._reported_at = batches, now
        return True


class DuePositions:
    """The positions of one copier as they were stored last, and when; `interval_s` is that of `choose`."""

    def __init__(self, interval_s: float) -> None:
        # Half an interval less, since turns are not exactly on time.
        self._rest_s = (STEADY - 0.5) * interval_s
        self._stored: dict[TopicPartition, _Stored] = {}
        self._seen: dict[TopicPartition, Position] = {}
        """Partitions that had moved at the last call, and how far."""

    def choose(self, parts: Iterable[PartitionCopy], now: float) -> list[PartitionCopy]:
        """Those whose position is stored now: it moved, and stood still since the last call, or that of before is old
        enough, or too much lies between.
        """
        moved = self.moved(parts)
        before, self._seen = self._seen, {part.source: part.acknowledged for part in moved}
        if sum(map(self._unstored, moved)) >= UNSTORED_BYTES:
            return moved
        return [
            part
            for part in moved
            if now - self._at(part) >= self._rest_s or before.get(part.source) == part.acknowledged
        ]

    def moved(self, parts: Iterable[PartitionCopy]) -> list[PartitionCopy]:
        """Those whose position is another one than was stored."""
        return [part for part in parts if self._moved(part)]

    def stored(self, source: TopicPartition, position: Position, copied_bytes: int, now: float) -> None:
        """A position was stored that stands for so many bytes of this copier."""
        self._stored[source] = _Stored(position, now, copied_bytes)

    def forget(self, source: TopicPartition) -> None:
        """Another copier stores it from now on."""
        self._stored.pop(source, None)

    def _moved(self, part: PartitionCopy) -> bool:
        stored = self._stored.get(part.source)
        return stored is None or stored.position != part.acknowledged

    def _unstored(self, part: PartitionCopy) -> int:
        stored = self._stored.get(part.source)
        return part.copied.bytes - (0 if stored is None else stored.copied_bytes)

    def _at(self, part: PartitionCopy) -> float:
        stored = self._stored.get(part.source)
        return LONG_AGO if stored is None else stored.at
