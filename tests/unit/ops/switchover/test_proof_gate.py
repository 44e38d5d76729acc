"""The proof of equality as the gate of a switchover: it waits for the proof up to the cut, reports it, and signs it."""

from __future__ import annotations

import json
import random
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.unit.ops.switchover.machines import A_TO_B, BOTH_NAMINGS, PLANNED, killed_everywhere, machine
from tests.unit.ops.switchover.scripted import P0, P1, Brokers, Kill, ScriptedJournal, ScriptedWorld
from tests.unit.ops.switchover.test_preflight import GOOD, problems
from tests.unit.ops.switchover.test_preflight import P0 as ORDERS_0
from tests.unit.ops.switchover.test_stopped_partitions import AT_SEVEN, held
from tests.unit.worker.topics.test_topic_conflicts import flow
from twinlog.console.data_format import DataFormat
from twinlog.errors import OptionError
from twinlog.model.types import SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.ops.proven_ranges import PartitionProven, ProvenRange
from twinlog.ops.switchover.journal import JournalEntries
from twinlog.ops.switchover.machine import SwitchoverMachine
from twinlog.ops.switchover.model import CopiedPosition, MovedTopic, SwitchoverKind, SwitchoverOptions, TooLongError
from twinlog.ops.switchover.preflight import judge_preflight
from twinlog.ops.switchover.preflight_facts import PreflightFacts
from twinlog.ops.switchover.rehearsal import rehearsal_json, rehearse, unavailable_s
from twinlog.ops.switchover.report import BY_PROOF, POSITIONS, proved_flows, report
from twinlog.ops.switchover.report_text import markdown
from twinlog.ops.switchover.session import print_report
from twinlog.ops.switchover.steps.waiting import PROOF_NEAR_S
from twinlog.ops.verify.recheck_planner import flows_to_recheck
from twinlog.ops.verify.signing import SigningKey
from twinlog.ops.verify.statement import read_statement

ORDERS = TopicName("orders")


def proven(source: int, copied: int = 10, lag_ms: int = 0, **others: object) -> PartitionProven:
    return PartitionProven(SourceOffset(copied), SourceOffset(source), TargetOffset(source), lag_ms, **others)  # type: ignore[arg-type]


@BOTH_NAMINGS
def test_killed_anywhere_it_ends_with_a_proof_up_to_the_cut(keeps_names: bool) -> None:
    for brokers in killed_everywhere(
        lambda: Brokers(A_TO_B, keeps_names, proves=True, late_writes=2),
        lambda brokers, kill: machine(brokers, kill).run(PLANNED),
    ):
        entries = ScriptedJournal(brokers, Kill()).entries
        cut = (entries.done("settle") or {})["cut"]["orders"]
        rows = (entries.done("prove") or {})["rows"]
        assert [(row["proof"]["source_offset"], row["proof"]["lag_s"]) for row in rows] == [
            (cut[str(where.partition)], 0.0) for where in (P0, P1)
        ]


def test_without_its_proof_all_is_undone_after_the_timeout() -> None:
    told: list[str] = []
    brokers = Brokers(A_TO_B, proves=True, prover_stands=True)
    with pytest.raises(TooLongError, match="step drain was not done within 60 s"):
        machine(brokers, told=told).run(replace(PLANNED, at_most_s=60))
    assert not brokers.fenced
    waits = [line for line in told if "to prove equal" in line]
    assert waits[0].startswith("drain: 1 partition to prove equal: orders-0 is proven up to ")
    assert waits[-1].startswith("drain: TW-SWITCH-19: 1 partition to prove equal: orders-0 is proven up to ")


