"""Why nothing is copied: what copiers and the driver know of both clusters, put together."""

from __future__ import annotations

import logging
import time
from types import SimpleNamespace
from typing import Any

import pytest

from harness.virtual.clock import VirtualClock
from twinlog.kafka.net.contact import throttles
from twinlog.lease.progress import PartitionProgress, Report
from twinlog.model.reach import ClusterReachability
from twinlog.model.types import TopicName, TopicPartition
from twinlog.worker.status import outage as outage_module
from twinlog.worker.status.flow_status import FlowStatus
from twinlog.worker.status.outage import THROTTLED_S, Outage, OutageDetector, OutageWatch, clock_time

PART = TopicPartition(TopicName("t"), 0)
FINE = ClusterReachability(heard_s=0.1)
OUT = ClusterReachability(heard_s=6.0, out_s=5.0, why="refused")


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def status(clock: VirtualClock) -> FlowStatus:
    """Of a flow whose time is that of the watch, too."""
    status = FlowStatus(clock.monotonic)
    status.plan({PART})
    return status


def take(
    status: FlowStatus,
    copier: str,
    *,
    source: ClusterReachability = FINE,
    target: ClusterReachability = FINE,
    trouble: str | None = None,
) -> None:
    part = PartitionProgress("t", 0, 1, 1, 1, trouble=trouble)
    status.add_report(Report("a->b", copier, 1, 0, 1.0, 0.1, partitions=(part,), source=source, target=target))


def what(outage: Outage | None) -> str | None:
    return None if outage is None else outage.what


def test_nothing_is_wrong(status: FlowStatus, clock: VirtualClock) -> None:
    take(status, "one")
    assert OutageWatch(status, clock).detect_outage(FINE, FINE) is None


def test_copiers_that_do_not_reach_the_target_copy_nothing_whatever_the_driver_reaches(
    status: FlowStatus, clock: VirtualClock
) -> None:
    take(status, "one", target=OUT)
    watch = OutageWatch(status, clock)
    clock.sleep(1)
    outage = watch.detect_outage(FINE, FINE)
    assert outage is not None
    assert outage.what == "target cluster unreachable"
    # The report lay there for a moment, too.
    assert outage.since == clock.wall() - 6
    assert str(outage) == f"target cluster unreachable since {clock_time(outage.since)}, nothing is copied (refused)"


def test_a_copier_that_was_answered_meanwhile_copies_whatever_the_driver_reaches(
    status: FlowStatus, clock: VirtualClock
) -> None:
    take(status, "one")
    assert OutageWatch(status, clock).detect_outage(FINE, OUT) is None


def test_an_idle_copier_does_not_know_what_the_driver_knows(status: FlowStatus, clock: VirtualClock) -> None:
    take(status, "one", target=ClusterReachability(heard_s=60.0))
    assert what(OutageWatch(status, clock).detect_outage(FINE, OUT)) == "target cluster unreachable"


def test_one_of_two_copiers_is_enough_to_copy(status: FlowStatus, clock: VirtualClock) -> None:
    other = TopicPartition(TopicName("t"), 1)
    status.plan({PART, other})
    take(status, "one", source=OUT)
    status.add_report(
        Report(
            "a->b", "two", 1, 0, 1.0, 0.1, partitions=(PartitionProgress("t", 1, 1, 1, 1),), source=FINE, target=FINE
        )
    )
    assert OutageWatch(status, clock).detect_outage(FINE, FINE) is None
    take(status, "two", source=OUT)
    assert what(OutageWatch(status, clock).detect_outage(FINE, FINE)) == "source cluster unreachable"


def test_before_any_copier_the_driver_decides(status: FlowStatus, clock: VirtualClock) -> None:
    assert what(OutageWatch(status, clock).detect_outage(OUT, FINE)) == "source cluster unreachable"


def test_without_copiers_nothing_is_copied(status: FlowStatus, clock: VirtualClock) -> None:
    watch = OutageWatch(status, clock)
    assert watch.detect_outage(FINE, FINE) is None
    take(status, "one")
    status.remove_copier("one")
    assert what(watch.detect_outage(FINE, FINE)) == "no task of Spark runs"
    take(status, "two")
    assert watch.detect_outage(FINE, FINE) is None


def test_all_partitions_held_up_is_reported_with_the_reason(status: FlowStatus, clock: VirtualClock) -> None:
    take(status, "one", trouble="target: NotEnoughReplicasError")
    outage = OutageWatch(status, clock).detect_outage(FINE, FINE)
    assert what(outage) == "every partition is held up"
    assert "t-0: target: NotEnoughReplicasError" in str(outage)


