"""A semaphore with a limit in all and a limit for each key, so that a silent broker delays only its own partitions."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable

from twinlog.kafka.net.loop import Loop, Signal


class KeyedSemaphore:
    """`total` permits, at most `each` of them for the same key.

    Callers get permits in their order; callers of a full key are passed over. A returned permit goes to the caller that
    waits longest, before any new caller.
    """

    def __init__(self, loop: Loop, total: int, each: int) -> None:
        self._loop = loop
        self._total = total
        self._each = each
        self._taken: Counter[Hashable] = Counter()
        self._waiting: deque[tuple[Hashable, Signal]] = deque()

    def make_permit(self, key: Hashable) -> Permit:
        """Make a permit for a key; `async with` holds it."""
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
    """A permit of a semaphore."""

    __slots__ = ("_key", "_semaphore")

    def __init__(self, semaphore: KeyedSemaphore, key: Hashable) -> None:
        self._semaphore = semaphore
        self._key = key

    async def __aenter__(self) -> None:
        await self._semaphore.acquire(self._key)

    async def __aexit__(self, *_: object) -> None:
        self._semaphore.release(self._key)
