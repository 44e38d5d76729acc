"""The partitions of a flow that are paused, and how far each of them is behind; read by any thread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from twinlog.model.topics import listed
from twinlog.model.types import TopicPartition


@dataclass(frozen=True, slots=True)
class PausedTopic:
    """Paused partitions of one topic: how many, and how many source offsets wait there, None where one is unknown."""

    topic: str
    partitions: int
    lag: int | None


class PausedPartitions:
    """What is paused now; another thread may read while one writes."""

    def __init__(self) -> None:
        self._lags: Mapping[TopicPartition, int | None] = {}

    def set_partitions(self, partitions: Set[TopicPartition]) -> None:
        """Exactly these are paused from now on."""
        self._lags = {part: self._lags.get(part) for part in partitions}

    def set_lags(self, lags: Mapping[TopicPartition, int]) -> None:
        """So many source offsets wait in partitions; those that are not named are unknown now."""
        self._lags = {part: lags.get(part) for part in self._lags}

    def __len__(self) -> int:
        return len(self._lags)

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._lags

    def without(self, partitions: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
        """Those of these that are not paused."""
        lags = self._lags
        return frozenset(part for part in partitions if part not in lags)

    def are_paused(self, partitions: Iterable[TopicPartition]) -> bool:
        """Whether all of these are paused."""
        lags = self._lags
        return all(part in lags for part in partitions)

    def __str__(self) -> str:
        """What is not copied and not waited for, to be added to a sentence; empty where nothing is paused."""
        lags = self._lags
        return f", without {len(lags)} paused partitions: {listed(map(str, lags))}" if lags else ""

    @property
    def all(self) -> str | None:
        """What is to be shown where nothing else is mirrored; None where nothing is paused."""
        return f"all {len(self._lags)} partitions that are mirrored are paused" if self._lags else None

    @property
    def partitions(self) -> list[TopicPartition]:
        """All of them, in order."""
        return sorted(self._lags)

    def topics(self) -> list[PausedTopic]:
        """The topics that have paused partitions, in order."""
        lags: dict[str, list[int | None]] = {}
        for part, lag in self._lags.items():
            lags.setdefault(part.topic, []).append(lag)
        return [PausedTopic(topic, len(some), _sum(some)) for topic, some in sorted(lags.items())]

    @property
    def lag(self) -> int | None:
        """How many source offsets wait in all of them together, None where one is unknown."""
        return _sum(self._lags.values())


def _sum(lags: Iterable[int | None]) -> int | None:
    known = 0
    for lag in lags:
        if lag is None:
            return None
        known += lag
    return known
