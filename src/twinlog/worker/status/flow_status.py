"""The status of a flow, summed up from the reports of its copiers.

Sums are updated by each report: with ten thousand partitions and a hundred copiers adding up again would take too long.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field

from twinlog.clock import SYSTEM
from twinlog.errors.message_ids import with_id
from twinlog.kafka.net.contact import is_throttle
from twinlog.lease.progress import PartitionCounters, PartitionProgress, Report
from twinlog.model.amounts import counted
from twinlog.model.reach import ClusterReachability
from twinlog.model.types import SourceOffset, TopicName, TopicPartition
from twinlog.worker.metrics.meters import FlowMeters
from twinlog.worker.status.backlog import Backlog, LagTrend
from twinlog.worker.status.held_and_paused import PausedPartitions
from twinlog.worker.status.report import TopicProgress
from twinlog.worker.status.topic_sums import WINDOW_S, OldestRecords, RecentCounts, TopicSums

OLD_S = 30.0
"""A value that was last confirmed longer ago than this counts as unknown."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A flow in a single line: rates per second over the last seconds, `eta_s` in seconds.

    `lag` is in offsets (-1 unknown) and at most `lag_age_s` seconds old; `unknown` counts partitions with unknown lag.
    Heartbeats are excluded from all counts, because no user wrote them. `records` and `bytes` were counted for
    `counted_s` seconds.
    """

    partitions: int
    records: int
    bytes: int
    counted_s: float
    record_rate: float
    byte_rate: float
    lag: int
    lag_age_s: float
    unknown: int
    latency_ms: int
    eta_s: float | None
    copiers: int
    trouble: str | None


@dataclass(slots=True, eq=False)
class CopierSummary:
    """A copier by its last report, and sums over the partitions that it reported last."""

    heard_at: float
    name: str
    sure_ms: int = -1
    """The latest time at which the ends of its last report were right (Unix ms), for any partition of it."""
    age_s: float = 0.0
    busy: float = 0.0
    source: ClusterReachability = field(default_factory=ClusterReachability)
    target: ClusterReachability = field(default_factory=ClusterReachability)
    gone_at: float | None = None
    partitions: int = 0
    held: int = 0
    """The held partitions, those with heartbeats included."""
    lag: int = 0
    unknown: int = 0


class FlowStatus:
    """Collects reports; read from other threads."""

    def __init__(self, clock: Callable[[], float] = SYSTEM.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._parts: dict[TopicPartition, tuple[PartitionProgress, CopierSummary]] = {}
        self._holders: dict[str, CopierSummary] = {}
        self._planned: Set[TopicPartition] | None = None
        self._own: Set[TopicPartition] = frozenset()
        self._awaited: dict[TopicPartition, SourceOffset] = {}
        self._recent = RecentCounts()
        self._counted = PartitionCounters()
        """Records and bytes of all partitions together, except heartbeats."""
        self._counts_since = clock()
        self._trend = LagTrend()
        self._stuck: dict[TopicPartition, str] = {}
        self._troubles: dict[str, str] = {}
        self.meters = FlowMeters()
        """The values of the metrics; its partitions change under this object's lock."""
        self._written: set[str] = set()
        """Source topics with records that arrived since the last `take_written`."""
        self._oldest = OldestRecords()
        self._copied: defaultdict[str, PartitionCounters] = defaultdict(PartitionCounters)
        """Records and bytes of each topic."""
        self._topics = TopicSums()
        self.paused = PausedPartitions()
        """The partitions that operators have paused, outside the plan."""
        self._silent: frozenset[str] = frozenset()
        """Copiers whose reports were too old at the last call of `topics`."""

    # Updates.

    def add_report(self, report: Report) -> None:
        """Add a report; partitions outside the plan are ignored."""
        now = self._clock()
        with self._lock:
            holder = self._holders.get(report.copier)
            if holder is None:
                holder = self._holders[report.copier] = CopierSummary(now, report.copier)
            unchanged_ms, age_ms = holder.sure_ms, int(report.age_s * 1000)
            holder.sure_ms = report.at_ms - age_ms
            holder.heard_at, holder.age_s, holder.busy = now, report.age_s, report.busy
            holder.source, holder.target = report.source, report.target
            records = size = 0
            latency_ms = -1
            of_topics: defaultdict[str, PartitionCounters] = defaultdict(PartitionCounters)
            for part in report.partitions:
                key = TopicPartition(TopicName(part.topic), part.partition)
                if self._planned is not None and key not in self._planned:
                    continue
                before, last = self._enter(key, part, holder) or (None, None)
                # The end of a held partition is older than `age_s` tells.
                idle = last is holder and before is not None and before.lag == 0 and before.trouble is None
                self._oldest.add_progress(key, part, report.at_ms, age_ms, unchanged_ms if idle else -1)
                counters = part.counters
                self.meters.add_counters(key, counters, now)
                if counters.records:
                    self._written.add(part.topic)
                    if key not in self._own:
                        # A report may have ten thousand partitions, and these sums are read without the other ages.
                        copied, recent = self._copied[part.topic], of_topics[part.topic]
                        copied.records += counters.records
                        copied.bytes += counters.bytes
                        recent.records += counters.records
                        recent.bytes += counters.bytes
                        records += counters.records
                        size += counters.bytes
                        latency_ms = max(latency_ms, counters.latency_ms)
            self.meters.add_report(report, now)
            counted = PartitionCounters(records, size, latency_ms)
            self._counted += counted
            self._recent.add(now, counted, of_topics)
            if self._trend.is_due(now):
                self._trend.add(now, self._lag(now)[0])

    def _enter(
        self, key: TopicPartition, part: PartitionProgress, holder: CopierSummary
    ) -> tuple[PartitionProgress, CopierSummary] | None:
        """Enter a partition with its copier; returns the entry before."""
        before = self._parts.get(key)
        if before is not None:
            self._count(key, before[0], before[1], -1)
        elif self._planned is None:
            self._topics.add(key)
        self._topics.mark_changed(part.topic)
        self._parts[key] = part, holder
        self._count(key, part, holder, 1)
        if part.trouble is not None and key not in self._own:
            # The text is shown after the partition's name, and the text of an error already begins with that name.
            self._stuck[key] = part.trouble.removeprefix(f"{key}: ")
        else:
            self._stuck.pop(key, None)
        if part.source_offset >= self._awaited.get(key, part.source_offset + 1):
            del self._awaited[key]
        return before

    def _count(self, key: TopicPartition, part: PartitionProgress, holder: CopierSummary, sign: int) -> None:
        holder.held += sign
        if key in self._own:
            return
        holder.partitions += sign
        if part.lag < 0:
            holder.unknown += sign
        else:
            holder.lag += sign * part.lag

    def remove_copier(self, copier: str) -> None:
        """A copier has ended; its last report counts for a while."""
        with self._lock:
            holder = self._holders.get(copier)
            if holder is not None:
                holder.gone_at = self._clock()
            self.meters.remove_copier(copier)
            for name in [name for name, one in self._holders.items() if one.gone_at is not None and not one.held]:
                del self._holders[name]

    def set_job_trouble(self, what: str, trouble: str | None) -> None:
        """Note that a job on the driver fails at `what`, or that it works again (`trouble` None)."""
        with self._lock:
            self._troubles.pop(what, None)
            if trouble is not None:
                self._troubles[what] = with_id(f"cannot {what}: {trouble}", "TW-FLOW-04")

    def plan(self, partitions: Set[TopicPartition], own: Set[TopicPartition] = frozenset()) -> None:
        """Only these partitions are copied from now on; `own` of them hold heartbeats."""
        with self._lock:
            self._planned, self._own = frozenset(partitions), frozenset(own)
            parts = {key: entry for key, entry in self._parts.items() if key in partitions}
            for key in self._parts.keys() - parts.keys():
                self._oldest.forget_partition(key)
            self.meters.retain_partitions(self._planned)
            self._topics.plan(self._planned - self._own)
            topics = {key.topic for key in self._planned}
            kept = {topic: copied for topic, copied in self._copied.items() if topic in topics}
            self._copied = defaultdict(PartitionCounters, kept)
            self._parts, self._stuck = {}, {}
            for holder in self._holders.values():
                holder.partitions = holder.held = holder.lag = holder.unknown = 0
            for key, (part, holder) in parts.items():
                self._enter(key, part, holder)

    def count_on(self, before: FlowStatus) -> None:
        """Continue the counters of an earlier status of the same flow, so that they only increase."""
        before.meters.all_gone()
        with self._lock:
            self.meters = before.meters
            self._counted += before._counted
            self._counts_since = before._counts_since

    def wait_for(self, ends: Mapping[TopicPartition, SourceOffset | None]) -> None:
        """Add these partitions, with the offsets up to which they are copied, to the condition of `reached`.

        A partition with the offset None leaves the condition.
        """
        with self._lock:
            for key, end in ends.items():
                self._awaited.pop(key, None)
                entry = self._parts.get(key)
                if end is not None and (entry is None or entry[0].source_offset < end):
                    self._awaited[key] = end

    # Reads.

    @property
    def records(self) -> int:
        """The number of copied records."""
        return self._counted.records

    def take_written(self) -> set[str]:
        """The source topics of which records have arrived since the last call."""
        with self._lock:
            written, self._written = self._written, set()
        return written

    @property
    def reached(self) -> bool:
        """Whether every awaited partition, paused partitions excepted, has been copied up to its awaited end."""
        with self._lock:
            return self.paused.are_paused(self._awaited)

    def awaited(self) -> frozenset[TopicPartition]:
        """The partitions that still have to be copied up to their awaited end, except paused partitions."""
        with self._lock:
            return self.paused.without(self._awaited)

    def doubtful_ends(self) -> dict[TopicPartition, SourceOffset]:
        """The awaited ends that may be out of reach for ever.

        These are ends of stuck partitions, of partitions with lag 0, and of partitions that left the plan.
        """
        with self._lock:
            return {key: end for key, end in self._awaited.items() if self._is_doubtful(key)}

    def _is_doubtful(self, key: TopicPartition) -> bool:
        if key in self.paused:
            return False
        entry = self._parts.get(key)
        if entry is None:
            return self._planned is not None and key not in self._planned
        return key in self._stuck or entry[0].lag == 0

    def backlog(self) -> Backlog:
        """The records that wait now, and how busy the copiers are; all 0 if no record waits or no report is fresh."""
        now = self._clock()
        with self._lock:
            fresh = [one.busy for one in self._holders.values() if now - one.heard_at < WINDOW_S]
            lag = self._lag(now)[0]
            if not fresh or lag <= 0:
                return Backlog()
            largest = max(part.lag for key, (part, _) in self._parts.items() if key not in self._own)
            recent, span = self._recent.total(now)
            return Backlog(min(fresh), lag, max(0, lag - largest), recent.records / span)

    def partitions(self) -> dict[TopicPartition, PartitionProgress]:
        with self._lock:
            return {key: part for key, (part, _) in self._parts.items()}

    def proof_lags_ms(self) -> list[int]:
        """The lag of the proof of each proven partition."""
        with self._lock:
            return [part.proof_lag_ms for part, _ in self._parts.values() if part.proof_lag_ms >= 0]

    def heard_s(self) -> float | None:
        """Seconds since the last report of the copier that is silent the longest; None if all copiers have ended."""
        now = self._clock()
        with self._lock:
            return max((now - one.heard_at for one in self._holders.values() if one.gone_at is None), default=None)

    def tasks(self) -> dict[TopicPartition, int]:
        """The task that copies each partition, with the task numbers of the metrics."""
        with self._lock:
            numbers = {name: self.meters.task_of(name) for name, one in self._holders.items() if one.gone_at is None}
            return {key: numbers.get(holder.name, 0) for key, (_, holder) in self._parts.items()}

    def holders(self) -> list[CopierSummary]:
        """Every copier that has reported and holds a partition, or still runs."""
        with self._lock:
            return list(self._holders.values())

    def planned(self) -> int:
        """The number of planned partitions, except heartbeats."""
        with self._lock:
            return 0 if self._planned is None else len(self._planned) - len(self._own)

    def topics(self) -> list[TopicProgress]:
        """Each copied topic of the user's; all rates are of the same seconds as the rates of `summary`."""
        now = self._clock()
        with self._lock:
            silent = frozenset(one.name for one in self._holders.values() if now - one.heard_at + one.age_s > OLD_S)
            if silent != self._silent:
                self._silent = silent
                self._topics.all_changed()

            def known(key: TopicPartition) -> PartitionProgress | None:
                entry = self._parts.get(key)
                return None if entry is None or entry[1].name in silent else entry[0]

            return self._recent.with_rates(self._topics.read(known, self._stuck, self._oldest, self._copied), now)

    def stuck(self) -> tuple[int, str | None]:
        """The number of stuck partitions, and the reason of the first of them."""
        with self._lock:
            return len(self._stuck), self._first_trouble()

    def stuck_by_quota(self) -> bool:
        """Whether all stuck partitions just wait for brokers that throttle this client."""
        with self._lock:
            return all(map(is_throttle, self._stuck.values()))

    def summary(self) -> Summary:
        now = self._clock()
        with self._lock:
            recent, span = self._recent.total(now)
            lag, age_s, unknown = self._lag(now)
            rate = recent.records / span
            return Summary(
                partitions=sum(one.partitions for one in self._holders.values()),
                records=self._counted.records,
                bytes=self._counted.bytes,
                counted_s=now - self._counts_since,
                record_rate=rate,
                byte_rate=recent.bytes / span,
                lag=lag,
                lag_age_s=age_s,
                unknown=unknown,
                latency_ms=recent.latency_ms,
                eta_s=None if unknown else self._eta(now, lag, rate),
                copiers=sum(now - one.heard_at < WINDOW_S and one.gone_at is None for one in self._holders.values()),
                trouble=self._first_trouble() or next(iter(self._troubles.values()), None),
            )

    def _first_trouble(self) -> str | None:
        key = next(iter(self._stuck), None)
        if key is None:
            return None
        others = len(self._stuck) - 1
        more = f" (and {counted(others, 'more partition')})" if others else ""
        return f"{key.topic}-{key.partition}: {self._stuck[key]}{more}"

    def _lag(self, now: float) -> tuple[int, float, int]:
        """The lag (-1 unknown), its age in seconds, and the number of partitions with unknown lag."""
        lag, age_s, known = 0, 0.0, 0
        unknown = 0 if self._planned is None else len(self._planned) - len(self._own)
        unknown -= sum(one.partitions for one in self._holders.values()) if self._planned is not None else 0
        for one in self._holders.values():
            old_s = now - one.heard_at + one.age_s
            if old_s > OLD_S:
                unknown += one.partitions
            elif one.partitions > one.unknown:
                lag += one.lag
                known += one.partitions - one.unknown
                unknown += one.unknown
                age_s = max(age_s, old_s)
            else:
                unknown += one.unknown
        return (lag, age_s, unknown) if known else (-1, age_s, unknown)

    def _eta(self, now: float, lag: int, rate: float) -> float | None:
        """Seconds until the lag is gone, as `LagTrend.eta_s`; None also if a stuck partition has a lag."""
        if lag > 0 and any(key in self._parts and self._parts[key][0].lag for key in self._stuck):
            return None
        return self._trend.eta_s(now, lag, rate)
