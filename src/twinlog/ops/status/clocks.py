"""How far the clock of a process that reports is from that of the process that reads it: otherwise a live one seems
dead, and a dead one alive."""

from __future__ import annotations

from collections.abc import Callable

from twinlog.clock import Clock, wall_ms
from twinlog.ops.status.state import ENDED, STALE_S
from twinlog.worker.status.report import EVERY_S, DriverReport

LOOKS_ON_S = 2.5 * EVERY_S
"""For how long one looks on whether a process reports whose last report is not of now by its clock."""

LOOK_AGAIN_S = 0.25
SKEW_S = 2.0
"""Clocks that differ by less are taken for one."""


class Clocks:
    """The clock of this process, and what is known of the clock of the process that reports."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.skew_ms = 0
        """How far the clock of who reports is behind."""
        self.reports_on: bool | None = None
        """Whether another report came while somebody looked on; None where nobody had to."""

    @property
    def now_ms(self) -> int:
        """Unix time by the clock of who reports."""
        return wall_ms(self._clock) - self.skew_ms

    def compare(
        self, report: DriverReport, next_report: Callable[[], DriverReport | None], *, lives: bool = False
    ) -> None:
        """Look on where a report is of a time to come, or old though its process seems to live: when another one comes
        from `next_report`, it is of now by the other clock."""
        self.reports_on = None
        if report.state in ENDED:
            return
        age_s = (self.now_ms - report.at_ms) / 1000
        if -SKEW_S <= age_s <= STALE_S or (age_s > STALE_S and not lives):
            return
        until = self._clock.monotonic() + LOOKS_ON_S
        newest: DriverReport | None = report
        while newest is report and self._clock.monotonic() < until:
            self._clock.sleep(LOOK_AGAIN_S)
            newest = next_report()
        self.reports_on = newest is not None and newest is not report
        if newest is not None and self.reports_on:
            skew_ms = wall_ms(self._clock) - newest.at_ms
            self.skew_ms = skew_ms if abs(skew_ms) > SKEW_S * 1000 else 0
