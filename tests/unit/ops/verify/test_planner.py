"""What is compared of a flow, as both clusters have it: up to positions, by maps, with what cannot be compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.virtual.cluster import VirtualCluster
from harness.virtual.loop import VirtualLoop, virtual_loop
from harness.virtual.requests import LIST_OFFSETS
from harness.wait import wait_for
from twinlog.errors import OptionError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.builder import encode_batch, record_body
from twinlog.kafka.record.stamp import stamp
from twinlog.lease.task_progress import ProgressLine, ProgressServer
from twinlog.mirror.offsets.exact_map import Point
from twinlog.mirror.offsets.positions import Position, encode_position
from twinlog.mirror.offsets.segments import Segment, segments_topic
from twinlog.model.types import Alias, SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.ops.verify.model import MOST_LEFT, PartitionToVerify, Section, UncomparedRange, Verdict, VerifyRules
from twinlog.ops.verify.planner import VerifyOptions, VerifyPlan, VerifyPlanner, read_verify_options
from twinlog.ops.verify.sections import BEFORE_COPYING, NOT_YET
from twinlog.settings.client import AdminSettings, ClientSettings, ConsumerSettings, ProducerSettings
from twinlog.settings.flow import FlowSettings
from twinlog.settings.transform import TransformSettings

Clusters = tuple[VirtualCluster, VirtualCluster]
PART = TopicPartition(TopicName("t"), 0)


@pytest.fixture
def clusters() -> Iterator[Clusters]:
    with virtual_loop(1) as loop:
        source, target = VirtualCluster(loop, "s"), VirtualCluster(loop, "w")
        source.create("t", **{"cleanup.policy": "compact"})
        target.create("s.t")
        source.write("t", *[b"%d" % number for number in range(30)])
        target.write("s.t", *[b"%d" % number for number in range(10, 25)])
        yield source, target


def flow_of(clusters: Clusters) -> FlowSettings:
    here, there = (ClientSettings(cluster.bootstrap) for cluster in clusters)
    return FlowSettings(
        Alias("s"),
        Alias("w"),
        ConsumerSettings(here),
        ProducerSettings(there),
        AdminSettings(here),
        AdminSettings(there),
        emit_offset_syncs=False,
    )


def plan(clusters: Clusters, settings: FlowSettings | None = None, **options: Any) -> Sequence[PartitionToVerify]:
    def connect(alias: str, client: ClientSettings) -> ClusterAdmin:
        return ClusterAdmin(alias, client, VirtualLoop(clusters[0].loop.world))

    with VerifyPlanner(settings or flow_of(clusters), VerifyOptions(**options), connect) as planner:
        return planner.plan().parts


def write(cluster: VirtualCluster, topic: str, key: bytes, value: bytes | None, headers: Any = ()) -> None:
    if topic not in cluster.topics.ids:
        cluster.create(topic)
    batch = encode_batch([(0, record_body(key, value, headers))])
    stamp(batch, -1, -1, -1)
    cluster.log(topic).append(bytes(batch))


def store(clusters: Clusters, position: Position) -> None:
    """A map from source offset 10 on, and a position."""
    settings, target = flow_of(clusters), clusters[1]
    segment = Segment(PART, position.generation, True, (Point(SourceOffset(10), TargetOffset(0)),))
    write(target, segments_topic(settings.source), segment.key, segment.value)
    record = encode_position(settings.source, PART, position)
    write(target, settings.positions_topic, record.key, record.value, record.headers)


def test_by_the_map_up_to_the_position(clusters: Clusters) -> None:
    source, target = clusters
    position = Position(SourceOffset(22), TargetOffset(12), topic_id=str(source.topics.ids["t"]), generation=256)
    store(clusters, replace(position, remote_topic_id=str(target.topics.ids["s.t"]), remote_topic="s.t"))
    (part,) = plan(clusters)
    assert part.sections == (Section("exact", 10, 22, 0, 12),)
    assert part.left == (UncomparedRange("source", 22, 30, NOT_YET), UncomparedRange("source", 0, 10, BEFORE_COPYING))
    assert (part.source_compacted, part.target_compacted, part.problem) == (True, False, None)
    # Another topic of that name has nothing to do with it.
    target.topics.delete("s.t")
    target.create("s.t")
    target.write("s.t", b"1")
    (part,) = plan(clusters)
    assert part.sections == (Section("copied from", 0, 30, 0, 1),)


def test_a_copied_topic_that_the_source_hides_is_named_with_the_missing_right(clusters: Clusters) -> None:
    source, target = clusters
    store(clusters, Position(SourceOffset(22), TargetOffset(12), topic_id=str(source.topics.ids["t"]), generation=256))
    source.create("u")
    target.create("s.u")
    source.topics.hidden.add("t")
    for topics in ((), ("t", "u")):
        found = {part.source: part.problem for part in plan(clusters, topics=topics)}
        assert found == {
            PART: "cluster s: User:ANONYMOUS lacks DESCRIBE on topic t, needed for verifying its copies",
            TopicPartition(TopicName("u"), 0): None,
        }


def test_heartbeats_are_compared_only_by_their_name(clusters: Clusters) -> None:
    """MirrorMaker 2 beside a wave of topics copies them, too."""
    source, target = clusters
    source.create("heartbeats")
    target.create("s.heartbeats")
    assert {one.source.topic for one in plan(clusters)} == {"t"}
    assert {one.source.topic for one in plan(clusters, topics=("heartbeats",))} == {"heartbeats"}


def test_of_a_source_topic_that_was_recreated_nothing_is_a_difference(clusters: Clusters) -> None:
    """What the remote topic has are copies of the one before."""
    source = clusters[0]
    store(clusters, Position(SourceOffset(22), TargetOffset(12), topic_id=str(source.topics.ids["t"]), generation=256))
    source.topics.delete("t")
    source.create("t")
    source.write("t", b"new")
    (part,) = plan(clusters)
    assert part.sections == ()
    assert [(one.side, one.start, one.end) for one in part.left] == [("source", 0, 1)]
    assert "recreated" in part.left[0].reason


def test_a_remote_partition_that_loses_its_leader_meanwhile_has_no_missing_copies(clusters: Clusters) -> None:
    """Whether an open transaction hides them is not known."""
    # It is asked where the log begins, where it is readable to, and where it ends.
    clusters[1].codes(LIST_OFFSETS, "s.t", 0, 0, Code.LEADER_NOT_AVAILABLE)
    (part,) = plan(clusters)
    assert (part.problem, part.sections) == ("cluster w: s.t-0 has no leader", ())
    assert clusters[1].faults_left == 0


def test_without_a_flow_everything_by_content(clusters: Clusters) -> None:
    source, _ = clusters
    source.create("none", 2)
    source.write("none", b"1")
    parts = {one.source: one for one in plan(clusters)}
    assert parts[PART].sections == (Section("copied from", 0, 30, 0, 15),)
    lacking = parts[TopicPartition(TopicName("none"), 1)]
    assert (lacking.sections, lacking.problem) == ((), "cluster w has no topic s.none, or hides it")
    clusters[1].create("s.none", 2)
    parts = {one.source: one for one in plan(clusters, topics=("none",))}
    assert parts[TopicPartition(TopicName("none"), 0)].left[0].reason == "nothing of them was copied yet"
    with pytest.raises(OptionError, match="flow s->w mirrors no topic nowhere of s"):
        plan(clusters, topics=("nowhere", "t"))
    with pytest.raises(OptionError, match=r"topics: .* of '\['"):
        plan(clusters, topics=("[",))
    with pytest.raises(OptionError, match="the range from timestamp 7 to 7"):
        plan(clusters, since_ms=7, until_ms=7)


def test_a_flow_that_changes_records_is_not_compared(clusters: Clusters) -> None:
    settings = replace(flow_of(clusters), transform=TransformSettings("any:function"))
    (part,) = plan(clusters, settings)
    assert part.sections == ()
    assert "flow s->w changes records on their way (transform)" in (part.problem or "")


FILE = """\
clusters = a, b
a.bootstrap.servers = a:9092
b.bootstrap.servers = b:9092
a->b.enabled = true
b->a.enabled = true
"""
RULES = VerifyRules(*(2 * (ConsumerSettings(ClientSettings(("a:9092",))),)), "a", "b")


def partition(number: int, size: int) -> PartitionToVerify:
    part = TopicPartition(TopicName("t"), number)
    return PartitionToVerify("a->b", part, part, (Section("exact", 0, size, 0, size),))


def test_partitions_are_dealt_out_evenly_to_few_tasks() -> None:
    parts = tuple(partition(number, 10 + number % 7) for number in range(2_000))
    shares = VerifyPlan(RULES, (*parts, partition(2_000, 9_000))).shares(8)
    assert sorted(one.source.partition for share in shares for one in share.parts) == list(range(2_001))
    sizes = sorted(sum(one.offsets for one in share.parts) for share in shares)
    # The large one has a task for itself.
    assert sizes[-1] == 18_000
    assert sizes[-2] - sizes[0] < 40
    assert len(VerifyPlan(RULES, parts[:3]).shares(8)) == 3
    assert VerifyPlan(RULES, ()).shares(8) == []


def test_options_of_the_format(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(FILE)
    given = {"twinlog.config": str(file), "flow": "b->a", "topics": "x, y.*", "startingTimestamp": "5"}
    asked = read_verify_options(given | {"everyRecord": "TRUE"})
    assert (asked.flow.name, asked.options.topics, asked.options.since_ms) == ("b->a", ("x", "y.*"), 5)
    assert (asked.options.every_record, asked.options.ignore_foreign) == (True, False)
    for wrong, words in (
        ({"flow": "a->c"}, "must be one of the flows that .* has: a->b, b->a"),
        ({"topic": "x"}, "Option 'topic' is unknown"),
        ({"everyRecord": "1"}, "option everyrecord is true or false"),
        ({"endingTimestamp": "soon"}, "option endingtimestamp is a whole number"),
        ({"startingTimestamp": "-2"}, "option startingtimestamp is a whole number, at least 0"),
    ):
        with pytest.raises(OptionError, match=words):
            read_verify_options(given | wrong)
    with pytest.raises(OptionError, match=r"'twinlog\.config' must be specified"):
        read_verify_options({})


def test_ranges_that_were_left_out_are_bounded() -> None:
    verdict = Verdict.of(partition(0, 10))
    verdict.add_uncompared("source", 0, 10, "gone")
    verdict.add_uncompared("source", 10, 20, "gone")
    assert verdict.left == [UncomparedRange("source", 0, 20, "gone")]
    for start in range(30, 100_000, 10):
        verdict.add_uncompared("target", start, start + 1, "gone")
    assert len(verdict.left) <= MOST_LEFT
    assert verdict.left[-1].end == 99_991


def test_tasks_tell_how_far_they_are_and_strangers_do_not() -> None:
    with ProgressServer("127.0.0.1") as server:
        assert server.address is not None
        stranger = ProgressLine(replace(server.address, secret=b"guessed"))
        lines = [ProgressLine(server.address) for _ in range(3)]
        for line in (stranger, *lines):
            line.report(7)
            line.close()
        wait_for(lambda: server.done == 21, 60, "three lines have reported")
    # A driver that is gone keeps no task from its work.
    late = ProgressLine(server.address)
    late.report(1)
    late.close()
    # 192.0.2.1 is for documentation, and of no machine.
    with ProgressServer("192.0.2.1") as server:
        assert server.address is None
