"""Assigns source partitions to tasks: evenly by measured bytes, and with as few moves as possible."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Collection, Mapping

from twinlog.model.types import TopicPartition

Assignment = tuple[frozenset[TopicPartition], ...]
"""The shares of a lease: for each task a set of source partitions."""

LIGHT = 1.0
"""Bytes per second that count for any partition, so that many new partitions still spread evenly."""

LIGHT_SHARE = 0.1
"""This share of the mean weight counts for any partition: a quiet partition may become busy later."""

TOLERANCE = 1.25
"""Partitions move only from a task that would otherwise carry more than this many times the mean, until all tasks carry
less."""

WORTH_MOVING = 0.05
"""If a single partition is too heavy for any task, a move from its task must take at least this share off the excess
load."""


def assign(
    partitions: Collection[TopicPartition],
    tasks: int,
    *,
    weights: Mapping[TopicPartition, float] | None = None,
    before: Assignment = (),
    level: bool = False,
) -> Assignment:
    """Return at most `tasks` shares that together hold every partition once; empty shares are left out.

    `weights` are bytes per second. Partitions stay in the share they had `before`, with three exceptions: the share is
    gone, there are more shares now, or with `level` a share is too heavy. The work grows with the partitions, and with
    the moved partitions.
    """
    weights = weights or {}
    wanted = frozenset(partitions)
    count = max(1, min(tasks, len(wanted))) if wanted else 0
    kept = [share & wanted for share in before[:count]]
    total = sum(weight for part, weight in weights.items() if part in wanted)
    light = LIGHT + LIGHT_SHARE * total / max(1, len(wanted))
    shares = [_Share([(weights.get(part, 0.0) + light, part) for part in share]) for share in kept]
    shares += [_Share([]) for _ in range(count - len(shares))]
    loose = wanted.difference(*kept)
    lightest = [(share.load, index) for index, share in enumerate(shares)]
    heapq.heapify(lightest)
    for weight, part in sorted(((weights.get(part, 0.0) + light, part) for part in loose), key=_heavy_first):
        _, index = lightest[0]
        shares[index].add(weight, part)
        heapq.heapreplace(lightest, (shares[index].load, index))
    if level or count > len(before):
        _level(shares)
    return tuple(frozenset(part for _, part in share.parts) for share in shares if share.parts)


def _heavy_first(entry: tuple[float, TopicPartition]) -> tuple[float, TopicPartition]:
    return -entry[0], entry[1]


class _Share:
    """Partitions of a task with their weights, ordered by weight."""

    __slots__ = ("load", "parts")

    def __init__(self, parts: list[tuple[float, TopicPartition]]) -> None:
        self.parts = sorted(parts)
        self.load = sum(weight for weight, _ in parts)

    def add(self, weight: float, part: TopicPartition) -> None:
        insort(self.parts, (weight, part))
        self.load += weight

    def pop(self, index: int) -> tuple[float, TopicPartition]:
        weight, part = self.parts.pop(index)
        self.load -= weight
        return weight, part


def _level(shares: list[_Share]) -> None:
    """Move partitions from the heaviest share to the lightest.

    The moves end when each share is light enough, or further moves are useless.
    """
    mean = sum(share.load for share in shares) / max(1, len(shares))
    heavy = [share for share in shares if share.load > TOLERANCE * mean]
    while heavy:
        share, other = max(heavy, key=_load), min(shares, key=_load)
        index = _best(share, share.load - other.load, mean)
        if index is None:
            heavy.remove(share)
            continue
        other.add(*share.pop(index))
        if share.load <= TOLERANCE * mean:
            heavy.remove(share)


def _best(share: _Share, gap: float, mean: float) -> int | None:
    """The index of the partition that brings a share and a share lighter by `gap` closest together.

    Returns None if each move is too small.
    """
    if len(share.parts) < 2:
        return None
    above = bisect_left(share.parts, gap / 2, key=_weight)
    near = [index for index in (above - 1, above) if 0 <= index < len(share.parts) and share.parts[index][0] < gap]
    if not near:
        return None
    index = min(near, key=lambda index: abs(share.parts[index][0] - gap / 2))
    hopeless = share.parts[-1][0] > TOLERANCE * mean
    if hopeless and share.parts[index][0] < WORTH_MOVING * (share.load - mean):
        return None
    return index


def _load(share: _Share) -> float:
    return share.load


def _weight(entry: tuple[float, TopicPartition]) -> float:
    return entry[0]
