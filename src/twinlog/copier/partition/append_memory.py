"""The memory of fetched answers and of the appends that wait for the target, against the budget of a copier."""

from __future__ import annotations

import weakref
from collections.abc import Iterable

from twinlog.kafka.net.frame_memory import FrameMemory
from twinlog.kafka.producer.appends import Append, RoutedRows


class _Kept(weakref.ref[Append | RoutedRows]):
    __slots__ = ("size",)
    size: int


class AppendMemory:
    """Counts bytes against `limit_bytes`; for a single thread.

    A batch that is appended unchanged shares the memory of its whole answer. Three quarters of the budget are used when
    the target is slower than the source. From then on batches are copied out of their answers, so that a waiting batch
    holds only its own bytes.
    """

    def __init__(self, limit_bytes: int, frames: FrameMemory) -> None:
        self.limit_bytes = limit_bytes
        self._frames = frames
        self._asked: dict[int, int] = {}
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

    def release(self, node: int) -> None:
        """The answer came, and its memory counts now, or the answer is lost."""
        self._asked.pop(node, None)

    def track_waiting(self, waiting: Iterable[Append | RoutedRows]) -> None:
        """Count waiting appends and rows from now on, until they are freed."""
        tight = self._tight
        for one in waiting:
            if isinstance(one, RoutedRows):
                self._count(one)
            elif tight or type(one.data) is not memoryview:
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
