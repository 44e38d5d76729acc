"""What a run fills so that copies keep their offsets, and what prevents it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from harness.virtual.cluster import VirtualCluster
from harness.virtual.loop import VirtualLoop, virtual_loop
from tests.unit.worker.topics.test_topic_conflicts import flow
from twinlog.errors import RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.record.builder import encode_batch, record_body
from twinlog.kafka.record.stamp import stamp
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.topics.changes import TopicPair
from twinlog.model.acls import AclOperation
from twinlog.model.topics import ConfigEntry, ConfigSource, Topic
from twinlog.model.types import SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.ops.inventory import Inventory, LogOffsets
from twinlog.ops.plan.kept_offsets import LogSample, marker_right, sample_logs, unkept_offsets
from twinlog.settings.client import ClientSettings
from twinlog.settings.per_topic import PerTopic

TOPIC, REMOTE = TopicName("t"), TopicName("a.t")
PART = TopicPartition(TOPIC, 0)


def unkept(
    *,
    here: LogOffsets,
    there: LogOffsets | None = None,
    position: Position | None = None,
    policy: str = "delete",
    sample: LogSample | None = None,
    committed: bool = False,
) -> tuple[list[str], list[str]]:
    """The ids of the problems, and the notes, of a topic with identical offsets."""
    keeping = replace(flow("a", "b"), offsets=PerTopic("identical"))
    if committed:
        keeping = replace(keeping, consumer=replace(keeping.consumer, isolation_level="read_committed"))
    entry = ConfigEntry("cleanup.policy", policy, ConfigSource.STATIC_BROKER)
    source = Inventory("a", None, (1,), configs={TOPIC: [entry]}, logs={PART: here})
    pair = TopicPair(Topic(TOPIC, 1), REMOTE)
    logs = {} if there is None else {TopicPartition(REMOTE, 0): there}
    positions = {} if position is None else {PART: position}
    samples = {} if sample is None else {PART: sample}
    problems, notes, _ = unkept_offsets(keeping, [pair], source, logs, positions, samples, {})
    return [problem.id for problem in problems], notes


def test_the_offsets_that_a_run_fills_are_told() -> None:
    assert unkept(here=LogOffsets(0, 50)) == (
        [],
        ["t keeps its offsets: a marker on b fills each offset of transactions"],
    )
    problems, (note,) = unkept(here=LogOffsets(40, 50))
    assert problems == []
    assert "; 40 offsets before its first records: filled, and deleted again (about " in note
    takes = (
        "about 40 s, and 440.0 MB on each replica, at most 440.0 MB of its disk at a time: a broker frees whole "
        "segments, up to 6 min after each step of 59.1 MB"
    )
    assert unkept(here=LogOffsets(10**9, 10**9))[1][0].endswith(f"deleted again ({takes})")
    kept = Position(SourceOffset(15), TargetOffset(15), kept_from=SourceOffset(40))
    assert "; 25 offsets" in unkept(here=LogOffsets(40, 50), there=LogOffsets(0, 15), position=kept)[1][0]
    kept = Position(SourceOffset(45), TargetOffset(45), kept_from=SourceOffset(40))
    assert "before its first" not in unkept(here=LogOffsets(44, 50), there=LogOffsets(40, 45), position=kept)[1][0]


def test_topics_that_cannot_keep_their_offsets_are_problems() -> None:
    translated = Position(SourceOffset(45), TargetOffset(40))
    assert unkept(here=LogOffsets(0, 50), there=LogOffsets(0, 40), position=translated) == (["TW-IDENT-01"], [])
    in_transactions = LogSample(100, 20, transactions=True)
    assert unkept(here=LogOffsets(0, 500), sample=in_transactions)[0] == ["TW-IDENT-02"]
    assert unkept(here=LogOffsets(0, 500), sample=in_transactions, committed=True)[0] == []


def test_a_remote_log_with_earlier_records_is_compared() -> None:
    problems, notes = unkept(here=LogOffsets(0, 50), there=LogOffsets(0, 40))
    assert problems == []
    assert "a.t has records on b, and a position is missing: a run compares the last of them" in notes[1]
    assert unkept(here=LogOffsets(0, 50), there=LogOffsets(0, 51)) == (["TW-IDENT-01"], [])


def test_the_markers_that_wait_are_estimated() -> None:
    sample = LogSample(100, 20, transactions=True)
    (note,) = unkept(here=LogOffsets(100, 500), sample=sample, committed=True)[1]
    assert ": about 80 markers on b for the offsets of transactions that wait for a copy" in note
    note, _ = unkept(
        here=LogOffsets(100, 500), there=LogOffsets(100, 450), sample=sample, policy="compact", committed=True
    )[1]
    assert ": about 10 markers on b for the offsets of transactions and removed records" in note


def test_the_last_offsets_of_a_log_show_markers_and_holes() -> None:
    with virtual_loop(1) as loop:
        cluster = VirtualCluster(loop, "east")
        (log,) = cluster.create(TOPIC)
        for _ in range(10):
            log.write(b"a", b"b")
        log.compact({4, 6})
        data = encode_batch([(0, record_body(None, b"c"))], 0)
        stamp(data, 7, 0, 0, transactional=True)
        log.append(bytes(data))
        log.mark(7, 0, commit=True)
        cluster.create("plain")[0].write(b"a")
        cluster.create("empty")
        assert sampled(loop, cluster, {PART: LogOffsets(0, log.end)}) == {PART: LogSample(22, 5, transactions=True)}
        # A part of a batch counts for what it has there.
        assert sampled(loop, cluster, {PART: LogOffsets(3, log.end)}) == {PART: LogSample(19, 5, transactions=True)}
        plain = TopicPartition(TopicName("plain"), 0)
        empty = TopicPartition(TopicName("empty"), 0)
        logs = {plain: LogOffsets(0, 1), empty: LogOffsets(0, 0)}
        assert sampled(loop, cluster, logs) == {plain: LogSample(1, 0, transactions=False)}


def sampled(
    loop: VirtualLoop, cluster: VirtualCluster, logs: Mapping[TopicPartition, LogOffsets]
) -> dict[TopicPartition, LogSample]:
    admin = ClusterAdmin("east", ClientSettings(cluster.bootstrap), VirtualLoop(loop.world))
    admin.connect()
    try:
        return admin.call(sample_logs, admin.client, logs)
    finally:
        admin.close()


def lacks(operation: str, resource: str, purpose: str) -> RefusedError:
    return RefusedError(f"lacks {operation} on {resource}, needed for {purpose}", message_id="TW-RIGHT-02")


def test_the_right_for_markers() -> None:
    there = Inventory("b", None, (1,))
    assert marker_right(there, lacks) == []
    assert marker_right(replace(there, operations=frozenset({AclOperation.ALTER})), lacks) == []
    (problem,) = marker_right(replace(there, operations=frozenset({AclOperation.DESCRIBE})), lacks)
    assert (problem.id, problem.text.startswith("lacks ALTER on the cluster")) == ("TW-RIGHT-02", True)
