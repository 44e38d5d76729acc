"""Shares Spark's slots between flows: the number of tasks of each flow, and the flows that share a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


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
    than slots, several flows share a task, see `group`.
    """
    shares = [1] * len(limits)
    for _ in range(slots - len(limits)):
        hungry = [index for index, limit in enumerate(limits) if shares[index] < limit]
        if not hungry:
            break
        shares[min(hungry, key=lambda index: (shares[index], index))] += 1
    return shares


def group(flows: Sequence[str], slots: int, before: Sequence[Sequence[str]] = ()) -> list[list[str]]:
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
