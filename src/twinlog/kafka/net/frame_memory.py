"""Memory for large frames, reused once the last view of a frame is gone.

Fresh memory is filled with zeros and mapped page by page: for fetches of megabytes that took an eighth of a copier's
time, and for the frames of its produce requests and the pieces that it checks as much as all other work.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from contextlib import suppress
from sys import getrefcount

from twinlog.clock import LONG_AGO

LARGE_BYTES = 256 << 10
"""Smaller frames come from Python's allocator."""

MOST_BYTES = 64 << 20
"""At most so many bytes are kept for reuse: the read-ahead of a task for eight partitions."""

KEEP_S = 5.0
"""After so many seconds since the last large frame, kept frames and freed memory are given back to the system."""

_STEP = 256 << 10

HEAP_BYTES = 64 << 20
"""At most so many freed bytes of a thread are kept for its next allocations."""

_LARGEST_OF_HEAP = 32 << 20
"""Larger pieces are mapped from the system and given back (glibc's DEFAULT_MMAP_THRESHOLD_MAX)."""

_USUAL_HEAP_BYTES = 128 << 10
"""The freed bytes that glibc keeps by default."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Options of `mallopt` (glibc's malloc.h)."""


class _FreedMemory:
    """The freed memory of this process. Only glibc has `mallopt`; with another C library nothing changes."""

    def __init__(self) -> None:
        self._reused = False
        self._mallopt: Callable[[int, int], int] | None = None
        with suppress(OSError, AttributeError):
            self._mallopt = ctypes.CDLL(None).mallopt

    def reuse_memory(self) -> None:
        """Keep freed memory for later allocations, from now on."""
        if not self._reused and self._mallopt is not None:
            self._reused = True
            self._mallopt(_MMAP_THRESHOLD, _LARGEST_OF_HEAP)
            self._mallopt(_TRIM_THRESHOLD, HEAP_BYTES)

    def return_memory(self) -> None:
        """Give the freed memory of this thread back to the system."""
        if self._reused and self._mallopt is not None:
            self._mallopt(_TRIM_THRESHOLD, _USUAL_HEAP_BYTES)
            # glibc gives memory back when a piece of this size is freed.
            bytearray(2 * _USUAL_HEAP_BYTES)
            self._mallopt(_TRIM_THRESHOLD, HEAP_BYTES)


_freed = _FreedMemory()


class _Frame(bytearray):
    """A frame that is freed after use; a weak reference notices the end of its last view."""

    __slots__ = ("__weakref__",)


class _Lent(weakref.ref[_Frame]):
    __slots__ = ("size",)
    size: int


class FrameMemory:
    """The memory of the frames of some connections, which keeps at most `most_bytes`; for a single thread."""

    __slots__ = ("_kept", "_lent", "_lent_bytes", "_most_bytes", "_needed_at", "_now")

    def __init__(self, now: Callable[[], float], most_bytes: int = MOST_BYTES) -> None:
        self._now = now
        self._most_bytes = most_bytes
        self._kept: list[bytearray] = []
        self._needed_at = LONG_AGO
        self._lent: dict[int, _Lent] = {}
        self._lent_bytes = 0

    @property
    def kept_bytes(self) -> int:
        """Bytes of the kept frames, in use or free."""
        return sum(map(len, self._kept))

    @property
    def used_bytes(self) -> int:
        """Bytes of all frames with a view."""
        kept = self._kept
        if not kept:
            return self._lent_bytes
        in_use = (len(kept[index]) for index in range(len(kept)) if _references(kept, index) != _UNSEEN)
        return self._lent_bytes + sum(in_use)

    def allocate_frame(self, size: int) -> memoryview:
        """`size` writable bytes with arbitrary content; the memory is reused after the last view of it is gone."""
        now = self._now()
        if size < LARGE_BYTES:
            if self._kept and now - self._needed_at > KEEP_S:
                self._drop_free()
                _freed.return_memory()
            return self._lend(size)
        self._needed_at = now
        _freed.reuse_memory()
        kept = self._kept
        for index in range(len(kept)):
            if len(kept[index]) >= size and _references(kept, index) == _UNSEEN:
                return memoryview(kept[index])[:size]
        room = -(-size // _STEP) * _STEP
        if self.kept_bytes + room > self._most_bytes:
            # Each free frame is too small.
            self._drop_free()
        if self.kept_bytes + room > self._most_bytes:
            return self._lend(size)
        self._kept.append(bytearray(room))
        return memoryview(self._kept[-1])[:size]

    def keep_at_most(self, free_bytes: int) -> None:
        """Free the unused frames, if they have more than `free_bytes`."""
        if self._kept and self.kept_bytes + self._lent_bytes - self.used_bytes > free_bytes:
            self._drop_free()

    def _drop_free(self) -> None:
        kept = self._kept
        self._kept = [kept[index] for index in range(len(kept)) if _references(kept, index) != _UNSEEN]

    def _lend(self, size: int) -> memoryview:
        frame = _Frame(size)
        lent = _Lent(frame, self._returned)
        lent.size = size
        self._lent[id(lent)] = lent
        self._lent_bytes += size
        return memoryview(frame)

    def _returned(self, lent: weakref.ref[_Frame]) -> None:
        assert isinstance(lent, _Lent)
        del self._lent[id(lent)]
        self._lent_bytes -= lent.size


def _references(kept: list[bytearray], index: int) -> int:
    return getrefcount(kept[index])


_UNSEEN = _references([bytearray()], 0)
"""The references to an unused frame: each memoryview, and each slice of a memoryview, adds a reference."""
