"""What a replay will copy is known before it copies anything: ranges, topics, and what is refused; in virtual time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.virtual.requests import LIST_OFFSETS
from tests.unit.ops.replay.replaying import NOW, Clusters, flow_of, options_of, planner_of, put
from twinlog.clock import wall_ms
from twinlog.errors import ClusterError, OptionError, RefusedError
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.builder import encode_batch, record_body
from twinlog.kafka.record.stamp import stamp
from twinlog.model.types import Alias
from twinlog.ops.replay.bounds import ReplayBound, require_order
from twinlog.ops.replay.command import _bound


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (
            {"start": ReplayBound("offset", 7), "end": ReplayBound("offset", 7)},
            "the range from offset 7 to offset 7 is empty: it",
        ),
        (
            {"start": ReplayBound("timestamp", 9), "end": ReplayBound("timestamp", 7)},
            "the range from timestamp 9 to timestamp",
        ),
        ({"partitions": frozenset({0, 4, 3})}, "the topics lack partition 3, 4"),
        ({"topics": ("t", "nowhere")}, "cluster s lacks the topic nowhere, or it is an internal topic"),
        ({"topics": ("__consumer_offsets",)}, "cluster s lacks the topic __consumer_offsets"),
    ],
)
def test_what_cannot_be_a_range_is_refused_and_changes_nothing(
    clusters: Clusters, asked: dict[str, Any], words: str
) -> None:
    put(clusters[0], "t", 10, 10)
    before = set(clusters[1].topics.ids)
    with planner_of(clusters, options_of(**asked)) as planner, pytest.raises(OptionError, match=words):
        planner.plan()
    assert set(clusters[1].topics.ids) == before


def test_a_topic_that_the_source_hides_is_named_with_the_missing_right(clusters: Clusters) -> None:
    clusters[0].topics.hidden.add("t")
    with (
        planner_of(clusters, options_of(topics=("t",))) as planner,
        pytest.raises(RefusedError, match="lacks DESCRIBE on topic t, needed for replaying its records"),
    ):
        planner.plan()


@pytest.mark.parametrize(
    ("start", "end", "words"),
    [
        (
            ReplayBound("offset", 8),
            ReplayBound("timestamp", NOW + 5),
            f"from offset 8 to timestamp {NOW + 5} is empty in every partition",
        ),
        (
            ReplayBound("timestamp", NOW + 8),
            ReplayBound("offset", 5),
            f"from timestamp {NOW + 8} to offset 5 is empty in every partition",
        ),
        (
            ReplayBound("latest"),
            ReplayBound("earliest"),
            "from latest to earliest is empty: it has to begin before its end",
        ),
        (ReplayBound("latest"), ReplayBound("offset", 5), "from latest to offset 5 is empty: it has"),
        (ReplayBound("offset", 5), ReplayBound("earliest"), "from offset 5 to earliest is empty: it has"),
    ],
)
def test_a_range_that_begins_after_its_end_is_refused(
    clusters: Clusters, start: ReplayBound, end: ReplayBound, words: str
) -> None:
    put(clusters[0], "t", 10, 1)
    with (
        planner_of(clusters, options_of(start=start, end=end)) as planner,
        pytest.raises(OptionError, match=f"the range {words}"),
    ):
        planner.plan()


def test_a_range_that_begins_after_its_end_in_one_partition_has_the_others(clusters: Clusters) -> None:
    """Offsets and times cannot be compared before a cluster was asked."""
    clusters[0].create("u", 2)
    put(clusters[0], "u", 10, 1)
    for number in range(10):
        batch = encode_batch([(NOW, record_body(b"k", b"%d" % number))], 0)
        stamp(batch, -1, -1, -1)
        assert clusters[0].log("u", 1).append(bytes(batch))[0] == 0
    options = options_of(topics=("u",), start=ReplayBound("offset", 8), end=ReplayBound("timestamp", NOW + 5))
    with planner_of(clusters, options) as planner:
        assert [(one.source.partition, one.start, one.end) for one in planner.plan().parts] == [(1, 8, 10)]


def test_where_a_leader_is_lost_nobody_knows_what_an_open_transaction_hides(clusters: Clusters) -> None:
    put(clusters[0], "t", 10, 10)
    # It is asked where the log begins, where it is readable to, and where it ends.
    clusters[0].codes(LIST_OFFSETS, "t", 0, 0, Code.LEADER_NOT_AVAILABLE)
    options = options_of(start=ReplayBound("offset", 2))
    with (
        planner_of(clusters, options, isolation_level="read_committed") as planner,
        pytest.raises(ClusterError, match="cluster s: t-0 lacks a leader"),
    ):
        planner.plan()
    assert clusters[0].faults_left == 0


def test_what_an_open_transaction_hides_is_named(clusters: Clusters) -> None:
    put(clusters[0], "t", 10, 1)
    batch = encode_batch([(NOW + number, record_body(b"k", b"open")) for number in range(10, 15)], 0)
    stamp(batch, 5, 0, 0, transactional=True)
    clusters[0].log("t").append(bytes(batch))
    put(clusters[0], "t", 5, 1, first=15)

    def planned(start: ReplayBound, end: ReplayBound, level: str = "read_committed") -> list[tuple[int, int]]:
        with planner_of(clusters, options_of(start=start, end=end), isolation_level=level) as planner:
            return [(one.start, one.end) for one in planner.plan().parts]

    first, last = ReplayBound("earliest"), ReplayBound("latest")
    words = "an open transaction of the source hides t-0 from offset 10 on .* once the transaction has ended"
    for start, end in (
        (ReplayBound("offset", 12), last),
        (ReplayBound("offset", 10), last),
        (ReplayBound("timestamp", NOW + 12), last),
        (first, ReplayBound("offset", 12)),
        (first, ReplayBound("offset", 99)),
        (first, ReplayBound("timestamp", NOW + 17)),
    ):
        with pytest.raises(OptionError, match=words):
            planned(start, end)
        assert planned(start, end, "read_uncommitted") != []
    assert planned(first, last) == planned(first, ReplayBound("offset", 10)) == [(0, 10)]
    # What comes later is not there yet, whoever hides what.
    assert planned(first, ReplayBound("timestamp", NOW + 3_600_000)) == [(0, 10)]
    with pytest.raises(OptionError, match="every partition ends before this offset"):
        planned(ReplayBound("offset", 21), last)


def test_ranges_are_planned_and_topics_created_that_keep_everything(clusters: Clusters) -> None:
    source, target = clusters
    source.create("u", 3, **{"max.message.bytes": "5000"})
    put(source, "u", 50, 10)
    source.log("u").delete_before(20)
    with planner_of(clusters, options_of(topics=("u",), start=ReplayBound("timestamp", NOW + 33))) as planner:
        plan = planner.plan()
        assert [(one.source.partition, one.start, one.end, one.into.topic) for one in plan.parts] == [
            (0, 33, 50, "s.u.replay")
        ]
        (topic,) = plan.create
        assert (topic.partitions, topic.configs["retention.ms"], topic.configs["max.message.bytes"]) == (
            3,
            "-1",
            "5000",
        )
        assert topic.name not in target.topics.ids
        planner.create(plan)
    assert topic.name in target.topics.ids
    with (
        planner_of(clusters, options_of(topics=("u",), start=ReplayBound("offset", 5))) as planner,
        pytest.raises(OptionError, match=r"--from-offset 5: u-0 begins at offset 20 by now"),
    ):
        planner.plan()


def test_a_time_that_is_written_as_an_offset_is_no_empty_range(clusters: Clusters) -> None:
    put(clusters[0], "t", 50, 10)
    for option, wrong in (
        ("--from-offset", {"start": ReplayBound("offset", NOW)}),
        ("--to-offset", {"end": ReplayBound("offset", NOW)}),
    ):
        with (
            planner_of(clusters, options_of(**wrong)) as planner,
            pytest.raises(
                OptionError,
                match=rf"{option} {NOW}: .* before this offset; a time is given by --(since|until)",
            ),
        ):
            planner.plan()
    # What comes next is not there yet.
    with planner_of(clusters, options_of(start=ReplayBound("offset", 50), end=ReplayBound("offset", 99))) as planner:
        assert planner.plan().parts == ()


def test_a_topic_that_would_delete_the_copies_at_once_is_refused(clusters: Clusters) -> None:
    source, target = clusters
    put(source, "t", 50, 10)
    put(source, "t", 10, 10, first=100_000)
    source.loop.clock.sleep(3_600)
    age = wall_ms(source.loop.clock) - NOW
    target.create("short", **{"retention.ms": str(age - 20_000)})
    target.create("long", **{"retention.ms": str(age + 60_000)})
    with (
        planner_of(clusters, options_of(into="short")) as planner,
        pytest.raises(OptionError, match=r"short deletes records by their age .* t-0 is older than that from offset 0"),
    ):
        planner.plan()
    for options in (options_of(into="long"), options_of(into="short", start=ReplayBound("offset", 50))):
        with planner_of(clusters, options) as planner:
            assert [one.end for one in planner.plan().parts] == [60]
    # What compaction took at the begin of the source is no old record.
    source.log("t").batches = source.log("t").batches[-1:]
    with planner_of(clusters, options_of(into="short")) as planner:
        assert [(one.start, one.end) for one in planner.plan().parts] == [(0, 60)]


def test_a_range_that_begins_in_a_hole_after_old_records_is_no_old_one(clusters: Clusters) -> None:
    source, target = clusters
    put(source, "t", 50, 10)
    put(source, "t", 10, 10, first=100_000)
    source.loop.clock.sleep(3_600)
    target.create("short", **{"retention.ms": str(wall_ms(source.loop.clock) - NOW - 20_000)})
    log = source.log("t")
    log.batches = [one for one in log.batches if one[0].base_offset not in (30, 40)]
    for start in (30, 44, 50, 55):
        with planner_of(clusters, options_of(into="short", start=ReplayBound("offset", start))) as planner:
            assert [(one.start, one.end) for one in planner.plan().parts] == [(start, 60)]
    with (
        planner_of(clusters, options_of(into="short", start=ReplayBound("offset", 29))) as planner,
        pytest.raises(OptionError, match="t-0 is older than that from offset 29 on"),
    ):
        planner.plan()


@pytest.mark.parametrize(
    ("into", "words"),
    [
        ("s.t", r"s\.t is the remote topic of t: its readers would get old records again"),
        ("s.u", r"s\.u is the remote topic of u"),
        ("mm2-offsets.s.internal", "is the name of an internal topic"),
        ("__consumer_offsets", "is the name of an internal topic"),
        ("{nothing}", "that may contain {topic} and {remote}"),
        ("{topic.name}", "that may contain {topic} and {remote}"),
        ("{topic[name]}", "that may contain {topic} and {remote}"),
        ("all", "several topics would go into all"),
        ("z.copied", r"z\.copied is a remote topic of flow z->w"),
    ],
)
def test_names_where_a_replay_would_do_harm_are_refused(clusters: Clusters, into: str, words: str) -> None:
    clusters[0].create("u")
    clusters[0].create("tt")
    other = replace(flow_of(clusters), source=Alias("z"))
    with (
        planner_of(clusters, options_of(topics=("t+",), into=into), [other]) as planner,
        pytest.raises(OptionError, match=words),
    ):
        planner.plan()


def test_a_remote_topic_of_another_connector_between_the_two_is_refused(clusters: Clusters) -> None:
    beside = replace(flow_of(clusters), separator="-")
    with (
        planner_of(clusters, options_of(topics=("t",), into="s-t"), [beside]) as planner,
        pytest.raises(OptionError, match=r"s-t is the remote topic of t: "),
    ):
        planner.plan()


def test_a_time_is_named_as_it_was_written() -> None:
    newer, older = "2026-11-20T07:00:00Z", "@1763625600000"
    assert str(_bound(newer, "--to")) == newer
    assert _bound(older, "--to").option("end") == f"--until {older}"
    with pytest.raises(
        OptionError, match=f"the range from {newer} to {older} is empty: it has to begin before its end"
    ):
        require_order(_bound(newer, "--from"), _bound(older, "--to"))
