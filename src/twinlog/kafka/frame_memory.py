"""Memory for large frames, used again once nobody looks at it any more.

Fresh memory is filled with zeros and mapped page by page: for fetches of megabytes that took an eighth of a copier's
time.
"""

from __future__ import annotations

import time
from sys import getrefcount

LARGE_BYTES = 256 << 10
"""Smaller frames are left to Python, which has their memory at hand."""

MOST_BYTES = 64 << 20
"""What one connection keeps, at most: what a task reads ahead of eight partitions."""

KEEP_S = 5.0
"""Without a large frame for so long, nothing is kept."""

_STEP = 1 << 20


class FrameMemory:
    """The memory of one connection's frames, `most_bytes` of it at most; for one thread."""

    __slots__ = ("_kept", "_most_bytes", "_needed_at")

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._kept: list[bytearray] = []
        self._needed_at = 0.0

    @property
    def kept_bytes(self) -> int:
        """What would be used again, or is in use and will be."""
        return sum(map(len, self._kept))

    def take(self, size: int) -> memoryview:
        """`size` writable bytes with anything in them; they are taken again when no view of them is left."""
        now = time.monotonic()
        if size < LARGE_BYTES:
            if self._kept and now - self._needed_at > KEEP_S:
                self._kept.clear()
            return memoryview(bytearray(size))
        self._needed_at = now
        kept = self._kept
        for index in range(len(kept)):
            if len(kept[index]) >= size and _references(kept, index) == _UNSEEN:
                return memoryview(kept[index])[:size]
        room = -(-size // _STEP) * _STEP
        if self.kept_bytes + room > self._most_bytes:
            # What is free is too small.
            self._kept = [kept[index] for index in range(len(kept)) if _references(kept, index) != _UNSEEN]
        if self.kept_bytes + room > self._most_bytes:
            return memoryview(bytearray(size))
        self._kept.append(bytearray(room))
        return memoryview(self._kept[-1])[:size]


def _references(kept: list[bytearray], index: int) -> int:
    return getrefcount(kept[index])


_UNSEEN = _references([bytearray()], 0)
"""Every view counts as one more: a memoryview, and all that are cut from it, hold on to what they show."""
