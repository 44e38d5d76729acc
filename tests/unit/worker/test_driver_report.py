"""What a flow reports of itself to other programs: sums of topics, the age of what waits, and a record that fits."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.virtual.clock import VirtualClock
from tests.unit.lease.test_messages import REPORT
from tests.unit.worker.status.test_flow_status import OLD, ORDERS, progress
from twinlog.clock import SYSTEM
from twinlog.errors import ClusterError, NotAppendedError
from twinlog.kafka.protocol.error_codes import Code
from twinlog.lease.progress import CopierCounters, PartitionProgress, Report
from twinlog.model.types import TopicPartition
from twinlog.settings.client import AdminSettings, ClientSettings, ConsumerSettings, ProducerSettings
from twinlog.settings.flow import FlowSettings
from twinlog.worker.flow.flow import FlowRunner
from twinlog.worker.status.flow_reporter import LASTS_S, FlowReporter, FollowedSoFar, LastError
from twinlog.worker.status.flow_status import OLD_S, FlowStatus
from twinlog.worker.status.report import (
    DriverReport,
    GroupsProgress,
    LogLevelProgress,
    ProofProgress,
    Publisher,
    TaskPlace,
    TopicProgress,
    by_need,
    decode_report,
    encode_report,
    report_key,
)
from twinlog.worker.status.topic_sums import WINDOW_S, OldestRecords

CLIENT = ClientSettings(("localhost:9092",))
SETTINGS = FlowSettings(
    "a", "b", ConsumerSettings(CLIENT), ProducerSettings(CLIENT), AdminSettings(CLIENT), AdminSettings(CLIENT)
)
FULL = DriverReport(
    "a->b",
    "host-1",
    1000,
    10,
    "running",
    "slow",
    groups=GroupsProgress(3, 1, True, 900, True, 800, "no"),
    topics=(TopicProgress("orders", 2, 5, 1, 500, 7, 1, 10, 1000, 2.0, 200.0, "stuck"), TopicProgress("old", 1)),
    tasks=(TaskPlace("host-1-2-ab", "host-1", 3, 17, "driver"), TaskPlace("bridge-host-1-3-cd", "host-1", 1)),
    log_level=LogLevelProgress("l1", "debug", 2000),
    proof=ProofProgress(2, 0.5, 100, 5_000, 3, 1),
)


def report(*parts: PartitionProgress, at_ms: int, age_s: float = 0.0) -> Report:
    return Report("a->b", "copier", 1, at_ms, 1.0, 0.1, partitions=parts, age_s=age_s)


def test_a_report_is_read_as_it_was_written_also_with_fields_of_a_newer_version() -> None:
    value = encode_report(FULL, 10_000)
    assert decode_report(value) == FULL
    newer = value.replace(b'"topic":', b'"colour":"red","topic":').replace(b'"flow":', b'"shape":1,"flow":')
    assert decode_report(newer) == FULL


def test_reports_of_copiers_and_others_are_no_reports_of_a_driver() -> None:
    assert decode_report(REPORT.encode()) is None
    assert Report.decode(encode_report(FULL, 10_000)) is None
    for value in (None, b"", b"[]", b'{"kind":"driver"}', b"\xff"):
        assert decode_report(value) is None


def test_topics_that_do_not_fit_are_counted() -> None:
    every = by_need([TopicProgress(f"t{number}", lag=number) for number in range(100)])
    value = encode_report(replace(FULL, topics=every), 5_000)
    found = decode_report(value)
    assert found is not None
    assert len(value) <= 5_000
    assert 5 < len(found.topics) < 50
    assert (found.topics[0].topic, len(found.topics) + found.more_topics) == ("t99", 100)


def test_topics_in_trouble_come_first_then_those_with_most_to_copy() -> None:
    stuck, unknown = TopicProgress("stuck", trouble="x"), TopicProgress("unknown", unknown=1)
    much, little = TopicProgress("much", lag=9), TopicProgress("little", lag=1)
    assert by_need([little, much, unknown, stuck]) == (stuck, unknown, much, little)


def test_partitions_add_up_by_topic() -> None:
    clock = VirtualClock()
    status = FlowStatus(clock.monotonic)
    other, beats = TopicPartition("orders", 1), TopicPartition("heartbeats", 0)
    status.plan({ORDERS, other, OLD, beats}, {beats})
    stuck = progress(ORDERS, 5, 9, records=5, size=50, trouble="slow", waiting_ms=300)
    status.add_report(
        report(stuck, progress(other, 1, 3, waiting_ms=200), progress(beats, records=1, size=1), at_ms=1000)
    )
    orders, old = sorted(status.topics(), key=lambda one: one.topic, reverse=True)
    assert orders == TopicProgress("orders", 2, 6, 0, 60, 200, 0, 5, 50, 5.0, 50.0, trouble="orders-0: slow")
    assert old == TopicProgress("old", 1, unknown=1, lag_bytes=None)
    clock.now += OLD_S + 1
    assert [one.unknown for one in status.topics() if one.topic == "orders"] == [2]


def test_a_topic_of_which_nothing_was_copied_has_records_like_the_others() -> None:
    status = FlowStatus()
    status.add_report(report(progress(ORDERS, 5, 5, records=5, size=50), progress(OLD, 0, 7), at_ms=1000))
    assert {one.topic: one.lag_bytes for one in status.topics()} == {"orders": 0, "old": 70}


def test_what_was_not_read_yet_is_no_older_than_the_last_end_that_was_reached() -> None:
    oldest = OldestRecords()
    assert oldest.get_oldest_ms(ORDERS) is None
    oldest.add_progress(ORDERS, progress(ORDERS, 5, 9), 1000)
    assert oldest.get_oldest_ms(ORDERS) is None, "it may have waited for days"
    oldest.add_progress(ORDERS, progress(ORDERS, 7, 20), 2000)
    assert oldest.get_oldest_ms(ORDERS) is None
    oldest.add_progress(ORDERS, progress(ORDERS, 9, 30), 3000)
    assert oldest.get_oldest_ms(ORDERS) == 1000, "at 1000 the source ended at 9"
    oldest.add_progress(ORDERS, progress(ORDERS, 29, 40), 4000)
    assert oldest.get_oldest_ms(ORDERS) == 1000
    oldest.add_progress(ORDERS, progress(ORDERS, 30, 40), 5000)
    assert oldest.get_oldest_ms(ORDERS) == 3000
    oldest.add_progress(ORDERS, progress(ORDERS, 31, 40, waiting_ms=2500), 6000)
    assert oldest.get_oldest_ms(ORDERS) == 2500, "its own timestamp"
    oldest.add_progress(ORDERS, progress(ORDERS, 40, 40), 7000)
    oldest.add_progress(ORDERS, progress(ORDERS, 40, -1), 8000)
    oldest.add_progress(ORDERS, progress(ORDERS, 40, 41), 9000)
    assert oldest.get_oldest_ms(ORDERS) == 7000
    oldest.forget_partition(ORDERS)
    assert oldest.get_oldest_ms(ORDERS) is None


def test_the_first_record_keeps_its_time_until_it_is_copied_whoever_copies_it() -> None:
    oldest = OldestRecords()
    oldest.add_progress(ORDERS, progress(ORDERS, 40, 40), 1000)
    oldest.add_progress(ORDERS, progress(ORDERS, 40, 41, trouble="too large", waiting_ms=120_000), 121_000)
    assert oldest.get_oldest_ms(ORDERS) == 120_000
    oldest.add_progress(ORDERS, progress(ORDERS, 40, 45), 130_000)
    assert oldest.get_oldest_ms(ORDERS) == 120_000, "the next copier has not read it yet"
    oldest.add_progress(ORDERS, progress(ORDERS, 41, 45), 140_000)
    assert oldest.get_oldest_ms(ORDERS) == 121_000, "the second was written after the end was 41"
    oldest.add_progress(ORDERS, progress(ORDERS, 41, 45, waiting_ms=139_000), 141_000)
    oldest.add_progress(ORDERS, progress(ORDERS, 41, 42), 142_000)
    assert oldest.get_oldest_ms(ORDERS) is None, "the log lost records: another may have the offset"
    oldest.add_progress(OLD, progress(OLD, 0, 9, waiting_ms=143_000), 144_000)
    oldest.add_progress(OLD, progress(OLD, 0, 3, waiting_ms=150_000), 151_000)
    assert oldest.get_oldest_ms(OLD) == 150_000, "another record has the offset"


def test_a_timestamp_in_the_future_counts_as_the_time_at_which_it_was_seen_first() -> None:
    oldest = OldestRecords()
    for at_ms in (5000, 6000):
        oldest.add_progress(ORDERS, progress(ORDERS, 5, 9, waiting_ms=4_102_444_800_000), at_ms, age_ms=300)
    assert oldest.get_oldest_ms(ORDERS) == 5000
    oldest.add_progress(OLD, progress(OLD, 5, 9, waiting_ms=10), 6000)
    assert oldest.get_oldest_ms(OLD) == 10, "a producer may set any time before, as MirrorMaker 2's record age shows"


@pytest.mark.parametrize(
    ("held", "after", "oldest_ms"),
    [
        pytest.param(None, {}, 119_900, id="idle up to the report before"),
        pytest.param(None, {"waiting_ms": 120_500}, 120_500, id="read"),
        pytest.param("TW-GAP-01", {}, 900, id="held before: its end was not requested meanwhile"),
    ],
)
def test_a_record_that_follows_an_idle_time_is_younger_than_that_time(
    held: str | None, after: dict[str, int], oldest_ms: int
) -> None:
    status = FlowStatus()
    status.add_report(report(progress(ORDERS, 5, 5, records=5, trouble=held), at_ms=1000, age_s=0.1))
    for at_ms in (60_000, 120_000):
        status.add_report(report(progress(OLD, 5, 5, records=1), at_ms=at_ms, age_s=0.1))
    status.add_report(report(progress(ORDERS, 5, 6, trouble="too large", **after), at_ms=121_000, age_s=0.1))
    assert {one.topic: one.oldest_ms for one in status.topics()}["orders"] == oldest_ms


def test_another_copier_says_nothing_of_a_partition_that_it_had_before() -> None:
    status = FlowStatus()
    status.add_report(report(progress(ORDERS, 5, 5), at_ms=1000))
    other = replace(report(progress(ORDERS, 5, 9), at_ms=3000), copier="other")
    status.add_report(replace(other, partitions=(), at_ms=2000))
    status.add_report(other)
    assert [one.oldest_ms for one in status.topics()] == [1000]


def test_a_lag_that_grows_has_the_age_of_its_begin() -> None:
    status = FlowStatus()
    status.add_report(report(progress(ORDERS, 5, 5), at_ms=1000))
    for number, at_ms in enumerate((2000, 3000, 4000)):
        status.add_report(report(progress(ORDERS, 5, 9 + number), at_ms=at_ms))
    assert [one.oldest_ms for one in status.topics()] == [1000]
    status.add_report(report(progress(ORDERS, 9, 12), at_ms=5000))
    assert [one.oldest_ms for one in status.topics()] == [2000], "the source ended at 9 then, and not at 4000"


def test_the_end_of_a_topic_that_was_recreated_is_not_waited_for() -> None:
    oldest = OldestRecords()
    oldest.add_progress(ORDERS, progress(ORDERS, 900, 900), 1000)
    oldest.add_progress(ORDERS, progress(ORDERS, 0, 10), 900)
    assert oldest.get_oldest_ms(ORDERS) == 1000, "a late report of the copier before"
    oldest.add_progress(ORDERS, progress(ORDERS, 0, 10), 2000)
    assert oldest.get_oldest_ms(ORDERS) is None
    oldest.add_progress(ORDERS, progress(ORDERS, 10, 20), 3000)
    assert oldest.get_oldest_ms(ORDERS) == 2000


def test_only_topics_of_which_something_came_are_added_up_again() -> None:
    clock = VirtualClock()
    status = FlowStatus(clock.monotonic)
    status.plan({ORDERS, OLD})
    assert {one.topic: (one.unknown, one.lag_bytes) for one in status.topics()} == {
        "orders": (1, None),
        "old": (1, None),
    }
    status.add_report(report(progress(ORDERS, 5, 9), progress(OLD, 2, 2), at_ms=1000))
    before = {one.topic: one for one in status.topics()}
    assert (before["orders"].lag, before["orders"].lag_bytes, before["old"].unknown) == (4, None, 0)
    status.add_report(report(progress(OLD, 4, 4, records=2, size=20), at_ms=2000))
    after = {one.topic: one for one in status.topics()}
    assert (after["orders"].lag_bytes, after["old"].records) == (40, 2), "by the mean of the others"
    clock.now += WINDOW_S + 1
    again = {one.topic: one for one in status.topics()}
    assert again["old"] is {one.topic: one for one in status.topics()}["old"]
    clock.now += OLD_S + 1
    assert [one.unknown for one in status.topics()] == [1, 1]
    status.plan({OLD})
    assert [one.topic for one in status.topics()] == ["old"]


def test_the_proofs_of_copiers_are_summed_up() -> None:
    status = FlowStatus()
    reporter = FlowReporter(SETTINGS, SYSTEM)
    status.add_report(report(progress(ORDERS, 5, 5), at_ms=1000))
    assert reporter.report("running", None, status).proof is None
    parts = (progress(ORDERS, 5, 5, proof_lag_ms=250, proven_target=4), progress(OLD, 5, 5, proof_lag_ms=0))
    counters = CopierCounters(proven_records=9, proven_bytes=99, unproved_records=2, differences={"foreign": 1})
    for _ in range(2):
        status.add_report(replace(report(*parts, at_ms=2000), counters=counters))
    assert reporter.report("running", None, status).proof == ProofProgress(2, 0.25, 18, 198, 4, 2)


def test_the_same_error_keeps_its_time_and_the_last_one_stays() -> None:
    reporter = FlowReporter(SETTINGS, SYSTEM)
    reporter.last_error.record_error("gap: x")
    seen = reporter.report("running", None)
    assert (seen.last_error, seen.detail) == ("gap: x", None)
    assert reporter.report("failed", "y").last_error == "y"
    assert reporter.report("idle", "no topic is mirrored").last_error == "y"
    error = LastError(SYSTEM)
    error.record_error("a")
    first = error.last
    error.record_error("a")
    error.update_trouble(None)
    assert error.last is first


def test_a_lasting_error_is_over_once_the_flow_has_no_trouble() -> None:
    clock = VirtualClock()
    reporter = FlowReporter(SETTINGS, clock)

    def after(seconds: float, trouble: str | None) -> DriverReport:
        clock.now += seconds
        return reporter.report("running", trouble)

    reporter.last_error.record_error("orders-0 is held", lasts=True)
    assert after(1, "1 partition is held").last_error_over_ms is None
    assert after(LASTS_S, "1 partition is held").last_error == "1 partition is held"
    over_ms = after(1, None).at_ms
    found = after(5, None)
    assert (found.last_error, found.last_error_over_ms) == ("1 partition is held", over_ms)
    assert decode_report(encode_report(found, 1_000_000)) == found
    # The same error returns.
    reporter.last_error.record_error("1 partition is held", lasts=True)
    assert after(1, "1 partition is held").last_error_over_ms is None
    # Lost records stay lost.
    reporter.last_error.record_error("gap: x")
    assert after(1, None).last_error_over_ms is None


@pytest.mark.parametrize(("kind", "over"), [("limit", True), ("gap", False)])
def test_a_record_that_waited_for_a_raised_limit_is_no_error_any_more(kind: str, over: bool) -> None:
    clock = VirtualClock()
    reporter = FlowReporter(SETTINGS, clock)
    flow: Any = SimpleNamespace(
        settings=SETTINGS,
        _reporter=reporter,
        _clock=clock,
        flow_status=SimpleNamespace(meters=SimpleNamespace(event=lambda *_: None)),
        by_settings=SimpleNamespace(keeps_settings=None),
    )
    FlowRunner._copier_event(flow, kind, "a record does not fit")
    found = reporter.report("running", "a record does not fit")
    assert (found.last_error or "").endswith("a record does not fit")
    assert found.last_error_over_ms is None
    clock.now += 1
    found = reporter.report("running", None)
    assert (found.last_error_over_ms == found.at_ms) is over


def test_a_trouble_is_an_error_once_it_lasts() -> None:
    clock = VirtualClock()
    reporter = FlowReporter(SETTINGS, clock)

    def after(seconds: float, trouble: str | None) -> str | None:
        clock.now += seconds
        return reporter.report("running", trouble).last_error

    # A leader moved.
    assert after(0, "orders-0: FencedLeaderEpochError") is None
    assert after(LASTS_S - 1, None) is None
    assert after(1, "orders-0: FencedLeaderEpochError") is None
    assert after(LASTS_S - 1, "orders-1: FencedLeaderEpochError") is None
    assert after(2, "orders-1: the disk is full") == "orders-1: the disk is full"
    assert after(1, None) == "orders-1: the disk is full"


def test_an_unknown_lag_has_no_bytes() -> None:
    """They were 0, as if nothing waited."""
    clock = VirtualClock()
    status = FlowStatus(clock.monotonic)
    status.plan({ORDERS}, set())
    reporter = FlowReporter(SETTINGS, SYSTEM)
    status.add_report(report(progress(ORDERS, 5, 5, records=5, size=50), at_ms=1000))
    assert reporter.report("running", None, status).lag_bytes == 0
    clock.now += OLD_S + 1
    seen = reporter.report("waiting", "source cluster unreachable", status)
    assert (seen.lag, seen.lag_bytes) == (-1, None)
    assert seen.counts_since_ms is not None
    assert seen.at_ms - seen.counts_since_ms == (OLD_S + 1) * 1000


class Target:
    """A cluster that takes records, or does not."""

    clock: Any = SYSTEM
    client: Any = None

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.away = False
        self.most_bytes = 1 << 20

    def call(self, step: Any) -> None:
        if self.away:
            raise ClusterError("away")
        values = [value for _, value in step.args[0]]
        if len(values[0]) > self.most_bytes:
            raise NotAppendedError("too large", Code.MESSAGE_TOO_LARGE, len(values[0]))
        self.values += values


def test_a_target_that_is_away_is_no_trouble() -> None:
    target = Target()
    found: Any = target
    looks = iter([replace(FULL, at_ms=at_ms) for at_ms in (1, 2, 3)])
    publisher = Publisher(SETTINGS, found, lambda: next(looks))
    publisher.publish_report()
    target.away = True
    publisher.publish_report()
    target.away = False
    publisher.publish_report()
    assert [seen.at_ms for value in target.values if (seen := decode_report(value)) is not None] == [1, 3]


def test_the_reports_of_two_groups_have_keys_of_their_own() -> None:
    groups = ("a-mm2", "a-mm2-wave", "")
    assert len({report_key(replace(FULL, group=group)) for group in groups}) == len(groups)
    again = replace(FULL, process="host-2", at_ms=2000)
    assert report_key(again) == report_key(FULL), "a later process of the group replaces the report"


def test_a_topic_of_small_records_gets_fewer_topics_and_that_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    target = Target()
    target.most_bytes = 3_000
    found: Any = target
    every = tuple(TopicProgress(f"t{number}", lag=number) for number in range(100))
    publisher = Publisher(SETTINGS, found, lambda: replace(FULL, topics=every))
    for _ in range(10):
        publisher.publish_report()
    shown = [seen for value in target.values if (seen := decode_report(value)) is not None]
    assert shown
    assert shown[-1].topics
    assert len(shown[-1].topics) + shown[-1].more_topics == 100
    assert [one.levelname for one in caplog.records] == ["WARNING"]
    assert "raise its max.message.bytes" in caplog.text


def test_a_topic_that_is_missing_for_long_is_tried_less_often() -> None:
    target = Target()
    found: Any = target
    clock = target.clock = VirtualClock()
    tries = []

    def missing(step: Any) -> None:
        tries.append(clock.monotonic())
        raise NotAppendedError("does not exist", Code.UNKNOWN_TOPIC_OR_PARTITION)

    right, target.call = target.call, missing  # type: ignore[method-assign]
    publisher = Publisher(SETTINGS, found, lambda: FULL)
    for _ in range(150):
        publisher.publish_report()
        clock.sleep(2)
    assert tries[1] - tries[0] == 2
    assert tries[-1] - tries[-2] == 10
    target.call = right  # type: ignore[method-assign]
    for _ in range(5):
        clock.sleep(2)
        publisher.publish_report()
    assert target.values


def test_the_progress_with_groups_counts_the_unsafe_groups() -> None:
    so_far = FollowedSoFar(replace(SETTINGS, sync_group_offsets_interval_s=1.0))
    writer, job = SimpleNamespace(followed=("bank", "shop", "store")), SimpleNamespace(succeeded_ms=900, trouble=None)
    unsafe = SimpleNamespace(
        inexact=frozenset({"bank", "store"}), ahead=frozenset({"store"}), before_start=frozenset({"bank"})
    )
    so_far.set_jobs(cast(Any, writer), (cast(Any, job), cast(Any, job)), cast(Any, unsafe))
    groups = so_far.progress()
    assert groups is not None
    assert (groups.followed, groups.inexact, groups.ahead, groups.before_start) == (3, 2, 1, 1)
