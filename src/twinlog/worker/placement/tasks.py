"""Places flows on the slots of Spark, and source partitions in the tasks of a flow: evenly, and with few moves."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from twinlog.lease.ledger import Assignment
from twinlog.model.types import TopicPartition


@dataclass(frozen=True, slots=True)
class SlotDemand:
    """The slots that a flow can use: at most `limit`.

    A `hungry` flow is at that limit, a `quiet` flow needs a single slot.
    """

    limit: int
    hungry: bool = False
    quiet: bool = False


class SlotSharing:
    """Shares slots between flows, and remembers the quiet flows that made room for hungry flows."""

    def __init__(self) -> None:
        self._modest: set[str] = set()

    def share_out(self, slots: int, demands: Mapping[str, SlotDemand]) -> dict[str, int]:
        """The number of tasks of each flow.

        A quiet flow gives all slots but its first slot to other flows as soon as another flow is hungry. It gets its
        share back as soon as it is itself at its limit with that slot.
        """
        some_hungry = any(demand.hungry for demand in demands.values())
        quiet = {name for name, demand in demands.items() if demand.quiet and some_hungry}
        calm = {name for name, demand in demands.items() if not demand.hungry}
        self._modest = (self._modest | quiet) & calm
        limits = [1 if name in self._modest else demand.limit for name, demand in demands.items()]
        return dict(zip(demands, share_out(slots, limits), strict=True))


def share_out(slots: int, limits: Sequence[int]) -> list[int]:
    """The number of tasks of each flow, up to its limit.

    Every flow has a task. Among flows below their limits, the numbers of tasks differ by 1 at most. With more flows
    than slots, several flows share a task, see `group_flows`.
    """
    shares = [1] * len(limits)
    for _ in range(slots - len(limits)):
        hungry = [index for index, limit in enumerate(limits) if shares[index] < limit]
        if not hungry:
            break
        shares[min(hungry, key=lambda index: (shares[index], index))] += 1
    return shares


def group_flows(flows: Sequence[str], slots: int, before: Sequence[Sequence[str]] = ()) -> list[list[str]]:
    """The flows that share tasks, as evenly as possible in at most `slots` groups; with enough slots, each is alone.

    A flow stays in its group of `before` if possible. Unneeded groups are empty, and new groups follow the groups of
    `before`.
    """
    groups = [[flow for flow in one if flow in flows] for one in before]
    count = min(max(1, slots), len(flows))
    used = sorted((one for one in groups if one), key=len, reverse=True)
    for one in used[count:]:
        one.clear()
    used = used[:count]
    for _ in range(count - len(used)):
        groups.append([])
        used.append(groups[-1])
    placed = {flow for one in used for flow in one}
    for flow in flows:
        if flow not in placed:
            min(used, key=len).append(flow)
    while used and len(max(used, key=len)) - len(min(used, key=len)) > 1:
        min(used, key=len).append(max(used, key=len).pop())
    return groups


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


def assign_partitions(
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
