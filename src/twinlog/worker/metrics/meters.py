"""Meters of a flow's partitions, fed by the reports of its copiers, and sums over whole copiers.

Averages, extremes and rates are over the time that Kafka's sensors look back: two samples of 30 seconds. The cost of a
report grows only with its own partitions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Container, Iterable, Sequence
from dataclasses import dataclass
from math import inf, nan
from typing import Any, Generic, TypeVar

from twinlog.clock import LONG_AGO
from twinlog.lease.progress import CopierCounters, PartitionCounters, Report
from twinlog.model.types import GroupId, TopicPartition

SAMPLE_S = 30.0
SAMPLES = 2
"""The defaults of metrics.sample.window.ms and metrics.num.samples, which MirrorMaker 2's own metrics always have."""

S = TypeVar("S")

SOURCE_ATTRIBUTES = (
    *("record-count", "record-rate", "byte-count", "byte-rate"),
    *("record-age-ms", "record-age-ms-min", "record-age-ms-max", "record-age-ms-avg"),
    *("replication-latency-ms", "replication-latency-ms-min", "replication-latency-ms-max"),
    "replication-latency-ms-avg",
)
"""The order is the order of `PartitionMeter.values`."""

CHECKPOINT_ATTRIBUTES = (
    *("checkpoint-latency-ms", "checkpoint-latency-ms-min", "checkpoint-latency-ms-max", "checkpoint-latency-ms-avg"),
)
NOTHING = (0, 0.0, 0, 0.0, 0, nan, nan, nan, 0, nan, nan, nan)
"""The values of a partition before its first report."""

SWEEP_S = 600.0
"""Seconds between two removals of the meters of groups that left the set of followed groups."""


@dataclass(slots=True)
class Sample(Generic[S]):
    """The sums of up to 30 seconds; `measured` counts the latencies in them."""

    began: float
    last: float
    sums: S
    measured: int = 0


class SampleWindow(Generic[S]):
    """The samples that count now, the newest last; another sample may overlap the period.

    All counts of a partition in a report go into the sample of the report's time (Kafka classes SampledStat and Rate).
    """

    __slots__ = ("_new", "samples")

    def __init__(self, now: float, new: Callable[[], S]) -> None:
        self._new = new
        self.samples = [Sample(now, now, new())]

    def get_sample(self, now: float) -> Sample[S]:
        """The sample for the present measurements."""
        newest = self.samples[-1]
        if now - newest.began >= SAMPLE_S:
            newest = Sample(now, now, self._new())
            self.samples.append(newest)
            del self.samples[: -SAMPLES - 1]
        newest.last = now
        return newest

    def within(self, now: float) -> list[Sample[S]]:
        """The samples with a recent measurement."""
        return [one for one in self.samples if now - one.last < SAMPLES * SAMPLE_S]

    @staticmethod
    def rate_s(samples: Sequence[Sample[Any]], now: float) -> float:
        """The number of seconds over which the counts of `samples` are spread.

        Missing samples count as complete samples, except the last (Kafka class Rate).
        """
        elapsed = now - min((one.began for one in samples), default=now)
        missing = max(0, SAMPLES - 1 - int(elapsed / SAMPLE_S))
        return elapsed + missing * SAMPLE_S


def average(total: float, count: int) -> float:
    """The average; NaN for a count of 0, as in Kafka."""
    return total / count if count else nan


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


