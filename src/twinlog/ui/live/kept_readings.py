"""The memory of the console: the states of a flow as points for charts, and the commits of groups on the target.

Both grow only while a browser has the console read the clusters. Older points come from the reports of the progress
topic, as far as the topic has them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from threading import Lock

from twinlog.model.types import GroupId, TargetOffset, TopicPartition
from twinlog.ops.groups.checkpoint_history import GroupSyncEvent
from twinlog.ops.groups.snapshot import GroupsSnapshot
from twinlog.ops.status.flow import FlowSnapshot
from twinlog.worker.status.report import DriverReport

EVERY_S = 2.0
"""The seconds between two readings of a flow's state."""

KEPT_S = 3600.0
MOST_POINTS = int(KEPT_S / EVERY_S)

GAP_MS = 10_000
"""Points that are further apart have a gap between them in the charts: all browsers were closed."""

SAME_COUNT_MS = 1_000
"""Two reports with begins of their counts that differ by less have the same count."""

MOST_COMMITS = 100
"""The most kept commits of a group."""


@dataclass(frozen=True, slots=True)
class FlowPoint:
    """A flow at `at_ms` (Unix); None is unknown. The lag is in records, bytes, and seconds, the latency in ms."""

    at_ms: int
    record_rate: float | None = None
    byte_rate: float | None = None
    lag: int | None = None
    lag_bytes: int | None = None
    lag_s: float | None = None
    latency_ms: int | None = None

    @classmethod
    def of(cls, seen: FlowSnapshot, at_ms: int) -> FlowPoint:
        """The figures of a snapshot."""
        report = seen.report
        latency = None if report is None or report.latency_ms < 0 else report.latency_ms
        record_rate = None if report is None else report.record_rate
        byte_rate = None if report is None else report.byte_rate
        return cls(at_ms, record_rate, byte_rate, seen.lag, seen.lag_bytes, seen.lag_s, latency)

    @classmethod
    def of_report(cls, report: DriverReport, before: DriverReport | None) -> FlowPoint:
        """The figures of an older report; the rates are means since the report `before` of the same process."""
        record_rate, byte_rate = report.record_rate, report.byte_rate
        if before is not None and _continues(before, report):
            passed_s = (report.at_ms - before.at_ms) / 1000
            record_rate = (report.records - before.records) / passed_s
            byte_rate = (report.bytes - before.bytes) / passed_s
        lag = None if report.lag < 0 else report.lag
        lag_s: float | None = 0.0 if lag == 0 and not report.unknown else None
        if lag_s is None and lag is not None and report.oldest_ms is not None:
            lag_s = max(0.0, (report.at_ms - report.oldest_ms) / 1000)
        latency = None if report.latency_ms < 0 else report.latency_ms
        return cls(report.at_ms, record_rate, byte_rate, lag, report.lag_bytes, lag_s, latency)


def _continues(before: DriverReport, report: DriverReport) -> bool:
    """Whether the later of two reports counts further from the sums of the earlier report."""
    begins = before.counts_since_ms, report.counts_since_ms
    if before.process != report.process or begins[0] is None or begins[1] is None:
        return False
    grows = report.records >= before.records and report.bytes >= before.bytes
    return grows and abs(begins[1] - begins[0]) < SAME_COUNT_MS


def points_of_reports(reports: Sequence[DriverReport]) -> list[FlowPoint]:
    """The points of older reports in order of time, with a gap for a time without reports.

    A report with the time of an earlier report, after a clock was set back, is left out.
    """
    usual_ms = median([later.at_ms - earlier.at_ms for earlier, later in pairwise(reports)] or [0])
    found: list[FlowPoint] = []
    before: DriverReport | None = None
    for report in reports:
        if before is not None and report.at_ms <= before.at_ms:
            continue
        if before is not None and report.at_ms - before.at_ms > max(GAP_MS, 3 * usual_ms):
            found.append(FlowPoint(before.at_ms + 1))
            before = None
        found.append(FlowPoint.of_report(report, before))
        before = report
    return found


Columns = dict[str, list[float | int | None]]


def columns_of(points: Sequence[FlowPoint]) -> Columns:
    """Points as columns, with the times in seconds, as charts take them."""
    return {
        "at_s": [one.at_ms / 1000 for one in points],
        "record_rate": [_rounded(one.record_rate) for one in points],
        "byte_rate": [_rounded(one.byte_rate) for one in points],
        "lag": [one.lag for one in points],
        "lag_bytes": [one.lag_bytes for one in points],
        "lag_s": [_rounded(one.lag_s) for one in points],
        "latency_ms": [one.latency_ms for one in points],
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


class FlowPoints:
    """The points of a flow, those of the last hour at most."""

    def __init__(self) -> None:
        self._points: deque[FlowPoint] = deque(maxlen=MOST_POINTS)
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._points)

    def add(self, point: FlowPoint) -> None:
        """Add a point, after a gap if the last point is too old."""
        with self._lock:
            last = self._points[-1] if self._points else None
            if last is not None and point.at_ms <= last.at_ms:
                return
            if last is not None and point.at_ms - last.at_ms > GAP_MS:
                self._points.append(FlowPoint(last.at_ms + 1))
            self._points.append(point)
            while self._points and self._points[0].at_ms < point.at_ms - KEPT_S * 1000:
                self._points.popleft()

    def columns(self, since_ms: int = 0) -> Columns:
        """The points after `since_ms` as columns."""
        with self._lock:
            points = [one for one in self._points if one.at_ms > since_ms]
        return columns_of(points)


class GroupCommits:
    """The commits of groups on the target, `MOST_COMMITS` of each group: the changes between two readings.

    Kafka keeps only the last commit of a partition, without its time for clients. Groups that leave the readings are
    forgotten.
    """

    def __init__(self) -> None:
        self._last: dict[GroupId, dict[TopicPartition, TargetOffset]] = {}
        self._commits: dict[GroupId, deque[GroupSyncEvent]] = {}
        self._lock = Lock()

    def note(self, seen: GroupsSnapshot) -> None:
        """Note the commits since the reading before. The source offset is known if the commit has the target offset of
        the last checkpoint."""
        with self._lock:
            for group in seen.groups:
                last = self._last.setdefault(group.group, {})
                for part in group.partitions:
                    facts = part.facts
                    offset, remote = facts.target_committed, facts.remote
                    if offset is None or remote is None:
                        continue
                    if remote in last and last[remote] != offset:
                        source = facts.checkpoint_source if facts.checkpoint_target == offset else None
                        kept = self._commits.setdefault(group.group, deque(maxlen=MOST_COMMITS))
                        kept.append(GroupSyncEvent(seen.at_ms, remote, source, offset))
                    last[remote] = offset
            if seen.source_trouble is None:
                for gone in self._last.keys() - {group.group for group in seen.groups}:
                    del self._last[gone]
                    self._commits.pop(gone, None)

    def commits(self, group: GroupId) -> list[GroupSyncEvent]:
        """The kept commits of a group, the oldest first."""
        with self._lock:
            return list(self._commits.get(group, ()))
