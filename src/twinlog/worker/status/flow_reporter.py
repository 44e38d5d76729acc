"""Makes the report of a flow that runs in this process: its state, sums, groups and last error."""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from twinlog.clock import Clock, wall_ms
from twinlog.lease.progress import CopierCounters
from twinlog.mirror.groups.checkpoint_writer import CheckpointWriter
from twinlog.mirror.groups.unsafe_groups import UnsafeGroups
from twinlog.model.held import HeldPartition
from twinlog.model.types import TopicName
from twinlog.settings.flow import FlowSettings
from twinlog.worker.periodic import PeriodicJob
from twinlog.worker.status.flow_status import FlowStatus
from twinlog.worker.status.held_and_paused import PausedPartitions, counts
from twinlog.worker.status.report import (
    MOST_HELD,
    MOST_TASKS,
    DriverReport,
    GroupsProgress,
    LogLevelProgress,
    ProofProgress,
    TaskPlace,
    TopicProgress,
)

LASTS_S = 3.0
"""The least duration of a trouble that counts as an error for an operator.

Leaders move, and requests to the old leader are repeated: these short troubles are left out of the log, too.
"""


MOST_LEFT_OUT, MOST_TEXT = 50, 200
"""The most topics of each list of a report, and the most characters of the reason of a topic."""


