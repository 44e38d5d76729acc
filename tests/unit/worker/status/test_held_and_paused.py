"""Held partitions are tried again with pauses that grow; paused partitions are left out of the lag."""

from __future__ import annotations

import logging
from collections.abc import Set
from dataclasses import replace
from math import inf

import pytest

from harness.virtual.clock import VirtualClock
from tests.unit.worker.status.test_flow_status import OLD, ORDERS, progress, report
from twinlog.clock import SYSTEM
from twinlog.errors import GapError, RefusedError, TwinlogError
from twinlog.lease.progress import PartitionCounters, PartitionProgress, Report
from twinlog.model.held import HeldPartition
from twinlog.model.types import SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.settings.client import AdminSettings, ClientSettings, ConsumerSettings, ProducerSettings
from twinlog.settings.flow import FlowSettings
from twinlog.worker.status.families import FlowMetricFacts, flow_families, seconds_to_safe_failover
from twinlog.worker.status.flow_reporter import MOST_LEFT_OUT, MOST_TEXT, FlowReporter
from twinlog.worker.status.flow_status import FlowStatus
from twinlog.worker.status.held_and_paused import (
    ANSWER_S,
    END_COUNTS_S,
    MOST_S,
    NAMED,
    QUIET_S,
    SUM_EVERY_S,
    FlowHeldPartitions,
    PausedPartitions,
    PausedTopic,
)
from twinlog.worker.status.report import DriverReport, decode_report, encode_report

LACKS = RefusedError("cluster south: anonymous lacks WRITE on topic north.shop", resource="topic north.shop")
GAP = GapError(
    "shop-0: source offsets 5 to 7 (3 offsets) were deleted", kind="retention", resume_at=8, way_out="set a key"
)


def part(number: int = 0) -> TopicPartition:
    return TopicPartition(TopicName("shop"), number)


