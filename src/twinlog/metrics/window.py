"""Averages, extremes and rates over the time that Kafka's sensors look back: two samples of 30 seconds.

All counts of a partition in a report go into the sample of the report's time (classes SampledStat and Rate).
"""

from __future__ import annotations

from collections import deque
from math import inf, nan

SAMPLE_S = 30.0
SAMPLES = 2
"""The defaults of metrics.sample.window.ms and metrics.num.samples, which MirrorMaker 2's own metrics always have."""


class Sample:
    """Sums of up to 30 seconds: copied records and bytes, and ages (`least` is inf without an age)."""

    __slots__ = (
        "age_sum",
        "aged",
        "began",
        "bytes",
        "last",
        "latency_sum",
        "least_age",
        "least_latency",
        "most_age",
        "most_latency",
        "records",
        "timed",
    )

    def __init__(self, now: float) -> None:
        self.began = self.last = now
        self.records = self.bytes = self.aged = self.timed = 0
        self.age_sum = 0
        self.latency_sum = 0.0
        self.least_age = self.least_latency = inf
        self.most_age = self.most_latency = -1.0


class RecentTimes:
    """The durations of a rare operation in the last minute, in milliseconds; for any thread."""

    __slots__ = ("_times",)

    def __init__(self) -> None:
        self._times: deque[tuple[float, float]] = deque(maxlen=256)

    def add(self, begun: float, ended: float) -> None:
        """Add a duration by its start and its end, in seconds."""
        self._times.append((ended, (ended - begun) * 1000))

    def within(self, now: float) -> list[float]:
        """The durations of the last minute."""
        return [took_ms for ended, took_ms in tuple(self._times) if now - ended <= SAMPLES * SAMPLE_S]


class SampleWindow:
    """The samples that count now, the newest last; another sample may overlap the period."""

    __slots__ = ("samples",)

    def __init__(self, now: float) -> None:
        self.samples = [Sample(now)]

    def get_sample(self, now: float) -> Sample:
        """The sample for the present measurements."""
        newest = self.samples[-1]
        if now - newest.began >= SAMPLE_S:
            newest = Sample(now)
            self.samples.append(newest)
            del self.samples[: -SAMPLES - 1]
        newest.last = now
        return newest

    def within(self, now: float) -> list[Sample]:
        """The samples with a recent measurement."""
        return [one for one in self.samples if now - one.last < SAMPLES * SAMPLE_S]

    @staticmethod
    def rate_s(samples: list[Sample], now: float) -> float:
        """The number of seconds over which the counts of `samples` are spread.

        Missing samples count as complete samples, except the last (Kafka class Rate).
        """
        elapsed = now - min((one.began for one in samples), default=now)
        missing = max(0, SAMPLES - 1 - int(elapsed / SAMPLE_S))
        return elapsed + missing * SAMPLE_S


def average(total: float, count: int) -> float:
    """The average; NaN for a count of 0, as in Kafka."""
    return total / count if count else nan


def extreme(value: float) -> float:
    """A least or a largest value; NaN without a measurement."""
    return nan if value == inf or value < 0 else value
