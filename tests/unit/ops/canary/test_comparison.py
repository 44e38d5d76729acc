"""The comparison of a canary: its verdict, its counts, and the processor time of process trees."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.virtual.cluster import VirtualCluster
from harness.virtual.loop import VirtualLoop, virtual_loop
from harness.wait import wait_for
from twinlog.cli.main import app
from twinlog.config import load
from twinlog.errors import OptionError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.model.types import GroupId, TopicName, TopicPartition
from twinlog.ops.audit.report import AuditPart, Finding, Severity
from twinlog.ops.canary.comparison import (
    MM2,
    NO_LAG,
    TWINLOG,
    CanaryReport,
    CopyEquality,
    GroupResume,
    LagOverTime,
    ProgramUse,
    report_lines,
)
from twinlog.ops.canary.process_tree import ProcessTree, ProcessUse
from twinlog.ops.canary.reading import CanaryReader, CanaryReportOptions, ComparedFlows

PART = TopicPartition(TopicName("orders"), 0)
RESUME = GroupResume(
    GroupId("shop"),
    PART,
    committed=120,
    resumes=100,
    should=118,
    certain=True,
    repeats=18,
    skips=0,
    in_canary=119,
    exact=True,
)
FINE = CanaryReport(
    (TopicName("orders"),),
    at_ms=1_000,
    watch_s=60.0,
    copies=(CopyEquality(MM2, "east->west", 1, 5_000), CopyEquality(TWINLOG, "east-canary->west", 1, 5_000)),
    lags=(LagOverTime(MM2, "run by others", (4, 0, 2)), LagOverTime(TWINLOG, "running", (0, 0, 0))),
    groups=(RESUME,),
    uses=(
        ProgramUse(MM2, 2_000_000, 60.0, ProcessUse(16.0, 700_000_000, 1)),
        ProgramUse(TWINLOG, 1_000_000, 60.0, ProcessUse(2.0, 500_000_000, 3)),
    ),
)
MISSING = Finding("missing-records", Severity.CRITICAL, AuditPart.RECORDS, "2 records are missing", "replay", 2)


def test_equal_copies_have_a_verdict_with_all_figures() -> None:
    assert FINE.equal
    assert FINE.verdict == (
        "Both copies are equal to the source: every record of the sample (at least 5,000 on each side). On a "
        "failover now, consumer groups would repeat 18 records by MirrorMaker 2's offsets, and none by twinlog's map. "
        "A million records cost MirrorMaker 2 8.00 and twinlog 2.00 CPU seconds."
    )
    text = "\n".join(report_lines(FINE))
    assert "MirrorMaker 2  now 2, mean 2.0, most 4; run by others" in text
    assert "shop orders-0 (committed 120): MirrorMaker 2 resumes at 100, should be 118: 18 repeated, 0 skipped" in text
    assert "twinlog resumes at 119: 0 repeated, 0 skipped" in text
    assert "2.00 CPU s in 60 s for 1,000,000 records, 2.00 CPU s for a million; 500.0 MB in 3 processes" in text
    assert FINE.ids == []


def test_a_time_without_the_start_of_a_program_says_so() -> None:
    use = ProgramUse(TWINLOG, 300, 5.0, ProcessUse(0.25, 500_000_000, 3), after_start_of="Spark")
    text = "\n".join(report_lines(replace(FINE, uses=(use,))))
    assert "0.25 CPU s in 5 s after the start of Spark for 300 records (fewer than" in text


def test_offsets_that_mirror_maker_lacks_are_no_offsets_without_repeats() -> None:
    lacking = replace(RESUME, resumes=None, repeats=None, skips=None)
    start = " On a failover now, consumer groups would repeat "
    reset = " MirrorMaker 2 lacks the offset of 1 partition of a group: auto.offset.reset decides there."
    verdict = replace(FINE, groups=(lacking,), uses=()).verdict
    assert verdict.endswith(f"{start}no record by twinlog's map.{reset}")
    verdict = replace(FINE, groups=(lacking, RESUME), uses=()).verdict
    assert verdict.endswith(f"{start}18 records by MirrorMaker 2's offsets, and none by twinlog's map.{reset}")


def test_a_group_between_two_offset_syncs_has_the_most_repeats() -> None:
    unclear = replace(RESUME, resumes=100, should=104, certain=False, repeats=20, repeats_exact=False)
    report = replace(FINE, groups=(unclear,))
    assert "would repeat up to 20 records by MirrorMaker 2's offsets, and none by twinlog's map" in report.verdict
    text = "\n".join(report_lines(report))
    assert "MirrorMaker 2 resumes at 100, should be at least 104: up to 20 repeated, 0 skipped" in text
    assert unclear.as_json()["mirror_maker_2"] == {
        "resumes": 100,
        "should_be": 104,
        "exact": False,
        "repeats": 20,
        "repeats_exact": False,
        "skips": 0,
    }


def test_each_difference_and_each_unknown_is_a_problem() -> None:
    copies = (replace(FINE.copies[0], findings=(MISSING,)), FINE.copies[1])
    for worse, words, line in (
        (
            replace(FINE, copies=copies),
            "2 records of MirrorMaker 2's copies differ from the source",
            "    TW-VERIFY-01: 2 records are missing",
        ),
        (
            replace(FINE, copies=(FINE.copies[0], replace(FINE.copies[1], uncompared=("no leader",)))),
            "a part of twinlog's copies could not be compared",
            "    TW-VERIFY-03: not compared: no leader",
        ),
        (
            replace(FINE, lags=(FINE.lags[0], LagOverTime(TWINLOG, "silent", (0, None), "TW-NET-02: no answer"))),
            "the lag of twinlog is unknown",
            "    TW-NET-02: the lag is unknown: no answer",
        ),
        (
            replace(FINE, lags=(FINE.lags[0], LagOverTime(TWINLOG, "silent", (0, None)))),
            "the lag of twinlog is unknown",
            f"    TW-CANARY-02: the lag is unknown: {NO_LAG}",
        ),
        (
            replace(FINE, groups=(replace(RESUME, resumes=121, repeats=0, skips=3),)),
            "consumer groups would skip up to 3 records by MirrorMaker 2's offsets",
            (
                "  TW-AUDIT-01: shop orders-0 (committed 120): MirrorMaker 2 resumes at 121, should be 118: "
                "0 repeated, up to 3 skipped; twinlog resumes at 119: 0 repeated, 0 skipped"
            ),
        ),
        (
            replace(FINE, groups_trouble="lacks DESCRIBE"),
            "the offsets of consumer groups could not be read",
            "  TW-RIGHT-02: not read: lacks DESCRIBE",
        ),
    ):
        assert not worse.equal
        assert words in worse.verdict
        assert line in list(report_lines(worse))
        found = json.loads(json.dumps(worse.as_json()))
        assert found["ids"] == [line.strip().partition(": ")[0]]


def test_nothing_compared_is_not_equal() -> None:
    nothing = replace(FINE, copies=(FINE.copies[0], replace(FINE.copies[1], records=0)), groups=(), uses=())
    assert not nothing.equal
    assert nothing.verdict == "No record was compared: the canary has yet to copy."
    assert next(iter(report_lines(nothing))) == f"TW-CANARY-01: {nothing.verdict}"


def test_few_records_and_missing_processes_have_no_rate() -> None:
    few = ProgramUse(TWINLOG, 100, 60.0, ProcessUse(2.0, 1, 1))
    elsewhere = ProgramUse(MM2, 100, 60.0, way_out="add --mm2-pid PID")
    assert few.cpu_per_million is elsewhere.cpu_per_million is None
    text = "\n".join(report_lines(replace(FINE, uses=(elsewhere, few))))
    assert "add --mm2-pid PID" in text
    assert "most of it is the time of an idle program" in text
    assert elsewhere.as_json()["way_out"] == "add --mm2-pid PID"


BUSY = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time\\nend = time.process_time() + 0.4\\n"
    "while time.process_time() < end: pass\\nprint('spent', flush=True)\\ntime.sleep(600)"])
time.sleep(600)
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="only Linux has /proc")
def test_a_process_tree_counts_what_its_children_use() -> None:
    with subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            tree = ProcessTree(process.pid, "--pid")
            assert process.stdout is not None
            assert process.stdout.readline() == b"spent\n"
            tree.read_processes()
            use = tree.sum_use()
            assert use.processes == 2
            assert 0.3 <= use.cpu_s < 5.0
            assert use.memory > 1_000_000
        finally:
            os.killpg(process.pid, 9)

    def gone() -> bool:
        try:
            tree.read_processes()
        except OptionError as error:
            return "--pid" in str(error) and "there is no process with this number" in str(error)
        return False

    wait_for(gone, 10.0, "the process is gone")


def test_a_system_without_proc_is_named(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"^--pid 1: this system is without /proc; leave the option out$"):
        ProcessTree(1, "--pid", tmp_path)


def report(folder: Path, canary: str) -> str:
    file, other = folder / "mm2.properties", folder / "canary.properties"
    file.write_text(
        "clusters = east, west\neast.bootstrap.servers = east:9092\nwest.bootstrap.servers = west:9092\n"
        "east->west.enabled = true\neast->west.topics = orders\n"
    )
    other.write_text(canary)
    result = CliRunner().invoke(app, ["canary", "report", str(file), str(other), "--observe", "0"])
    assert result.exit_code == 2, result.output
    return " ".join(result.output.split())


@pytest.mark.parametrize("more", ["", "west->east.enabled = true\n"], ids=["one flow", "both flows"])
def test_swapped_files_are_refused_before_anything_is_observed(tmp_path: Path, more: str) -> None:
    file, canary = tmp_path / "mm2.properties", tmp_path / "canary"
    file.write_text(
        "clusters = east, west\neast.bootstrap.servers = east:9092\nwest.bootstrap.servers = west:9092\n"
        f"east->west.enabled = true\neast->west.topics = orders\n{more}"
    )
    words = ["canary", str(file), "--topic", "orders", "--output-dir", str(canary), "--flow", "east->west"]
    words.append("--copied-further")
    made = CliRunner().invoke(app, words)
    assert made.exit_code == 0, made.output
    swapped = ["canary", "report", str(canary / "canary.properties"), str(file)]
    result = CliRunner().invoke(app, swapped, env={"COLUMNS": "400"})
    assert result.exit_code == 2, result.output
    assert "the first file is a canary's file" in result.output
    assert f"twinlog canary report {file} {canary / 'canary.properties'}" in result.output
    assert "observing" not in result.output


def test_the_file_of_the_canary_must_be_a_canary(tmp_path: Path) -> None:
    same = (tmp_path, "clusters = {0}, west\n{0}.bootstrap.servers = {1}:9092\nwest.bootstrap.servers = west:9092\n")
    flow = "{0}->west.enabled = true\n{0}->west.topics = orders\n"
    text = same[1] + flow
    assert "it is no canary, but would take the flow over" in report(tmp_path, text.format("east", "east"))
    assert "no flow of FILE does: write CANARY_FILE with `twinlog canary FILE`" in report(
        tmp_path, text.format("other", "north")
    )
    two = text.format("c", "east") + "west->c.enabled = true\n"
    assert "it has 2 flows, and a canary has one" in report(tmp_path, two)


def test_a_canary_that_is_gone_has_no_report(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(
        "clusters = s, w\ns.bootstrap.servers = s-1:9092\nw.bootstrap.servers = w-1:9092\ns->w.enabled = true\n"
    )
    (flow,) = (one for one in load(file).flows if one.enabled)
    with virtual_loop(1) as loop:
        source, _ = VirtualCluster(loop, "s"), VirtualCluster(loop, "w")
        source.create("orders")
        reader = CanaryReader(
            ComparedFlows(flow, (flow,), flow),
            CanaryReportOptions(),
            lambda *_: [],
            connect=lambda alias, client: ClusterAdmin(alias, client, VirtualLoop(loop.world)),
            clock=loop.clock,
        )
        with pytest.raises(OptionError, match=r"none of the canary's topics \(mm2-offsets.*it is gone"):
            reader.report()