class Scene:
    """The held partitions of one flow, and which of them were tried again at what time."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.tried: list[tuple[float, Set[TopicPartition]]] = []
        self.held = FlowHeldPartitions("north->south", self._try_again, self.clock)
        self.begun = self.clock.monotonic()

    def _try_again(self, partitions: Set[TopicPartition]) -> None:
        self.tried.append((round(self.clock.monotonic() - self.begun, 3), set(partitions)))

    def hold(self, error: TwinlogError = LACKS, number: int = 0, *, at: int = 5) -> bool:
        since_ms = round(self.clock.monotonic() * 1000)
        offsets = {"source_offset": SourceOffset(at), "target_offset": TargetOffset(at)}
        return self.held.add_held(HeldPartition.by(error, part(number), since_ms, **offsets))

    def completed(self, *, at: int = 5, end: int = 9, records: int = 0) -> PartitionProgress:
        """The progress of a partition in a completed report."""
        counters = PartitionCounters(records)
        progress = PartitionProgress("shop", 0, SourceOffset(at), TargetOffset(at), SourceOffset(end), counters)
        (found,) = self.held.complete(
            Report("north->south", "copier", 1, 0, 1.0, 0.0, partitions=(progress,))
        ).partitions
        return found

    def report(self, number: int = 0, *, at: int = 5, end: int = 9, trouble: str | None = None) -> None:
        progress = PartitionProgress(
            "shop", number, SourceOffset(at), TargetOffset(at), SourceOffset(end), trouble=trouble
        )
        self.held.add_report(Report("north->south", "copier", 1, 0, 1.0, 0.0, partitions=(progress,)))

    def pass_by(self, seconds: float, step_s: float = 0.5) -> None:
        until = self.clock.monotonic() + seconds
        while self.clock.monotonic() < until:
            self.clock.sleep(step_s)
            self.held.retry_due_partitions()


def test_each_try_waits_twice_as_long_up_to_a_minute() -> None:
    scene = Scene()
    scene.hold()
    for _ in range(9):
        tries = len(scene.tried)
        while len(scene.tried) == tries:
            scene.pass_by(0.5)
        scene.hold()
    pauses = [later - before for (before, _), (later, _) in zip(scene.tried, scene.tried[1:], strict=False)]
    assert [round(pause) for pause in pauses] == [2, 4, 8, 16, 32, 60, 60, 60]
    assert all(partitions == {part()} for _, partitions in scene.tried)


def test_a_copier_that_is_lost_while_it_tries_is_asked_for_again() -> None:
    scene = Scene()
    scene.hold()
    scene.pass_by(2 * ANSWER_S + 5)
    assert len(scene.tried) == 3


def test_a_copier_that_reports_why_it_cannot_begin_yet_is_not_asked_again() -> None:
    scene = Scene()
    scene.hold()
    for _ in range(20):
        scene.pass_by(MOST_S)
        scene.report(trouble="its leader does not answer")
    assert len(scene.tried) == 1
    scene.hold()
    scene.pass_by(5)
    assert len(scene.tried) == 2


def test_it_is_held_until_it_is_copied_past_its_offset(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    scene = Scene()
    assert scene.hold()
    first = scene.held.all()[0].since_ms
    scene.pass_by(3)
    scene.report(trouble="waiting")
    scene.report()
    assert len(scene.held) == 1
    # The same cause again: neither news, nor another time since when.
    assert not scene.hold()
    assert scene.held.all()[0].since_ms == first
    scene.report(at=6)
    assert len(scene.held) == 0
    scene.pass_by(1)
    lacks = "cluster south: anonymous lacks WRITE on topic north.shop"
    way_out = (
        "run twinlog acls FILE --missing, which prints the commands that grant it or remove a denial; the "
        "partition is then copied without a restart"
    )
    assert [record.message for record in caplog.records] == [
        f"TW-RIGHT-01: north->south: shop-0 is held at source offset 5: {lacks}; {way_out}",
        "TW-HELD-02: north->south: copied again, held no more (missing right): shop-0",
    ]


def test_it_is_held_no_more_where_nothing_is_left_to_copy_or_nothing_troubles_it() -> None:
    scene = Scene()
    for number in range(3):
        scene.hold(number=number)
    scene.report(0, at=5, end=5)
    scene.report(1, at=5, end=-1)
    scene.report(2, at=5, end=9, trouble="source: no answer")
    assert [held.partition for held in scene.held.all()] == [1, 2]
    scene.pass_by(QUIET_S + 1)
    scene.report(1, at=5, end=9)
    scene.report(2, at=5, end=9, trouble="source: no answer")
    assert [held.partition for held in scene.held.all()] == [2]


def test_another_cause_is_news() -> None:
    scene = Scene()
    assert scene.hold()
    assert scene.hold(GAP)
    (held,) = scene.held.all()
    assert (held.reason, held.message_id, held.resume_at) == ("gap", "TW-GAP-01", 8)
    assert held.text == "source offsets 5 to 7 (3 offsets) were deleted"
    assert held.way_out == "set a key"


def test_many_of_one_cause_are_logged_in_a_few_lines_and_summed_up(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    for number in range(100):
        scene.hold(number=number)
    scene.hold(GAP, 100)
    scene.pass_by(0.5)
    lines = [record.message for record in caplog.records]
    assert len(lines) == NAMED + 2
    assert f"TW-RIGHT-01: north->south: {100 - NAMED} more partitions held: shop-" in lines[NAMED]
    caplog.clear()
    scene.pass_by(SUM_EVERY_S - 20, 5)
    assert not caplog.records
    scene.pass_by(25, 5)
    assert [record.message for record in caplog.records] == [
        "TW-HELD-01: north->south: 101 partitions are held (1 gap, 100 missing right); twinlog status names them"
    ]


def test_only_what_was_tried_again_once_is_settled_and_only_what_is_planned_is_kept() -> None:
    scene = Scene()
    scene.hold(number=0)
    scene.hold(number=1)
    assert scene.held.settled() == frozenset()
    scene.pass_by(2)
    scene.hold(number=0)
    assert scene.held.settled() == {part(0)}
    scene.held.retain_partitions({part(1)})
    assert [held.partition for held in scene.held.all()] == [1]


def test_the_lag_of_a_held_partition_stays_known_while_a_copier_begins_with_it() -> None:
    here = Scene()
    assert here.completed(end=-1).lag == -1
    here.hold()
    assert here.completed(end=-1).lag == -1
    assert here.completed(end=9).lag == 4
    here.clock.sleep(END_COUNTS_S)
    assert here.completed(end=-1).lag == 4
    here.clock.sleep(0.1)
    assert here.completed(end=-1).lag == -1


@pytest.mark.parametrize(("resume_at", "lag"), [(2, 7), (5, 4), (8, 4), (-1, 4)])
def test_a_log_that_was_created_again_or_cut_back_is_behind_by_all_of_its_records(resume_at: int, lag: int) -> None:
    here = Scene()
    here.hold(GapError("shop-0: created again", kind="recreated", resume_at=resume_at, way_out="set a key"))
    assert here.completed(at=5, end=9).lag == lag


@pytest.mark.parametrize(("resume_at", "copied"), [(8, 9), (0, 3), (0, 5)])
def test_a_partition_that_is_copied_past_its_gap_has_its_own_offset(resume_at: int, copied: int) -> None:
    here = Scene()
    here.hold(GapError("shop-0: deleted", kind="retention", resume_at=resume_at, way_out="set a key"))
    assert here.completed(at=copied, end=9, records=1).lag == 9 - copied


OTHER = ORDERS._replace(partition=1)
CLIENT = ClientSettings(("host:1",))
SETTINGS = FlowSettings(
    source="a",
    target="b",
    consumer=ConsumerSettings(CLIENT),
    producer=ProducerSettings(CLIENT),
    source_admin=AdminSettings(CLIENT),
    target_admin=AdminSettings(CLIENT),
)


def flow(*paused: tuple[str, int], lags: bool = True) -> FlowStatus:
    """A flow of two topics, of which some is paused with three offsets to copy each."""
    status = FlowStatus()
    parts = {ORDERS._replace(topic=topic, partition=number) for topic, number in paused}
    status.paused.set_partitions(parts)
    status.paused.set_lags(dict.fromkeys(parts, 3) if lags else {})
    status.plan({ORDERS, OTHER, OLD} - parts)
    status.add_report(report(*(progress(part) for part in sorted({ORDERS, OTHER, OLD} - parts))))
    return status


def made(status: FlowStatus) -> DriverReport:
    found = FlowReporter(SETTINGS, SYSTEM).report("running", None, status)
    again = decode_report(encode_report(found, 1_000_000))
    assert again == found
    return found


def test_a_paused_partition_counts_apart() -> None:
    found = made(flow(("orders", 1), ("old", 0)))
    assert (found.lag, found.unknown, found.paused, found.paused_lag) == (2, 0, 2, 6)
    topics = {one.topic: (one.partitions, one.lag, one.paused, one.paused_lag) for one in found.topics}
    assert topics == {"orders": (1, 2, 1, 3), "old": (0, 0, 1, 3)}


def test_a_lag_that_is_not_known_is_unknown_and_none_is_zero() -> None:
    assert made(flow(("old", 0), lags=False)).paused_lag is None
    assert (made(flow()).paused, made(flow()).paused_lag) == (0, 0)


def test_what_is_paused_is_not_waited_for_and_is_again_once_it_is_resumed() -> None:
    status = flow(("old", 0))
    status.wait_for({ORDERS: 5, OLD: 9})
    assert status.reached
    assert status.doubtful_ends() == {}
    status.paused.set_partitions(set())
    status.plan({ORDERS, OTHER, OLD})
    assert not status.reached
    status.add_report(report(progress(OLD, 9)))
    assert status.reached


def test_a_target_that_lacks_what_is_paused_is_not_safe() -> None:
    at_rest = replace(made(flow()), lag=0, lag_age_s=0.0, groups=None)
    assert seconds_to_safe_failover(at_rest) == 0.0
    assert seconds_to_safe_failover(replace(at_rest, paused=1, paused_lag=3)) == inf
    assert seconds_to_safe_failover(replace(at_rest, paused=1, paused_lag=None)) == inf
    assert seconds_to_safe_failover(replace(at_rest, paused=1, paused_lag=0)) == 0.0


@pytest.mark.parametrize(("reason", "seconds"), [("missing right", inf), ("difference", inf), ("gap", 0.0)])
def test_a_topic_that_brokers_hide_is_not_safe(reason: str, seconds: float) -> None:
    at_rest = replace(made(flow()), lag=0, lag_age_s=0.0, groups=None, held=1, held_by_reason=((reason, 1),))
    assert seconds_to_safe_failover(at_rest) == seconds
    assert seconds_to_safe_failover(replace(at_rest, held=0, held_by_reason=((reason, 0),))) == 0.0


@pytest.mark.parametrize(("lags", "value"), [(True, 3.0), (False, None)])
def test_metrics_have_it(lags: bool, value: float | None) -> None:
    facts = FlowMetricFacts("a->b", leads=True, report=made(flow(("old", 0), lags=lags)))
    found = {family.name: family.samples for family in flow_families([facts])}
    assert [one.value for one in found["twinlog_paused_partitions"]] == [1.0]
    (lag,) = found["twinlog_paused_lag_records"]
    assert lag.value == value if value is not None else lag.value != lag.value


def test_topics_that_are_not_copied_are_reported_as_far_as_there_is_room() -> None:
    left_out = {f"t{number:03}": "x" * 500 for number in range(100)}
    found = FlowReporter(SETTINGS, SYSTEM).report("running", None, flow(), left_out=left_out, missing=left_out)
    for first in (found.left_out, found.missing_topics):
        assert [topic for topic, _ in first] == sorted(left_out)[:MOST_LEFT_OUT]
        assert {len(text) for _, text in first} == {MOST_TEXT}
    assert found.missing == 100
    assert decode_report(encode_report(found, 1_000_000)) == found


def test_what_is_paused_is_named_in_a_sentence() -> None:
    paused = PausedPartitions()
    assert (str(paused), paused.all, len(paused)) == ("", None, 0)
    paused.set_partitions({OLD, ORDERS})
    assert str(paused) == ", without 2 paused partitions: old-0, orders-0"
    assert paused.all == "all mirrored partitions are paused (2)"
    paused.set_lags({OLD: 4})
    assert paused.topics() == [PausedTopic("old", 1, 4), PausedTopic("orders", 1, None)]
    # What stays paused keeps its lag.
    paused.set_partitions({OLD})
    assert paused.topics() == [PausedTopic("old", 1, 4)]
    assert paused.partitions == [OLD]
