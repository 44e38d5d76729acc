"""Divides work among tasks."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Protocol, TypeVar


class Work(Protocol):
    """A partition with something to do."""

    @property
    def offsets(self) -> int:
        """How much that is."""


W = TypeVar("W", bound=Work)


def share_out(parts: Iterable[W], most: int) -> list[tuple[W, ...]]:
    """At most so many shares of about the same size, large ones first; thousands of small parts need no task each."""
    loads: list[tuple[int, int, list[W]]] = [(0, number, []) for number in range(max(1, most))]
    for part in sorted(parts, key=lambda one: -one.offsets):
        load, number, share = heapq.heappop(loads)
        share.append(part)
        heapq.heappush(loads, (load + part.offsets + 1, number, share))
    return [tuple(share) for _, _, share in sorted(loads, key=lambda one: (-one[0], one[1])) if share]
