"""The report of a switchover, from the journal alone, and its printed form."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from typer.testing import CliRunner

from tests.unit.ops.switchover.scripted import Brokers, Kill, ScriptedJournal, ScriptedWorld
from twinlog.cli.main import app
from twinlog.console.data_format import DataFormat
from twinlog.console.exit_codes import FINE, FOUND
from twinlog.model.types import Alias, TopicName, TopicPartition
from twinlog.ops.switchover.journal import JournalEntries, read_entries
from twinlog.ops.switchover.machine import SwitchoverMachine
from twinlog.ops.switchover.model import (
    CopiedPosition,
    GroupOffset,
    MovedGroups,
    MovedTopic,
    NoteKind,
    PreflightNote,
    SwitchoverDirection,
    SwitchoverKind,
    SwitchoverOptions,
    TooLongError,
)
from twinlog.ops.switchover.rehearsal import rehearsal_json, rehearse, unavailable_s
from twinlog.ops.switchover.report import consumer_pattern, report
from twinlog.ops.switchover.report_text import markdown
from twinlog.ops.switchover.session import print_failed_parts, print_report
from twinlog.ops.switchover.steps.group_step import foresee_groups, judge
from twinlog.ops.switchover.steps.step import SwitchoverClusters
from twinlog.ops.verify.recheck_planner import flows_to_recheck
from twinlog.ops.verify.signing import SigningKey
from twinlog.ops.verify.statement import StatementError, read_statement

A_TO_B = SwitchoverDirection(Alias("a"), Alias("b"))
P0, P1 = (TopicPartition(TopicName("orders"), number) for number in (0, 1))


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
        r"start consumers on b with both, the copies and what is new, by the pattern of each topic: ^(a\.)?orders$",
        "producers stay fenced on a, until a way back, or --release",
    ]
    text = markdown(found)
    assert text.startswith("# Switchover a -> b: done\n")
    assert "| shop | 0 | 0 |" in text
    shop = found["groups"]["shop"]
    for exact, cell in ((True, "75"), (False, "up to 75")):
        groups_75 = {"shop": {**shop, "repeated": 75, "repeated_exact": exact}}
        assert f"| shop | 0 | {cell} |" in markdown({**found, "groups": groups_75})
    released = SwitchoverMachine(ScriptedWorld(brokers, Kill()), ScriptedJournal(brokers, Kill()), "me 1")
    assert report(released.release_fence())["next"][-1] == "keep producers away from a: the fence there is lifted"
    assert "| orders | 0 | 53 | 53 | a.orders | 1053 |" in text or "| orders | 0 |" in text


@pytest.mark.parametrize(
    ("topic", "remote", "pattern"),
    [
        ("clicks", "a.clicks", r"^(a\.)?clicks$"),
        ("pay.eu", "a.pay.eu", r"^(a\.)?pay\.eu$"),
        # A policy of the user's own.
        ("orders", "orders.copy", r"^(orders|orders\.copy)$"),
    ],
)
def test_consumers_read_a_topic_and_its_copy_by_a_pattern(topic: str, remote: str, pattern: str) -> None:
    assert consumer_pattern(MovedTopic(TopicName(topic), TopicName(remote), 1, TopicName(topic))) == pattern
    assert all(re.match(pattern, name) for name in (topic, remote))
    assert not re.match(pattern, topic.replace(".", "-") + "-2")


def signed_report(
    folder: Path, chance: random.Random, kind: SwitchoverKind = SwitchoverKind.PLANNED
) -> tuple[JournalEntries, SigningKey]:
    """The files `handover.*` of a switchover, in a folder."""
    brokers = Brokers(A_TO_B, keeps_names=False, source_lost=kind is SwitchoverKind.EMERGENCY)
    entries = SwitchoverMachine(ScriptedWorld(brokers, Kill()), ScriptedJournal(brokers, Kill()), "me 1").run(
        SwitchoverOptions(kind, near=100)
    )
    key = SigningKey(Ed25519PrivateKey.from_private_bytes(chance.randbytes(32)))
    print_report(entries, folder / "handover", DataFormat.TABLE, key)
    return entries, key


def test_a_statement_has_the_moved_ranges_and_says_that_it_lacks_digests(tmp_path: Path, chance: random.Random) -> None:
    entries, key = signed_report(tmp_path, chance)
    path = tmp_path / "handover.statement.json"
    stated = read_statement(path, key.public)
    assert (stated.kind, stated.result, stated.flows) == ("switchover", "moved", ())
    (flow,) = json.loads(path.read_text())["flows"]
    assert (flow["source"], flow["target"]) == ({"alias": "a", "cluster_id": "A"}, {"alias": "b", "cluster_id": "B"})
    assert "positions only, so the ranges lack digests" in flow["meaning"]
    rows = (entries.done("prove") or {})["rows"]
    assert [(one["source_start"], one["source_end"], one["offsets"], one["digest"]) for one in flow["partitions"]] == [
        (0, row["end"], row["end"], None) for row in rows
    ]
    names = ["handover.statement.json", "handover.statement.json.sig"]
    report_data = json.loads((tmp_path / "handover.json").read_text())
    assert report_data["statement"] == {"files": names, "key": key.public.fingerprint}
    line = f"{' with '.join(names)}, signed by the key {key.public.fingerprint}"
    assert line in (tmp_path / "handover.md").read_text()
    # Its ranges cannot be read again: positions alone have no digests.
    with pytest.raises(StatementError, match="has positions only"):
        flows_to_recheck(stated, [], None)


def test_a_statement_after_the_loss_of_the_source_claims_no_proof(tmp_path: Path, chance: random.Random) -> None:
    _, key = signed_report(tmp_path, chance, SwitchoverKind.EMERGENCY)
    stated = read_statement(tmp_path / "handover.statement.json", key.public)
    assert stated.result == "source lost"


def test_a_report_without_a_key_has_no_statement(tmp_path: Path) -> None:
    brokers = Brokers(A_TO_B, keeps_names=False)
    entries = SwitchoverMachine(ScriptedWorld(brokers, Kill()), ScriptedJournal(brokers, Kill()), "me 1").run(
        SwitchoverOptions(SwitchoverKind.PLANNED, near=100)
    )
    print_report(entries, tmp_path / "handover", DataFormat.TABLE)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["handover.json", "handover.md"]
    assert "statement" not in json.loads((tmp_path / "handover.json").read_text())


def test_a_second_report_has_the_members_of_groups_by_the_last_sync() -> None:
    shop = "groups with members on a: shop; they may read on until they stop"
    notes = (PreflightNote(shop, NoteKind.MEMBERS), "a note")
    brokers = Brokers(A_TO_B, keeps_names=False, notes=notes)
    for state in ("Stable", "Empty"):
        brokers.group_state = state
        found = report(
            SwitchoverMachine(ScriptedWorld(brokers, Kill()), ScriptedJournal(brokers, Kill()), "me 1").run(
                SwitchoverOptions(SwitchoverKind.PLANNED, near=100)
            )
        )
        assert found["notes"] == ["a note"], "the next steps have the groups of the last sync"
        assert ("groups with members on a: shop" in " ".join(found["next"])) == (state == "Stable")
    assert "groups with members" not in markdown(found)
    undone = Brokers(A_TO_B, keeps_names=False, stops_when_fenced=True, notes=notes)
    machine = SwitchoverMachine(ScriptedWorld(undone, Kill()), ScriptedJournal(undone, Kill()), "me 1")
    with pytest.raises(TooLongError):
        machine.run(SwitchoverOptions(SwitchoverKind.PLANNED, near=100, at_most_s=60))
    assert report(ScriptedJournal(undone, Kill()).entries)["notes"] == [shop, "a note"], "no sync of groups followed"


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


def test_a_refused_commit_is_named_and_ends_the_command_with_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    brokers = Brokers(A_TO_B, keeps_names=False)
    copy = TopicPartition(TopicName("a.orders"), 0)
    brokers.refuses = {copy: "User:mirror lacks READ on topic a.orders of b"}

    def run() -> JournalEntries:
        made = SwitchoverMachine(ScriptedWorld(brokers, Kill()), ScriptedJournal(brokers, Kill()), "me 1")
        return made.run(SwitchoverOptions(SwitchoverKind.PLANNED, near=100))

    entries = run()
    found = report(entries)
    line = (
        "b refused the commit of group shop in a.orders-0 at 1030: User:mirror lacks READ on topic a.orders of b; then "
        "run the same command again: it commits these offsets"
    )
    assert found["failed"] == [line]
    assert line in found["next"]
    assert not [one for one in found["next"] if "by hand" in one]
    # Only one of its offsets was refused.
    results = [(one["partition"], one["result"]) for one in found["groups"]["shop"]["offsets"]]
    assert results == [(0, "refused"), (1, "committed")]
    assert "1 refused, 1 committed; User:mirror lacks READ on topic a.orders of b" in markdown(found)
    assert print_failed_parts(entries) == FOUND
    assert capsys.readouterr().err == f"twinlog: TW-SWITCH-20: {line}\n"

    brokers.refuses.clear()
    again = run()
    assert brokers.committed[copy] == 1030
    assert (report(again)["failed"], print_failed_parts(again)) == ([], FINE)

    # Once the fence is released, the same command would be another switchover.
    brokers.committed.clear()
    brokers.refuses[copy] = "b answered: no"
    run()
    released = SwitchoverMachine(ScriptedWorld(brokers, Kill()), ScriptedJournal(brokers, Kill()), "me 1")
    (line,) = report(released.release_fence())["failed"]
    assert line.endswith("b answered: no; then set these offsets on b by hand")


def test_groups_whose_offsets_were_unreadable_are_a_failed_part() -> None:
    brokers = Brokers(A_TO_B)
    world = ScriptedWorld(brokers, Kill())
    read = world.groups
    trouble = "it has committed in a transaction that is still open; run the same command again after its end"

    def groups(*arguments: Any) -> MovedGroups:
        return replace(read(*arguments), troubles={"shop": trouble})

    vars(world)["groups"] = groups
    made = SwitchoverMachine(world, ScriptedJournal(brokers, Kill()), "me 1")
    entries = made.run(SwitchoverOptions(SwitchoverKind.PLANNED, near=100))
    assert report(entries)["failed"] == [f"the offsets of shop on a were unreadable: {trouble}"]


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
    preflight, steps = rehearse(world, SwitchoverOptions(SwitchoverKind.PLANNED), JournalEntries())
    assert (brokers.fenced, brokers.created, brokers.committed, brokers.records) == (False, set(), {}, [])
    calls = {one.step: one.calls for one in steps}
    assert calls["topics"] == ("create topic orders on b with 2 partitions",)
    assert calls["groups"][0].startswith("commit for group shop on b: a.orders-0 at ")
    assert (unavailable_s(steps) or 0) > 1
    place = TopicPartition(TopicName("a.orders"), 0)
    brokers.committed = {place: 1035}
    calls = {
        one.step: one.calls for one in rehearse(world, SwitchoverOptions(SwitchoverKind.PLANNED), JournalEntries())[1]
    }
    assert calls["groups"][0] == (
        "group shop, a.orders-0: ahead; on the target the group continues at 1035, 5 after its position there: it "
        "would skip them, unless it has read them there"
    )
    data = json.loads(json.dumps(rehearsal_json(world, preflight, steps, "no switchover has begun")))
    assert (data["fence"], data["stands"]) == ("acl", "no switchover has begun")


def test_a_group_of_an_empty_topic_is_at_the_end_of_both_logs() -> None:
    asked: list[Any] = []
    world = SimpleNamespace(
        read_copied_positions=lambda: {P0: CopiedPosition(50, 40)},
        source_starts=lambda topics: {P0: 0, P1: 7},
        target_ends=lambda parts: dict.fromkeys(parts, 3),
        read_earlier_journal=JournalEntries,
        groups=lambda *arguments: asked.append(arguments),
    )
    topic = MovedTopic(P0.topic, TopicName("a.orders"), 2, P0.topic)
    foresee_groups(cast("SwitchoverClusters", world), [topic], ("shop",))
    assert asked == [([topic], {P0: 50, P1: 7}, {P0: 40, P1: 3}, {}, ("shop",))]


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


def test_a_dry_run_has_no_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mm2.properties").write_text(FLOWS, "utf-8")
    words = ["switchover", "mm2.properties", "--from", "a", "--to", "b", "--dry-run", "--report", "handover"]
    found = CliRunner().invoke(app, words)
    assert (found.exit_code, "Invalid value for --report" in found.output) == (2, True), found.output


@pytest.mark.parametrize("words", [(), ("--report", "handover", "--dry-run"), ("--report", "handover", "--status")])
def test_a_statement_needs_a_report_and_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mm2.properties").write_text(FLOWS, "utf-8")
    assert CliRunner().invoke(app, ["keygen"]).exit_code == 0
    found = CliRunner().invoke(
        app, ["switchover", "mm2.properties", "--from", "a", "--to", "b", "--sign", "proof.key", *words]
    )
    assert (found.exit_code, "Invalid value for --sign" in found.output) == (2, True), found.output