def test_a_flow_that_proves_no_more_is_waited_for() -> None:
    told: list[str] = []
    brokers = Brokers(A_TO_B, proves=True)

    class Restarted(ScriptedWorld):
        """The flow is started again without its proof, once producers are fenced."""

        def source_starts(self, topics: Collection[MovedTopic]) -> dict[TopicPartition, int]:
            brokers.proves = brokers.proves and not brokers.fenced
            return super().source_starts(topics)

    with pytest.raises(TooLongError):
        SwitchoverMachine(
            Restarted(brokers, Kill()),
            ScriptedJournal(brokers, Kill()),
            "host 1",
            lambda step, words: told.append(f"{step}: {words}"),
        ).run(replace(PLANNED, at_most_s=60))
    assert any("orders-0 lacks a proof; the flow must run with its proof" in line for line in told)


def test_producers_are_fenced_only_once_the_proof_is_near() -> None:
    told: list[str] = []
    brokers = Brokers(A_TO_B, proves=True)
    until_ms = brokers.slow_proof_until_ms = brokers.now_ms + 60_000
    machine(brokers, told=told).run(PLANNED)
    assert any(
        line.startswith("catch-up: TW-SWITCH-19: ") and line.endswith("the proof of equality is 30 s behind")
        for line in told
    )
    assert brokers.fenced_ms >= until_ms


def test_producers_are_fenced_only_while_each_partition_has_its_proof() -> None:
    told: list[str] = []
    brokers = Brokers(A_TO_B, proves=True)

    class HeldForAWhile(ScriptedWorld):
        """A partition is held for a difference, which an operator accepts after a minute."""

        def read_proven(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, PartitionProven]:
            found = super().read_proven(partitions)
            if brokers.now_ms < 1_060_000:
                found.pop(P1, None)
            return found

    SwitchoverMachine(
        HeldForAWhile(brokers, Kill()),
        ScriptedJournal(brokers, Kill()),
        "host 1",
        lambda step, words: told.append(f"{step}: {words}"),
    ).run(PLANNED)
    waits = [line for line in told if "lacks a proof" in line]
    assert waits
    assert all(line.startswith("catch-up: TW-SWITCH-19: ") for line in waits)
    assert "orders-1 lacks a proof" in waits[0]
    assert brokers.fenced_ms >= 1_060_000


def test_markers_after_the_last_record_leave_it_proven() -> None:
    # The position is after the last marker, which no copy has.
    assert proven(8, copied=10).reaches(10)
    assert not proven(8, copied=10, lag_ms=1).reaches(10)
    assert proven(10, copied=11, lag_ms=1).reaches(10)
    # The copier has yet to report the last records.
    assert not proven(8, copied=9).reaches(10)
    assert not proven(10, lag_ms=-1).reaches(10)


def facts(proof: PartitionProven | None = None, **others: object) -> PreflightFacts:
    return replace(GOOD, proofs={} if proof is None else {ORDERS_0: proof}, **others)  # type: ignore[arg-type]


def test_the_preflight_names_the_state_of_the_proof() -> None:
    good = judge_preflight(facts(proven(7)), None)
    assert (good.proven, good.proof_lag_s) == ((ORDERS,), 0.0)
    assert good.notes == judge_preflight(GOOD, None).notes
    behind = judge_preflight(facts(proven(5, lag_ms=int(PROOF_NEAR_S * 1000) + 1000)), None)
    assert str(behind.notes[-1]) == "the proof of equality is 11 s behind; producers are fenced once it is near"
    reported = proven(7, differences=2, difference="foreign at source offset 3, target offset 4")
    assert str(judge_preflight(facts(reported), None).notes[-1]) == (
        "orders-0 has 2 differences, reported as its policy says; the last is foreign at source offset 3, target "
        "offset 4"
    )
    unproven = judge_preflight(facts(asks_proof=(ORDERS,)), None)
    assert unproven.proven == ()
    assert unproven.notes[-1].text.startswith("orders: twinlog.proof is true, and no process proves the copies")


def test_a_difference_prevents_it_even_if_everything_is_copied() -> None:
    differs = replace(
        AT_SEVEN,
        reason="difference",
        message_id="TW-PROOF-01",
        text="orders-0: east.orders-0 differs: at offset 4 it has another record, for source offset 4",
        way_out="accept it",
        source_offset=SourceOffset(10),
        resume_at=SourceOffset(-1),
    )
    copied = replace(facts(proven(4)), copied={ORDERS_0: CopiedPosition(10, 10)}, stopped=held(differs))
    (problem,) = problems(copied)
    assert problem.startswith("TW-PROOF-01: orders-0 is held at source offset 10: ")
    assert "at offset 4 it has another record, for source offset 4" in problem


