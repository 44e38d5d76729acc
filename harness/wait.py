"""Waiting for something to become true, with a deadline instead of a blind sleep."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def slowness() -> float:
    """How many times as long as at rest everything takes here: processes that want to run, for each core; 1 at least.

    A mean over the last minute.
    """
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def wait_for(predicate: Callable[[], T | None], deadline_s: float, what: str, *, every_s: float = 0.02) -> T:
    """Call `predicate` until it returns something truthy, and return that.

    Pauses grow from `every_s` to half a second. Raises TimeoutError naming `what` after `deadline_s` seconds, where a
    second on a machine that is as slow as N counts for one Nth; the predicate is always called at least once.
    Exceptions of the predicate are not caught.
    """
    begin = looked = time.monotonic()
    waited = 0.0
    pause = every_s
    while True:
        result = predicate()
        if result:
            return result
        now = time.monotonic()
        waited += (now - looked) / slowness()
        looked = now
        if waited >= deadline_s:
            raise TimeoutError(f"{what}: not so within {now - begin:.4g} s; last seen: {result!r}")
        time.sleep(min(pause, deadline_s - waited))
        pause = min(pause * 1.5, 0.5)
