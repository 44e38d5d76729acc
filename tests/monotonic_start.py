"""Where the monotonic clock begins: at 0 when a machine boots, so that 0 is no moment long ago.

Imported before anything that keeps a reference to the clock.
"""

from __future__ import annotations

import os
import time

from harness.virtual import clock

VARIABLE = "TWINLOG_MONOTONIC_START"
"""The seconds that the clock shows first, as 0 on a machine that has just booted; without it the clock is as it is."""

_asked = time.monotonic
_shift_s = 0.0
_began_s = _asked()


def _shifted() -> float:
    return _asked() + _shift_s


time.monotonic = _shifted


def begin() -> None:
    """Let the clock, and virtual ones, begin where `VARIABLE` says."""
    global _shift_s, _began_s  # noqa: PLW0603 - there is one clock
    if not (asked := os.environ.get(VARIABLE)):
        return
    _began_s = float(asked)
    _shift_s = _began_s - _asked()
    clock.BEGIN = _began_s


def begun_s() -> float:
    """Where it began."""
    return _began_s
