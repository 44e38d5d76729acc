"""The state of a flow: a flow that may be dead is never shown as running; and the clocks of its processes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from harness.virtual.clock import VirtualClock
from tests.unit.worker.test_driver_report import FULL
from twinlog.clock import wall_ms
from twinlog.mirror.offsets.positions import Position
from twinlog.model.groups import GroupMember, GroupMembers
from twinlog.model.types import SourceOffset, TopicName, TopicPartition
from twinlog.ops.status.flow import lag_by_positions, others_of, processes_of
from twinlog.ops.status.readers import ConnectorSnapshot, ReportedState
from twinlog.ops.status.state import (
    LOOKS_ON_S,
    STALE_S,
    Clocks,
    FlowCondition,
    FlowStatusFacts,
    ProcessSnapshot,
    state_of,
)
from twinlog.worker.election.member import Leadership, LeaderTerm, Member, MemberInfo
from twinlog.worker.status.report import EVERY_S, DriverReport

NOW = 1_000_000
REPORT = replace(FULL, at_ms=NOW - 1000, process="host-1", detail=None)
LEADS, STANDS_BY = ProcessSnapshot("host-1", leads=True, ready=True), ProcessSnapshot("host-2", ready=True)
RUNS = FlowStatusFacts(NOW, REPORT, NOW - 500, 1.0, True, (LEADS, STANDS_BY), 5.0)
OLD = replace(REPORT, at_ms=NOW - int(1000 * STALE_S) - 1000)


def of(**changes: Any) -> tuple[FlowCondition, str, str | None]:
    state = state_of(replace(RUNS, **changes))
    return state.condition, state.word, state.detail


def test_a_flow_whose_leader_reports_is_what_it_reports() -> None:
    assert of() == (FlowCondition.RUNNING, "running", None)
    assert of(report=replace(REPORT, state="idle", detail="no topic")) == (FlowCondition.RUNNING, "idle", "no topic")
    starting = replace(REPORT, state="starting")
    assert of(report=starting) == (FlowCondition.NOT_YET, "starting", "no Spark task copies for it yet")
    assert of(report=replace(starting, detail="its topics do not answer"))[2] == "its topics do not answer"
    waiting = replace(REPORT, state="waiting", detail="source cluster unreachable")
    assert of(report=waiting) == (FlowCondition.NOT_YET, "waiting", "source cluster unreachable")


@pytest.mark.parametrize(
    ("changes", "condition", "word", "text"),
    [
        ({"target_trouble": "no broker"}, "UNKNOWN", "unknown", "TW-WAIT-01: the target is silent: no broker"),
        ({"report": OLD}, "NOT_YET", "silent", "host-1 runs the flow, but its last report is 11 s old"),
        ({"report": None}, "NOT_YET", "silent", "host-1 runs the flow, but it is yet to report"),
        ({"processes": ()}, "DOWN", "no leader", "host-1 reported 1 s ago and has left the group"),
        ({"report": OLD, "processes": ()}, "DOWN", "dead", "last report is 11 s old, when host-1 had it running"),
        ({"report": None, "processes": ()}, "DOWN", "not running", "no process runs it, it is yet to report"),
        ({"report": None, "processes": (STANDS_BY,)}, "NOT_YET", "starting", "no process leads yet"),
        (
            {"processes": (replace(STANDS_BY, leads=True),)},
            *("NOT_YET", "starting", "host-2 took over from host-1 and its report is due"),
        ),
        (
            {"report": OLD, "processes": (replace(STANDS_BY, leads=True),)},
            *("NOT_YET", "silent", "host-2 runs the flow, but its last report is 11 s old, of host-1"),
        ),
        (
            {"report": replace(OLD, state="failed", detail="gap"), "processes": ()},
            *("DOWN", "failed", "gap"),
        ),
        (
            {"report": replace(REPORT, state="stopped"), "processes": (replace(STANDS_BY, leads=True),)},
            *("NOT_YET", "starting", "host-2 took over"),
        ),
        ({"others": "MirrorMaker 2 runs it"}, "RUNNING", "run by others", "MirrorMaker 2 runs it"),
        (
            {"others": "MirrorMaker 2 runs it", "heartbeat_ms": NOW - 300_000},
            *("NOT_YET", "run by others", "MirrorMaker 2 runs it, but the last heartbeat is 5 min old"),
        ),
    ],
)
def test_what_may_be_dead_is_not_called_running(changes: dict[str, Any], condition: str, word: str, text: str) -> None:
    found = of(**changes)
    assert found[:2] == (FlowCondition[condition], word)
    assert text in (found[2] or "")


def test_a_connector_has_no_election_of_its_own() -> None:
    assert of(elected=False, processes=()) == (FlowCondition.RUNNING, "running", None)
    assert of(elected=False, processes=(), report=OLD)[:2] == (FlowCondition.DOWN, "dead")
    assert of(elected=False, processes=(), report=None)[:2] == (FlowCondition.RUNNING, "alive")
    assert of(elected=False, processes=(), report=None, heartbeat_ms=None)[:2] == (FlowCondition.DOWN, "not running")


def member(number: int, leadership: Leadership | None, **fields: Any) -> GroupMember:
    data = Member(f"host-{number}", **fields).encode()
    return GroupMember(f"id-{number}", "twinlog", "10.0.0.1", data, b"" if leadership is None else leadership.encode())


def test_members_of_the_group_are_processes_the_leader_first() -> None:
    term = LeaderTerm(3, "id-2", 70.0)
    leadership = Leadership(
        Member("host-2"), term, {"id-1": MemberInfo("host-1", True), "id-2": MemberInfo("host-2", True)}
    )
    members = (member(1, leadership, ready=True), member(2, leadership), member(3, leadership))
    found = processes_of(GroupMembers("twinlog", "Stable", members))
    assert found == (
        (ProcessSnapshot("host-2", leads=True), ProcessSnapshot("host-1", ready=True), ProcessSnapshot("host-3")),
        70.0,
    )
    joining = GroupMembers("twinlog", "PreparingRebalance", (member(1, None, ready=True),))
    assert processes_of(joining) == ((ProcessSnapshot("host-1", ready=True),), None)
    assert processes_of(GroupMembers("", "Dead", ())) == ((), None)


def test_members_of_another_kind_are_named() -> None:
    worker = GroupMember("id", "east->west", "10.0.0.7", b"", b"")
    assert others_of(GroupMembers("connect", "Stable", (worker,)), "east-mm2") == (
        "MirrorMaker 2 runs it in group east-mm2: east->west at 10.0.0.7"
    )
    workers = tuple(GroupMember("id", "east->west", f"10.0.0.{number}", b"", b"") for number in range(5))
    assert (others_of(GroupMembers("connect", "Stable", workers), "east-mm2") or "").endswith(
        "east->west at 10.0.0.0, east->west at 10.0.0.1, east->west at 10.0.0.2 and 2 more"
    )
    assert others_of(GroupMembers("twinlog", "Stable", (worker,)), "east-mm2") is None
    assert others_of(GroupMembers("connect", "Empty", ()), "east-mm2") is None


def test_the_lag_by_positions_counts_what_was_never_copied_and_what_is_not_known() -> None:
    parts = [TopicPartition("orders", number) for number in range(4)]
    positions = {parts[0]: Position(7), parts[1]: Position(9)}
    lag, unknown, topics = lag_by_positions(parts, positions, {parts[2]: 3}, {parts[0]: 10, parts[1]: 9, parts[2]: 8})
    assert (lag, unknown) == (8, 1)
    assert [(one.topic, one.partitions, one.lag, one.unknown) for one in topics] == [("orders", 4, 8, 1)]
    assert lag_by_positions(parts, {}, {}, {})[0] is None
    assert lag_by_positions([], {}, {}, {}) == (0, 0, ())


def test_a_report_is_one_json_object_for_other_programs() -> None:
    from twinlog.worker.status.report import encode_report

    found = json.loads(encode_report(FULL, 10_000))
    assert (found["kind"], found["state"], found["topics"][0]["topic"]) == ("driver", "running", "orders")


def reported(state: str, at_ms: int = NOW - 5000, trace: str | None = None) -> ReportedState:
    return ReportedState(state, "host:8083", at_ms, trace)


RUN = ConnectorSnapshot("w", "c", 1, reported("RUNNING"), (reported("RUNNING"), reported("RUNNING")))
BROKEN = replace(RUN, tasks=(reported("RUNNING"), reported("FAILED", trace="java.lang.Oops: no\n\tat x")))


@pytest.mark.parametrize(
    ("seen", "report", "condition", "word", "text"),
    [
        (RUN, None, "RUNNING", "run by others", "worker host:8083 of group w runs it silently"),
        (RUN, REPORT, "RUNNING", "running", ""),
        (replace(RUN, reported=reported("PAUSED")), REPORT, "RUNNING", "running", ""),
        (RUN, OLD, "RUNNING", "run by others", "host:8083"),
        (
            replace(RUN, reported=reported("RUNNING", 1), tasks=()),
            OLD,
            "NOT_YET",
            "silent",
            "its last report is 11 s old",
        ),
        (RUN, replace(OLD, state="stopped"), "RUNNING", "run by others", "host:8083"),
        (replace(RUN, members=0), None, "DOWN", "not running", "group w is empty"),
        (replace(RUN, members=0), OLD, "DOWN", "dead", "group w is empty"),
        (replace(RUN, members=0), replace(OLD, state="stopped"), "DOWN", "stopped", "group w is empty"),
        (replace(RUN, members=None), None, "RUNNING", "run by others", "host:8083"),
        (
            replace(RUN, reported=None, tasks=()),
            None,
            "DOWN",
            "not running",
            "the workers of group w lack a connector c",
        ),
        (BROKEN, None, "DOWN", "failed", "1 of 2 tasks: java.lang.Oops: no"),
        (replace(RUN, reported=reported("FAILED", trace="gap")), OLD, "DOWN", "failed", "gap"),
        (replace(RUN, reported=reported("PAUSED"), tasks=()), None, "NOT_YET", "paused", "was paused by a request"),
        (replace(RUN, reported=reported("STOPPED"), tasks=()), None, "DOWN", "stopped", "was stopped by a request"),
        (replace(RUN, reported=reported("UNASSIGNED"), tasks=()), None, "NOT_YET", "starting", "unassigned"),
    ],
)
def test_a_connector_that_does_not_report_is_what_its_workers_say(
    seen: ConnectorSnapshot, report: Any, condition: str, word: str, text: str
) -> None:
    found = of(elected=False, processes=(), report=report, connector=seen)
    assert found[:2] == (FlowCondition[condition], word)
    assert text in (found[2] or "")


def test_a_heartbeat_connector_is_alive_while_its_worker_and_its_heartbeats_are() -> None:
    beats = {"elected": False, "processes": (), "report": None, "connector": RUN, "heartbeat_writer": True}
    assert of(**beats)[:2] == (FlowCondition.RUNNING, "alive")
    assert of(**{**beats, "heartbeat_ms": None})[:2] == (FlowCondition.NOT_YET, "silent")
    assert of(**{**beats, "connector": replace(RUN, members=0)})[:2] == (FlowCondition.DOWN, "not running")


def test_what_mirror_maker_2_failed_at_counts_more_than_its_heartbeats() -> None:
    others = {"others": "MirrorMaker 2 runs it", "connector": BROKEN}
    assert of(**others) == (FlowCondition.DOWN, "failed", "MirrorMaker 2 runs it; 1 of 2 tasks: java.lang.Oops: no")
    assert of(**{**others, "connector": RUN})[:2] == (FlowCondition.RUNNING, "run by others")
    silent: dict[str, Any] = {"others": "MirrorMaker 2 runs it", "heartbeat_ms": None, "heartbeat_every_s": None}
    assert of(**silent)[0] is FlowCondition.NOT_YET
    assert of(**silent, connector=RUN) == (
        FlowCondition.RUNNING,
        "run by others",
        "MirrorMaker 2 runs it, c is running",
    )


def test_another_program_has_copied_what_its_offset_syncs_show() -> None:
    parts = [TopicPartition(TopicName("t"), number) for number in range(3)]
    ends, starts = dict.fromkeys(parts, 100), dict.fromkeys(parts, 0)
    stored = {parts[0]: Position(SourceOffset(90)), parts[1]: Position(SourceOffset(20))}
    lag, unknown, _ = lag_by_positions(parts, stored, starts, ends, None, {parts[1]: 95, parts[2]: 100})
    assert (lag, unknown) == (10 + 5 + 0, 0)
    lag, _, _ = lag_by_positions(parts, stored, starts, ends, None, {parts[0]: 50})
    assert lag == 10 + 80 + 100, "a sync that is older than the position does not count"


def test_what_twinlog_reported_a_moment_ago_is_not_of_now_once_others_have_the_flow() -> None:
    assert RUNS.fresh
    assert not replace(RUNS, others="MirrorMaker 2 runs it").fresh


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
