"""Meters of a flow's partitions, fed by the reports of its copiers, and sums over whole copiers.

The cost of a report grows only with its own partitions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Container, Iterable
from dataclasses import dataclass
from math import nan

from twinlog.clock import LONG_AGO
from twinlog.lease.progress import AGE_BOUNDS_MS, Figures, PartitionProgress, Report
from twinlog.metrics.window import SAMPLE_S, SAMPLES, SampleWindow, average, extreme
from twinlog.model.types import GroupId, TopicPartition

SOURCE_ATTRIBUTES = (
    *("record-count", "record-rate", "byte-count", "byte-rate"),
    *("record-age-ms", "record-age-ms-min", "record-age-ms-max", "record-age-ms-avg"),
    *("replication-latency-ms", "replication-latency-ms-min", "replication-latency-ms-max"),
    "replication-latency-ms-avg",
)
"""The order is the order of `PartitionMeter.values`."""


class PartitionMeter:
    """MirrorMaker 2's measurements of a partition (Kafka class MirrorSourceMetrics).

    Counts only grow while the process lives and copies the partition. Each batch counts with its youngest record.
    """

    __slots__ = ("age_ms", "bytes", "latency_ms", "records", "window")

    def __init__(self, now: float) -> None:
        self.records = self.bytes = 0
        self.age_ms = self.latency_ms = 0
        self.window = SampleWindow(now)

    def add_progress(self, part: PartitionProgress, now: float) -> None:
        """Add the counts of a report."""
        sample = self.window.get_sample(now)
        if part.records:
            self.records += part.records
            self.bytes += part.bytes
            sample.records += part.records
            sample.bytes += part.bytes
            if part.last_latency_ms >= 0:
                self.latency_ms = part.last_latency_ms
                sample.timed += part.records
                sample.latency_sum += part.latency_sum_ms
                sample.least_latency = min(sample.least_latency, part.least_latency_ms)
                sample.most_latency = max(sample.most_latency, part.latency_ms)
        if part.read_records:
            self.age_ms = part.last_age_ms
            sample.aged += part.read_records
            sample.age_sum += part.age_sum_ms
            sample.least_age = min(sample.least_age, part.least_age_ms)
            sample.most_age = max(sample.most_age, part.most_age_ms)

    def values(self, now: float) -> tuple[float, ...]:
        """The values of `SOURCE_ATTRIBUTES`, in their order."""
        samples = self.window.within(now)
        seconds = SampleWindow.rate_s(samples, now)
        return (
            self.records,
            sum([one.records for one in samples]) / seconds,
            self.bytes,
            sum([one.bytes for one in samples]) / seconds,
            self.age_ms,
            extreme(min([one.least_age for one in samples], default=nan)),
            extreme(max([one.most_age for one in samples], default=nan)),
            average(sum([one.age_sum for one in samples]), sum([one.aged for one in samples])),
            self.latency_ms,
            extreme(min([one.least_latency for one in samples], default=nan)),
            extreme(max([one.most_latency for one in samples], default=nan)),
            average(sum([one.latency_sum for one in samples]), sum([one.timed for one in samples])),
        )


CHECKPOINT_ATTRIBUTES = (
    *("checkpoint-latency-ms", "checkpoint-latency-ms-min", "checkpoint-latency-ms-max", "checkpoint-latency-ms-avg"),
)


class GroupMeter:
    """The latency of the checkpoints of a group in a partition (Kafka class MirrorCheckpointMetrics)."""

    __slots__ = ("latency_ms", "window")

    def __init__(self, now: float) -> None:
        self.latency_ms = 0.0
        self.window = SampleWindow(now)

    def add_latency(self, latency_ms: float, now: float) -> None:
        """Add a checkpoint that was written after `latency_ms`."""
        sample = self.window.get_sample(now)
        self.latency_ms = latency_ms
        sample.timed += 1
        sample.latency_sum += latency_ms
        sample.least_latency = min(sample.least_latency, latency_ms)
        sample.most_latency = max(sample.most_latency, latency_ms)

    def values(self, now: float) -> tuple[float, ...]:
        """The values of `CHECKPOINT_ATTRIBUTES`, in their order."""
        samples = self.window.within(now)
        return (
            self.latency_ms,
            extreme(min([one.least_latency for one in samples], default=nan)),
            extreme(max([one.most_latency for one in samples], default=nan)),
            average(sum([one.latency_sum for one in samples]), sum([one.timed for one in samples])),
        )


NOTHING = (0, 0.0, 0, 0.0, 0, nan, nan, nan, 0, nan, nan, nan)
"""The values of a partition before its first report."""


class TaskTotals:
    """Sums over the successive copiers of a task, and their changes in the last minute.

    `ages` are the buckets of `AGE_BOUNDS_MS`, each with its own count. A transform `dropped` records, `failed` on some
    records, and `routed` rows elsewhere. A policy `left_out` records. `dead_letters` records were meant for the
    dead-letter topic, and writing them failed `dead_letter_failures` times.
    """

    __slots__ = (
        "_history",
        "age_sum_ms",
        "ages",
        "commits",
        "dead_letter_failures",
        "dead_letters",
        "dropped",
        "failed",
        "failed_commits",
        "free_bytes",
        "left_out",
        "read_bytes",
        "read_records",
        "roads",
        "routed",
        "waiting_records",
        "written_bytes",
        "written_records",
    )

    def __init__(self) -> None:
        self.ages = [0] * (len(AGE_BOUNDS_MS) + 1)
        self.age_sum_ms = 0
        self.roads: dict[str, int] = {}
        self.read_bytes = self.written_bytes = self.read_records = self.written_records = 0
        self.commits = self.failed_commits = 0
        self.waiting_records = self.free_bytes = 0
        self.dropped = self.failed = self.routed = 0
        self.left_out = self.dead_letters = self.dead_letter_failures = 0
        self._history: deque[_Interval] = deque()

    def add_report(self, report: Report, now: float) -> None:
        """Add the figures of a report."""
        figures = report.figures
        for at, count in enumerate(figures.ages):
            self.ages[at] += count
        self.age_sum_ms += figures.age_sum_ms
        for road, count in figures.roads:
            self.roads[road] = self.roads.get(road, 0) + count
        written = sum([part.records for part in report.partitions])
        self.read_bytes += figures.read_bytes
        self.written_bytes += figures.written_bytes
        self.read_records += figures.read_records
        self.written_records += written
        self.commits += figures.commits
        self.failed_commits += figures.failed_commits
        self.dropped += figures.dropped
        self.failed += figures.failed
        self.routed += figures.routed
        self.left_out += figures.left_out
        self.dead_letters += figures.dead_letters
        self.dead_letter_failures += figures.dead_letter_failures
        self.waiting_records, self.free_bytes = figures.waiting_records, figures.free_bytes
        self._history.append(_Interval(now, figures, written))
        while now - self._history[0].at > SAMPLES * SAMPLE_S:
            self._history.popleft()

    def recent(self, now: float) -> RecentRates:
        """The rates of the last minute."""
        # A copy in a single step: reports come on another thread.
        lately = [one for one in tuple(self._history) if now - one.at <= SAMPLES * SAMPLE_S]
        seen = [one.figures for one in lately]
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
    figures: Figures
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


SWEEP_S = 600.0
"""Seconds between two removals of the meters of groups that left the set of followed groups."""


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

    def add_progress(self, key: TopicPartition, part: PartitionProgress, now: float) -> None:
        """Add the counts of a partition in a report."""
        if not part.records and not part.read_records:
            return
        meter = self.parts.get(key)
        if meter is None:
            meter = self.parts[key] = PartitionMeter(now)
        meter.add_progress(part, now)

    def take_figures(self, report: Report, now: float) -> None:
        """Add the figures of a copier in a report."""
        task = self.task_of(report.copier)
        if task not in self.tasks:
            self.tasks[task] = TaskTotals()
        self.tasks[task].add_report(report, now)

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
            self.tasks[task].waiting_records = self.tasks[task].free_bytes = 0

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
