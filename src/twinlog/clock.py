"""The only module that asks the system for the time. Whatever waits, times out or dates a record gets its clock from
outside.

The entries of a program hand in the system's clock: the command line, the driver's runner, a Spark task. On an event
loop the loop carries it (`kafka/net/loop.py:Loop.clock`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

LONG_AGO = float("-inf")
"""A monotonic time before all real times: "has never happened", or "has always been due". Zero is when the machine
booted."""


class Clock(Protocol):
    """Returns the time, and lets threads wait for it."""

    def __hash__(self) -> int:
        """The name of this clock."""

    @property
    def monotonic(self) -> Callable[[], float]:
        """Seconds since some moment; they only grow. Code that asks often binds it once."""

    @property
    def wall(self) -> Callable[[], float]:
        """Seconds since 1970, as records and tokens are dated; may go back."""

    def sleep(self, seconds: float) -> None:
        """Let a thread wait."""

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        """Let a thread wait until an event is set; False when `timeout_s` seconds passed first."""

    def wait_for(self, changed: threading.Condition, true: Callable[[], bool], timeout_s: float) -> bool:
        """Let a thread that holds `changed` wait until `true()`; False when `timeout_s` seconds passed first."""


class SystemClock:
    """The clock of this machine."""

    monotonic = staticmethod(time.monotonic)
    wall = staticmethod(time.time)
    sleep = staticmethod(time.sleep)

    @staticmethod
    def wait(event: threading.Event, timeout_s: float) -> bool:
        return event.wait(timeout_s)

    @staticmethod
    def wait_for(changed: threading.Condition, true: Callable[[], bool], timeout_s: float) -> bool:
        return changed.wait_for(true, timeout_s)


SYSTEM: Clock = SystemClock()


def wall_ms(clock: Clock) -> int:
    """Milliseconds since 1970, as Kafka dates records."""
    return int(clock.wall() * 1000)
