"""What a canary's comparison counts as processor time: all but the starts of both programs."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.virtual.clock import VirtualClock
from tests.unit.worker.test_driver_report import SETTINGS
from twinlog.ops.canary import reading
from twinlog.ops.canary.comparison import MM2, TWINLOG, Program, ProgramUse
from twinlog.ops.canary.process_tree import ProcessTree
from twinlog.ops.canary.reading import CanaryReader, CanaryReportOptions, ComparedFlows
from twinlog.ops.canary.use_count import START_S, UseCount, start_of

TICKS = os.sysconf("SC_CLK_TCK")
RUNS, BRIDGED = (SimpleNamespace(report=SimpleNamespace(state="running", bridged=one)) for one in (False, True))
SILENT = SimpleNamespace(report=None)


class Programs:
    """Both programs, as a /proc of theirs; a look every 5 s, at which twinlog is as given."""

    def __init__(self, proc: Path, *, age_s: float = 1_000.0) -> None:
        self.proc = proc
        self.clock = VirtualClock(age_s)
        self.cpu_s: dict[Program, float] = {MM2: 0.0, TWINLOG: 0.0}
        self.records: dict[Program, int] = {MM2: 0, TWINLOG: 0}
        self.pids: dict[Program, int] = {MM2: 1, TWINLOG: 2}
        (proc / "self").mkdir()
        self.write()
        self.trees = {program: ProcessTree(pid, "--pid", proc) for program, pid in self.pids.items()}
        self.count = UseCount(self.trees, lambda: dict(self.records), self.clock)

    def write(self) -> None:
        (self.proc / "uptime").write_text(f"{self.clock.now:.2f} 1.00\n")
        for program, pid in self.pids.items():
            (self.proc / str(pid)).mkdir(exist_ok=True)
            fields = ["S", "0", *"0" * 9, f"{self.cpu_s[program] * TICKS:.0f}", "0", *"0" * 6, "0", "0", "0"]
            (self.proc / str(pid) / "stat").write_text(f"{pid} (java) {' '.join(fields)}\n")

    def look(self, own: Any, *, last: bool = False) -> None:
        self.write()
        self.count.add_look({MM2: SILENT, TWINLOG: own}, last=last)

    def work(self, cpu_s: float, records: int = 100) -> None:
        """Five seconds, in which each program uses so much and copies so many records."""
        self.clock.now += 5.0
        for program in (MM2, TWINLOG):
            self.cpu_s[program] += cpu_s
            self.records[program] += records

    def uses(self) -> dict[Program, ProgramUse]:
        return {one.program: one for one in self.count.uses()}


def test_the_start_of_spark_is_left_out_of_both(tmp_path: Path) -> None:
    here = Programs(tmp_path)
    for own in (BRIDGED, BRIDGED, RUNS):
        here.work(6.0)
        here.look(own)
    for last in (False, True):
        here.work(0.25)
        here.look(RUNS, last=last)
    for use in here.uses().values():
        assert use.use is not None
        assert (use.use.cpu_s, use.seconds, use.records) == (0.5, 10.0, 200)
        assert use.after_start_of == "Spark", "the time is shorter than the observation"


@pytest.mark.parametrize("looks", [[BRIDGED], [BRIDGED, RUNS], [RUNS, BRIDGED]], ids=["starts", "just ended", "again"])
def test_without_time_after_the_start_there_is_no_figure_and_no_verdict(tmp_path: Path, looks: list[Any]) -> None:
    here = Programs(tmp_path)
    for number, own in enumerate(looks, 1):
        here.work(6.0, records=1_000_000)
        here.look(own, last=number == len(looks))
    own = here.uses()[TWINLOG]
    assert own.use is None
    assert own.cpu_per_million is None
    assert own.as_json()["way_out"] == "too early: Spark was starting; ask again in 30 s"


def test_a_program_that_was_started_a_moment_ago_has_no_figure(tmp_path: Path) -> None:
    here = Programs(tmp_path, age_s=START_S - 8.0)
    here.work(6.0)
    here.look(RUNS, last=True)
    assert here.uses()[MM2].way_out == "too early: MirrorMaker 2 was starting; ask again in 30 s"
    assert here.uses()[TWINLOG].use is not None
    assert here.uses()[TWINLOG].after_start_of == ""
    here.work(6.0)
    here.look(RUNS)
    here.work(0.5)
    here.look(RUNS, last=True)
    found = here.uses()[MM2].use
    assert found is not None
    assert found.cpu_s == 0.5


@pytest.mark.parametrize(("age_s", "start"), [(START_S - 1.0, "twinlog"), (START_S + 1.0, None)])
def test_twinlog_starts_while_it_reports_nothing(tmp_path: Path, age_s: float, start: str | None) -> None:
    here = Programs(tmp_path, age_s=age_s)
    seen: Any = SILENT
    assert start_of(TWINLOG, seen, here.trees[TWINLOG]) == start


@pytest.mark.parametrize(
    ("bridged_s", "observed_s", "counted_s"), [(0.0, 10.0, 10.0), (4.0, 15.0, 10.0), (33.0, 40.0, 5.0), (99.0, 40.0, 0)]
)
def test_the_whole_time_is_counted_after_a_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bridged_s: float, observed_s: float, counted_s: float
) -> None:
    """Spark starts for `bridged_s` seconds while ten seconds are observed."""
    here = Programs(tmp_path)
    begun = here.clock.now

    class Reader:
        def __enter__(self) -> Reader:
            return self

        def __exit__(self, *_: object) -> None: ...

        def read(self) -> Any:
            here.write()
            own = BRIDGED if here.clock.now - begun < bridged_s else RUNS
            return SimpleNamespace(
                report=own.report, lag=None, lag_trouble=None, state=SimpleNamespace(word="running", detail="")
            )

    monkeypatch.setattr(reading, "FlowReader", lambda *_, **__: Reader())
    compared = ComparedFlows(SETTINGS, (SETTINGS,), SETTINGS)
    options = CanaryReportOptions(watch_s=10.0)
    reader = CanaryReader(compared, options, lambda *_: [], clock=here.clock)
    reader._observe(here.count)
    assert here.clock.now - begun == observed_s
    use = here.uses()[TWINLOG]
    assert (0 if use.use is None else use.seconds) == counted_s