def test_a_rehearsal_counts_the_wait_for_the_proof() -> None:
    def rehearsed(*, proves: bool) -> tuple[float | None, list[str], dict[str, object]]:
        world = ScriptedWorld(Brokers(A_TO_B, proves=proves, copied={P0: 40, P1: 20}), Kill())
        preflight, steps = rehearse(world, PLANNED, JournalEntries())
        (drain,) = [one for one in steps if one.step == "drain"]
        return unavailable_s(steps), list(drain.calls), rehearsal_json(world, preflight, steps, "")

    seconds, calls, data = rehearsed(proves=True)
    without, no_calls, other = rehearsed(proves=False)
    assert calls == ["wait for the proof of equality of 1 topic, 0.0 s behind now"]
    assert no_calls == []
    assert seconds is not None
    assert without is not None
    assert seconds > without
    assert (data["proven"], data["proof_lag_s"]) == (["orders"], 0.0)
    assert (other["proven"], other["proof_lag_s"]) == ([], None)


def moved(kind: SwitchoverKind = SwitchoverKind.PLANNED, *, proves: bool = True) -> JournalEntries:
    lost = kind is SwitchoverKind.EMERGENCY
    brokers = Brokers(A_TO_B, keeps_names=False, proves=proves, source_lost=lost)
    return machine(brokers).run(SwitchoverOptions(kind, near=100))


def test_the_report_has_the_proof_of_each_partition() -> None:
    found = json.loads(json.dumps(report(moved())))
    sums = found["proof"]
    assert (sums["partitions"], sums["differences"], sums["unproved"]) == (2, 0, 0)
    assert sums["records"] == sum(row["end"] for row in found["partitions"])
    text = markdown(found)
    assert f"Proven equal in 2 partitions: {sums['records']:,} records, " in text
    assert "| proven up to | differences |" in text
    assert report(moved(proves=False))["proof"] is None
    assert "proven up to" not in markdown(report(moved(proves=False)))


def test_a_reported_difference_is_the_next_thing_to_look_at() -> None:
    entries = moved()
    row = (entries.done("prove") or {})["rows"][0]["proof"]
    row["differences"], row["difference"] = 1, "foreign at source offset 3, target offset 4"
    lines = report(entries)["next"]
    assert any(
        line.startswith("look at a.orders-0 on b: the proof of equality reported differences there") for line in lines
    )


@pytest.mark.parametrize("kind", [SwitchoverKind.PLANNED, SwitchoverKind.EMERGENCY])
def test_the_statement_has_the_proven_ranges_for_a_later_check(
    kind: SwitchoverKind, tmp_path: Path, chance: random.Random
) -> None:
    entries = moved(kind)
    key = SigningKey(Ed25519PrivateKey.from_private_bytes(chance.randbytes(32)))
    print_report(entries, tmp_path / "handover", DataFormat.TABLE, key)
    stated = read_statement(tmp_path / "handover.statement.json", key.public)
    (of_flow,) = stated.flows
    ranges = [one for part in of_flow.partitions for one in part.proven]
    rows = (entries.done("prove") or {})["rows"]
    assert ranges == [ProvenRange(**one) for row in rows for one in row["proof"]["ranges"]]
    assert all(one.records == one.source_end for one in ranges)
    (told,) = proved_flows(entries)
    assert told["meaning"] == BY_PROOF
    settings = flow("a", "b", "default")
    assert flows_to_recheck(stated, [settings], None) == [(settings, of_flow)]
    with pytest.raises(OptionError, match="has no flow a->b of the statement"):
        flows_to_recheck(stated, [], None)
    assert proved_flows(moved(kind, proves=False))[0]["meaning"] == POSITIONS
