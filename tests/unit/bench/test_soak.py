"""The parts of soak and faults that need no broker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench.reports.report import markdown
from faults.drill import MM2, TWINLOG, killed, planned
from faults.emergency import RESTED, STEADY, Drill, GroupDrill
from faults.planned import PlannedMove
from faults.positions import GroupVerdict
from faults.rounds import Round, Rounds
from faults.scene import CLOCK, properties
from harness.checks.checker import Verdict
from soak.brokers import TopicSize
from soak.document import document
from soak.proof import outcome_of
from soak.run import Outcome, Wish
from soak.starts import Starts
from soak.watch import Look, Watch
from twinlog.model.types import SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.ops.proven_ranges import PartitionProven

ROUND = Round(1, "kill worker", "process 7", 1000, Verdict(), True, 2.5)


class DoneRounds(Rounds):
    """Some that are over; no scene belongs to them."""

    def __init__(self, *done: Round) -> None:
        self.done = list(done)


def _outcome(*done: Round) -> Outcome:
    wish = Wish(60, 7, "default", 1000, Path())
    return Outcome(wish, Starts(5, 4), Starts(9, 10), 8.0, DoneRounds(*done), ran_s=3600)


def _row(text: str, title: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith(f"| {title} "))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_starts_may_take_five_seconds_longer_for_full_topics() -> None:
    text = markdown(document(_outcome(ROUND)))
    assert _row(text, "start to first record, s")[1:] == ["5.0", "9.0", "1.80", "<= 10.0", "pass"]
    assert _row(text, "from the end of a process to the other's first record, s")[-1] == "MISS"
    assert _row(text, "  the same at the end of the run, s")[-1] == "pass"


def test_every_record_and_group_counts() -> None:
    wrong = replace(ROUND, verdict=Verdict(lost=3), group=GroupVerdict(skipped=2))
    found = _outcome(ROUND, wrong)
    text = markdown(document(found))
    assert _row(text, "records written and judged")[2] == "2,000"
    assert _row(text, "records lost")[2:] == ["3", "", "0", "MISS"]
    assert _row(text, "records duplicated")[2:] == ["0", "", "0", "pass"]
    assert _row(text, "offsets that groups would skip")[-1] == "MISS"
    assert not found.fine
    assert _outcome(ROUND).fine


def test_each_alarm_of_the_proof_and_each_unproven_partition_counts() -> None:
    end = SourceOffset(9)
    whole = PartitionProven(end, end, TargetOffset(9), 0)
    parts = [TopicPartition(TopicName("t"), number) for number in range(2)]
    found = _outcome(ROUND)
    assert "proof of equality" not in markdown(document(found))
    found.proof = outcome_of(dict.fromkeys(parts, whole), 2, 0)
    assert found.fine
    text = markdown(document(found))
    assert _row(text, "  not proven to their end at rest")[-1] == "pass"
    behind = replace(whole, source=SourceOffset(7), lag_ms=20)
    for one in (
        outcome_of({parts[0]: whole}, 2, 0),
        outcome_of({parts[0]: whole, parts[1]: behind}, 2, 0),
        outcome_of(dict.fromkeys(parts, replace(whole, differences=1)), 2, 0),
        outcome_of(dict.fromkeys(parts, whole), 2, 1),
    ):
        found.proof = one
        assert not found.fine
        assert "MISS" in markdown(document(found))


def test_the_proof_is_a_key_of_the_flow() -> None:
    source = SimpleNamespace(bootstrap="127.0.0.1:1")
    text = {proves: properties(source, source, "default", proves=proves) for proves in (False, True)}  # type: ignore[arg-type]
    assert "here->there.twinlog.proof = true\n" in text[True]
    assert "proof" not in text[False]
    assert "topics = plain, paid, stamped, compacted, expiring\n" in text[True]
    assert "topics = plain, paid, stamped\n" in text[False]


def test_growth_is_per_hour_and_a_short_run_is_marked() -> None:
    found = _outcome(ROUND)
    found.ran_s = 360
    found.log_lines = 12
    found.grown = {"target/mm2-offsets.a.internal": TopicSize(50, 1_000_000)}
    text = markdown(document(found))
    assert _row(text, "log lines per hour")[2] == "120"
    assert _row(text, "records per hour")[2] == "500"
    assert _row(text, "MB per hour")[2] == "10.00"
    assert "**Not a whole run**: 6 minutes." in text


def test_the_cause_of_an_early_end_is_reported_with_the_findings() -> None:
    found = Outcome(Wish(60, 7, "default", 1000, Path()), trouble=["It was interrupted."])
    assert not found.fine
    assert "- It was interrupted." in markdown(document(found))


def test_a_slope_is_of_the_longest_process_without_its_first_minute() -> None:
    watch = Watch(None)  # type: ignore[arg-type]

    def look(at: float, pss: int) -> Look:
        return Look(at, at, 2 * pss, pss, 10, 5, at / 100)

    # 1 MB a minute after a steep minute.
    watch.looks["copier", 1] = [
        look(at, 50_000_000 if at < 60 else 100_000_000 + at * 16_667) for at in range(0, 600, 10)
    ]
    watch.looks["copier", 2] = [look(at, 900_000_000) for at in range(0, 50, 10)]
    found = watch.figures()["copier"]
    assert found.processes == 2
    assert found.peak_pss_mb == 900
    assert found.pss_slope_mb_per_h == pytest.approx(60, rel=0.01)
    assert found.slope_over_s == 530
    assert watch.cpu(100, 200)["copier"] == pytest.approx(0.01)


def test_a_clock_jumps_at_a_signal(tmp_path: Path) -> None:
    file = tmp_path / "clock"
    program = "import time; print(time.time(), flush=True); input(); print(time.time(), time.time_ns(), flush=True)"
    env = {**os.environ, "PYTHONPATH": str(CLOCK), "FAULTS_CLOCK": str(file)}
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
    ) as process:
        assert process.stdout is not None
        assert float(process.stdout.readline()) == pytest.approx(time.time(), abs=120)
        file.write_text("-7200", encoding="ascii")
        process.send_signal(signal.SIGUSR2)
        shifted, shifted_ns = process.communicate("\n")[0].split()
    assert float(shifted) == pytest.approx(time.time() - 7200, abs=120)
    assert int(shifted_ns) / 1e9 == pytest.approx(float(shifted), abs=120)


def test_a_drill_is_kept_with_both_systems_side_by_side() -> None:
    text = markdown(planned({MM2: PlannedMove(900, 900, 230, 0, 0.7), TWINLOG: PlannedMove(800, 800, 0, 1, 0.6)}))
    assert _row(text, "records written")[1:3] == ["900", "800"]
    assert _row(text, "records that the group never reads")[1:] == ["0", "1", "", "0", "MISS"]
    assert _row(text, "records that the group reads twice")[1:] == ["230", "0", "", "0", "pass"]
    assert _row(text, "time without producers, s")[1:3] == ["0.7", "0.6"]
    group = GroupDrill(processed=100, repeated=7, uncommitted=2, skipped=0)
    text = markdown(killed(dict.fromkeys((MM2, TWINLOG), Drill(500, 3, {STEADY: group, RESTED: group}))))
    assert _row(text, "records copied")[1:3] == ["500", "500"]
    assert text.count("| records that the group reads twice ") == 2
