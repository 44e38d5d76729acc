"""Names that clash, large records, short retention, full disks, and missing rights of the login."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.worker.topics.test_topic_conflicts import flow
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.topics.changes import TopicPair
from twinlog.model.acls import Acl, AclOperation, AclPermissionType, PatternType, ResourceType, forbidden
from twinlog.model.amounts import shown_bytes
from twinlog.model.topics import ConfigEntry, ConfigSource, Disk, Topic
from twinlog.model.types import Alias, SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.ops.inventory import LogOffsets
from twinlog.ops.plan.obstacles import (
    after_last_copy,
    colliding,
    shorter_retention,
    too_full,
    too_small_limits,
    written_by_others,
)
from twinlog.settings.per_topic import PerTopic

TOPIC, REMOTE, WEST = TopicName("t"), TopicName("a.t"), Alias("b")
PAIR = TopicPair(Topic(TOPIC, 2), REMOTE)


def entries(**values: str) -> list[ConfigEntry]:
    return [ConfigEntry(name.replace("_", "."), value, ConfigSource.STATIC_BROKER) for name, value in values.items()]


def test_names_that_differ_in_dots_and_underscores_collide() -> None:
    (found,) = colliding([TopicName("a.b_c"), TopicName("x")], [TopicName("a_b_c"), TopicName("y.z"), TopicName("y_z")])
    assert found.kind == "clash"
    assert found.text.startswith("a.b_c, a_b_c: ")
    # So do two that are both new; nobody has to care for those that are there.
    assert len(colliding([TopicName("a.b"), TopicName("a_b")], [])) == 1


def test_records_of_others_in_a_remote_topic_are_a_clash() -> None:
    there = {REMOTE: Topic(REMOTE, 2)}
    held = {TopicPartition(REMOTE, 0): LogOffsets(5, 5), TopicPartition(REMOTE, 1): LogOffsets(3, 10)}
    (problem,), notes = written_by_others([PAIR], there, held, [], WEST)
    assert (problem.kind, notes) == ("clash", [])
    assert "a.t is on b with 7 records of another origin than this flow" in problem.text
    problems, notes = written_by_others([PAIR], there, held, [], WEST, "MirrorMaker 2")
    assert problems == []
    assert "MirrorMaker 2 runs the flow now, and a run waits" in notes[0]
    assert "MirrorMaker 2 may have copied them and may still store it" in notes[1]
    assert written_by_others([PAIR], there, held, [TopicPartition(TOPIC, 0)], WEST) == ([], [])
    assert written_by_others([PAIR], {}, {}, [], WEST) == ([], [])


def test_records_after_the_last_copy_are_told_of() -> None:
    source = [TopicPartition(TOPIC, number) for number in range(2)]
    logs = {TopicPartition(REMOTE, 0): LogOffsets(0, 13), TopicPartition(REMOTE, 1): LogOffsets(0, 11)}
    positions = {part: Position(SourceOffset(90), TargetOffset(10)) for part in source}
    (note,) = after_last_copy([PAIR], logs, positions, flow("a", "b"))
    assert note.startswith("a.t holds 4 records after the last copy of which a position is stored")
    # After the last record is the marker of its transaction.
    (note,) = after_last_copy([PAIR], logs, positions, replace(flow("a", "b"), exactly_once="enabled"))
    assert note.startswith("a.t holds 3 records")
    at_the_end = {part: Position(SourceOffset(90), TargetOffset(13)) for part in source}
    assert after_last_copy([PAIR], logs, at_the_end, flow("a", "b")) == []
    # MirrorMaker 2 stores no place on the target.
    assert after_last_copy([PAIR], logs, {source[0]: Position(SourceOffset(9))}, flow("a", "b")) == []


def test_more_partitions_than_the_source_are_a_clash_until_something_was_copied() -> None:
    there = {REMOTE: Topic(REMOTE, 5)}
    (problem,), notes = written_by_others([PAIR], there, {}, [], WEST)
    assert problem.text.startswith("a.t has 5 partitions on b, t has 2: producers that move")
    assert notes == []
    problems, (note,) = written_by_others([PAIR], there, {}, [TopicPartition(TOPIC, 1)], WEST)
    assert problems == []
    assert note == "a.t has 5 partitions on b, t has 2: the last 3 stay empty"
    # Fewer are added.
    assert written_by_others([PAIR], {REMOTE: Topic(REMOTE, 1)}, {}, [], WEST) == ([], [])


def test_a_smaller_record_limit_holds_the_partition_ends_the_flow_or_skips_records() -> None:
    settings = flow("a", "b", "default")
    here, there = {TOPIC: entries(max_message_bytes="2000")}, {REMOTE: entries(max_message_bytes="1000")}
    (problem,), notes = too_small_limits(settings, [PAIR], here, there)
    assert (problem.kind, notes) == ("record-limit", [])
    assert "records of up to 2000 bytes (max.message.bytes) may come to a.t, which takes 1000" in problem.text
    assert "would hold its partition" in problem.text
    stopping = replace(settings, oversized_record_policy=PerTopic("stop"))
    assert "would end the flow" in too_small_limits(stopping, [PAIR], here, there)[0][0].text
    skipping = replace(settings, oversized_record_policy=PerTopic("skip"))
    problems, (note,) = too_small_limits(skipping, [PAIR], here, there)
    assert (problems, note.endswith("is skipped (a->b.twinlog.oversized.record.policy)")) == ([], True)
    assert too_small_limits(settings, [PAIR], there | here, {REMOTE: entries(max_message_bytes="2000")}) == ([], [])
    assert too_small_limits(settings, [PAIR], here, {}) == ([], [])


def test_a_shorter_retention_takes_what_was_just_copied() -> None:
    settings = flow("a", "b", "default")
    here = {TOPIC: entries(retention_ms="-1")}
    shorter = {REMOTE: entries(retention_ms="1000", cleanup_policy="delete")}
    (note,) = shorter_retention(settings, [PAIR], here, shorter)
    assert note.startswith("a.t: retention.ms is 1000 on b and -1 on a; ")
    assert not shorter_retention(settings, [PAIR], {TOPIC: entries(retention_ms="900")}, shorter)
    assert not shorter_retention(settings, [PAIR], here, {REMOTE: entries(retention_ms="-1", cleanup_policy="delete")})
    compacted = {REMOTE: entries(retention_ms="1000", cleanup_policy="compact")}
    assert not shorter_retention(settings, [PAIR], here, compacted)


def test_room_on_the_target_counts_each_replica_once_and_each_volume_once() -> None:
    disks = [Disk(1, "/a", 1000, 300), Disk(1, "/b", 1000, 300), Disk(2, "/a", 1000, 500)]
    assert too_full(disks, 300, 1, WEST) == ([], [])
    problems, (note,) = too_full(disks, 300, 2, WEST)
    assert (problems, note) == ([], "600 B will be written on b (2 replicas), whose disks have 800 B of room")
    (problem,), _ = too_full(disks, 300, 3, WEST)
    assert problem.kind == "disk"
    assert problem.text.startswith("900 B will be written on b (3 replicas), whose disks have 800 B of room; ")
    assert too_full([Disk(1, "/a")], 300, 1, WEST) == ([], ["the free space of b's disks is unknown"])
    assert too_full([], None, 1, WEST) == ([], [])


def test_bytes_for_people() -> None:
    assert [shown_bytes(size) for size in (0, 999, 1000, 1_500_000, 2e9, 3e15)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "1.5 MB",
        "2.0 GB",
        "3000.0 TB",
    ]


ANN = "User:ann"


def acl(
    name: str,
    operation: AclOperation = AclOperation.WRITE,
    permission: AclPermissionType = AclPermissionType.ALLOW,
    *,
    who: str = ANN,
    host: str = "*",
    prefix: bool = False,
    resource: ResourceType = ResourceType.TOPIC,
) -> Acl:
    return Acl(
        resource, name, who, host, operation, permission, PatternType.PREFIXED if prefix else PatternType.LITERAL
    )


@pytest.mark.parametrize(
    "acls",
    [
        [],
        [acl("east.t")],
        [acl("east.", prefix=True)],
        [acl("*")],
        [acl("east.t", AclOperation.ALL)],
        [acl("east.t", who="User:*")],
        [acl("east.t", host="10.0.0.1")],
        [acl("east.t"), acl("east.t", permission=AclPermissionType.DENY, host="10.0.0.1")],
        # ACLs of other topics, and of groups, say nothing.
        [acl("east.other", who="User:bob"), acl("east.t", who="User:bob", resource=ResourceType.GROUP)],
        [acl("west.", who="User:bob", prefix=True)],
    ],
)
def test_what_may_be_allowed(acls: list[Acl]) -> None:
    assert not forbidden(acls, ANN, TopicName("east.t"), AclOperation.WRITE)


@pytest.mark.parametrize(
    "acls",
    [
        [acl("east.t", AclOperation.CREATE)],
        [acl("east.t", who="User:bob")],
        [acl("east.t", who="User:bob", permission=AclPermissionType.DENY)],
        [acl("east.t"), acl("east.", permission=AclPermissionType.DENY, prefix=True)],
        [acl("east.t"), acl("*", AclOperation.ALL, AclPermissionType.DENY, who="User:*")],
    ],
)
def test_what_is_surely_not(acls: list[Acl]) -> None:
    assert forbidden(acls, ANN, TopicName("east.t"), AclOperation.WRITE)
