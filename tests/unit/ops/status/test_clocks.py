"""Hosts whose clocks differ: who lives is seen to live, and who is dead is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.virtual.clock import VirtualClock
from tests.unit.worker.test_driver_report import FULL
from twinlog.clock import wall_ms
from twinlog.ops.status.state import (
    LOOKS_ON_S,
    STALE_S,
    Clocks,
    FlowCondition,
    FlowStatusFacts,
    ProcessSnapshot,
    state_of,
)
from twinlog.worker.status.report import EVERY_S, DriverReport


class Writer:
    """Reports every two seconds by a clock that is so far behind, until it dies."""

    def __init__(self, clock: VirtualClock, behind_s: float) -> None:
        self.clock = clock
        self.behind_s = behind_s
        self.dead_at: float | None = None
        self._last: DriverReport | None = None

    def report(self) -> DriverReport:
        now = self.clock.now if self.dead_at is None else self.dead_at
        late_s = self.clock.now - (now - now % EVERY_S)
        at_ms = wall_ms(self.clock) - int((self.behind_s + late_s) * 1000)
        if self._last is None or self._last.at_ms != at_ms:
            self._last = replace(FULL, at_ms=at_ms)
        return self._last


def look(writer: Writer, clocks: Clocks) -> FlowStatusFacts:
    clocks.compare(writer.report(), writer.report, lives=True)
    process = ProcessSnapshot("host-1", leads=True)
    skew_s = clocks.skew_ms / 1000
    return FlowStatusFacts(
        clocks.now_ms, writer.report(), processes=(process,), skew_s=skew_s, reports_on=clocks.reports_on
    )


@pytest.mark.parametrize("behind_s", [0.0, 1.0, 60.0, 3600.0, -60.0, -3600.0])
def test_who_reports_is_seen_to_run_however_its_clock_goes(behind_s: float) -> None:
    clock = VirtualClock(1000.5)
    writer, clocks = Writer(clock, behind_s), Clocks(clock)
    begun = clock.now
    facts = look(writer, clocks)
    assert (state_of(facts).condition, facts.fresh) == (FlowCondition.RUNNING, True)
    assert facts.report_age_s is not None
    assert facts.report_age_s < EVERY_S + 1.5
    assert abs(clocks.skew_ms - behind_s * 1000) < 1500
    assert clock.now - begun < LOOKS_ON_S
    # It is known then.
    clock.now += 10
    begun = clock.now
    assert look(writer, clocks).fresh
    assert clock.now == begun


@pytest.mark.parametrize("behind_s", [0.0, 60.0, -60.0, -3600.0])
def test_who_is_dead_is_not_seen_to_run_because_its_clock_was_ahead(behind_s: float) -> None:
    clock = VirtualClock(1000.5)
    writer = Writer(clock, behind_s)
    writer.dead_at = clock.now
    clock.now += STALE_S + 1
    facts = look(writer, Clocks(clock))
    assert (state_of(facts).condition, facts.fresh) == (FlowCondition.NOT_YET, False)


def test_nobody_waits_for_a_flow_that_has_ended_or_that_nobody_has() -> None:
    clock = VirtualClock()
    clocks = Clocks(clock)
    begun = clock.now
    old = replace(FULL, at_ms=wall_ms(clock) - 60_000)
    clocks.compare(old, lambda: old)
    clocks.compare(replace(old, state="stopped"), lambda: old, lives=True)
    assert (clock.now, clocks.reports_on, clocks.skew_ms) == (begun, None, 0)
