"""Runs at the start of every Python that has this directory on its path: SIGUSR2 shifts what it takes for the time.

By how many seconds, stands in the file that FAULTS_CLOCK names. What runs by the monotonic clock does not notice.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from types import FrameType

_FILE = os.environ.get("FAULTS_CLOCK")


class _Clock:
    """The true one, and how far this process is from it."""

    def __init__(self) -> None:
        self._time, self._time_ns = time.time, time.time_ns
        self._shift_s = 0

    def time(self) -> float:
        return self._time() + self._shift_s

    def time_ns(self) -> int:
        return self._time_ns() + self._shift_s * 1_000_000_000

    def jump(self, number: int, frame: FrameType | None) -> None:
        self._shift_s = int(Path(str(_FILE)).read_text(encoding="ascii"))


if _FILE:
    _clock = _Clock()
    signal.signal(signal.SIGUSR2, _clock.jump)
    time.time, time.time_ns = _clock.time, _clock.time_ns
