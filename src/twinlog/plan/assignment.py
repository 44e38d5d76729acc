"""Deals source partitions to tasks: even by measured bytes, and with as few moves as possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twinlog.types import TopicPartition

Slots = tuple[frozenset[TopicPartition], ...]
"""One set of source partitions per task."""

LIGHT = 1.0
"""Weight of a partition that was never measured, in bytes per second: many new partitions still spread evenly."""

TOLERANCE = 1.25
"""A partition moves only when a task would otherwise carry this many times the mean."""


def assign(
    partitions: Sequence[TopicPartition],
    tasks: int,
    *,
    weights: Mapping[TopicPartition, float] | None = None,
    before: Slots = (),
) -> Slots:
    """At most `tasks` slots that together hold every partition once; empty slots are left out.

    `weights` are bytes per second. Partitions stay in the slot they had `before` unless that slot is too heavy or gone.
    """
    weights = weights or {}
    wanted = set(partitions)
    count = max(1, min(tasks, len(wanted))) if wanted else 0
    slots: list[set[TopicPartition]] = [set(slot & wanted) for slot in before[:count]]
    slots += [set() for _ in range(count - len(slots))]
    loads = [sum(weights.get(part, 0.0) + LIGHT for part in slot) for slot in slots]
    placed = set().union(*slots) if slots else set()
    loose = sorted(wanted - placed)
    limit = TOLERANCE * sum(weights.get(part, 0.0) + LIGHT for part in wanted) / max(1, count)
    for index, slot in enumerate(slots):
        # Light ones leave first: the heavy one that fills a slot alone is better left in peace.
        for part in sorted(slot, key=lambda part: (weights.get(part, 0.0), part)):
            if loads[index] <= limit or len(slot) == 1:
                break
            slot.remove(part)
            loads[index] -= weights.get(part, 0.0) + LIGHT
            loose.append(part)
    for part in sorted(loose, key=lambda part: (-weights.get(part, 0.0), part)):
        lightest = min(range(count), key=lambda index: (loads[index], index))
        slots[lightest].add(part)
        loads[lightest] += weights.get(part, 0.0) + LIGHT
    return tuple(frozenset(slot) for slot in slots if slot)