class PartitionMeter:
    """MirrorMaker 2's measurements of a partition (Kafka class MirrorSourceMetrics).

    Counts only grow while the process lives and copies the partition. Each batch counts with its youngest record.
    """

    __slots__ = ("counters", "window")

    def __init__(self, now: float) -> None:
        self.counters = PartitionCounters()
        self.window = SampleWindow(now, PartitionCounters)

    def add_counters(self, counters: PartitionCounters, now: float) -> None:
        """Add the counters of a report."""
        sample = self.window.get_sample(now)
        self.counters += counters
        sample.sums += counters
        if counters.last_latency_ms >= 0:
            sample.measured += counters.records

    def values(self, now: float) -> tuple[float, ...]:
        """The values of `SOURCE_ATTRIBUTES`, in their order."""
        samples = self.window.within(now)
        seconds = SampleWindow.rate_s(samples, now)
        all_, recent = self.counters, PartitionCounters.total(sample.sums for sample in samples)
        return (
            all_.records,
            recent.records / seconds,
            all_.bytes,
            recent.bytes / seconds,
            max(0, all_.last_age_ms),
            _known(recent.least_age_ms),
            _known(recent.most_age_ms),
            average(recent.age_sum_ms, recent.read_records),
            max(0, all_.last_latency_ms),
            _known(recent.least_latency_ms),
            _known(recent.latency_ms),
            average(recent.latency_sum_ms, sum([sample.measured for sample in samples])),
        )


def _known(age_ms: int) -> float:
    return nan if age_ms < 0 else age_ms


@dataclass(slots=True)
class _Latencies:
    total_ms: float = 0.0
    least_ms: float = inf
    most_ms: float = -inf


class GroupMeter:
    """The latency of the checkpoints of a group in a partition (Kafka class MirrorCheckpointMetrics)."""

    __slots__ = ("latency_ms", "window")

    def __init__(self, now: float) -> None:
        self.latency_ms = 0.0
        self.window = SampleWindow(now, _Latencies)

    def add_latency(self, latency_ms: float, now: float) -> None:
        """Add a checkpoint that was written after `latency_ms`."""
        sample = self.window.get_sample(now)
        self.latency_ms = latency_ms
        sample.measured += 1
        sums = sample.sums
        sums.total_ms += latency_ms
        sums.least_ms = min(sums.least_ms, latency_ms)
        sums.most_ms = max(sums.most_ms, latency_ms)

    def values(self, now: float) -> tuple[float, ...]:
        """The values of `CHECKPOINT_ATTRIBUTES`, in their order."""
        samples = self.window.within(now)
        sums = [one.sums for one in samples]
        return (
            self.latency_ms,
            min([one.least_ms for one in sums], default=nan),
            max([one.most_ms for one in sums], default=nan),
            average(sum([one.total_ms for one in sums]), sum([one.measured for one in samples])),
        )


class TaskTotals:
    """Sums over the successive copiers of a task, and their changes in the last minute."""

    __slots__ = ("_history", "counters", "written_records")

    def __init__(self) -> None:
        self.counters = CopierCounters()
        self.written_records = 0
        self._history: deque[_Interval] = deque()

    def add_report(self, report: Report, now: float) -> None:
        """Add the counters of a report."""
        written = sum([part.counters.records for part in report.partitions])
        self.counters += report.counters
        self.written_records += written
        self._history.append(_Interval(now, report.counters, written))
        while now - self._history[0].at > SAMPLES * SAMPLE_S:
            self._history.popleft()

    def recent(self, now: float) -> RecentRates:
        """The rates of the last minute."""
        # A copy in a single step: reports come on another thread.
        lately = [one for one in tuple(self._history) if now - one.at <= SAMPLES * SAMPLE_S]
        seen = [one.counters for one in lately]
        seconds = max(SAMPLE_S, now - lately[0].at) if lately else SAMPLE_S
        commits, polls = sum(one.commits for one in seen), sum(one.polls for one in seen)
        failed = sum(one.failed_commits for one in seen)
        return RecentRates(
            read_rate=sum(one.read_records for one in seen) / seconds,
            write_rate=sum(one.written for one in lately) / seconds,
            commit_avg_ms=average(sum(one.commit_ms for one in seen), commits),
            commit_max_ms=max((float(one.most_commit_ms) for one in seen if one.commits), default=nan),
            commit_failures=average(failed, commits + failed),
            batch_avg=average(sum(one.read_records for one in seen), polls),
            batch_max=max((float(one.most_read) for one in seen if one.polls), default=nan),
            waiting_avg=average(sum(one.waiting_records for one in seen), len(seen)),
            waiting_max=max((float(one.waiting_records) for one in seen), default=nan),
        )


