"""Micro-batches of a stream over brokers in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from harness.virtual.cluster import VirtualCluster
from harness.virtual.loop import virtual_loop
from tests.unit.spark.dataframes.planning import stream_of
from twinlog.errors import GapError
from twinlog.spark.dataframes.stream import TopicStream

ALL, SOME = True, False


@pytest.fixture
def cluster() -> Iterator[VirtualCluster]:
    with virtual_loop(1) as loop:
        made = VirtualCluster(loop, "c")
        made.create("t", 2)
        made.write("t", *[b"v"] * 10)
        yield made


def ranges(stream: TopicStream, start: Any, end: Any) -> list[tuple[int, int, int]]:
    return [(one.partition.partition, one.start, one.end) for one in stream.ranges(start, end)]


def test_from_the_beginning_in_pieces(cluster: VirtualCluster) -> None:
    stream = stream_of(cluster, startingOffsets="earliest", maxOffsetsPerTrigger="4")
    at = stream.initial()
    assert at == {"t": {"0": 0, "1": 0}}
    seen = []
    while (end := stream.latest(at, everything=SOME)) != at:
        seen += ranges(stream, at, end)
        at = end
    assert seen == [(0, 0, 4), (0, 4, 8), (0, 8, 10)]
    assert stream.reported() == {"t": {"0": 10, "1": 0}}
    assert stream.latest({"t": {"0": 0, "1": 0}}, everything=ALL) == {"t": {"0": 10, "1": 0}}
    stream.close()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"startingOffsets": '{"t":{"0":-1,"1":-2}}'},
        {"startingTimestamp": "5", "startingOffsetsByTimestampStrategy": "latest"},
    ],
)
def test_from_the_end_nothing_is_left_out_after_a_crash_in_the_first_micro_batch(
    cluster: VirtualCluster, options: dict[str, str]
) -> None:
    """Spark asks for the first offset again, and has logged only where the micro-batch ends."""
    stream = stream_of(cluster, **options)
    first = stream.latest(stream.initial(), everything=ALL)
    assert first == {"t": {"0": 10, "1": 0}}
    stream.close()
    cluster.write("t", b"after the crash")
    again = stream_of(cluster, **options)
    assert ranges(again, again.initial(), first) == []
    then = again.latest(first, everything=ALL)
    assert ranges(again, first, then) == [(0, 10, 11)]
    again.close()


def test_without_news_spark_is_answered_late_but_not_later_than_its_trigger_has_it_ask(cluster: VirtualCluster) -> None:
    """Spark logs that a query falls behind where an answer takes longer than the trigger's interval."""
    clock = cluster.loop.clock
    stream = stream_of(cluster, startingOffsets="earliest")
    at = stream.latest(stream.initial(), everything=ALL)

    def answered_in(every_s: float) -> list[float]:
        took = []
        for _ in range(20):
            clock.sleep(every_s)
            asked_s = clock.monotonic()
            assert stream.latest(at, everything=ALL) == at
            took.append(clock.monotonic() - asked_s)
        return took

    assert max(answered_in(0.2)) < 0.1
    # Without an interval Spark asks again at once, and each question is one to brokers.
    assert sum(answered_in(0.01)) > 5
    stream.close()


def test_a_micro_batch_waits_for_its_least_offsets_but_not_for_ever(cluster: VirtualCluster) -> None:
    stream = stream_of(cluster, startingOffsets="earliest", minOffsetsPerTrigger="5", maxTriggerDelay="60s")
    # There was none before, so the first one is late.
    at = stream.latest(stream.initial(), everything=SOME)
    cluster.write("t", b"1", b"2")
    assert stream.latest(at, everything=SOME) == at
    cluster.loop.clock.sleep(61)
    late = stream.latest(at, everything=SOME)
    assert late == {"t": {"0": 12, "1": 0}}
    cluster.write("t", *[b"v"] * 5, partition=1)
    assert stream.latest(late, everything=SOME) == {"t": {"0": 12, "1": 5}}
    stream.close()


