"""Waiting for something to become true, with a deadline instead of a blind sleep."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_for(predicate: Callable[[], T | None], deadline_s: float, what: str, *, every_s: float = 0.02) -> T:
    """Call `predicate` until it returns something truthy, and return that.

    Pauses grow from `every_s` to half a second. Raises TimeoutError naming `what` after `deadline_s` seconds; the
    predicate is always called at least once. Exceptions of the predicate are not caught.
    """
    end = time.monotonic() + deadline_s
    pause = every_s
    while True:
        result = predicate()
        if result:
            return result
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"{what}: not so within {deadline_s:g} s; last seen: {result!r}")
        time.sleep(min(pause, left))
        pause = min(pause * 1.5, 0.5)
