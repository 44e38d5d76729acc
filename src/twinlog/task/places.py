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

    def at(self, key: Hashable) -> _Place:
        """A place for one key, while `async with` it."""
        return _Place(self, key)

    async def _take(self, key: Hashable) -> None:
        if self._free(key):
            self._taken[key] += 1
            return
        given = self._loop.signal()
        self._waiting.append((key, given))
        await given.wait()

    def _leave(self, key: Hashable) -> None:
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


class _Place:
    __slots__ = ("_key", "_places")

    def __init__(self, places: Places, key: Hashable) -> None:
        self._places = places
        self._key = key

    async def __aenter__(self) -> None:
        await self._places._take(self._key)

    async def __aexit__(self, *_: object) -> None:
        self._places._leave(self._key)