def test_a_stream_without_news_asks_brokers_a_few_times_a_second(cluster: VirtualCluster) -> None:
    stream = stream_of(cluster)
    at = stream.latest(stream.initial(), everything=ALL)
    before, asked = cluster.now(), sum(cluster.asked.values())
    while cluster.now() < before + 60:
        assert stream.latest(at, everything=ALL) == at
    assert sum(cluster.asked.values()) - asked < 60 * 8
    cluster.write("t", b"news")
    assert stream.latest(at, everything=ALL) != at
    stream.close()


def test_available_now_ends_where_it_ended_at_the_beginning(cluster: VirtualCluster) -> None:
    stream = stream_of(cluster, startingOffsets="earliest", maxOffsetsPerTrigger="6", minOffsetsPerTrigger="5")
    stream.prepare_available_now()
    at = stream.latest(stream.initial(), everything=SOME)
    cluster.write("t", b"later")
    # The rest is less than a micro-batch should have, and nothing more will come.
    end = stream.latest(at, everything=SOME)
    assert end == {"t": {"0": 10, "1": 0}}
    assert stream.latest(end, everything=SOME) == end
    stream.close()


@pytest.mark.parametrize("fail", ["true", "false"])
@pytest.mark.parametrize("records", [30, 4])
def test_a_topic_that_is_recreated_between_two_micro_batches_has_lost_records(
    cluster: VirtualCluster, fail: str, records: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Whether it has more records by then than the old one had, or fewer: offsets say nothing of the new one."""
    stream = stream_of(cluster, startingOffsets="earliest", failOnDataLoss=fail)
    start = stream.initial()
    at = stream.latest(start, everything=ALL)
    assert ranges(stream, start, at) == [(0, 0, 10)]
    cluster.topics.delete("t")
    cluster.create("t", 2)
    cluster.write("t", *[b"v"] * records)
    end = stream.latest(at, everything=ALL)
    if fail == "true":
        with pytest.raises(GapError, match=r"Topic t has been deleted and recreated.* a new checkpointLocation"):
            stream.ranges(at, end)
    else:
        assert ranges(stream, at, end) == [(0, 0, records)]
        assert "Topic t has been deleted and recreated" in caplog.text
        assert stream.latest(end, everything=ALL) == end
    stream.close()


def test_available_now_ends_where_the_log_was_cut(cluster: VirtualCluster) -> None:
    stream = stream_of(cluster, startingOffsets="earliest")
    stream.prepare_available_now()
    start = stream.initial()
    end = stream.latest(start, everything=ALL)
    cluster.log("t").cut(4)
    with pytest.raises(GapError, match=r"report available offset which is less than end offset .*'0': 0.*'0': 10"):
        stream.ranges(start, end)
    stream.close()


def test_new_partitions_begin_at_their_first_record(cluster: VirtualCluster) -> None:
    stream = stream_of(cluster)
    at = stream.latest(stream.initial(), everything=ALL)
    before = {"t": {"0": at["t"]["0"]}}
    cluster.write("t", b"new", partition=1)
    end = stream.latest(before, everything=SOME)
    assert ranges(stream, before, end) == [(1, 0, 1)]
    stream.close()


@pytest.mark.parametrize(
    ("start", "end", "words"),
    [
        ({"t": {"0": 12, "1": 0}}, {"t": {"0": 10, "1": 0}}, "Partition t-0 offset was changed from 12 to 10"),
        ({"t": {"0": 1, "1": 0, "2": 0}}, {"t": {"0": 10, "1": 0}}, r"Partitions Set\(t-2\) have been deleted"),
        ({"t": {"0": 1, "1": 0}}, {"t": {"0": 10, "1": 0, "2": 4}}, r"Cannot find initial offsets .* Set\(t-2\)"),
        ({"t": {"1": 0}}, {"t": {"0": 10, "1": 0}}, "Added partition t-0 starts from 3 instead of 0"),
    ],
)
def test_offsets_that_are_gone_end_the_query_or_are_left_out(
    cluster: VirtualCluster, start: Any, end: Any, words: str
) -> None:
    cluster.log("t").start = 3
    strict, lenient = stream_of(cluster), stream_of(cluster, failOnDataLoss="false")
    with pytest.raises(GapError, match=words):
        strict.ranges(start, end)
    assert all(one.size > 0 for one in lenient.ranges(start, end))
    strict.close()
    lenient.close()
