"""So many at a time, and so many of one kind: what a broker that hangs holds up is only what needs it."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable

from twinlog.kafka.loop import Loop, Signal


class Places:
    """`total` places, at most `each` of them for one key; those that wait go in their order, past keys that are full.

    A place that is left is given to who waits, not to who asks first then.
    """

    def __init__(self, loop: Loop, total: int, each: int) -> None:
        self._loop = loop
        self._total = total
        self._each = each
        self._taken: Counter[Hashable] = Counter()
        self._waiting: deque[tuple[Hashable, Signal]] = deque()

    async def take(self, key: Hashable) -> None:
        """Wait for a place; `leave` it with the same key."""
        if self._free(key):
            self._taken[key] += 1
            return
        given = self._loop.signal()
        self._waiting.append((key, given))
        await given.wait()

    def leave(self, key: Hashable) -> None:
        """Give a place back."""
        self._taken[key] -= 1
        if not self._taken[key]:
            del self._taken[key]
        for one in list(self._waiting):
            waiting, given = one
            if self._free(waiting):
                self._waiting.remove(one)
                self._taken[waiting] += 1
                given.set()
                return

    def _free(self, key: Hashable) -> bool:
        return self._taken[key] < self._each and self._taken.total() < self._total
