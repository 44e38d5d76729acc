"""So many at a time, and so many for one key: a broker that hangs holds up only what needs it."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable

from twinlog.kafka.net.loop import Loop, Signal


class KeyedSemaphore:
    """`total` permits, at most `each` of them for one key; those that wait go in their order, past keys that are full.

    A permit that is given back goes to the longest waiting, not to a new caller.
    """

    def __init__(self, loop: Loop, total: int, each: int) -> None:
        self._loop = loop
        self._total = total
        self._each = each
        self._taken: Counter[Hashable] = Counter()
        self._waiting: deque[tuple[Hashable, Signal]] = deque()

    def make_permit(self, key: Hashable) -> Permit:
        """A permit for one key, held while `async with` it."""
        return Permit(self, key)

    async def acquire(self, key: Hashable) -> None:
        """Wait for a permit."""
        if self._free(key):
            self._taken[key] += 1
            return
        given = self._loop.signal()
        self._waiting.append((key, given))
        await given.wait()

    def release(self, key: Hashable) -> None:
        """Give a permit back."""
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


class Permit:
    """One of a semaphore's."""

    __slots__ = ("_key", "_semaphore")

    def __init__(self, semaphore: KeyedSemaphore, key: Hashable) -> None:
        self._semaphore = semaphore
        self._key = key

    async def __aenter__(self) -> None:
        await self._semaphore.acquire(self._key)

    async def __aexit__(self, *_: object) -> None:
        self._semaphore.release(self._key)