def test_a_quota_that_lets_requests_through_in_turns_is_no_outage(status: FlowStatus, clock: VirtualClock) -> None:
    watch = OutageWatch(status, clock)
    for _ in range(5):
        take(status, "one", trouble=f"target: {throttles(1)}")
        for _ in range(3):
            clock.sleep(THROTTLED_S / 4)
            assert watch.detect_outage(FINE, FINE) is None
        take(status, "one")
        assert watch.detect_outage(FINE, FINE) is None
    take(status, "one", trouble=f"target: {throttles(1)}")
    began = clock.wall()
    assert watch.detect_outage(FINE, FINE) is None
    clock.sleep(THROTTLED_S)
    outage = watch.detect_outage(FINE, FINE)
    assert outage == Outage("every partition is held up", began, f"t-0: target: {throttles(1)}")


def test_a_quota_after_another_outage_counts_anew(status: FlowStatus, clock: VirtualClock) -> None:
    watch = OutageWatch(status, clock)
    take(status, "one", trouble=f"target: {throttles(1)}")
    assert watch.detect_outage(FINE, FINE) is None
    take(status, "one", target=OUT)
    began = clock.now
    while clock.now - began < THROTTLED_S:
        clock.sleep(1)
        assert what(watch.detect_outage(FINE, OUT)) == "target cluster unreachable"
    take(status, "one", trouble=f"target: {throttles(1)}")
    assert watch.detect_outage(FINE, FINE) is None


def test_a_missing_leadership_lease_holds_everything_up(status: FlowStatus, clock: VirtualClock) -> None:
    take(status, "one")
    assert "has not confirmed" in str(OutageWatch(status, clock).detect_outage(FINE, FINE, leads=False))


def test_the_beginning_of_an_outage_does_not_move(status: FlowStatus, clock: VirtualClock) -> None:
    watch = OutageWatch(status, clock)
    take(status, "one", target=OUT)
    first = watch.detect_outage(FINE, FINE)
    take(status, "one", target=ClusterReachability(heard_s=6.0, out_s=4.0))
    second = watch.detect_outage(FINE, FINE)
    assert first is not None
    assert second is not None
    assert second.since == first.since


def test_a_moment_of_another_day_has_its_date() -> None:
    now = time.mktime((2026, 3, 2, 12, 0, 0, 0, 0, -1))
    assert clock_time(now - 60, now) == "11:59:00"
    assert clock_time(now - 86400, now) == "2026-03-01 12:00:00"


def test_a_lasting_outage_and_its_end_are_logged_once(
    status: FlowStatus, clock: VirtualClock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[bool] = []
    settings: Any = SimpleNamespace(name="a->b", source="a", target="b")
    waiting = OutageDetector(
        *(settings, status),
        source=lambda: FINE,
        target=lambda: FINE,
        leads=lambda: True,
        over=lambda: ended.append(True),
        clock=clock,
    )
    with caplog.at_level(logging.INFO):
        take(status, "one", target=ClusterReachability(heard_s=2.0, out_s=1.0, why="refused"))
        waiting.check_outage()
        assert "target cluster unreachable" in str(waiting.outage)
        assert caplog.records == []
        monkeypatch.setattr(outage_module, "LOG_AFTER_S", 0.0)
        waiting.check_outage()
        waiting.check_outage()
        assert ended == []
        take(status, "one")
        waiting.check_outage()
        waiting.check_outage()
    assert waiting.outage is None
    assert ended == [True]
    assert [record.getMessage() for record in caplog.records] == [
        "TW-WAIT-01: a->b: waiting: cluster b unreachable, nothing is copied (refused)",
        "a->b: cluster b answers again after 1 s",
    ]


def test_a_suspended_process_reports_no_outage_of_others(status: FlowStatus, clock: VirtualClock) -> None:
    watch = OutageWatch(status, clock)
    asked = ClusterReachability(heard_s=21.0, out_s=20.0)
    clock.now += 20.0
    assert (
        what(watch.detect_outage(FINE, asked, leads=False))
        == "the group coordinator has not confirmed that this process runs the flow"
    )
    clock.now += 1.0
    assert what(watch.detect_outage(FINE, asked)) is None
    # What begins afterwards counts, and what lasts.
    assert what(watch.detect_outage(FINE, ClusterReachability(heard_s=1.0, out_s=0.5))) == "target cluster unreachable"
    for _ in range(5):
        clock.now += 1.0
        last = watch.detect_outage(FINE, asked)
    assert what(last) == "target cluster unreachable"