@dataclass(frozen=True, slots=True)
class _Interval:
    at: float
    counters: CopierCounters
    written: int


@dataclass(frozen=True, slots=True)
class RecentRates:
    """Rates of a task in the last minute, NaN without data.

    The units are records per second, milliseconds, a share from 0 to 1, and records.
    """

    read_rate: float
    write_rate: float
    commit_avg_ms: float
    commit_max_ms: float
    commit_failures: float
    batch_avg: float
    batch_max: float
    waiting_avg: float
    waiting_max: float


class FlowMeters:
    """The meters of a flow, for as long as the process lives. Its owner ensures that a single thread at a time calls.

    `events` counts the reports to operators, by kind; `event_ms` is the wall-clock time of the last report.
    """

    def __init__(self) -> None:
        self.parts: dict[TopicPartition, PartitionMeter] = {}
        self.tasks: dict[int, TaskTotals] = {}
        self.groups: dict[tuple[GroupId, TopicPartition], GroupMeter] = {}
        self.events: dict[str, int] = {}
        self.event_ms = 0
        self._swept_at = LONG_AGO
        self._tasks_of: dict[str, int] = {}
        """The number of each copier's task."""

    def add_counters(self, key: TopicPartition, counters: PartitionCounters, now: float) -> None:
        """Add the counters of a partition in a report."""
        if not counters.records and not counters.read_records:
            return
        meter = self.parts.get(key)
        if meter is None:
            meter = self.parts[key] = PartitionMeter(now)
        meter.add_counters(counters, now)

    def add_report(self, report: Report, now: float) -> None:
        """Add the counters of a copier in a report."""
        task = self.task_of(report.copier)
        if task not in self.tasks:
            self.tasks[task] = TaskTotals()
        self.tasks[task].add_report(report, now)

    def sum_counters(self) -> CopierCounters:
        """The counters of all tasks together."""
        return sum([task.counters for task in tuple(self.tasks.values())], CopierCounters())

    def task_of(self, copier: str) -> int:
        """The number of a copier among the running copiers."""
        found = self._tasks_of.get(copier)
        if found is None:
            taken = set(self._tasks_of.values())
            found = self._tasks_of[copier] = next(at for at in range(len(taken) + 1) if at not in taken)
        return found

    def remove_copier(self, copier: str) -> None:
        """Set the waiting records and bytes of an ended copier to 0, and free its task number for another copier."""
        task = self._tasks_of.pop(copier, None)
        if task in self.tasks:
            counters = self.tasks[task].counters
            counters.waiting_records = counters.free_bytes = 0

    def all_gone(self) -> None:
        """Remove all copiers."""
        for copier in list(self._tasks_of):
            self.remove_copier(copier)

    def retain_partitions(self, partitions: Container[TopicPartition]) -> None:
        """Keep only the meters of these partitions, because topics come and go without end."""
        self.parts = {key: meter for key, meter in self.parts.items() if key in partitions}

    def checkpointed(
        self,
        written: Iterable[tuple[GroupId, TopicPartition]],
        followed: Collection[GroupId],
        latency_ms: float,
        now: float,
    ) -> None:
        """Add checkpoints of groups in remote partitions that were written after `latency_ms`.

        `followed` has all followed groups.
        """
        if now - self._swept_at >= SWEEP_S:
            self._swept_at, groups = now, frozenset(followed)
            self.groups = {key: meter for key, meter in self.groups.items() if key[0] in groups}
        for key in written:
            meter = self.groups.get(key)
            if meter is None:
                meter = self.groups[key] = GroupMeter(now)
            meter.add_latency(latency_ms, now)

    @property
    def present(self) -> set[int]:
        """The tasks that have a copier."""
        return set(self._tasks_of.values())

    def event(self, kind: str, at_ms: int) -> None:
        """Count an event."""
        self.events[kind] = self.events.get(kind, 0) + 1
        self.event_ms = at_ms
