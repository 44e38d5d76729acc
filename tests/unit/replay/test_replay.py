"""A range of a log goes into another one, exactly once, whatever ends it in the middle; in virtual time."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from harness.virtual.cluster import VirtualCluster
from harness.virtual.faults import Fault
from harness.virtual.loop import VirtualLoop, virtual_loop
from harness.virtual.requests import FETCH, INIT_PRODUCER_ID, PRODUCE
from twinlog.cli.replay import _bound
from twinlog.clock import wall_ms
from twinlog.errors import OptionError
from twinlog.frames.replay_bounds import Bound, require_order
from twinlog.frames.replaying import ReplayOptions, ReplayPlanner
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.protocol.error_codes import Code
from twinlog.model.types import Alias, TopicName, TopicPartition
from twinlog.record.builder import encode_batch
from twinlog.record.compression import CODECS
from twinlog.record.own_records import record_body
from twinlog.record.records import Record
from twinlog.record.stamp import stamp
from twinlog.replay.model import PartitionToReplay, Replayed, ReplayRules
from twinlog.replay.task import Replay
from twinlog.settings.flow import AdminSettings, ClientSettings, ConsumerSettings, FlowSettings, ProducerSettings

NOW = 1_700_000_000_000
SOURCE, INTO = TopicPartition(TopicName("t"), 0), TopicPartition(TopicName("s.t.replay"), 0)
Clusters = tuple[VirtualCluster, VirtualCluster]


@pytest.fixture
def clusters() -> Iterator[Clusters]:
    with virtual_loop(1) as loop:
        source, target = VirtualCluster(loop, "s"), VirtualCluster(loop, "w")
        source.create("t")
        target.create("s.t.replay")
        yield source, target


def put(
    cluster: VirtualCluster, topic: str, count: int, per_batch: int, *, first: int = 0, codec: str = "none"
) -> None:
    for start in range(first, first + count, per_batch):
        records = [
            (NOW + number, record_body(b"k%d" % number, b"value %d" % number, (("h", b"%d" % number),)))
            for number in range(start, min(start + per_batch, first + count))
        ]
        batch = encode_batch(records, CODECS[codec])
        stamp(batch, -1, -1, -1)
        assert cluster.log(topic).append(bytes(batch))[0] == 0


def flow_of(clusters: Clusters, **consumer: Any) -> FlowSettings:
    here, there = (ClientSettings(cluster.bootstrap) for cluster in clusters)
    return FlowSettings(
        Alias("s"),
        Alias("w"),
        ConsumerSettings(here, max_partition_fetch_bytes=2_000, **consumer),
        ProducerSettings(there, merge_batch_bytes=900),
        AdminSettings(here),
        AdminSettings(there),
    )


def replay(clusters: Clusters, start: int, end: int, *, begin_lost: bool = False, **consumer: Any) -> Replayed:
    work = Replay(ReplayRules(flow_of(clusters, **consumer), patience_s=20), VirtualLoop(clusters[0].loop.world))
    try:
        part = PartitionToReplay(SOURCE, INTO, start, end, 1_000, clusters[0].topics.ids["t"], begin_lost=begin_lost)
        return work.copy(part)
    finally:
        work.close()


def contents(records: Sequence[Record]) -> list[tuple[object, ...]]:
    return [(one.timestamp, one.key, one.value, one.headers) for one in records]


def expected(clusters: Clusters, start: int, end: int, *, committed: bool = False) -> list[tuple[object, ...]]:
    found = clusters[0].log("t").records(committed=committed)
    return contents([one for one in found if start <= one.offset < end])


def copied(clusters: Clusters) -> list[tuple[object, ...]]:
    return contents(clusters[1].log("s.t.replay").records())


@pytest.mark.parametrize(("per_batch", "codec"), [(1, "none"), (40, "none"), (40, "zstd")])
@pytest.mark.parametrize(("start", "end"), [(0, 400), (37, 222), (41, 43), (80, 120)])
def test_exactly_the_range(clusters: Clusters, per_batch: int, codec: str, start: int, end: int) -> None:
    put(clusters[0], "t", 400, per_batch, codec=codec)
    row = replay(clusters, start, end)
    assert (row.problem, row.found, row.appended) == (None, 0, end - start)
    assert copied(clusters) == expected(clusters, start, end)
    again = replay(clusters, start, end)
    assert (again.problem, again.found, again.appended) == (None, end - start, 0)
    # A longer range goes on behind it.
    more = replay(clusters, start, min(end + 30, 400))
    assert (more.problem, more.appended) == (None, min(end + 30, 400) - end)
    assert copied(clusters) == expected(clusters, start, min(end + 30, 400))


def test_holes_and_aborted_records_are_no_part_of_it(clusters: Clusters) -> None:
    put(clusters[0], "t", 100, 1)
    log = clusters[0].log("t")
    log.batches = [one for one in log.batches if one[0].base_offset % 7]
    batch = encode_batch([(NOW, record_body(b"k", b"aborted"))], 0)
    stamp(batch, 5, 0, 0, transactional=True)
    log.append(bytes(batch))
    log.mark(5, 0, commit=False)
    put(clusters[0], "t", 20, 3, first=200)
    row = replay(clusters, 10, 115, isolation_level="read_committed")
    assert row.problem is None
    assert copied(clusters) == expected(clusters, 10, 115, committed=True)
    assert (b"aborted" in str(copied(clusters)).encode()) is False


def test_goes_on_behind_what_arrived_wherever_it_was_ended(clusters: Clusters, chance: random.Random) -> None:
    put(clusters[0], "t", 300, 12)
    assert replay(clusters, 20, 290).problem is None
    log = clusters[1].log("s.t.replay")
    whole, batches, decoded = copied(clusters), list(log.batches), dict(log._decoded)
    for kept in sorted(chance.sample(range(len(batches)), 4)):
        log.batches, log._decoded = batches[:kept], dict(decoded)
        log._producers.clear()
        row = replay(clusters, 20, 290)
        assert (row.problem, row.found) == (None, sum(one.record_count for one, _ in batches[:kept]))
        assert copied(clusters) == whole


def test_trouble_of_brokers_doubles_nothing(clusters: Clusters) -> None:
    source, target = clusters
    put(source, "t", 400, 12)
    source.fault(FETCH, Fault(lost=True), times=2)
    target.fault(INIT_PRODUCER_ID, Fault(code=Code.COORDINATOR_LOAD_IN_PROGRESS), times=3)
    target.fault(PRODUCE, Fault(lost=True, done=True))
    target.fault(PRODUCE, Fault(lost=True), times=3, topic="s.t.replay")
    target.codes(PRODUCE, "s.t.replay", 0, Code.NOT_LEADER_OR_FOLLOWER, 0, Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    row = replay(clusters, 0, 400)
    assert (row.problem, row.appended) == (None, 400)
    assert copied(clusters) == expected(clusters, 0, 400)
    assert (source.faults_left, target.faults_left) == (0, 0)


def test_a_topic_of_somebody_else_is_left_alone(clusters: Clusters) -> None:
    source, target = clusters
    put(source, "t", 100, 10)
    put(target, "s.t.replay", 5, 5, first=50)
    row = replay(clusters, 0, 100)
    assert row.appended == 0
    assert "has at offset 0 another record than t-0 at offset 0" in (row.problem or "")
    assert len(copied(clusters)) == 5


def test_the_record_that_differs_is_named_with_both_of_its_offsets(clusters: Clusters) -> None:
    source, target = clusters
    put(source, "t", 100, 10)
    assert replay(clusters, 20, 50).problem is None
    put(target, "s.t.replay", 3, 3, first=50)
    target.write("s.t.replay", b"foreign")
    row = replay(clusters, 20, 100)
    assert "has at offset 33 another record than t-0 at offset 53" in (row.problem or "")


def test_who_writes_there_meanwhile_is_noticed(clusters: Clusters) -> None:
    source, target = clusters
    put(source, "t", 400, 12)
    left = [3]

    def intrude(key: int, _: Any) -> None:
        if key == PRODUCE:
            left[0] -= 1
            if not left[0]:
                put(target, "s.t.replay", 1, 1, first=999)

    target.carried_out = intrude
    row = replay(clusters, 0, 400)
    assert "got records of somebody else" in (row.problem or "")
    assert row.appended < 400


def test_what_retention_deletes_meanwhile_is_no_silent_hole(clusters: Clusters) -> None:
    put(clusters[0], "t", 100, 10)
    clusters[0].log("t").delete_before(30)
    row = replay(clusters, 10, 100)
    assert row.problem is not None
    assert "the source deleted offsets 10 to 29" in row.problem
    assert copied(clusters) == []


def test_what_the_source_has_deleted_since_an_earlier_replay_is_said(clusters: Clusters) -> None:
    """What was copied of it is no record of somebody else."""
    put(clusters[0], "t", 100, 10)
    assert replay(clusters, 10, 60).appended == 50
    clusters[0].log("t").delete_before(30)
    row = replay(clusters, 10, 100)
    assert "deleted offsets 10 to 29 (retention) before they were compared with what s.t.replay-0" in str(row.problem)
    # A later run of the same command plans where the log begins by then.
    with planner_of(clusters, options_of()) as planner:
        (part,) = planner.plan().parts
    assert (part.start, part.begin_lost) == (30, True)
    row = replay(clusters, 30, 100, begin_lost=True)
    assert "t-0 begins at offset 30 by now (retention), and s.t.replay-0 with another record" in str(row.problem)
    assert len(copied(clusters)) == 50
    clusters[1].topics.delete("s.t.replay")
    clusters[1].create("s.t.replay")
    assert replay(clusters, 30, 100, begin_lost=True).appended == 70


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"start": Bound("offset", 7), "end": Bound("offset", 7)}, "nothing lies from offset 7 to offset 7: --from"),
        ({"start": Bound("timestamp", 9), "end": Bound("timestamp", 7)}, "nothing lies from timestamp 9 to timestamp"),
        ({"partitions": frozenset({0, 4, 3})}, "the topics have no partition 3, 4"),
        ({"topics": ("t", "nowhere")}, "cluster s has no topic nowhere, or it is an internal one"),
        ({"topics": ("__consumer_offsets",)}, "cluster s has no topic __consumer_offsets"),
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


@pytest.mark.parametrize(
    ("start", "end", "words"),
    [
        (Bound("offset", 8), Bound("timestamp", NOW + 5), f"from offset 8 to timestamp {NOW + 5} in any partition"),
        (Bound("timestamp", NOW + 8), Bound("offset", 5), f"from timestamp {NOW + 8} to offset 5 in any partition"),
        (Bound("latest"), Bound("earliest"), "from latest to earliest: --from has to be the older one"),
        (Bound("latest"), Bound("offset", 5), "from latest to offset 5: --from has"),
        (Bound("offset", 5), Bound("earliest"), "from offset 5 to earliest: --from has"),
    ],
)
def test_a_range_that_begins_behind_its_end_is_refused(
    clusters: Clusters, start: Bound, end: Bound, words: str
) -> None:
    put(clusters[0], "t", 10, 1)
    with (
        planner_of(clusters, options_of(start=start, end=end)) as planner,
        pytest.raises(OptionError, match=f"nothing lies {words}"),
    ):
        planner.plan()


def test_a_range_that_begins_behind_its_end_in_one_partition_has_the_others(clusters: Clusters) -> None:
    """Offsets and times cannot be compared before a cluster was asked."""
    clusters[0].create("u", 2)
    put(clusters[0], "u", 10, 1)
    for number in range(10):
        batch = encode_batch([(NOW, record_body(b"k", b"%d" % number))], 0)
        stamp(batch, -1, -1, -1)
        assert clusters[0].log("u", 1).append(bytes(batch))[0] == 0
    options = options_of(topics=("u",), start=Bound("offset", 8), end=Bound("timestamp", NOW + 5))
    with planner_of(clusters, options) as planner:
        assert [(one.source.partition, one.start, one.end) for one in planner.plan().parts] == [(1, 8, 10)]


def test_what_an_open_transaction_hides_is_named(clusters: Clusters) -> None:
    put(clusters[0], "t", 10, 1)
    batch = encode_batch([(NOW + number, record_body(b"k", b"open")) for number in range(10, 15)], 0)
    stamp(batch, 5, 0, 0, transactional=True)
    clusters[0].log("t").append(bytes(batch))
    put(clusters[0], "t", 5, 1, first=15)

    def planned(start: Bound, end: Bound, level: str = "read_committed") -> list[tuple[int, int]]:
        with planner_of(clusters, options_of(start=start, end=end), isolation_level=level) as planner:
            return [(one.start, one.end) for one in planner.plan().parts]

    first, last = Bound("earliest"), Bound("latest")
    words = "an open transaction of the source hides t-0 from offset 10 on .* once the transaction has ended"
    for start, end in (
        (Bound("offset", 12), last),
        (Bound("offset", 10), last),
        (Bound("timestamp", NOW + 12), last),
        (first, Bound("offset", 12)),
        (first, Bound("offset", 99)),
        (first, Bound("timestamp", NOW + 17)),
    ):
        with pytest.raises(OptionError, match=words):
            planned(start, end)
        assert planned(start, end, "read_uncommitted") != []
    assert planned(first, last) == planned(first, Bound("offset", 10)) == [(0, 10)]
    # What comes later is not there yet, whoever hides what.
    assert planned(first, Bound("timestamp", NOW + 3_600_000)) == [(0, 10)]
    with pytest.raises(OptionError, match="no partition has so many offsets"):
        planned(Bound("offset", 21), last)


def planner_of(
    clusters: Clusters, options: ReplayOptions, others: Sequence[FlowSettings] = (), **consumer: Any
) -> ReplayPlanner:
    def connect(alias: str, settings: ClientSettings) -> ClusterAdmin:
        return ClusterAdmin(alias, settings, VirtualLoop(clusters[0].loop.world))

    return ReplayPlanner(flow_of(clusters, **consumer), options, others, connect)


def options_of(**others: Any) -> ReplayOptions:
    return ReplayOptions(**{"topics": ("t",), "start": Bound("earliest"), "end": Bound("latest"), **others})


def test_ranges_are_planned_and_topics_created_that_keep_everything(clusters: Clusters) -> None:
    source, target = clusters
    source.create("u", 3, **{"max.message.bytes": "5000"})
    put(source, "u", 50, 10)
    source.log("u").delete_before(20)
    with planner_of(clusters, options_of(topics=("u",), start=Bound("timestamp", NOW + 33))) as planner:
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
        planner_of(clusters, options_of(topics=("u",), start=Bound("offset", 5))) as planner,
        pytest.raises(OptionError, match=r"--from 5: u-0 begins at offset 20 by now"),
    ):
        planner.plan()


def test_a_time_that_is_written_as_an_offset_is_no_empty_range(clusters: Clusters) -> None:
    put(clusters[0], "t", 50, 10)
    for option, wrong in (("--from", {"start": Bound("offset", NOW)}), ("--to", {"end": Bound("offset", NOW)})):
        with (
            planner_of(clusters, options_of(**wrong)) as planner,
            pytest.raises(OptionError, match=rf"{option} {NOW}: no partition has so many offsets; .* \(@{NOW}\)"),
        ):
            planner.plan()
    # What comes next is not there yet.
    with planner_of(clusters, options_of(start=Bound("offset", 50), end=Bound("offset", 99))) as planner:
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
    for options in (options_of(into="long"), options_of(into="short", start=Bound("offset", 50))):
        with planner_of(clusters, options) as planner:
            assert [one.end for one in planner.plan().parts] == [60]
    # What compaction took at the begin of the source is no old record.
    source.log("t").batches = source.log("t").batches[-1:]
    with planner_of(clusters, options_of(into="short")) as planner:
        assert [(one.start, one.end) for one in planner.plan().parts] == [(0, 60)]


def test_a_range_that_begins_in_a_hole_behind_old_records_is_no_old_one(clusters: Clusters) -> None:
    source, target = clusters
    put(source, "t", 50, 10)
    put(source, "t", 10, 10, first=100_000)
    source.loop.clock.sleep(3_600)
    target.create("short", **{"retention.ms": str(wall_ms(source.loop.clock) - NOW - 20_000)})
    log = source.log("t")
    log.batches = [one for one in log.batches if one[0].base_offset not in (30, 40)]
    for start in (30, 44, 50, 55):
        with planner_of(clusters, options_of(into="short", start=Bound("offset", start))) as planner:
            assert [(one.start, one.end) for one in planner.plan().parts] == [(start, 60)]
    with (
        planner_of(clusters, options_of(into="short", start=Bound("offset", 29))) as planner,
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
        ("{nothing}", "in which {topic} and {remote} may stand"),
        ("{topic.name}", "in which {topic} and {remote} may stand"),
        ("{topic[name]}", "in which {topic} and {remote} may stand"),
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
    assert _bound(older, "--to").option == older
    with pytest.raises(OptionError, match=f"nothing lies from {newer} to {older}: --from has to be the older one"):
        require_order(_bound(newer, "--from"), _bound(older, "--to"))
