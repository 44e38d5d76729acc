"""Shares Spark's slots between flows: how many tasks each may have, and which share one when there are too few."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SlotDemand:
    """The slots a flow can use: `limit` at most; a `hungry` flow is at that limit, a `quiet` one needs a single
    slot."""

    limit: int
    hungry: bool = False
    quiet: bool = False


class SlotSharing:
    """Shares slots between flows, and remembers which quiet ones made room for others."""

    def __init__(self) -> None:
        self._modest: set[str] = set()

    def share_out(self, slots: int, demands: Mapping[str, SlotDemand]) -> dict[str, int]:
        """How many tasks each flow may have.

        A quiet flow leaves all but one slot to others as soon as one of these is at its limit, and has its share again
        as soon as it is at its own limit with that one.
        """
        some_hungry = any(demand.hungry for demand in demands.values())
        quiet = {name for name, demand in demands.items() if demand.quiet and some_hungry}
        calm = {name for name, demand in demands.items() if not demand.hungry}
        self._modest = (self._modest | quiet) & calm
        limits = [1 if name in self._modest else demand.limit for name, demand in demands.items()]
        return dict(zip(demands, share_out(slots, limits), strict=True))


def share_out(slots: int, limits: Sequence[int]) -> list[int]:
    """How many tasks each flow may have, when it can use no more than its limit.

    Every flow has one, and none has two more than another that could use them: with more flows than slots some share
    theirs, see `group`.
    """
    shares = [1] * len(limits)
    for _ in range(slots - len(limits)):
        hungry = [index for index, limit in enumerate(limits) if shares[index] < limit]
        if not hungry:
            break
        shares[min(hungry, key=lambda index: (shares[index], index))] += 1
    return shares


def group(flows: Sequence[str], slots: int, before: Sequence[Sequence[str]] = ()) -> list[list[str]]:
    """The flows that share tasks, as evenly as possible in at most `slots` groups; each alone when there are enough.

    A flow stays in the group that it was in `before` where that is possible; groups that are not needed any more are
    empty, new ones stand after those of before.
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