class LastError:
    """The newest error of a flow that an operator should know of, and its time (Unix ms); for any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: tuple[str, int] | None = None
        self._lasts = False
        self._over_ms: int | None = None
        self._troubled_at: float | None = None

    def record_error(self, text: str, *, lasts: bool = False) -> None:
        """Note an error; a repeated error keeps its time.

        An error that `lasts` is over once the flow has no trouble.
        """
        if self._last is None or self._last[0] != text:
            self._last = text, wall_ms(self._clock)
        self._lasts, self._over_ms = lasts, None

    def update_trouble(self, trouble: str | None) -> None:
        """Note the present trouble, if any; it becomes an error once it lasts."""
        now = self._clock.monotonic()
        if trouble is None:
            self._troubled_at = None
            if self._lasts and self._over_ms is None:
                self._over_ms = wall_ms(self._clock)
        elif self._troubled_at is None:
            self._troubled_at = now
        elif now - self._troubled_at >= LASTS_S:
            self.record_error(trouble, lasts=True)

    @property
    def last(self) -> tuple[str, int] | None:
        return self._last

    @property
    def over_ms(self) -> int | None:
        """The end of the last error in Unix time; None for an error that lasts, and for an event."""
        return self._over_ms


class FollowedSoFar:
    """The progress of a flow with its consumer groups; `set_jobs` notes the jobs that follow them."""

    def __init__(self, settings: FlowSettings) -> None:
        self._settings = settings
        self._writer: CheckpointWriter | None = None
        self._unsafe: UnsafeGroups | None = None
        self._checkpoints: PeriodicJob | None = None
        self._sync: PeriodicJob | None = None

    def set_settings(self, settings: FlowSettings) -> None:
        """Use these settings for the groups from now on, with jobs that are yet to begin."""
        self._settings = settings
        self._writer = self._checkpoints = self._sync = self._unsafe = None

    def set_jobs(
        self, writer: CheckpointWriter | None, jobs: Sequence[PeriodicJob | None], unsafe: UnsafeGroups
    ) -> None:
        """Note the writer of checkpoints, the jobs of checkpoints and of commits, and the judgement of groups; None for
        a missing job."""
        self._writer, self._unsafe = writer, unsafe
        self._checkpoints, self._sync = jobs

    def progress(self) -> GroupsProgress | None:
        """The progress with the groups; None if the flow follows no groups."""
        checkpoints_s, sync_s = self._settings.emit_checkpoints_interval_s, self._settings.sync_group_offsets_interval_s
        if checkpoints_s is None:
            return None
        groups = GroupsProgress(syncs=sync_s is not None, checkpoints_every_s=checkpoints_s, sync_every_s=sync_s or 0.0)
        writer, checkpoints, sync, unsafe = self._writer, self._checkpoints, self._sync, self._unsafe
        if writer is None or checkpoints is None or unsafe is None:
            return groups
        before_start = unsafe.before_start
        return replace(
            groups,
            followed=None if writer.followed is None else len(writer.followed),
            inexact=len(unsafe.inexact),
            ahead=len(unsafe.ahead),
            before_start=None if before_start is None else len(before_start),
            checkpoints_ms=checkpoints.succeeded_ms,
            sync_ms=None if sync is None else sync.succeeded_ms,
            trouble=checkpoints.trouble or (None if sync is None else sync.trouble),
        )


class FlowReporter:
    """Reports of a flow, which this process has run since the creation of this object."""

    def __init__(self, settings: FlowSettings, clock: Clock) -> None:
        self.groups = FollowedSoFar(settings)
        self.last_error = LastError(clock)
        self._settings = settings
        self._clock = clock
        self._since_ms = wall_ms(clock)

    def report(
        self,
        state: str,
        detail: str | None,
        status: FlowStatus | None = None,
        held: Sequence[HeldPartition] = (),
        *,
        left_out: Mapping[TopicName, str] = MappingProxyType({}),
        missing: Mapping[TopicName, str] = MappingProxyType({}),
        bridged: bool = False,
        tasks: Sequence[TaskPlace] = (),
        log_level: LogLevelProgress | None = None,
    ) -> DriverReport:
        """A report of now; a flow whose `status` is None leaves the copying to another flow.

        A detail is an error once it lasts, except of `idle` flows; the detail of a failed flow is an error at once.
        `held` are the held partitions. `left_out` has topics that the flow leaves to other flows, and `missing` has
        topics whose remote topic still has to be created or grown. Both have a reason for each topic. `bridged` says
        that the bridge copies, `tasks` has the copiers, and `log_level` the level of the flow's log after a request.
        """
        if state == "failed" and detail is not None:
            self.last_error.record_error(detail)
        self.last_error.update_trouble(None if state == "idle" else detail)
        last = self.last_error.last
        report = DriverReport(
            self._settings.name,
            f"{socket.gethostname()}-{os.getpid()}",
            wall_ms(self._clock),
            self._since_ms,
            state,
            detail,
            last_error=None if last is None else last[0],
            last_error_ms=None if last is None else last[1],
            last_error_over_ms=self.last_error.over_ms,
            groups=self.groups.progress(),
            left_out=_first(left_out),
            missing=len(missing),
            missing_topics=_first(missing),
            bridged=bridged,
            group="" if self._settings.kind is not None else self._settings.group_id,
            tasks=tuple(tasks[:MOST_TASKS]),
            log_level=log_level,
        )
        return report if status is None else _with_sums(report, status, held)


def _first(reasons: Mapping[TopicName, str]) -> tuple[tuple[str, str], ...]:
    """The topics for which a report has room, with their reasons."""
    return tuple((topic, reasons[topic][:MOST_TEXT]) for topic in sorted(reasons)[:MOST_LEFT_OUT])


def _with_sums(report: DriverReport, status: FlowStatus, held: Sequence[HeldPartition]) -> DriverReport:
    of_topic = Counter(one.topic for one in held)
    copied = [replace(one, held=of_topic[one.topic]) for one in status.topics()]
    summary, topics = status.summary(), _with_paused(copied, status.paused)
    waiting = [topic for topic in topics if topic.lag]
    sizes = [topic.lag_bytes for topic in waiting if topic.lag_bytes is not None]
    sized = len(sizes) == len(waiting) and (summary.lag > 0 or (summary.lag == 0 and not summary.unknown))
    counted = status.meters.sum_counters()
    return replace(
        report,
        partitions=summary.partitions,
        copiers=summary.copiers,
        records=summary.records,
        bytes=summary.bytes,
        counts_since_ms=report.at_ms - round(summary.counted_s * 1000),
        record_rate=round(summary.record_rate, 3),
        byte_rate=round(summary.byte_rate, 3),
        lag=summary.lag,
        lag_age_s=round(summary.lag_age_s, 3),
        unknown=summary.unknown,
        lag_bytes=sum(sizes) if sized else None,
        oldest_ms=min((topic.oldest_ms for topic in waiting if topic.oldest_ms is not None), default=None),
        undated=sum(topic.undated for topic in waiting),
        latency_ms=summary.latency_ms,
        dropped=counted.dropped,
        failed=counted.failed,
        eta_s=None if summary.eta_s is None else round(summary.eta_s, 1),
        topics=tuple(topics),
        held=len(held),
        held_by_reason=tuple(sorted(counts(held).items())),
        held_partitions=tuple(held[:MOST_HELD]),
        paused=sum(topic.paused for topic in topics),
        paused_lag=status.paused.lag,
        proof=_proof(status, counted),
    )


def _proof(status: FlowStatus, counted: CopierCounters) -> ProofProgress | None:
    """The proof of a flow; None if no partition is proven and no difference was found."""
    lags = status.proof_lags_ms()
    differences = sum(counted.differences.values())
    if not lags and not differences:
        return None
    return ProofProgress(
        len(lags),
        max(lags, default=0) / 1000,
        counted.proven_records,
        counted.proven_bytes,
        counted.unproved_records,
        differences,
    )


def _with_paused(topics: Sequence[TopicProgress], paused: PausedPartitions) -> list[TopicProgress]:
    """The topics, together with completely paused topics, each with its paused partitions."""
    known = {topic.topic: topic for topic in topics}
    for one in paused.topics():
        before = known.get(one.topic, TopicProgress(one.topic))
        known[one.topic] = replace(before, paused=one.partitions, paused_lag=one.lag)
    return list(known.values())
