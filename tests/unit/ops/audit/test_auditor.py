"""A whole audit in virtual time: each part has its result, and a part that is unreadable leaves the others as they
are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from harness.virtual.cluster import VirtualCluster
from harness.virtual.loop import VirtualLoop, virtual_loop
from harness.virtual.requests import LIST_OFFSETS
from tests.unit.ops.verify.two_logs import put, some
from twinlog.config import load
from twinlog.errors import ClusterError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.builder import encode_batch, record_body
from twinlog.kafka.record.compression import CODECS
from twinlog.kafka.record.stamp import stamp
from twinlog.mirror.offsets.syncs import OffsetSync
from twinlog.mirror.topology.topology import topology_of
from twinlog.model.types import GroupId, TopicName
from twinlog.ops.audit.auditor import AuditDeadline, AuditOptions, FlowAuditor
from twinlog.ops.audit.near_misses import outside
from twinlog.ops.audit.report import AuditPart, FlowAudit, PartResult
from twinlog.ops.verify.model import PartitionToVerify, Verdict
from twinlog.ops.verify.planner import VerifyPlan
from twinlog.ops.verify.task import ClusterPair
from twinlog.settings.client import ClientSettings

FILE = """\
clusters = s, w
s.bootstrap.servers = s-1:9092
w.bootstrap.servers = w-1:9092
s->w.enabled = true
s->w.topics = clicks
"""

LOST = 612


class Mirror:
    """MirrorMaker 2 has copied all records of a topic but one."""

    def __init__(self, loop: VirtualLoop, folder: Path) -> None:
        self.source, self.target = VirtualCluster(loop, "s"), VirtualCluster(loop, "w")
        for name in ("mm2-offsets.s.internal", "mm2-twinlog-offsets.s.internal", "s.clicks"):
            self.target.create(name)
        for name in ("clicks", "clicks-v2", "mm2-offset-syncs.w.internal"):
            self.source.create(name)
        records = some(1_000)
        put(self.source, "clicks", records)
        put(self.source, "clicks-v2", records[:3])
        put(self.target, "s.clicks", [record for number, record in enumerate(records) if number != LOST])
        syncs = [OffsetSync("clicks", 0, at, at - (at > LOST)) for at in range(0, 1_000, 25)]
        batch = encode_batch([(1, record_body(sync.key, sync.value, ())) for sync in syncs], CODECS["none"])
        stamp(batch, -1, -1, -1)
        self.source.log("mm2-offset-syncs.w.internal").append(bytes(batch))
        self._loop = loop
        file = folder / "mm2.properties"
        file.write_text(FILE, "utf-8")
        (self.flow,) = (flow for flow in load(file).flows if flow.enabled)

    def _connect(self, alias: str, client: ClientSettings) -> ClusterAdmin:
        return ClusterAdmin(alias, client, VirtualLoop(self._loop.world))

    def _compare(
        self, plan: VerifyPlan, ranges: Sequence[PartitionToVerify], deadline: AuditDeadline
    ) -> Iterator[Verdict]:
        pair = ClusterPair(plan.rules, VirtualLoop(self._loop.world))
        try:
            for one in ranges:
                deadline.check()
                yield pair.compare(one)
        finally:
            pair.close()

    def audit(self, seconds: float | None = None) -> FlowAudit:
        deadline = AuditDeadline(self._loop.clock, seconds)
        options = AuditOptions(sample=50)
        with FlowAuditor(
            self.flow, [self.flow], self._compare, options=options, deadline=deadline, connect=self._connect
        ) as auditor:
            return auditor.audit()


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[Mirror]:
    with virtual_loop(1) as loop:
        yield Mirror(loop, tmp_path)


def part(audit: FlowAudit, name: AuditPart) -> PartResult:
    (found,) = (one for one in audit.parts if one.part is name)
    return found


def test_a_lost_record_and_a_near_miss_are_found(mirror: Mirror) -> None:
    found = mirror.audit()
    (missing,) = part(found, AuditPart.RECORDS).findings
    assert (missing.kind, missing.count) == ("missing-records", 1)
    assert f"source offset {LOST}" in missing.lines[0]
    assert "outside the sample" in part(found, AuditPart.RECORDS).scope
    assert part(found, AuditPart.GAPS).findings == (), "the source still has the record"
    (near,) = part(found, AuditPart.FILTER).findings
    assert near.lines == ("clicks-v2: 3 records",)


def test_a_topic_that_another_mirror_may_copy_is_a_question(mirror: Mirror) -> None:
    """In a hand-over, MirrorMaker 2 copies the topics of later waves: a second copier would double their records."""
    mirror.target.create("s.clicks-v2")
    (near,) = part(mirror.audit(), AuditPart.FILTER).findings
    assert (near.lines, near.way_out.startswith("add them to topics")) == (("clicks-v2: 3 records",), True)
    put(mirror.target, "s.clicks-v2", some(2))
    (near,) = part(mirror.audit(), AuditPart.FILTER).findings
    assert near.lines == ("clicks-v2: 3 records; s.clicks-v2 has 2 records",)
    assert near.way_out.startswith("does another mirror copy them? otherwise add them to topics")


def test_a_read_topic_that_another_mirror_may_copy_is_a_question(mirror: Mirror) -> None:
    read, copied = TopicName("read"), TopicName("copied")
    readers = {name: [GroupId("billing")] for name in (read, copied)}
    copies = {copied: 4_880}
    found = outside(topology_of(mirror.flow), [read, copied], readers, lambda _: 4_883, "s->w", copies.get)
    ways = {one.lines: one.way_out for one in found if one.kind == "topic-outside"}
    advice = "add them to topics, or leave billing out of groups"
    assert ways == {
        ("read: 4,883 records, read by billing",): advice,
        ("copied: 4,883 records, read by billing; s.copied has 4,880 records",): (
            f"does another mirror copy them? otherwise {advice}"
        ),
    }


@pytest.mark.parametrize(("topics", "severity"), [("clicks, shop[.]eu", "WARNING"), ("shop[.]eu", "CRITICAL")])
def test_a_topic_of_the_file_that_the_source_lacks_is_found(mirror: Mirror, topics: str, severity: str) -> None:
    mirror.flow = replace(mirror.flow, topics=tuple(topics.split(", ")))
    found = mirror.audit()
    absent = [one for one in part(found, AuditPart.FILTER).findings if one.kind == "topic-absent"]
    assert [(one.severity.name, one.id) for one in absent] == []
    mirror.flow = replace(mirror.flow, topics=(*topics.replace("[.]", ".").split(", "), "orders.*"))
    found = mirror.audit()
    (one,) = (one for one in part(found, AuditPart.FILTER).findings if one.kind == "topic-absent")
    assert (one.severity.name, one.id) == (severity, "TW-AUDIT-09")
    assert one.text.startswith("s lacks 1 topic of the file, or hides them from the login")
    assert one.text.endswith(": shop.eu")
    plan = part(found, AuditPart.CHANGES).findings
    hints = [line for finding in plan for line in finding.lines]
    assert "s lacks shop.eu, or hides them; does the login have DESCRIBE on them?" in hints


def test_an_unreadable_part_is_named_and_the_others_follow(mirror: Mirror) -> None:
    found = mirror.audit()
    assert [one.part for one in found.parts] == [
        AuditPart.RECORDS,
        AuditPart.GAPS,
        AuditPart.GROUPS,
        AuditPart.LAG,
        AuditPart.FILTER,
        AuditPart.SETTINGS,
        AuditPart.ACLS,
        AuditPart.CHANGES,
    ]
    unread = {one.part: str(one.not_audited) for one in found.not_audited}
    assert unread.keys() == {AuditPart.LAG, AuditPart.ACLS}
    assert unread[AuditPart.LAG].startswith("cluster w has yet to get a consumer group")
    assert part(found, AuditPart.GROUPS).scope == "all groups of s are hidden, or it has none"
    assert "DescribeAcls" in unread[AuditPart.ACLS]
    for cluster in (mirror.source, mirror.target):
        assert "__consumer_offsets" not in cluster.topics.ids, "nothing was asked that creates it"


def test_a_missing_permission_is_the_reason_of_its_part(mirror: Mirror) -> None:
    mirror.source.codes(LIST_OFFSETS, "mm2-offset-syncs.w.internal", *[Code.TOPIC_AUTHORIZATION_FAILED] * 20)
    found = mirror.audit()
    reason = part(found, AuditPart.GAPS).not_audited
    assert "lacks DESCRIBE on topic mm2-offset-syncs.w.internal" in str(reason)
    assert str(reason).startswith("TW-RIGHT-02: cluster s: ")
    assert "`twinlog acls FILE --for run,audit --missing`" in str(reason)
    assert part(found, AuditPart.RECORDS).not_audited is not None, "without syncs the middle is incomparable"
    assert part(found, AuditPart.FILTER).findings, "the other parts follow"


def test_after_the_time_each_part_names_the_reason(mirror: Mirror) -> None:
    found = mirror.audit(seconds=0.0)
    assert {one.not_audited for one in found.parts} == {"the 0 seconds of --timeout were over before it"}
    assert not any(one.findings for one in found.parts)


def test_a_silent_cluster_ends_the_audit(mirror: Mirror) -> None:
    mirror.target.stop(1)
    with pytest.raises(ClusterError, match="cluster w"):
        mirror.audit()
