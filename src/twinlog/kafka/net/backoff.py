"""The wait before a failed request is sent again (KIP-580, Kafka class ExponentialBackoff)."""

from __future__ import annotations

import random

from twinlog.settings.flow import ClientSettings

_JITTER = 0.2


def pause_s(failures: int, initial_ms: int, most_ms: int, chance: float | None = None) -> float:
    """Seconds to wait after the `failures`th failure in a row: twice as long each time, with a jitter of 20 %.

    When the longest pause is below the first pause, every pause is the longest pause, as in Kafka. `chance`, from 0 to
    1, is the place of the pause within the jitter; None draws a random place.

    >>> pause_s(1, 500, 100)
    0.1
    """
    if most_ms <= initial_ms:
        return most_ms / 1000
    # 63 doublings exceed any limit.
    grown = max(initial_ms, 1) << min(failures - 1, 63)
    jitter = 1 - _JITTER + 2 * _JITTER * (random.random() if chance is None else chance)
    return min(min(grown, most_ms) * jitter, most_ms) / 1000


class Backoff:
    """Counts the failures in a row of an operation."""

    __slots__ = ("_failures", "_initial_ms", "_most_ms")

    def __init__(self, initial_ms: int, most_ms: int) -> None:
        self._initial_ms = initial_ms
        self._most_ms = most_ms
        self._failures = 0

    @classmethod
    def of(cls, settings: ClientSettings) -> Backoff:
        """Begins with pauses of `retry.backoff.ms`; the longest pause is `retry.backoff.max.ms`."""
        return cls(settings.retry_backoff_ms, settings.retry_backoff_max_ms)

    def count_failure(self) -> float:
        """Count a failure; returns the seconds to wait."""
        self._failures += 1
        return pause_s(self._failures, self._initial_ms, self._most_ms)

    def reset_failures(self) -> None:
        """Reset the count."""
        self._failures = 0
