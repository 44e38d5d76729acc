"""Deals source partitions to tasks: even by measured bytes, and with as few moves as possible."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Collection, Mapping

from twinlog.model.types import TopicPartition

Slots = tuple[frozenset[TopicPartition], ...]
"""One set of source partitions per task."""

LIGHT = 1.0
"""Bytes per second that count for any partition, so that many new partitions still spread evenly."""

LIGHT_SHARE = 0.1
"""So much of the mean weight counts for any partition: what is quiet now may not be so later."""

TOLERANCE = 1.25
"""Partitions move only from a task that would otherwise carry this many times the mean, and until none does."""

WORTH_MOVING = 0.05
"""A partition leaves one that is too heavy for any task when it takes at least this much off what is too much."""


def assign(
    partitions: Collection[TopicPartition],
    tasks: int,
    *,
    weights: Mapping[TopicPartition, float] | None = None,
    before: Slots = (),
    level: bool = False,
) -> Slots:
    """At most `tasks` slots that together hold every partition once; empty slots are left out.

    `weights` are bytes per second. Partitions stay in the slot they had `before`, unless that is gone, there are more
    slots now, or with `level` a slot is too heavy. The work grows with the partitions, and with those that move.
    """
    weights = weights or {}
    wanted = frozenset(partitions)
    count = max(1, min(tasks, len(wanted))) if wanted else 0
    kept = [slot & wanted for slot in before[:count]]
    total = sum(weight for part, weight in weights.items() if part in wanted)
    light = LIGHT + LIGHT_SHARE * total / max(1, len(wanted))
    slots = [_Slot([(weights.get(part, 0.0) + light, part) for part in slot]) for slot in kept]
    slots += [_Slot([]) for _ in range(count - len(slots))]
    loose = wanted.difference(*kept)
    lightest = [(slot.load, index) for index, slot in enumerate(slots)]
    heapq.heapify(lightest)
    for weight, part in sorted(((weights.get(part, 0.0) + light, part) for part in loose), key=_heavy_first):
        _, index = lightest[0]
        slots[index].add(weight, part)
        heapq.heapreplace(lightest, (slots[index].load, index))
    if level or count > len(before):
        _level(slots)
    return tuple(frozenset(part for _, part in slot.parts) for slot in slots if slot.parts)


def _heavy_first(entry: tuple[float, TopicPartition]) -> tuple[float, TopicPartition]:
    return -entry[0], entry[1]


class _Slot:
    """Partitions of one task with their weights, in order of these."""

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


def _level(slots: list[_Slot]) -> None:
    """Move partitions from the heaviest slot to the lightest until no slot is too heavy, or none can be helped."""
    mean = sum(slot.load for slot in slots) / max(1, len(slots))
    heavy = [slot for slot in slots if slot.load > TOLERANCE * mean]
    while heavy:
        slot, other = max(heavy, key=_load), min(slots, key=_load)
        index = _best(slot, slot.load - other.load, mean)
        if index is None:
            heavy.remove(slot)
            continue
        other.add(*slot.pop(index))
        if slot.load <= TOLERANCE * mean:
            heavy.remove(slot)


def _best(slot: _Slot, gap: float, mean: float) -> int | None:
    """Which partition brings a slot and one that carries `gap` less closest together; None when none does enough."""
    if len(slot.parts) < 2:
        return None
    above = bisect_left(slot.parts, gap / 2, key=_weight)
    near = [index for index in (above - 1, above) if 0 <= index < len(slot.parts) and slot.parts[index][0] < gap]
    if not near:
        return None
    index = min(near, key=lambda index: abs(slot.parts[index][0] - gap / 2))
    hopeless = slot.parts[-1][0] > TOLERANCE * mean
    if hopeless and slot.parts[index][0] < WORTH_MOVING * (slot.load - mean):
        return None
    return index


def _load(slot: _Slot) -> float:
    return slot.load


def _weight(entry: tuple[float, TopicPartition]) -> float:
    return entry[0]
