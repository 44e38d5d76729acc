"""The paused partitions of a flow, each with its lag; read by any thread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from twinlog.model.topics import listed
from twinlog.model.types import TopicPartition


@dataclass(frozen=True, slots=True)
class PausedTopic:
    """Paused partitions of a topic: their number, and their lag in source offsets, None if unknown in part."""

    topic: str
    partitions: int
    lag: int | None


class PausedPartitions:
    """The partitions that are paused now; another thread may read while a single thread writes."""

    def __init__(self) -> None:
        self._lags: Mapping[TopicPartition, int | None] = {}

    def set_partitions(self, partitions: Set[TopicPartition]) -> None:
        """Pause exactly these partitions from now on."""
        self._lags = {part: self._lags.get(part) for part in partitions}

    def set_lags(self, lags: Mapping[TopicPartition, int]) -> None:
        """Store the lags of paused partitions; a partition without a given lag has an unknown lag from now on."""
        self._lags = {part: lags.get(part) for part in self._lags}

    def __len__(self) -> int:
        return len(self._lags)

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._lags

    def without(self, partitions: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
        """The unpaused partitions among these partitions."""
        lags = self._lags
        return frozenset(part for part in partitions if part not in lags)

    def are_paused(self, partitions: Iterable[TopicPartition]) -> bool:
        """Whether all of these partitions are paused."""
        lags = self._lags
        return all(part in lags for part in partitions)

    def __str__(self) -> str:
        """The paused partitions, as the end of a sentence about copied partitions; empty without paused partitions."""
        lags = self._lags
        return f", without {len(lags)} paused partitions: {listed(map(str, lags))}" if lags else ""

    @property
    def all(self) -> str | None:
        """A text for a flow without other partitions; None if no partition is paused."""
        return f"all {len(self._lags)} partitions that are mirrored are paused" if self._lags else None

    @property
    def partitions(self) -> list[TopicPartition]:
        """All paused partitions, in order."""
        return sorted(self._lags)

    def topics(self) -> list[PausedTopic]:
        """The topics that have paused partitions, in order."""
        lags: dict[str, list[int | None]] = {}
        for part, lag in self._lags.items():
            lags.setdefault(part.topic, []).append(lag)
        return [PausedTopic(topic, len(some), _sum(some)) for topic, some in sorted(lags.items())]

    @property
    def lag(self) -> int | None:
        """The lag of all paused partitions together in source offsets, None if a part of it is unknown."""
        return _sum(self._lags.values())


def _sum(lags: Iterable[int | None]) -> int | None:
    known = 0
    for lag in lags:
        if lag is None:
            return None
        known += lag
    return known
