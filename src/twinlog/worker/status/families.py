"""Metrics of flows that go beyond those of MirrorMaker 2. Most of them are figures of `twinlog status`.

The readiness for a failover sums up the judgement of `twinlog groups` for the flow as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from math import inf, isnan, nan
from operator import attrgetter

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from twinlog.lease.progress import AGE_BOUNDS_MS, DIFFERENCE_KINDS
from twinlog.model.held import HELD_REASONS
from twinlog.model.types import TopicPartition
from twinlog.worker.metrics.meters import FlowMeters
from twinlog.worker.status.report import DriverReport

FRESH_S = 30.0
"""A lag that was confirmed longer ago than this counts as unknown.

The work for groups counts as unknown when it is overdue by more than this time.
"""

STATES = (
    *("starting", "running", "idle", "waiting", "caught up", "caught up, but for held partitions"),
    *("nothing to copy", "failed", "stopped", "standby"),
)
_BOUNDS = (*(f"{bound / 1000:g}" for bound in AGE_BOUNDS_MS), "+Inf")
_LAG_UNSEEN = frozenset({"missing right", "difference"})
"""The reasons for held partitions whose lag may be 0 although the target is unable to take over: brokers hide the
topic, or a copy differs from its source."""


def seconds_to_safe_failover(report: DriverReport) -> float:
    """Seconds until all records of the source are on the target, and the groups have the positions to continue there.

    0 if that is already the case. Infinite while the lag stays or grows, or groups cannot be followed. NaN while the
    value is unknown. The positions of groups count as of the last look, whose age may be up to the flow's own
    intervals. Groups with members on the target alone have moved, and groups of a finished switchover. Positions in
    copies from the target that only a switchover commits count if the target has deleted their records; `twinlog
    groups` has all of them.
    """
    if report.lag < 0 or report.unknown or report.lag_age_s > FRESH_S:
        return nan
    if report.paused and report.paused_lag != 0:
        # Paused partitions wait for an operator.
        return inf
    if any(count and reason in _LAG_UNSEEN for reason, count in report.held_by_reason):
        return inf
    left_s = 0.0
    if report.lag > 0:
        if report.eta_s is None:
            return inf
        # `eta_s` is rounded, perhaps to 0, while records remain.
        left_s = max(0.1, report.eta_s)
    groups = report.groups
    if groups is None:
        return left_s
    if groups.followed is None or _overdue(groups.checkpoints_ms, groups.checkpoints_every_s, report.at_ms):
        return nan
    if groups.syncs and _overdue(groups.sync_ms, groups.sync_every_s, report.at_ms):
        return nan
    if groups.trouble is not None or groups.inexact or groups.ahead or groups.before_start:
        return inf
    if groups.before_start is None:
        return nan
    return left_s


def _overdue(done_ms: int | None, every_s: float, now_ms: int) -> bool:
    return done_ms is None or now_ms - done_ms > (every_s + FRESH_S) * 1000


@dataclass(frozen=True, slots=True)
class FlowMetricFacts:
    """A flow as this process knows it: the part that runs here, if any, and the other processes that could run it.

    `heard_s` is the longest time since a copier of the flow reported, None if the flow has no copier. `stuck` counts
    partitions whose copying is blocked. `ready` is the number of other warm standby processes, None if flows are
    distributed by other means than the election. A flow that `failed` here has no report. A checkpoint connector
    follows groups, and its `copies` is false. `proven` has the target offset up to which each partition is proven, by
    its source partition.
    """

    flow: str
    leads: bool
    ready: int | None = None
    report: DriverReport | None = None
    meters: FlowMeters = field(default_factory=FlowMeters)
    heard_s: float | None = None
    stuck: int = 0
    copies: bool = True
    failed: bool = False
    proven: Mapping[TopicPartition, int] = field(default_factory=dict)


def flow_families(flows: Iterable[FlowMetricFacts]) -> Iterator[Metric]:
    """The families, each with all flows."""
    all_ = list(flows)
    here = [(one, one.report) for one in all_ if one.report is not None]
    copying = [(one, report) for one, report in here if one.copies]
    yield _gauge(
        "twinlog_flow_leads",
        "1 where this process runs the flow, 0 where it stands by.",
        ((one.flow, float(one.leads)) for one in all_),
    )
    yield _gauge(
        "twinlog_flow_standbys_ready",
        "Other processes that could take the flow over at once.",
        ((one.flow, one.ready) for one in all_ if one.leads and one.ready is not None),
    )
    yield _states(all_)
    yield from _lag(copying)
    yield from _topics(copying)
    yield from _counts(copying)
    yield from _proofs(copying)
    yield from _alarms([one for one in all_ if one.copies])
    yield from _groups(here)


def _states(flows: list[FlowMetricFacts]) -> Metric:
    family = GaugeMetricFamily("twinlog_flow_state", "1 for the state that the flow is in.", labels=["flow", "state"])
    for one in flows:
        now = "failed" if one.failed else "standby" if one.report is None else one.report.state
        for state in dict.fromkeys((*STATES, now)):
            family.add_metric([one.flow, state], float(state == now))
    return family


def _lag(here: list[tuple[FlowMetricFacts, DriverReport]]) -> Iterator[Metric]:
    def gauge(name: str, about: str, value: Callable[[DriverReport], float]) -> Metric:
        return _gauge(name, about, ((one.flow, value(report)) for one, report in here))

    yield gauge("twinlog_partitions", "Partitions that copiers of the flow hold.", lambda report: report.partitions)
    yield _gauge(
        "twinlog_stuck_partitions",
        "Partitions whose copying is blocked; the log has the reasons.",
        ((one.flow, one.stuck) for one, _ in here),
    )
    held = GaugeMetricFamily(
        "twinlog_held_partitions",
        "Partitions that are held for a reason, while all other partitions are copied.",
        labels=["flow", "reason"],
    )
    for one, report in here:
        by_reason = dict(report.held_by_reason)
        for reason in HELD_REASONS:
            held.add_metric([one.flow, reason], by_reason.get(reason, 0))
    yield held
    yield gauge(
        "twinlog_missing_topics",
        "Topics whose remote topic the target still has to create or grow; every lag leaves out their records.",
        lambda report: report.missing,
    )
    yield gauge(
        "twinlog_paused_partitions",
        "Partitions that somebody paused: `twinlog topics pause`.",
        lambda report: report.paused,
    )
    yield gauge(
        "twinlog_paused_lag_records",
        "Source offsets that wait in paused partitions, in addition to every other lag; NaN while unknown.",
        lambda report: nan if report.paused_lag is None else report.paused_lag,
    )
    yield gauge("twinlog_copiers", "Copiers of the flow that were heard lately.", lambda report: report.copiers)
    yield gauge(
        "twinlog_bridged",
        "1 while the bridge copies, because Spark has no task for the flow.",
        lambda report: float(report.bridged),
    )
    yield gauge(
        "twinlog_lag_records",
        "Source offsets still to copy, of partitions where that is known.",
        lambda report: _known(report.lag),
    )
    yield gauge(
        "twinlog_lag_bytes",
        "The lag by the mean size of copied records.",
        lambda report: nan if report.lag_bytes is None else report.lag_bytes,
    )
    yield gauge(
        "twinlog_lag_seconds",
        "Seconds that the oldest record to copy has waited; 0 if all records are copied.",
        lambda report: _waits_s(report.lag, report.unknown, report.oldest_ms, report.at_ms),
    )
    yield gauge(
        "twinlog_lag_age_seconds",
        "How old the known lag is at most; NaN while the lag is unknown.",
        lambda report: nan if report.lag < 0 else report.lag_age_s,
    )
    yield gauge("twinlog_lag_unknown_partitions", "Partitions whose lag is unknown.", lambda report: report.unknown)
    yield gauge(
        "twinlog_eta_seconds",
        "Seconds until the lag is gone at its present speed; NaN while it grows.",
        lambda report: nan if report.eta_s is None else report.eta_s,
    )
    yield _gauge(
        "twinlog_report_age_seconds",
        "Seconds since the copier that is silent the longest last reported.",
        ((one.flow, nan if one.heard_s is None else one.heard_s) for one, _ in here),
    )
    safe = [(one.flow, seconds_to_safe_failover(report)) for one, report in here]
    yield _gauge(
        "twinlog_safe_failover_seconds",
        "Seconds until the target could take over with nothing skipped or repeated; +Inf while that comes no nearer.",
        safe,
    )
    yield _gauge(
        "twinlog_safe_to_fail_over",
        "1 where the target could take over now. A group that a switchover moved, or with members on the target alone, "
        "has moved. Positions in copies from the target that only a switchover commits count if the target has deleted "
        "their records; `twinlog groups` has all of them.",
        ((flow, float(not isnan(seconds) and seconds == 0)) for flow, seconds in safe),
    )


def _topics(here: list[tuple[FlowMetricFacts, DriverReport]]) -> Iterator[Metric]:
    records, sizes, seconds = (
        GaugeMetricFamily(f"twinlog_topic_lag_{unit}", about, labels=["flow", "topic"])
        for unit, about in (
            ("records", "Source offsets of the topic still to copy."),
            ("bytes", "The same by the mean size of copied records."),
            ("seconds", "Seconds that the oldest record of the topic has waited; 0 if all records are copied."),
        )
    )
    for one, report in here:
        for topic in report.topics:
            labels = [one.flow, topic.topic]
            records.add_metric(labels, nan if topic.unknown == topic.partitions else topic.lag)
            sizes.add_metric(labels, nan if topic.lag_bytes is None else topic.lag_bytes)
            seconds.add_metric(labels, _waits_s(topic.lag, topic.unknown, topic.oldest_ms, report.at_ms))
    yield from (records, sizes, seconds)


def _counts(here: list[tuple[FlowMetricFacts, DriverReport]]) -> Iterator[Metric]:
    yield _counter(
        "twinlog_records_copied",
        "Records copied by this process, except heartbeats.",
        ((one.flow, report.records) for one, report in here),
    )
    yield _counter(
        "twinlog_bytes_copied",
        "Bytes of batches copied by this process, except heartbeats.",
        ((one.flow, report.bytes) for one, report in here),
    )
    counted = [(one, one.meters.sum_counters()) for one, _ in here]
    for name, about, count_of in (
        ("dropped", "Records that the flow's transform dropped.", attrgetter("dropped")),
        ("failed", "Records that the flow's transform failed on, and that were skipped.", attrgetter("failed")),
        ("routed", "Records that the flow's transform routed to other partitions.", attrgetter("routed")),
        ("left_out", "Records that a policy left out, as the target refuses them.", attrgetter("left_out")),
        ("dead_letters", "Records that were written to the dead-letter topic.", attrgetter("dead_letters")),
    ):
        yield _counter(f"twinlog_records_{name}", about, ((one.flow, count_of(counters)) for one, counters in counted))
    batches = CounterMetricFamily(
        "twinlog_batches", "Batches made, by road: all but `as it is` cost time per record.", labels=["flow", "road"]
    )
    events = CounterMetricFamily(
        "twinlog_events", "What copiers reported to operators, by kind; the log has the texts.", labels=["flow", "kind"]
    )
    latency = HistogramMetricFamily(
        "twinlog_record_latency_seconds", "Age of records when the target acknowledged them.", labels=["flow"]
    )
    for one, counters in counted:
        for road, count in sorted(counters.roads.items()):
            batches.add_metric([one.flow, road], count)
        kinds = dict(one.meters.events)
        for kind, count in sorted(kinds.items()):
            events.add_metric([one.flow, kind], count)
        latency.add_metric(
            [one.flow],
            [(bound, float(count)) for bound, count in zip(_BOUNDS, accumulate(counters.ages), strict=True)],
            counters.age_sum_ms / 1000,
        )
    yield from (batches, events, latency)


def _proofs(here: list[tuple[FlowMetricFacts, DriverReport]]) -> Iterator[Metric]:
    proofs = [(one, report.proof) for one, report in here if report.proof is not None]
    yield _gauge(
        "twinlog_proof_lag_seconds",
        "Seconds since the target acknowledged the oldest append that is not proven equal yet.",
        ((one.flow, proof.lag_s) for one, proof in proofs),
    )
    for name, about, count_of in (
        ("records", "Records that were proven equal on the target.", attrgetter("records")),
        ("bytes", "Bytes of batches that were proven equal on the target.", attrgetter("bytes")),
        ("unproved_records", "Records that are out of the proof.", attrgetter("unproved")),
    ):
        yield _counter(f"twinlog_proof_{name}", about, ((one.flow, count_of(proof)) for one, proof in proofs))
    offsets = GaugeMetricFamily(
        "twinlog_proven_offset",
        "The target offset up to which the copy of a source partition is proven equal.",
        labels=["flow", "topic", "partition"],
    )
    for one, _ in proofs:
        for source, offset in sorted(one.proven.items()):
            offsets.add_metric([one.flow, source.topic, str(source.partition)], offset)
    yield offsets


def _alarms(flows: list[FlowMetricFacts]) -> Iterator[Metric]:
    """The metrics of a standby process too: an alert needs a 0 before the 1, and a take-over may meet a gap at once."""
    for name, about, kind in (
        ("twinlog_gaps", "Gaps met: records that the source deleted before they were copied.", "gap"),
        ("twinlog_foreign_writes", "Reports of records by other writers in remote topics.", "foreign"),
    ):
        yield _counter(name, about, ((one.flow, one.meters.events.get(kind, 0)) for one in flows))
    mismatches = CounterMetricFamily(
        "twinlog_proof_mismatches",
        "Differences between both clusters that the proof of equality found, by kind.",
        labels=["flow", "kind"],
    )
    for one in flows:
        found = one.meters.sum_counters().differences
        for kind_ in DIFFERENCE_KINDS:
            mismatches.add_metric([one.flow, kind_], found.get(kind_, 0))
    yield mismatches


def _groups(here: list[tuple[FlowMetricFacts, DriverReport]]) -> Iterator[Metric]:
    followed = [(one.flow, report, report.groups) for one, report in here if report.groups is not None]
    yield _gauge(
        "twinlog_groups_followed",
        "Consumer groups with a position in a mirrored topic. `twinlog groups` also has groups with positions only in "
        "copies from the target that only a switchover commits, and groups whose positions the source fails to show.",
        ((flow, nan if groups.followed is None else groups.followed) for flow, _, groups in followed),
    )
    yield _gauge(
        "twinlog_groups_inexact",
        "Groups with a position that has had no exact translation for 30 s, but for groups that have moved.",
        ((flow, groups.inexact) for flow, _, groups in followed),
    )
    yield _gauge(
        "twinlog_groups_ahead",
        "Groups without members on the target that would skip records there, but for groups that have moved.",
        ((flow, groups.ahead) for flow, _, groups in followed if groups.syncs),
    )
    yield _gauge(
        "twinlog_groups_before_start",
        "Groups with a position before the first record of the target, but for groups that have moved, or that begin "
        "by auto.offset.reset on the source, too; NaN if unknown.",
        ((flow, nan if groups.before_start is None else groups.before_start) for flow, _, groups in followed),
    )
    yield _gauge(
        "twinlog_checkpoint_age_seconds",
        "Seconds since checkpoints were last brought up to date, or the process runs the flow if they never were.",
        ((flow, _since_s(groups.checkpoints_ms or report.since_ms, report.at_ms)) for flow, report, groups in followed),
    )
    yield _gauge(
        "twinlog_group_sync_age_seconds",
        "Seconds since groups were last moved along on the target, or the process runs the flow if they never were.",
        (
            (flow, _since_s(groups.sync_ms or report.since_ms, report.at_ms))
            for flow, report, groups in followed
            if groups.syncs
        ),
    )
    yield _gauge(
        "twinlog_checkpoint_interval_seconds",
        "How often checkpoints are brought up to date: emit.checkpoints.interval.seconds.",
        ((flow, groups.checkpoints_every_s) for flow, _, groups in followed),
    )
    yield _gauge(
        "twinlog_group_sync_interval_seconds",
        "How often groups are moved along on the target: sync.group.offsets.interval.seconds.",
        ((flow, groups.sync_every_s) for flow, _, groups in followed if groups.syncs),
    )


def _gauge(name: str, about: str, values: Iterable[tuple[str, float]]) -> Metric:
    family = GaugeMetricFamily(name, about, labels=["flow"])
    for flow, value in values:
        family.add_metric([flow], value)
    return family


def _counter(name: str, about: str, values: Iterable[tuple[str, float]]) -> Metric:
    family = CounterMetricFamily(name, about, labels=["flow"])
    for flow, value in values:
        family.add_metric([flow], value)
    return family


def _known(lag: int) -> float:
    return nan if lag < 0 else lag


def _since_s(then_ms: int | None, now_ms: int) -> float:
    return nan if then_ms is None else max(0.0, (now_ms - then_ms) / 1000)


def _waits_s(lag: int, unknown: int, oldest_ms: int | None, now_ms: int) -> float:
    """The seconds since the oldest known record; NaN if only `unknown` partitions may have records."""
    return 0.0 if lag == 0 and not unknown else _since_s(oldest_ms, now_ms)
