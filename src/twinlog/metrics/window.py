"""Averages, extremes and rates over the time that Kafka's sensors look back: two samples of 30 seconds.

What one report counts of a partition goes into the sample of that moment as a whole (classes SampledStat and Rate).
"""

from __future__ import annotations

from collections import deque
from math import inf, nan

SAMPLE_S = 30.0
SAMPLES = 2
"""The defaults of metrics.sample.window.ms and metrics.num.samples, which MirrorMaker 2's own metrics always have."""


class Sample:
    """Sums of up to 30 seconds: records and bytes copied, and ages (`least` is inf without one)."""

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
    """How long something took that comes seldom, in milliseconds, each time of the last minute; for any thread."""

    __slots__ = ("_times",)

    def __init__(self) -> None:
        self._times: deque[tuple[float, float]] = deque(maxlen=256)

    def add(self, begun: float, ended: float) -> None:
        """It took from one moment to the other, in seconds."""
        self._times.append((ended, (ended - begun) * 1000))

    def within(self, now: float) -> list[float]:
        """Those of the last minute."""
        return [took_ms for ended, took_ms in tuple(self._times) if now - ended <= SAMPLES * SAMPLE_S]


class SampleWindow:
    """The samples that count now, the newest last; one more may overlap the time that is looked at."""

    __slots__ = ("samples",)

    def __init__(self, now: float) -> None:
        self.samples = [Sample(now)]

    def get_sample(self, now: float) -> Sample:
        """The sample that takes what is measured now."""
        newest = self.samples[-1]
        if now - newest.began >= SAMPLE_S:
            newest = Sample(now)
            self.samples.append(newest)
            del self.samples[: -SAMPLES - 1]
        newest.last = now
        return newest

    def within(self, now: float) -> list[Sample]:
        """Those in which anything was measured lately."""
        return [one for one in self.samples if now - one.last < SAMPLES * SAMPLE_S]

    @staticmethod
    def rate_s(samples: list[Sample], now: float) -> float:
        """For how many seconds the counts of `samples` stand: at least for all but the last one."""
        elapsed = now - min((one.began for one in samples), default=now)
        missing = max(0, SAMPLES - 1 - int(elapsed / SAMPLE_S))
        return elapsed + missing * SAMPLE_S


def average(total: float, count: int) -> float:
    """NaN of nothing, as Kafka has it."""
    return total / count if count else nan


def extreme(value: float) -> float:
    """A least or a most value; NaN where none was measured."""
    return nan if value == inf or value < 0 else value
