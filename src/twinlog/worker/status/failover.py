"""Whether a flow's target may take over now, and when it may: figures for an automatic failover.

Each group is judged by `twinlog groups` and `twinlog switchover`; this is the sum for the flow as a whole.
"""

from __future__ import annotations

from math import inf, nan

from twinlog.worker.status.report import DriverReport

FRESH_S = 30.0
"""A lag that was not confirmed for so long counts as unknown, and so does what was done for groups when that is so
long overdue."""


def seconds_to_safe_failover(report: DriverReport) -> float:
    """Seconds until all that the source has is on the target, and the groups stand where they would go on.

    0 where that is so, infinite while the lag does not shrink or groups cannot be followed, NaN while it is unknown.
    Groups count as they stood at the last look, which the flow's own intervals allow to be that long ago.
    """
    if report.lag < 0 or report.unknown or report.lag_age_s > FRESH_S:
        return nan
    if report.paused and report.paused_lag != 0:
        # What is paused waits for somebody.
        return inf
    left_s = 0.0
    if report.lag > 0:
        if report.eta_s is None:
            return inf
        # `eta_s` is rounded, perhaps to 0, though records are left.
        left_s = max(0.1, report.eta_s)
    groups = report.groups
    if groups is None:
        return left_s
    if groups.followed is None or _overdue(groups.checkpoints_ms, groups.checkpoints_every_s, report.at_ms):
        return nan
    if groups.syncs and _overdue(groups.sync_ms, groups.sync_every_s, report.at_ms):
        return nan
    if groups.trouble is not None or groups.inexact:
        return inf
    return left_s


def _overdue(done_ms: int | None, every_s: float, now_ms: int) -> bool:
    return done_ms is None or now_ms - done_ms > (every_s + FRESH_S) * 1000
