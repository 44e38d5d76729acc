"""An audit of a flow that twinlog runs: held and paused partitions, and deleted records, are never a green light."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.virtual.cluster import VirtualCluster
from harness.virtual.loop import VirtualLoop, virtual_loop
from harness.virtual.requests import LIST_OFFSETS
from twinlog.config import load
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.builder import encode_batch, record_body
from twinlog.kafka.record.stamp import stamp
from twinlog.mirror.offsets.exact_map import Point
from twinlog.mirror.offsets.positions import Position, encode_position
from twinlog.mirror.offsets.segments import Segment
from twinlog.mirror.offsets.syncs import OffsetSync
from twinlog.model.held import HeldPartition
from twinlog.model.types import Alias, SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.ops.audit.auditor import FlowAuditor
from twinlog.ops.audit.rendering import report_html, report_lines
from twinlog.ops.audit.report import AuditPart, AuditReport, Finding, Severity
from twinlog.ops.plan.flow_plan import FlowPlan
from twinlog.ops.plan.planner import FlowPlanner
from twinlog.settings.client import ClientSettings
from twinlog.worker.control.journal import ControlJournal
from twinlog.worker.control.model import CommandState, PartitionMove, PartitionSelector, TopicCommand, TopicVerb
from twinlog.worker.status.report import DriverReport, TopicProgress, encode_report, report_key

FILE = """\
clusters = s, w
s.bootstrap.servers = s-1:9092
w.bootstrap.servers = w-1:9092
s->w.enabled = true
s->w.topics = orders, clicks
"""
PROGRESS = "mm2-twinlog-progress.s.internal"
ORDERS = [TopicPartition(TopicName("orders"), number) for number in range(2)]
CLICKS = TopicPartition(TopicName("clicks"), 0)
COPIED = 10
LARGE = HeldPartition(
    "orders",
    1,
    "oversized record",
    "TW-RECORD-02",
    "the record at source offset 10 needs 1500074 bytes, s.orders-1 takes 1048588",
    "raise max.message.bytes of s.orders",
    0,
    SourceOffset(COPIED),
    TargetOffset(COPIED),
    SourceOffset(-1),
)
GAP = replace(
    LARGE,
    partition=0,
    reason="gap",
    message_id="TW-GAP-01",
    text="source offsets 10 to 13 (4 offsets) were deleted before they were copied",
    way_out="to go on at offset 14, run twinlog topics accept-gap FILE orders-0 --flow s:w",
    resume_at=SourceOffset(14),
)


class TwinlogFlow:
    """A flow of two topics, whose process has copied `COPIED` records of each partition, and reports."""

    def __init__(self, loop: VirtualLoop, folder: Path) -> None:
        self._loop = loop
        self.source, self.target = VirtualCluster(loop, "s"), VirtualCluster(loop, "w")
        for name in ("__consumer_offsets", PROGRESS, "mm2-offsets.s.internal", "mm2-twinlog-offsets.s.internal"):
            self.target.create(name)
        for cluster, prefix in ((self.source, ""), (self.target, "s.")):
            cluster.create(f"{prefix}orders", 2)
            cluster.create(f"{prefix}clicks")
            for part in (*ORDERS, CLICKS):
                cluster.write(f"{prefix}{part.topic}", *[b"x"] * COPIED, partition=part.partition)
        file = folder / "mm2.properties"
        file.write_text(FILE, "utf-8")
        (self.flow,) = (flow for flow in load(file).flows if flow.enabled)
        for part in (*ORDERS, CLICKS):
            self._store(part, COPIED)
        self.journal = ControlJournal(self.flow, self._connect("w", self.flow.target_admin.client))

    def _connect(self, alias: str, client: ClientSettings) -> ClusterAdmin:
        admin = ClusterAdmin(alias, client, VirtualLoop(self._loop.world))
        admin.connect()
        return admin

    def _append(self, topic: str, body: bytes) -> None:
        batch = encode_batch([(0, body)])
        stamp(batch, -1, -1, -1)
        self.target.log(topic).append(bytes(batch))

    def write(self, part: TopicPartition, count: int) -> None:
        self.source.write(part.topic, *[b"y"] * count, partition=part.partition)

    def report(self, *held: HeldPartition, lag: int = 0, state: str = "running", paused: int = 0) -> None:
        at_ms = int(self._loop.clock.wall() * 1000)
        topics = (TopicProgress("orders", 2, lag, held=len(held)), TopicProgress("clicks", 1 - paused, paused=paused))
        report = DriverReport(
            *("s->w", "host-1", at_ms, at_ms, state, None),
            topics=topics,
            lag=lag,
            partitions=3,
            held=len(held),
            held_by_reason=tuple((one.reason, 1) for one in held),
            held_partitions=held,
            paused=paused,
        )
        self._append(PROGRESS, record_body(report_key(report), encode_report(report, 100_000)))

    def pause(self, part: TopicPartition) -> None:
        selector = PartitionSelector(part.topic, (part.partition,))
        self.journal.write_command(TopicCommand(f"pause {part}", TopicVerb.PAUSE, (selector,), by="x"))

    def move(self, part: TopicPartition, before: SourceOffset, after: SourceOffset) -> None:
        """Accept a gap of a partition."""
        selector = PartitionSelector(part.topic, (part.partition,))
        asked = self.journal.write_command(TopicCommand(f"gap {part}", TopicVerb.ACCEPT_GAP, (selector,), by="x"))
        move = PartitionMove(part, before, after, changes=True, passed=after - before)
        self.journal.end(self.journal.record_moves(asked, [move]), CommandState.APPLIED, "host-1")

    def sync(self, sync: OffsetSync) -> None:
        """Write an offset sync, as MirrorMaker 2 does."""
        batch = encode_batch([(0, record_body(sync.key, sync.value))])
        stamp(batch, -1, -1, -1)
        self.source.log(self.flow.offset_syncs_topic).append(bytes(batch))

    def store_map(self, part: TopicPartition, next_source: int, *points: Point, complete: bool = True) -> None:
        """Store the exact map of a partition whose `COPIED` copies end at source offset `next_source`."""
        segment = Segment(part, 0, complete=complete, points=points)
        self._append("mm2-twinlog-offsets.s.internal", record_body(segment.key, segment.value))
        self._store(part, next_source)

    def _store(self, part: TopicPartition, next_source: int) -> None:
        topic_id = str(self.source.topics.ids[part.topic])
        stored = encode_position(Alias("s"), part, Position(next_source, COPIED, topic_id=topic_id))
        self._append(self.flow.positions_topic, record_body(stored.key, stored.value, stored.headers))

    def plan(self) -> FlowPlan:
        with FlowPlanner(self.flow, [self.flow], validates=False, connect=self._connect) as planner:
            return planner.plan(50e6)

    def audit(self) -> AuditReport:
        with FlowAuditor(self.flow, [self.flow], lambda *_: [], connect=self._connect) as auditor:
            return AuditReport("mm2.properties", 0, (), (auditor.audit(),))


@pytest.fixture
def here(tmp_path: Path) -> Iterator[TwinlogFlow]:
    with virtual_loop(1) as loop:
        yield TwinlogFlow(loop, tmp_path)


def of(report: AuditReport, kind: str) -> list[Finding]:
    return [one for one in report.findings if one.kind == kind]


def first_sentence(report: AuditReport) -> str:
    return report_lines(report)[1]


def test_records_that_the_source_deleted_before_their_copy_are_a_gap_and_wait_for_nothing(here: TwinlogFlow) -> None:
    here.write(ORDERS[0], 9)
    here.source.log("orders", 0).delete_before(14)
    here.report(GAP, lag=9)
    found = here.audit()
    (gap,) = of(found, "gap")
    assert (gap.severity, gap.part, gap.count, gap.id) == (Severity.CRITICAL, AuditPart.GAPS, 4, "TW-GAP-01")
    assert gap.text == "4 records of orders were deleted on s before their copy"
    assert "twinlog topics accept-gap FILE orders-0 --flow s:w" in gap.way_out
    (held,) = of(found, "held")
    assert held.lines == (f"orders-0: {GAP.text}; 5 records wait to be copied",)
    assert of(found, "lag") == [], "the deleted records never come, and the other five wait for an operator"
    assert "4 records are missing" in first_sentence(found)
    assert "1 partition is held" in first_sentence(found)
    assert "would keep" not in report_html(found)


def test_the_records_of_other_partitions_still_wait_for_the_mirror_alone(here: TwinlogFlow) -> None:
    here.write(ORDERS[1], 1)
    here.write(ORDERS[0], 3)
    here.report(LARGE, lag=4)
    found = here.audit()
    (held,) = of(found, "held")
    assert (held.id, held.way_out) == ("TW-RECORD-02", LARGE.way_out)
    assert held.lines == (f"orders-1: {LARGE.text}; 1 record waits to be copied",)
    (lag,) = of(found, "lag")
    assert (lag.count, lag.text) == (3, "3 records of 1 topic wait to be copied")
    assert lag.way_out.endswith("ask again once the mirror has caught up")
    assert first_sentence(found).startswith("A failover today would lose or repeat records: 1 partition is held")


def test_records_that_wait_in_a_paused_partition_would_be_lost(here: TwinlogFlow) -> None:
    here.pause(CLICKS)
    here.report(paused=1)
    found = here.audit()
    (note,) = of(found, "paused")
    assert (note.severity, note.text) == (
        Severity.NOTE,
        "1 partition is paused, and every known record there is copied",
    )
    assert of(found, "paused-records") == []
    here.write(CLICKS, 295)
    found = here.audit()
    (paused,) = of(found, "paused-records")
    assert (paused.severity, paused.count, paused.id) == (Severity.CRITICAL, 295, "TW-AUDIT-10")
    assert paused.text == "295 records wait in 1 paused partition"
    assert paused.lines == ("clicks-0: 295 records",)
    assert "`twinlog topics resume FILE clicks-0 --flow s:w`" in paused.way_out
    assert first_sentence(found).startswith(
        "A failover today would lose or repeat records: 295 records wait in paused partitions"
    )
    here.source.log("clicks", 0).delete_before(14)
    found = here.audit()
    assert [one.count for one in of(found, "gap")] == [4]
    assert [one.count for one in of(found, "paused-records")] == [291]


def test_the_plan_of_a_run_leaves_paused_partitions_out(here: TwinlogFlow) -> None:
    here.write(CLICKS, 295)
    here.write(ORDERS[1], 2)
    assert {one.topic: one.records for one in here.plan().copy} == {"clicks": 295, "orders": 2}
    here.pause(CLICKS)
    plan = here.plan()
    assert {one.topic: one.records for one in plan.copy} == {"orders": 2}
    (note,) = (one for one in plan.notes if "paused" in one)
    assert note.startswith("1 paused partition with 295 records to copy, which a run leaves uncopied: clicks-0; ")


def test_a_flow_that_has_stopped_counts_each_record_once(here: TwinlogFlow) -> None:
    here.pause(CLICKS)
    here.write(CLICKS, 7)
    here.write(ORDERS[0], 9)
    here.write(ORDERS[1], 2)
    here.source.log("orders", 0).delete_before(14)
    here.report(state="stopped")
    found = here.audit()
    assert {kind: [one.count for one in of(found, kind)] for kind in ("gap", "paused-records", "lag")} == {
        "gap": [4],
        "paused-records": [7],
        "lag": [2],
    }


def test_an_old_position_of_a_partition_that_is_copied_proves_no_gap(here: TwinlogFlow) -> None:
    here.write(ORDERS[0], 9)
    here.source.log("orders", 0).delete_before(14)
    here.report()
    assert of(here.audit(), "gap") == []


def test_a_gap_that_an_operator_accepted_is_a_note(here: TwinlogFlow) -> None:
    here.report()
    here.move(ORDERS[0], SourceOffset(3), SourceOffset(7))
    (note,) = of(here.audit(), "passed-over")
    assert (note.severity, note.part, note.count, note.id) == (Severity.NOTE, AuditPart.GAPS, 4, None)
    assert note.lines == ("orders-0: accept-gap passed over source offsets 3 to 6, without a copy",)


def test_deleted_offsets_that_an_exact_map_leaves_out_are_notes_as_long_as_the_copies_before_them_exist(
    here: TwinlogFlow,
) -> None:
    here.report()
    here.store_map(ORDERS[0], 14, Point(SourceOffset(0), TargetOffset(0)), Point(SourceOffset(8), TargetOffset(4)))
    here.store_map(ORDERS[1], 11, Point(SourceOffset(0), TargetOffset(0)), Point(SourceOffset(5), TargetOffset(4)))
    here.write(ORDERS[0], 4)
    here.write(ORDERS[1], 1)
    assert of(here.audit(), "passed-over") == [], "verify compares records that the source still has"
    for part, start in ((ORDERS[0], 7), (ORDERS[1], 8)):
        here.source.log("orders", part.partition).delete_before(start)
    found = here.audit()
    (note,) = of(found, "passed-over")
    assert (note.severity, note.part, note.count, note.id) == (Severity.NOTE, AuditPart.GAPS, 3, None)
    assert note.text == (
        "3 source offsets without a copy, deleted on s since: s->w.twinlog.gap.policy or a command of an operator "
        "passed over them"
    )
    assert note.lines == ("orders-0: 3 source offsets (4 to 6)",)
    (unclear,) = of(found, "unclear-gap")
    assert (unclear.count, unclear.lines) == (1, ("orders-1: 1 source offset (4)",)), "it may be a marker"

    here.source.log("orders", 0).delete_before(9)
    here.move(ORDERS[0], SourceOffset(6), SourceOffset(8))
    by_command = "orders-0: accept-gap passed over source offsets 6 to 7, without a copy"
    assert {one.lines for one in of(here.audit(), "passed-over")} == {
        (by_command,),
        ("orders-0: 2 source offsets (4 to 5)",),
    }

    here.target.log("s.orders", 0).delete_before(5)
    assert [one.lines for one in of(here.audit(), "passed-over")] == [(by_command,)], "its neighbours are gone"


def test_a_gap_of_mirror_maker_stays_a_finding_after_the_take_over(here: TwinlogFlow) -> None:
    here.report()
    here.source.create(here.flow.offset_syncs_topic)
    for source, target in ((0, 0), (6, 2), (7, 3)):
        sync = OffsetSync(ORDERS[0].topic, 0, SourceOffset(source), TargetOffset(target))
        here.sync(sync)
    here.write(ORDERS[0], 4)
    here.store_map(ORDERS[0], 14, Point(SourceOffset(7), TargetOffset(3)), complete=False)
    here.source.log("orders", 0).delete_before(9)
    (gap,) = of(here.audit(), "gap")
    assert (gap.severity, gap.count, gap.lines) == (
        Severity.CRITICAL,
        4,
        ("orders-0: 4 offsets between 0 and 6",),
    )


def test_each_left_out_offset_is_unclear_where_the_flow_or_the_topic_leaves_out_records(here: TwinlogFlow) -> None:
    here.report()
    here.store_map(ORDERS[0], 14, Point(SourceOffset(0), TargetOffset(0)), Point(SourceOffset(8), TargetOffset(4)))
    here.write(ORDERS[0], 4)
    here.source.log("orders", 0).delete_before(9)
    assert [one.count for one in of(here.audit(), "passed-over")] == [4]
    here.source.topics.configs["orders"] = {"cleanup.policy": "compact,delete"}
    found = here.audit()
    assert of(found, "passed-over") == []
    assert [one.count for one in of(found, "unclear-gap")] == [4]


def test_unreadable_positions_leave_the_lag_as_it_is_reported(here: TwinlogFlow) -> None:
    here.write(ORDERS[1], 1)
    here.report(LARGE, lag=4)
    here.target.codes(LIST_OFFSETS, here.flow.positions_topic, *[Code.TOPIC_AUTHORIZATION_FAILED] * 50)
    found = here.audit()
    (lag,) = of(found, "lag")
    assert lag.count == 4
    assert lag.way_out.endswith("mend the causes of held partitions, and ask again")
    unread = {part.part: part.not_audited or "" for _, part in found.not_audited}
    assert f"lacks DESCRIBE on topic {here.flow.positions_topic}" in unread[AuditPart.LAG]
