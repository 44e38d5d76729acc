"""The heap of the C library in a driver: all threads share it.

glibc gives the threads of a process up to eight heaps for each processor. A thread that has started a part of the
driver leaves freed memory in its heap, and the other threads never use that memory. Python runs a single thread at a
time, so threads rarely wait for the shared heap.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress

_ARENA_MAX = -8
"""The option of `mallopt` for the number of heaps (glibc's malloc.h)."""

_GIVEN = "MALLOC_ARENA_MAX"
"""glibc's variable with the same number; the user's own number counts."""


def share_heap() -> None:
    """Let all later threads of this process share a heap; does nothing for another C library than glibc."""
    if _GIVEN not in os.environ:
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)
