"""The memory of fetched answers and of the appends that wait for the target, against the budget of a copier."""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Sequence

from twinlog.kafka.net.frame_memory import FrameMemory
from twinlog.kafka.producer.appends import Append, RoutedRows

MOST_BUILT = 8
"""From this ratio of all bytes of a fetch to the bytes of its unchanged batches on, the latter are copied out."""


class _Kept(weakref.ref[Append | RoutedRows]):
    __slots__ = ("size",)
    size: int


class AppendMemory:
    """Counts bytes against `limit_bytes`; for a single thread.

    A batch that is appended unchanged shares the memory of its whole answer. If almost all batches of a fetch were
    built, the few unchanged batches are copied out, so that the next answer reuses the memory. Three quarters of the
    budget are used when the target is slower than the source. From then on batches are copied out of their answers, so
    that a waiting batch holds only its own bytes.
    """

    def __init__(self, limit_bytes: int, frames: FrameMemory) -> None:
        self.limit_bytes = limit_bytes
        self._frames = frames
        self._asked: dict[Hashable, int] = {}
        self._kept: dict[int, _Kept] = {}
        self._kept_bytes = 0

    @property
    def used_bytes(self) -> int:
        """The bytes of requested answers, answers with waiting batches, built or copied batches, and waiting rows."""
        return sum(self._asked.values()) + self._frames.used_bytes + self._kept_bytes

    @property
    def _tight(self) -> bool:
        return self.used_bytes > self.limit_bytes // 4 * 3

    @property
    def room_bytes(self) -> int:
        return max(0, self.limit_bytes - self.used_bytes)

    def release(self, place: Hashable) -> None:
        """The answer came, and its memory counts now, or the answer is lost."""
        self._asked.pop(place, None)

    def track_waiting(self, waiting: Sequence[Append | RoutedRows]) -> None:
        """Count the waiting appends and rows of a fetch from now on, until they are freed."""
        copies = self._tight or _mostly_built(waiting)
        for one in waiting:
            if isinstance(one, RoutedRows):
                self._count(one)
            elif copies or type(one.data) is not memoryview:
                self._copy_out(one)

    def _copy_out(self, append: Append) -> None:
        if type(append.data) is memoryview:
            append.data = bytearray(append.data)
        self._count(append)

    def _count(self, one: Append | RoutedRows) -> None:
        kept = _Kept(one, self._gone)
        kept.size = one.memory_bytes
        self._kept[id(kept)] = kept
        self._kept_bytes += kept.size

    def _gone(self, kept: weakref.ref[Append | RoutedRows]) -> None:
        assert isinstance(kept, _Kept)
        if self._kept.pop(id(kept), None) is not None:
            self._kept_bytes -= kept.size


def _mostly_built(waiting: Sequence[Append | RoutedRows]) -> bool:
    """Whether only a small part of the bytes shares the memory of an answer."""
    if len(waiting) < 2:
        return False
    built = shared = 0
    for one in waiting:
        if isinstance(one, RoutedRows) or type(one.data) is not memoryview:
            built += one.memory_bytes
        else:
            shared += one.bytes
    return 0 < shared * MOST_BUILT <= shared + built
