"""A flow's figures: what copiers report, added up without adding all of it up again."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.virtual.clock import VirtualClock
from twinlog.lease.progress import PartitionCounters, PartitionProgress, Report
from twinlog.model.types import TopicName, TopicPartition
from twinlog.worker.status.backlog import Backlog
from twinlog.worker.status.flow_status import OLD_S, FlowStatus
from twinlog.worker.status.topic_sums import WINDOW_S

ORDERS, OLD = TopicPartition(TopicName("orders"), 0), TopicPartition(TopicName("old"), 0)
BEATS = TopicPartition(TopicName("heartbeats"), 0)


def progress(
    partition: TopicPartition, offset: int = 5, end: int = 7, *, records: int = 0, size: int = 0, **fields: Any
) -> PartitionProgress:
    counters = PartitionCounters(records, size)
    return PartitionProgress(partition.topic, partition.partition, offset, offset, end, counters, **fields)


def report(*partitions: TopicPartition | PartitionProgress, copier: str = "copier", age_s: float = 0.0) -> Report:
    parts = tuple(
        one if isinstance(one, PartitionProgress) else progress(one, records=5, size=50) for one in partitions
    )
    return Report("a->b", copier, 1, 0, 1.0, 0.1, partitions=parts, age_s=age_s)


def test_reports_add_up() -> None:
    status = FlowStatus()
    status.add_report(report(ORDERS))
    status.add_report(report(ORDERS, OLD))
    summary = status.summary()
    assert (summary.partitions, summary.records, summary.bytes, summary.lag) == (2, 15, 150, 4)


def test_a_late_report_does_not_bring_back_what_is_no_longer_copied() -> None:
    status = FlowStatus()
    status.add_report(report(ORDERS, OLD))
    status.plan({ORDERS})
    status.add_report(report(ORDERS, OLD))
    assert set(status.partitions()) == {ORDERS}
    assert status.summary().records == 15


def test_what_is_waited_for_is_reached_once_the_last_partition_is() -> None:
    status = FlowStatus()
    status.add_report(report(progress(ORDERS, 4)))
    status.wait_for({ORDERS: 5, OLD: 3})
    status.add_report(report(progress(OLD, 3)))
    assert not status.reached
    status.add_report(report(progress(ORDERS, 5)))
    assert status.reached


def test_a_lag_has_an_age_and_is_unknown_without_reports() -> None:
    clock = VirtualClock()
    status = FlowStatus(clock.monotonic)
    status.plan({ORDERS, OLD})
    assert (status.summary().lag, status.summary().unknown) == (-1, 2)
    status.add_report(report(ORDERS, copier="one", age_s=1.0))
    status.add_report(report(OLD, copier="two"))
    clock.now += 3
    seen = status.summary()
    assert (seen.lag, seen.lag_age_s, seen.unknown) == (4, 4.0, 0)
    clock.now += OLD_S - 5
    status.add_report(report(copier="two"))
    clock.now += 2
    seen = status.summary()
    assert (seen.lag, seen.lag_age_s, seen.unknown) == (2, 2.0, 1)
    clock.now += OLD_S
    assert status.summary().lag == -1


def test_who_takes_a_partition_over_answers_for_it() -> None:
    clock = VirtualClock()
    status = FlowStatus(clock.monotonic)
    status.add_report(report(ORDERS, copier="one"))
    clock.now += OLD_S + 1
    status.remove_copier("one")
    assert status.summary().lag == -1
    status.add_report(report(progress(ORDERS, 7), copier="two"))
    assert (status.summary().lag, status.summary().copiers) == (0, 1)
    status.remove_copier("three")
    assert len(status.holders()) == 1


def test_heartbeats_are_no_records_of_the_user() -> None:
    beats = TopicPartition(TopicName("heartbeats"), 0)
    status = FlowStatus()
    status.plan({ORDERS, beats}, {beats})
    status.add_report(report(ORDERS, progress(beats, records=100, size=1000, trouble="late")))
    seen = status.summary()
    assert (seen.partitions, seen.records, seen.bytes, seen.lag, seen.unknown, seen.trouble) == (1, 5, 50, 2, 0, None)
    assert status.planned() == 1
    assert set(status.partitions()) == {ORDERS, beats}


def test_counters_go_on_where_an_earlier_term_ended() -> None:
    clock = VirtualClock()
    before = FlowStatus(clock.monotonic)
    before.add_report(report(ORDERS, OLD))
    clock.now += 60
    status = FlowStatus(clock.monotonic)
    status.count_on(before)
    status.add_report(report(ORDERS))
    assert (status.summary().records, status.summary().bytes, status.summary().counted_s) == (15, 150, 60)


def test_the_rate_is_that_of_the_last_seconds() -> None:
    clock = VirtualClock()
    status = FlowStatus(clock.monotonic)
    status.add_report(report(progress(ORDERS, records=1000, size=5000)))
    clock.now += 2
    assert (status.summary().record_rate, status.summary().byte_rate) == (500, 2500)
    clock.now += WINDOW_S
    assert status.summary().record_rate == 0


def test_the_rates_of_topics_are_of_the_seconds_of_the_flow_s_rate() -> None:
    clock = VirtualClock()
    status = FlowStatus(clock.monotonic)
    clicks = TopicPartition(TopicName("clicks"), 0)
    status.add_report(report(progress(ORDERS, records=1000, size=5000), progress(clicks, records=10, size=20)))
    clock.now += 4
    status.add_report(report(progress(ORDERS, records=200, size=1000)))

    def rates() -> dict[str, tuple[float, float]]:
        return {one.topic: (one.record_rate, one.byte_rate) for one in status.topics()}

    assert rates() == {ORDERS.topic: (300, 1500), "clicks": (2.5, 5)}
    assert sum(rate for rate, _ in rates().values()) == status.summary().record_rate
    assert rates()[ORDERS.topic] == (300, 1500), "a repeated look has no window of its own"
    clock.now += 2
    assert rates() == {ORDERS.topic: (100, 500), "clicks": (0, 0)}
    assert rates()[ORDERS.topic][0] == status.summary().record_rate
    clock.now += WINDOW_S
    assert set(rates().values()) == {(0, 0)}


def etas(lags: list[int], records: int = 0) -> list[float | None]:
    """The ETA after each of these lags, which come a second apart while so many records a second are copied."""
    clock = VirtualClock()
    status = FlowStatus(clock.monotonic)
    found = []
    for lag in lags:
        clock.now += 1
        status.add_report(report(progress(ORDERS, 0, lag, records=records)))
        found.append(status.summary().eta_s)
    return found


def test_the_lag_is_gone_at_the_speed_at_which_it_shrinks() -> None:
    assert etas([100_000 - 1000 * step for step in range(20)], records=3000)[-1] == pytest.approx(81.0)


def test_a_lag_that_grows_has_no_end() -> None:
    assert etas([10_000 + 100 * step for step in range(20)], records=1000)[1:] == [None] * 19


def test_the_end_of_a_lag_that_is_unknown_for_a_partition_is_unknown() -> None:
    status = FlowStatus(VirtualClock().monotonic)
    status.add_report(report(progress(ORDERS, 0, 0)))
    assert status.summary().eta_s == 0.0
    status.add_report(report(progress(ORDERS, 0, 0), progress(OLD, 0, -1)))
    assert (status.summary().lag, status.summary().unknown, status.summary().eta_s) == (0, 1, None)


def test_records_on_their_way_arrive_at_the_rate_of_copying_however_many_they_are_just_now() -> None:
    lags = [300, 700, 100, 900, 500] * 6
    found = etas(lags, records=1000)[6:]
    assert None not in found, found
    assert max(one for one in found if one is not None) < 1.0


def test_what_is_held_up_is_not_on_its_way_however_fast_the_others_are() -> None:
    clock = VirtualClock()
    status = FlowStatus(clock.monotonic)
    for left in range(20_000, 0, -1000):
        clock.now += 1
        stuck = progress(OLD, 0, 300, trouble="target: no leader")
        status.add_report(report(progress(ORDERS, 0, left, records=1000), stuck))
        assert status.summary().eta_s is None


def test_a_lag_that_shrinks_in_fits_and_starts_has_an_end_all_the_time() -> None:
    found = etas([100_000 - 1000 * step + 1500 * (step % 2) for step in range(40)], records=500)[15:]
    assert all(one is not None and 40 < one < 150 for one in found), found


def test_a_burst_is_seen_to_shrink_soon_after_it_came() -> None:
    found = etas([0] * 10 + [1_000_000 - 10_000 * step for step in range(30)], records=10_000)
    assert found[10:12] == [None, None]
    assert found[30] == pytest.approx(80.0, rel=0.2)


def test_all_of_what_is_held_up_is_named_by_one_and_counted() -> None:
    status = FlowStatus()
    status.add_report(report(progress(ORDERS, trouble="target: no"), progress(OLD, trouble="target: no")))
    assert status.stuck() == (2, "orders-0: target: no (and 1 more partition)")
    # An error names the partition itself.
    status.add_report(report(progress(ORDERS, trouble="orders-0: the transform fails"), OLD))
    assert status.stuck() == (1, "orders-0: the transform fails")
    status.add_report(report(ORDERS, OLD))
    assert status.stuck() == (0, None)


partitions = st.builds(
    progress,
    st.sampled_from([TopicPartition(TopicName("t"), number) for number in range(5)]),
    st.integers(0, 9),
    st.integers(-1, 12),
    records=st.integers(0, 5),
    size=st.integers(0, 5),
    trouble=st.sampled_from([None, "no"]),
)
names = st.sampled_from(["one", "two", "three"])
steps = st.lists(
    st.one_of(
        st.tuples(names, st.lists(partitions, max_size=4)),
        st.sets(st.integers(0, 4)),
        names,
    ),
    max_size=30,
)


@given(steps)
def test_sums_are_those_of_a_full_count(taken: list[Any]) -> None:
    clock = VirtualClock()
    status = FlowStatus(clock.monotonic)
    planned = {TopicPartition(TopicName("t"), number) for number in range(5)}
    own: set[TopicPartition] = set()
    records = 0
    last: dict[TopicPartition, PartitionProgress] = {}
    status.plan(planned)
    for step in taken:
        clock.now += 0.1
        if isinstance(step, str):
            status.remove_copier(step)
        elif isinstance(step, set):
            planned = {TopicPartition(TopicName("t"), number) for number in step}
            own = {part for part in planned if part.partition == 4}
            last = {key: part for key, part in last.items() if key in planned}
            status.plan(planned, own)
        else:
            copier, parts = step
            status.add_report(report(*parts, copier=copier))
            for part in parts:
                key = TopicPartition(TopicName(part.topic), part.partition)
                if key in planned:
                    last[key] = part
                    records += 0 if key in own else part.counters.records
    counted = {key: part for key, part in last.items() if key not in own}
    known = [part.lag for part in counted.values() if part.lag >= 0]
    seen = status.summary()
    assert seen.records == records
    assert seen.partitions == len(counted)
    assert seen.lag == (sum(known) if known else -1)
    assert seen.unknown == len(planned - own) - len(known)
    assert status.stuck()[0] == sum(part.trouble is not None for part in counted.values())
    assert status.partitions() == last


def operations(status: FlowStatus, taken: Report) -> int:
    """How many lines of Python one report costs."""
    count = 0

    def tracer(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return tracer

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        status.add_report(taken)
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("known", [10, 10_000])
def test_a_report_costs_the_same_however_many_partitions_are_known(known: int) -> None:
    clock = VirtualClock()
    status = FlowStatus(clock.monotonic)
    all_ = [TopicPartition(TopicName("t"), number) for number in range(known)]
    status.plan(set(all_))
    status.add_report(report(*all_))
    clock.now += 1
    status.add_report(report(*all_[:3]))
    clock.now += 1
    assert 0 < operations(status, report(*all_[:3])) < 360


def test_a_backlog_is_what_waits_and_how_busy_the_least_busy_copier_is() -> None:
    clock = VirtualClock()
    status = FlowStatus(clock.monotonic)
    assert status.backlog() == Backlog()
    status.plan({ORDERS, OLD, BEATS}, {BEATS})
    status.add_report(replace(report(progress(ORDERS, 5, 105, records=30)), busy=0.9))
    status.add_report(
        replace(report(progress(OLD, 5, 45, records=10), progress(BEATS, 5, 9_000), copier="b"), busy=0.6)
    )
    assert status.backlog() == Backlog(busy=0.6, lag=140, elsewhere=40, records_per_s=40)
    clock.now += WINDOW_S
    status.add_report(replace(report(progress(ORDERS, 105, 105)), busy=0.3))
    assert status.backlog() == Backlog(busy=0.3, lag=40, elsewhere=0, records_per_s=40 / WINDOW_S)
    status.add_report(report(progress(OLD, 45, 45)))
    assert status.backlog() == Backlog(), "nothing waits"
