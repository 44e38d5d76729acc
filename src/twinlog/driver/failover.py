"""Whether a flow's target may take over now, and when it may: figures for whoever would fail over without asking more.

Each group is judged by `twinlog groups` and `twinlog switchover`; this is the sum for the flow as a whole.
"""

from __future__ import annotations

from math import inf, nan

from twinlog.driver.report import DriverReport

FRESH_S = 30.0
"""A lag that was not confirmed for so long, and a look at groups so long ago, count as unknown."""


def seconds_to_safe_failover(report: DriverReport) -> float:
    """Seconds until all that the source has is on the target, and the groups stand where they would go on.

    0 where that is so, infinite while the lag does not shrink or groups cannot be followed, NaN while it is unknown.
    """
    if report.lag < 0 or report.unknown or report.lag_age_s > FRESH_S:
        return nan
    left_s = 0.0
    if report.lag > 0:
        if report.eta_s is None:
            return inf
        # It is rounded, and something does wait.
        left_s = max(0.1, report.eta_s)
    groups = report.groups
    if groups is None:
        return left_s
    if groups.followed is None or _old(groups.checkpoints_ms, report.at_ms):
        return nan
    if groups.trouble is not None or groups.inexact:
        return inf
    return left_s


def _old(done_ms: int | None, now_ms: int) -> bool:
    return done_ms is None or now_ms - done_ms > FRESH_S * 1000
