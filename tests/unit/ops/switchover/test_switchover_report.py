"""The report of a switchover, from the journal alone, and its printed form."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.unit.ops.switchover.scripted import Brokers, Kill, ScriptedJournal, ScriptedWorld
from twinlog.cli.main import app
from twinlog.model.types import Alias, TopicName, TopicPartition
from twinlog.ops.switchover.journal import read_entries
from twinlog.ops.switchover.machine import SwitchoverMachine
from twinlog.ops.switchover.model import (
    GroupOffset,
    MovedGroups,
    SwitchoverDirection,
    SwitchoverKind,
    SwitchoverOptions,
    TooLongError,
)
from twinlog.ops.switchover.preflight import rehearsal_json, rehearse, unavailable_s
from twinlog.ops.switchover.report import markdown, report
from twinlog.ops.switchover.steps.group_step import judge

A_TO_B = SwitchoverDirection(Alias("a"), Alias("b"))
P0 = TopicPartition(TopicName("orders"), 0)


def test_a_planned_switchover() -> None:
    brokers = Brokers(A_TO_B, keeps_names=False)
    entries = SwitchoverMachine(ScriptedWorld(brokers, Kill()), ScriptedJournal(brokers, Kill()), "me 1").run(
        SwitchoverOptions(SwitchoverKind.PLANNED, near=100)
    )
    found = json.loads(json.dumps(report(entries)))
    assert (found["kind"], found["state"], found["fence"]) == ("planned", "done", "acl")
    assert found["seconds_without_producers"] > 0
    assert [one["step"] for one in found["steps"]][-1] == "close"
    assert found["groups"]["shop"]["skipped"] == 0
    assert found["groups"]["shop"]["repeated"] == 0
    groups, *_ = [line for line in found["next"] if line.startswith("groups with members on a: shop. ")]
    assert "run the same command again: it brings their offsets to b" in groups
    assert [line for line in found["next"] if line != groups] == [
        "point producers to b: they write to orders, not to the copies",
        r"start consumers on b with both, the copies and what is new: for orders the pattern ^(a\.)?orders$",
        "producers stay fenced on a, until a way back, or --release",
    ]
    text = markdown(found)
    assert text.startswith("# Switchover a -> b: done\n")
    assert "| orders | 0 | 53 | 53 | a.orders | 1053 |" in text or "| orders | 0 |" in text


def test_what_an_undone_switchover_leaves_is_named() -> None:
    brokers = Brokers(A_TO_B, keeps_names=False, stops_when_fenced=True)
    machine = SwitchoverMachine(ScriptedWorld(brokers, Kill()), ScriptedJournal(brokers, Kill()), "me 1")
    with pytest.raises(TooLongError):
        machine.run(SwitchoverOptions(SwitchoverKind.PLANNED, near=100, at_most_s=60))
    found = report(ScriptedJournal(brokers, Kill()).entries)
    assert found["state"] == "aborted"
    assert found["next"] == [
        "producers may write to a; nothing has moved",
        "topics that were created on b for producers stay there, empty: orders",
    ]


def test_a_journal_without_a_switchover() -> None:
    assert markdown(report(read_entries(A_TO_B, []))) == "No switchover is recorded.\n"
    assert read_entries(A_TO_B, [(b"no json", b"{}"), (None, None), (b'["a->b","","run",""]', b"[]")]).run is None


def test_offsets_never_go_back_on_the_target() -> None:
    def offset(there: int | None, present: int | None) -> GroupOffset:
        return GroupOffset("g", P0, 5, P0, there, present=present)

    offsets = (offset(5, None), offset(5, 3), offset(5, 5), offset(5, 9), offset(None, 3))
    for state, results in (
        ("Empty", ["committed", "committed", "there", "ahead", "unknown"]),
        ("Stable", ["in use", "in use", "there", "ahead", "unknown"]),
    ):
        seen = MovedGroups({"g": "Empty"}, {"g": state}, offsets)
        assert [one.result for one in judge(seen)] == results


def test_a_rehearsal_changes_nothing_and_names_each_call() -> None:
    brokers = Brokers(A_TO_B, keeps_names=False)
    brokers.copied = dict(brokers.logs)
    world = ScriptedWorld(brokers, Kill())
    preflight, steps = rehearse(world, SwitchoverOptions(SwitchoverKind.PLANNED))
    assert (brokers.fenced, brokers.created, brokers.committed, brokers.records) == (False, set(), {}, [])
    calls = {one.step: one.calls for one in steps}
    assert calls["topics"] == ("create topic orders on b with 2 partitions",)
    assert calls["groups"][0].startswith("commit for group shop on b: a.orders-0 at ")
    assert (unavailable_s(steps) or 0) > 1
    assert json.loads(json.dumps(rehearsal_json(world, preflight, steps)))["fence"] == "acl"


FLOWS = "clusters = a, b\na.bootstrap.servers = 127.0.0.1:1\nb.bootstrap.servers = 127.0.0.1:1\na->b.enabled = true\n"


@pytest.mark.parametrize("report", ["none/handover", ".", "file/handover", "taken"])
def test_a_report_that_could_not_be_written_is_refused_before_any_cluster_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mm2.properties").write_text(FLOWS, "utf-8")
    Path("file").touch()
    Path("taken.md").mkdir()
    words = ["switchover", "mm2.properties", "--from", "a", "--to", "b", "--report", report]
    found = CliRunner().invoke(app, words)
    assert (found.exit_code, "Invalid value for --report" in found.output) == (2, True), found.output
