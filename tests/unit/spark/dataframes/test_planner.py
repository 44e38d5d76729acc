"""Where batch queries begin and end, asked of brokers in virtual time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.virtual.cluster import VirtualCluster
from harness.virtual.faults import Fault
from harness.virtual.loop import virtual_loop
from harness.virtual.requests import LIST_OFFSETS, METADATA
from tests.unit.spark.dataframes.planning import options_of, planner_of
from twinlog.errors import ClusterError, OptionError, TopicGoneError
from twinlog.kafka.protocol.error_codes import Code
from twinlog.spark.dataframes.ranges import EarliestOrLatestRangeLimit, split


@pytest.fixture
def cluster() -> Iterator[VirtualCluster]:
    with virtual_loop(1) as loop:
        made = VirtualCluster(loop, "c", brokers=2)
        for number, log in enumerate(made.create("t", 2)):
            log.write(*[b"v"] * (5 + number))
            log.delete_before(0)
        made.create("topic-2")
        yield made


def ranges(cluster: VirtualCluster, **options: str) -> list[tuple[str, int, int]]:
    planner = planner_of(cluster, options_of(cluster, "batch", **options))
    try:
        found = planner.batch_ranges()
    finally:
        planner.close()
    assert all(one.topic_id is not None for one in found)
    return [(str(one.partition), one.start, one.end) for one in found]


def test_everything_that_is_there(cluster: VirtualCluster) -> None:
    cluster.log("t").start = 2
    assert ranges(cluster) == [("t-0", 2, 5), ("t-1", 0, 6)]
    assert ranges(cluster, assign='{"t":[1]}') == [("t-1", 0, 6)]
    # Spark looks for the expression anywhere in a name.
    assert ranges(cluster, subscribePattern="opic") == [("topic-2-0", 0, 0)]
    assert ranges(cluster, subscribePattern="nothing") == []
    assert ranges(cluster, startingOffsets='{"t":{"0":3,"1":-2}}', endingOffsets='{"t":{"0":-1,"1":4}}') == [
        ("t-0", 3, 5),
        ("t-1", 0, 4),
    ]


def test_offsets_that_do_not_fit(cluster: VirtualCluster) -> None:
    with pytest.raises(OptionError, match=r"Specified: Set\(t-0\) Assigned: Set\(t-0, t-1\)"):
        ranges(cluster, startingOffsets='{"t":{"0":3}}')
    with pytest.raises(OptionError, match=r"timestamp based end offsets don't match.* Specified: Set\(t-0\)"):
        ranges(cluster, endingOffsetsByTimestamp='{"t":{"0":3}}')
    with pytest.raises(OptionError, match="start offset 9 is greater than the resolved end offset 5 for topic t"):
        ranges(cluster, startingOffsets='{"t":{"0":9,"1":0}}')


def test_a_topic_that_is_not_there_is_named_after_three_tries(cluster: VirtualCluster) -> None:
    with pytest.raises(TopicGoneError, match="topic nowhere is missing; create it, or name other topics in option"):
        ranges(cluster, subscribe="t,nowhere")


def test_a_topic_that_a_broker_does_not_describe_is_not_taken_for_an_empty_one(cluster: VirtualCluster) -> None:
    cluster.fault(METADATA, Fault(code=Code.UNKNOWN_TOPIC_OR_PARTITION), topic="topic-2")
    assert ranges(cluster, subscribePattern="opic") == [("topic-2-0", 0, 0)]
    assert not cluster.faults_left
    invalid_topic = 17
    cluster.fault(METADATA, Fault(code=invalid_topic), times=3, topic="t 2")
    with pytest.raises(ClusterError, match=r"partitions of topic t 2 are missing: .*invalid topic"):
        ranges(cluster, subscribe="t 2")


def test_what_begins_at_the_earliest_may_begin_later_when_it_is_read(cluster: VirtualCluster) -> None:
    def first_pieces(**options: str) -> list[tuple[str, int]]:
        read = options_of(cluster, "batch", minPartitions="4", **options)
        planner = planner_of(cluster, read)
        found = split(planner.batch_ranges(), read.min_partitions, None)
        planner.close()
        assert len(found) == 4
        return [(str(one.partition), one.start) for one in found if one.from_earliest]

    assert first_pieces() == [("t-0", 0), ("t-1", 0)]
    assert first_pieces(startingOffsets='{"t":{"0":1,"1":-2}}') == [("t-1", 0)]


def test_a_leader_that_moves_is_asked_again(cluster: VirtualCluster) -> None:
    cluster.fault(LIST_OFFSETS, Fault(code=Code.NOT_LEADER_OR_FOLLOWER))
    assert ranges(cluster) == [("t-0", 0, 5), ("t-1", 0, 6)]
    cluster.fault(LIST_OFFSETS, Fault(code=Code.LEADER_NOT_AVAILABLE), times=50)
    before = cluster.now()
    with pytest.raises(ClusterError, match="offsets of t-0, t-1 are missing"):
        ranges(cluster, **{"fetchOffset.numRetries": "4", "fetchOffset.retryIntervalMs": "2000"})
    assert 6 <= cluster.now() - before < 30


def test_a_broker_that_is_not_up_to_date_is_asked_again(cluster: VirtualCluster) -> None:
    planner = planner_of(cluster, options_of(cluster, "batch"))
    try:
        (first, second) = sorted(planner.resolve(EarliestOrLatestRangeLimit(-1), starting=False))
        assert planner.latest({first: 5}) == {first: 5, second: 6}
        cluster.loop.net.call_later(1.5, lambda: cluster.write("t", b"more"))
        assert planner.latest({first: 6}) == {first: 6, second: 6}
        third = first._replace(partition=2)
        cluster.loop.net.call_later(1.5, lambda: cluster.topics.grow("t", 3))
        assert planner.latest({third: 0}) == {first: 6, second: 6, third: 0}
    finally:
        planner.close()
