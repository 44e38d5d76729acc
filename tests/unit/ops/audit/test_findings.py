"""Facts of clusters and files become findings with counts and a way out, and the report puts them in order."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.unit.mirror.groups.test_safe_move import STANDS
from tests.unit.ops.groups.test_groups import group, seen
from tests.unit.ops.status.test_state import REPORT, RUNS
from tests.unit.worker.test_driver_report import SETTINGS
from twinlog.cli.main import app
from twinlog.clock import SYSTEM
from twinlog.errors import RefusedError
from twinlog.errors.mistakes import ConfigWarning, MistakeKind
from twinlog.mirror.groups.move_facts import GroupMove, MoveFacts
from twinlog.mirror.offsets.sync_history import PartitionSyncs, SyncHistory
from twinlog.mirror.topology.filters import DefaultTopicFilter
from twinlog.model.held import HeldPartition
from twinlog.model.types import SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.ops.audit.auditor import AuditDeadline, AuditTimeoutError
from twinlog.ops.audit.clusters import (
    changes_found,
    changes_scope,
    keys_found,
    release_found,
    settings_found,
    state_found,
)
from twinlog.ops.audit.groups import group_findings
from twinlog.ops.audit.near_misses import near_miss
from twinlog.ops.audit.records import gap_findings, record_findings
from twinlog.ops.audit.rendering import report_html, report_lines
from twinlog.ops.audit.report import AuditPart, AuditReport, Finding, FlowAudit, PartResult, Severity
from twinlog.ops.diff.differences import ClusterDifference
from twinlog.ops.inventory import LogOffsets
from twinlog.ops.plan.flow_plan import FlowPlan, Problem
from twinlog.ops.status.flow import by_report
from twinlog.ops.verify.model import PartitionToVerify, RecordDifference, Verdict
from twinlog.worker.status.report import TopicProgress

PART = TopicPartition(TopicName("orders"), 0)


def history(part: TopicPartition, *syncs: tuple[int, int]) -> SyncHistory:
    known = PartitionSyncs()
    for source, target in syncs:
        known.add(source, target)
    return SyncHistory({part: known.written(10_000)})


# Groups.


def groups_of(name: str, *facts: MoveFacts) -> list[Finding]:
    return group_findings("a->b", "b", seen(group(name, *facts)))


def groups(*facts: MoveFacts, left_out: tuple[str, ...] = ()) -> list[Finding]:
    return group_findings("a->b", "b", seen(group("shop", *facts), left_out=left_out))


def test_a_group_in_step_is_no_finding() -> None:
    assert groups(STANDS) == []
    assert groups(replace(STANDS, active_on_target=True)) == [], "it has moved"


def test_a_group_ahead_on_the_target_skips_records() -> None:
    (found,) = groups(replace(STANDS, target_committed=100))
    assert (found.kind, found.severity, found.count) == ("group-skips", Severity.CRITICAL, 30)
    assert found.text == "group shop would skip up to 30 records on b", "it may have read them there"
    assert found.lines == (
        "orders-3: committed 100 on the source, continues at 100 on the target, should be 70, up to 30 skipped",
    )
    assert "reset-offsets" in found.way_out
    assert found.way_out.startswith("if the group has yet to read these records on b, stop its consumers there")
    assert groups(replace(STANDS, target_committed=100, move=GroupMove(100, 70))) == [], "a switchover moved it"


def test_a_group_that_went_back_to_the_source_skips_nothing_that_it_read_on_the_target() -> None:
    """A switchover moved it from 100 on the target back to 95 on the source, by an offset sync."""
    back = replace(STANDS, target_committed=100, returned=GroupMove(95, 100))
    assert groups(back) == []
    (found,) = groups(replace(back, target_committed=107))
    assert (found.kind, found.count) == ("group-skips", 7)
    inexact = replace(back, exact=False, translated=61, past_copies=80, checkpoint_target=50)
    assert groups(inexact) == []
    (found,) = groups(replace(inexact, target_committed=107))
    assert (found.text, found.count) == ("group shop would skip up to 7 records on b", 7)
    (reset,) = groups(replace(back, committed=94))
    assert (reset.kind, reset.count) == ("group-skips", 30), "it was set back on the source since"


def test_a_group_behind_on_the_target_repeats_records() -> None:
    (found,) = groups(replace(STANDS, target_committed=60))
    assert (found.kind, found.severity, found.count) == ("group-repeats", Severity.NOTE, 10)


@pytest.mark.parametrize(
    ("changes", "by_twinlog", "way"),
    [
        ({"target_committed": 60}, False, "the consumers must accept repeats: MirrorMaker 2 translates"),
        ({"target_committed": 60}, True, "wait until the group may move: `twinlog groups FILE --group shop --wait`"),
        ({"exact": False}, True, "let the group read on to the records that twinlog copied, or accept repeats"),
        ({"target_committed": 60, "syncs": False}, True, "set sync.group.offsets.enabled = true"),
    ],
)
def test_the_way_out_of_repeats_is_that_of_the_program_that_runs_the_flow(
    changes: dict[str, Any], by_twinlog: bool, way: str
) -> None:
    (found,) = group_findings("a->b", "b", seen(group("shop", replace(STANDS, **changes))), by_twinlog=by_twinlog)
    assert found.way_out.startswith(way)


@pytest.mark.parametrize(
    ("changes", "way"),
    [
        ({}, "raise retention.ms on b"),
        ({"from_target": True, "left_to_switchover": True}, "raise retention.ms on b"),
        ({"from_target": True, "left_to_switchover": True, "translated": 90}, "move the group by `twinlog switchover`"),
    ],
)
def test_a_switchover_is_the_way_out_of_a_deleted_position_that_it_moves_past_the_deleted_records(
    changes: dict[str, Any], way: str
) -> None:
    (found,) = groups(replace(STANDS, target_start=85, **changes))
    assert (found.kind, found.way_out.startswith(way)) == ("group-unclear", True), found.way_out


def test_a_group_between_two_offset_syncs_has_the_range_of_its_place() -> None:
    inexact = replace(STANDS, exact=False, translated=61, past_copies=80, target_committed=50, checkpoint_target=50)
    (found,) = groups(inexact)
    assert (found.kind, found.count) == ("group-repeats", 30)
    assert found.text == "group shop would repeat up to 30 records on b"
    (ahead,) = groups(replace(inexact, target_committed=95))
    assert (ahead.kind, ahead.count) == ("group-skips", 34)
    assert ahead.text == "group shop would skip up to 34 records on b"
    assert ahead.lines == (
        "orders-3: committed 100 on the source, continues at 95 on the target, should be at least 61, up to 34 skipped",
    )
    at_end = replace(inexact, committed=140, checkpoint_source=140)
    (found,) = groups(at_end)
    assert found.text == "group shop would repeat 60 records on b", "both ends are the same place"
    assert found.lines[0].endswith("continues at 50 on the target, should be 110, 60 repeated")


def test_a_group_before_the_first_record_of_the_target_is_unclear_also_if_it_would_repeat_records() -> None:
    (found,) = groups(replace(STANDS, target_start=TargetOffset(65), target_committed=TargetOffset(60)))
    assert found.kind == "group-unclear"
    (line,) = found.lines
    assert "continues at 60, and the log begins at 65: 5 records before are deleted there" in line


def test_a_group_without_offsets_on_the_target_is_unclear() -> None:
    (found,) = groups(replace(STANDS, target_committed=None, checkpoint_source=None, checkpoint_target=None))
    assert (found.kind, found.severity) == ("group-unclear", Severity.CRITICAL)
    assert found.way_out.startswith("wait for the next checkpoint")
    lacking = replace(STANDS, target_committed=None, checkpoint_source=None, checkpoint_target=None, syncs=False)
    (found,) = groups(lacking)
    assert found.way_out.startswith("set sync.group.offsets.enabled = true")


def test_groups_outside_the_filter_are_named() -> None:
    (found,) = groups(STANDS, left_out=("audit", "bi"))
    assert (found.kind, found.count) == ("group-outside", 2)
    assert found.text == "2 groups with offsets in mirrored topics are outside the filter of groups: audit, bi"


# State and lag.


def test_partitions_without_a_right_have_the_right_as_the_way_out_and_no_silent_broker() -> None:
    lacks = RefusedError("cluster a: User:mirror lacks READ on topic orders", resource="topic orders")
    held = [
        HeldPartition.by(
            lacks,
            TopicPartition(TopicName("orders"), number),
            1,
            source_offset=SourceOffset(7),
            target_offset=TargetOffset(7),
        )
        for number in range(2)
    ]
    topic = TopicProgress("orders", partitions=3, unknown=3, held=2)
    report = replace(
        REPORT,
        topics=(topic,),
        held=2,
        held_by_reason=(("missing right", 2),),
        held_partitions=tuple(held),
    )
    missing, unknown = state_found(by_report(SETTINGS, replace(RUNS, report=report)))
    assert (missing.id, missing.kind, missing.count) == ("TW-RIGHT-01", "held", 2)
    assert missing.text == f"2 partitions are held (missing right): {lacks}"
    assert "twinlog acls FILE --missing" in missing.way_out
    assert (unknown.id, unknown.count, unknown.lines) == ("TW-ALERT-06", 1, ("orders: 1 partition",))
    (alone,) = state_found(by_report(SETTINGS, replace(RUNS, report=replace(report, topics=(replace(topic, held=3),)))))
    assert alone.kind == "held", "each partition of unknown lag is held"


# Records and gaps.


def verdict(what: str, count: int, at: int = 7) -> Verdict:
    row = Verdict("a->b", "orders", "a.orders", 0, records=100, differences=count, equal=not count)
    row.first = RecordDifference(what, at, at) if count else None
    return row


def test_records_are_counted_by_topic_and_kind() -> None:
    rows = [
        verdict("missing", 2),
        verdict("missing", 1, 90),
        verdict("doubled", 4),
        verdict("value", 1),
        verdict("", 0),
    ]
    found, problems = record_findings(SETTINGS, rows)
    assert [(one.kind, one.count, len(one.lines)) for one in found] == [
        ("missing-records", 3, 2),
        ("doubled-records", 4, 1),
        ("changed-records", 1, 1),
    ]
    assert found[0].text == f"3 records of orders are missing in a.orders on {SETTINGS.target}"
    assert found[0].lines[0] == "orders-0: 2 missing, the first at source offset 7, target offset 7"
    assert not problems
    rows[0].problem = "broker 1 is silent"
    rows[0].first = None
    assert record_findings(SETTINGS, rows)[1] == ["broker 1 is silent"]


@pytest.mark.parametrize(
    ("syncs", "start", "compacted", "kinds"),
    [
        (((99, 99), (130, 100)), 130, False, [("gap", 30)]),
        (((99, 99), (130, 100)), 110, False, [("gap", 10)]),
        (((99, 99), (130, 100)), 0, False, []),
        (((99, 99), (130, 100)), 130, True, [("unclear-gap", 30)]),
        (((99, 99), (101, 100)), 500, False, [("unclear-gap", 1)]),
        (((99, 99), (130, 130)), 500, False, []),
    ],
    ids=["deleted", "deleted partly", "still there: compared", "compacted", "a marker", "in step"],
)
def test_gaps_are_proven_only_where_the_source_has_deleted_the_records(
    syncs: tuple[tuple[int, int], ...], start: int, compacted: bool, kinds: list[tuple[str, int]]
) -> None:
    part = PartitionToVerify("a->b", PART, PART, source_compacted=compacted)
    found = gap_findings(SETTINGS, [part], history(PART, *syncs), {PART: LogOffsets(start, 1_000)})
    assert [(one.kind, one.count) for one in found] == kinds
    # The copier of that time is unknown: MirrorMaker 2, or twinlog by a command that its journal has forgotten.
    lost = "deleted on a before the copy, and MirrorMaker 2, or a command of an operator, passed over the gap"
    assert all(lost in one.text for one in found if one.kind == "gap"), found


@pytest.mark.parametrize(("mapped_from", "count"), [(131, 30), (130, 30), (129, 0)])
def test_offset_syncs_prove_gaps_before_the_exact_map_of_a_partition(mapped_from: int, count: int) -> None:
    part = PartitionToVerify("a->b", PART, PART)
    known, logs = history(PART, (99, 99), (130, 100)), {PART: LogOffsets(500, 1_000)}
    found = gap_findings(SETTINGS, [part], known, logs, {PART: mapped_from})
    assert sum(one.count for one in found) == count


# Topics, settings, keys.


@pytest.mark.parametrize(
    ("topic", "words"),
    [
        ("orders-v2", "the same beginning orders, topics has orders."),
        ("orders", "the same beginning orders, topics has"),
        ("Orders.new", "only upper and lower case differ"),
        ("payments-dlq", "the same beginning payments"),
        ("payment", "similar to payments"),
        ("orders.v1", None),
        ("clicks", None),
        ("orders-secret", None),
    ],
)
def test_names_that_look_as_if_they_should_be_mirrored(topic: str, words: str | None) -> None:
    filter_ = DefaultTopicFilter((r"orders\..*", "payments"), ("orders-secret",))
    found = near_miss(filter_, TopicName(topic))
    assert (found is None) == (words is None), found
    assert words is None or words in str(found)


def test_differences_of_clusters_have_their_own_importance() -> None:
    differences = [
        ClusterDifference("topic", "orders / a.orders", "3 partitions", None),
        ClusterDifference("setting", "pay / a.pay", "-1", "86400000", "retention.ms"),
        ClusterDifference("acl", "ALLOW READ on topic a.pay for User:x from *", "yes", None),
        ClusterDifference("lag", "shop", "3 behind", None),
    ]
    flow = replace(SETTINGS, sync_topic_configs_interval_s=30.0)
    found = settings_found(flow, differences)
    assert [(one.kind, one.severity, one.count) for one in found] == [
        ("missing-copy", Severity.CRITICAL, 1),
        ("setting", Severity.WARNING, 1),
    ]
    source, target = flow.source, flow.target
    assert found[1].lines == (f"pay / a.pay: retention.ms -1 on {source}, 86400000 on {target}",)


def test_a_copy_whose_source_is_hidden_from_the_login_has_not_outlived_it() -> None:
    differences = [ClusterDifference("topic", f"{name} / a.{name}", None, "1 partition") for name in ("pay", "old")]
    (found,) = settings_found(SETTINGS, differences, {"pay"})
    assert (found.count, found.lines) == (1, ("old / a.old: 1 partition",))


def test_keys_have_the_place_and_the_right_spelling() -> None:
    file, key = "mm2.properties", "sync.group.offset.enabled"
    guess = "did you mean sync.group.offsets.enabled?"
    place = "ignored here; write alias.producer.acks, with a cluster's alias"
    found = keys_found(
        [
            ConfigWarning(file, 9, key, "unknown key, ignored", guess, MistakeKind.UNKNOWN_KEY),
            ConfigWarning(file, 3, "producer.acks", place, kind=MistakeKind.IGNORED),
            ConfigWarning(file, 4, "", "these keys are ignored here: plugin.path", kind=MistakeKind.IGNORED),
        ]
    ).findings
    assert [(one.severity, one.text, one.way_out) for one in found] == [
        (
            Severity.WARNING,
            "mm2.properties:9: sync.group.offset.enabled is an unknown key, which MirrorMaker 2 ignores",
            "write sync.group.offsets.enabled",
        ),
        (
            Severity.WARNING,
            "mm2.properties:3: producer.acks is ignored at this place by MirrorMaker 2, too",
            "write alias.producer.acks, with a cluster's alias",
        ),
    ]


def test_differences_from_a_release_are_notes(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(FILE, "utf-8")
    found = release_found(file, (3, 9)).findings
    assert {(one.kind, one.severity, one.part) for one in found} == {("change", Severity.NOTE, AuditPart.CHANGES)}
    (topics,) = (one for one in found if "refresh.topics.interval.seconds" in one.text)
    assert topics.way_out == "to keep the old interval write refresh.topics.interval.seconds = 600"
    done = CliRunner().invoke(app, ["audit", str(file), "--was", "2.0"], env={"COLUMNS": "300"})
    assert (done.exit_code, "for example 3.9" in done.output) == (2, True)


def test_the_plan_of_a_run_becomes_notes_and_its_problems_warnings() -> None:
    problems = (Problem("disk", "too full; add disks"), Problem("permission", "User:x lacks READ on topic t"))
    plan = FlowPlan("a->b", "a", "b", 50e6, problems=problems, notes=("x",))
    problem, permission, note = changes_found(plan)
    with_gap = replace(plan, problems=(*problems, Problem("gap", "t-0: gone; accept it")))
    running = changes_found(with_gap, by_twinlog=True)
    assert [one.text for one in running] == [
        "an obstacle of the run (disk): too full",
        "an obstacle of the run (permission): User:x lacks READ on topic t",
    ], "the gap holds its partition now, by another finding"
    assert (problem.kind, problem.severity, problem.way_out) == ("problem", Severity.WARNING, "add disks")
    assert problem.text.endswith("(disk): too full")
    assert permission.text.endswith("User:x lacks READ on topic t")
    assert "twinlog acls FILE --missing" in permission.way_out
    assert (note.kind, note.severity, note.lines) == ("change", Severity.NOTE, ("x",))
    assert (problem.id, permission.id, note.id) == ("TW-PLAN-05", "TW-RIGHT-02", None)


# The report.


def finding(severity: Severity, part: AuditPart, count: int = 1, text: str = "text") -> Finding:
    kind = "missing-records" if part is AuditPart.RECORDS else "setting"
    return Finding(kind, severity, part, text, "do this", count, "a->b", tuple(f"line {n}" for n in range(7)))


def report(*findings: Finding, missing: str | None = None) -> AuditReport:
    parts = [PartResult(part, tuple(one for one in findings if one.part is part), "all") for part in AuditPart]
    parts[-1] = replace(parts[-1], not_audited=missing)
    of_file = (PartResult(AuditPart.KEYS),)
    return AuditReport("mm2.properties", 0, of_file, (FlowAudit("a->b", "a", "b", tuple(parts), "run by others"),))


def test_the_most_important_comes_first() -> None:
    found = report(
        finding(Severity.NOTE, AuditPart.SETTINGS, 9),
        finding(Severity.CRITICAL, AuditPart.RECORDS, 1, "few"),
        finding(Severity.CRITICAL, AuditPart.RECORDS, 5, "many"),
        finding(Severity.WARNING, AuditPart.FILTER),
    )
    assert [one.text for one in found.findings][:2] == ["many", "few"]
    assert [one.severity for one in found.findings] == sorted(one.severity for one in found.findings)
    lines = report_lines(found)
    assert lines[0] == "audit of mm2.properties at 1970-01-01T00:00:00Z: 2 critical, 1 warning, 1 note"
    assert lines[1] == "A failover today would lose or repeat records: 6 records are missing."
    assert "    and 2 more lines (--all, -o json)" in lines
    assert "    and 2 more lines (--all, -o json)" not in report_lines(found, everything=True)
    assert sum("way out: do this" in line for line in lines) == 4
    assert "  TW-VERIFY-01: records: many" in lines
    assert "  settings: text" in lines


def test_the_verdict_and_the_json_call_a_bound_a_bound() -> None:
    """An operator quotes the first line, whose sum is a maximum as soon as a single count is a maximum."""
    inexact = replace(STANDS, exact=False, past_copies=77)
    exact = replace(STANDS, target_committed=60)
    behind = replace(STANDS, copied=SourceOffset(90), target_committed=60, committed=SourceOffset(110))
    ahead = replace(STANDS, target_committed=100)
    for facts, verdict, exactly in (
        ((exact,), "A failover today would keep every audited record; 10 records would be repeated by", True),
        ((inexact,), "A failover today would keep every audited record; up to 7 records would be repeated by", False),
        ((exact, inexact), "A failover today would keep every audited record; up to 17 records would be", False),
        ((behind,), "A failover today would keep every audited record; up to 50 records would be repeated by", False),
        ((ahead,), "A failover today would lose or repeat records: up to 30 records would be skipped by", False),
    ):
        found = report(*(one for number, one_of in enumerate(facts) for one in groups_of(f"g{number}", one_of)))
        assert found.verdict.startswith(verdict)
        assert found.verdict in report_html(found)
        assert report_lines(found)[1] == found.verdict == found.as_json()["verdict"]
        assert all(one["exact"] for one in found.as_json()["findings"]) == exactly


def test_the_verdict_counts_the_records_that_wait_to_be_copied() -> None:
    lag = Finding("lag", Severity.NOTE, AuditPart.LAG, "text", "wait", 139, "a->b")
    (repeats,) = groups_of("g", replace(STANDS, target_committed=60))
    missing = finding(Severity.CRITICAL, AuditPart.RECORDS)
    unknown = Finding("lag-unknown", Severity.WARNING, AuditPart.LAG, "text", "mend", 2, "a->b")
    lost = (
        "A failover at this moment would lose 139 records that wait to be copied, and keep every other audited record"
    )
    assert report(lag).verdict == f"{lost}."
    assert report(lag, unknown, repeats).verdict == f"{lost}; 10 records would be repeated by consumer groups."
    assert report(replace(lag, count=1)).verdict.startswith(
        "A failover at this moment would lose 1 record that waits to be copied, and keep"
    )
    assert report(lag, missing).verdict == (
        "A failover today would lose or repeat records: 1 record is missing, 139 records wait to be copied."
    )
    assert report(lag, repeats).verdict in report_html(report(lag, repeats))
    assert (lag.id, unknown.id) == (None, "TW-ALERT-06")


def test_the_verdict_names_groups_that_are_unable_to_move() -> None:
    before_start = replace(STANDS, target_start=TargetOffset(65), target_committed=TargetOffset(60))
    shop, bi = groups_of("shop", before_start)[0], groups_of("bi", before_start)[0]
    kept = "A failover today would keep every audited record"
    assert report(shop).verdict == f"{kept}; group shop is unable to move."
    assert report(shop, bi).verdict == f"{kept}; groups bi, shop are unable to move."
    missing = finding(Severity.CRITICAL, AuditPart.RECORDS)
    assert report(shop, missing).verdict == (
        "A failover today would lose or repeat records: 1 record is missing, group shop is unable to move."
    )
    (waits,) = groups_of("new", replace(STANDS, target_committed=None, checkpoint_source=None, checkpoint_target=None))
    assert report(waits).verdict.endswith("records: 1 consumer group has to wait.")


def test_a_part_that_was_not_audited_is_named_and_no_green_light() -> None:
    clean = report()
    assert (clean.findings, clean.complete, clean.verdict) == ([], True, "The audit is clean.")
    found = report(missing="cluster b: User:x lacks DESCRIBE on the cluster, needed for reading its ACLs")
    assert not found.complete
    assert found.verdict.endswith("The audit is incomplete: 1 part stayed unread.")
    text = "\n".join(report_lines(found))
    assert "what would change under twinlog: partly audited: cluster b: User:x lacks DESCRIBE" in text
    assert "<td>partly audited: cluster b" in report_html(found), "the part is in the table of audited parts, too"
    parts = tuple(replace(one, scope="") for one in found.flows[0].parts)
    unread = replace(found, flows=(replace(found.flows[0], parts=parts),))
    assert "what would change under twinlog: not audited: cluster b" in "\n".join(report_lines(unread))
    assert found.as_json()["complete"] is False


def test_html_is_one_file_that_runs_nothing_and_escapes_names() -> None:
    evil = finding(Severity.CRITICAL, AuditPart.RECORDS, text='<script>alert("x")</script> & co')
    page = report_html(report(evil))
    assert "<script" not in page
    assert "&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt; &amp; co" in page
    assert not re.search(r"(?:src|href)=|url\(|@import|https?://", page), "nothing is loaded"
    assert "prefers-color-scheme: dark" in page
    opened: list[str] = []

    class Balance(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            if tag != "meta":
                opened.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert opened.pop() == tag

    Balance().feed(page)
    assert opened == []


def test_json_has_everything() -> None:
    found = json.loads(json.dumps(report(finding(Severity.CRITICAL, AuditPart.RECORDS, 3)).as_json()))
    assert found["counts"] == {"critical": 1, "warning": 0, "note": 0}
    (one,) = found["findings"]
    assert (one["kind"], one["count"], one["flow"], len(one["details"])) == ("missing-records", 3, "a->b", 7)
    assert found["flows"][0]["run_by"] == "run by others"


def test_a_deadline_ends_the_audit_before_its_next_part() -> None:
    AuditDeadline(SYSTEM, None).check()
    AuditDeadline(SYSTEM, 100).check()
    with pytest.raises(AuditTimeoutError, match="the 0 seconds of --timeout were over before it"):
        AuditDeadline(SYSTEM, 0).check()


FILE = """\
clusters = east, west
east.bootstrap.servers = 127.0.0.1:9
west.bootstrap.servers = 127.0.0.1:9
east->west.enabled = true
"""


def test_exit_codes_of_a_wrong_file_and_a_silent_cluster(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(FILE, "utf-8")
    place = str(tmp_path / "none" / "a.html")
    done = CliRunner().invoke(app, ["audit", str(file), "--html", place], env={"COLUMNS": "300"})
    assert (done.exit_code, "create it first" in done.output) == (2, True)
    file.write_text(FILE + "tasks.max = many\n", "utf-8")
    done = CliRunner().invoke(app, ["audit", str(file)])
    assert done.exit_code == 2
    assert "mm2.properties:5" in done.output
    done = CliRunner().invoke(
        app, ["audit", str(file), "x.json", "--url", "http://127.0.0.1:9"], env={"COLUMNS": "300"}
    )
    assert done.exit_code == 2
    assert "leave out their files" in done.output


def test_a_flow_that_twinlog_runs_has_obstacles_and_no_change_ahead() -> None:
    obstacle = Finding("problem", Severity.WARNING, AuditPart.CHANGES, "a limit", "raise it")
    ahead = "no change is ahead, as twinlog runs the flow"
    assert changes_scope([], by_twinlog=True) == ahead
    assert changes_scope([obstacle], by_twinlog=True) == f"{ahead}; 1 obstacle of its run"
    assert changes_scope([obstacle], by_twinlog=False) == "by the code of `twinlog plan`"
