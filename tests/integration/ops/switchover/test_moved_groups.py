"""A group that a switchover moved, or that came back, is known to commands, to status and to metrics alike."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from harness.cluster import KafkaCluster
from harness.groups import commit_offsets
from harness.produce import NewRecord, numbered, produce
from harness.topics import create_topic, topics
from harness.wait import wait_for
from tests.integration.consuming import Member
from tests.integration.flows.light_flow import LightFlow
from tests.integration.ops.switchover.commands import (
    PARTITIONS,
    Commands,
    ends,
    enter_group,
    stands,
)
from tests.integration.ops.switchover.following import followed_groups
from twinlog.mirror.groups import checkpoint_writer, group_sync
from twinlog.mirror.offsets.syncs import OffsetSync
from twinlog.model.types import SourceOffset, TargetOffset, TopicName
from twinlog.worker.flows_without_spark import GroupsFlow


@pytest.mark.scenario
def test_a_group_that_reads_on_after_a_switchover_and_stops_has_moved(
    pair: tuple[KafkaCluster, KafkaCluster],
    commands: Commands,
    topic_name: str,
    stack: ExitStack,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_sync, "LOOK_AGAIN_S", 1.0)
    # The group commits on east without members: the wait for its doubt is no longer than this rest.
    monkeypatch.setattr(group_sync, "HANDS_OFF_S", 1.0)
    east, west = pair
    topic, remote, group = topic_name, f"east.{topic_name}", f"g-{topic_name}"
    create_topic(east, topic, PARTITIONS)
    for number in range(PARTITIONS):
        produce(east, topic, numbered(300), partition=number)
    commit_offsets(east, {group: {(topic, number): 20 for number in range(PARTITIONS)}})
    file = commands.file("east->west", "west->east")
    there = ("switchover", file, "--from", "east", "--to", "west", "--wave", "reads on", "--fence", "none")
    back = ("switchback", file, "--from", "west", "--to", "east", "--wave", "reads on", "--fence", "none")
    flow = LightFlow(file, "east->west")
    try:
        flow.wait_until_caught_up()
        enter_group(stack, west, "east-mm2", remote)
        commands.run(*there)
        assert stands(west, group, remote) == [20] * PARTITIONS
        with Member(west, group, [remote], "classic") as member:
            member.read(sum(ends(west, remote)) - 20 * PARTITIONS)
            member.commit()
        read = ends(west, remote)
        assert stands(west, group, remote) == read
        told = commands.run("groups", file, "--flow", "east:west")
        assert told.count("has moved") == PARTITIONS + 1
        assert "east->west: 0 of 1 group may move now, 1 has moved" in told
        audited = json.loads(commands.run("audit", file, "--flow", "east:west", "-o", "json", code=None))
        assert [one for one in audited["findings"] if group in one["text"]] == []
        syncs = commands.home / "syncs.properties"
        syncs.write_text(f"{file.read_text()}sync.group.offsets.enabled = true\n")
        planned = commands.run("plan", syncs, "--flow", "east:west", "--all", code=None)
        assert f"{group}: stays: it has moved to west by a switchover" in planned
        assert "it would skip" not in planned
        path = commands.home / "again"
        assert f"{remote}-0: moved" in commands.run(*there, "--dry-run")
        commands.run(*there, "--report", path)
        report = commands.report(path)
        found = report["groups"][group]
        assert (found["skipped"], found["repeated"]) == (0, 0)
        assert {one["result"] for one in found["offsets"] if one["to_topic"] == remote} == {"moved"}
        assert not any(group in line for line in report["next"])
        assert stands(west, group, remote) == read
        assert "1 has moved" in commands.run("groups", file, "--flow", "east:west"), "also after the second run"
        followed = {name: followed_groups(stack, file, name) for name in ("east->west", "west->east")}
        wait_doubt(followed["east->west"], group, (0, 0))
        wait_status(commands, file, "east:west")
    finally:
        flow.stop()

    for number in range(PARTITIONS):
        produce(west, topic, numbered(20), partition=number)
    commit_offsets(west, {group: {(topic, number): 3 for number in range(PARTITIONS)}})
    flow = LightFlow(file, "west->east")
    try:
        flow.wait_until_caught_up()
        enter_group(stack, east, "west-mm2", topic)
        commands.run(*back)
        copies = f"west.{topic}"
        assert stands(east, group, copies) == [3] * PARTITIONS
        commit_offsets(east, {group: {(copies, number): 20 for number in range(PARTITIONS)}})
        told = commands.run("groups", file, "--flow", "west:east")
        assert "west->east: 0 of 1 group may move now, 1 has moved" in told
        wait_doubt(followed["west->east"], group, (0, 0))
        wait_status(commands, file, "west:east")

        # A group that was set further on east by hand would skip records.
        commit_offsets(west, {f"{group}-2": {(topic, 0): 3}})
        commit_offsets(east, {f"{group}-2": {(copies, 0): 20}})
        wait_doubt(followed["west->east"], f"{group}-2", (0, 1))
        told = commands.run("groups", file, "--flow", "west:east", code=1)
        assert f"an operator has to act for {group}-2" in told
    finally:
        flow.stop()


def wait_doubt(flow: GroupsFlow, group: str, unsafe: tuple[int, int]) -> None:
    """Wait until a flow has a doubt about a group, and reports so many groups as inexact, and as ahead."""

    def looked() -> bool:
        flow.poll_flow()
        found, groups = flow._reporter.groups._unsafe, flow.report().groups
        if found is None or groups is None or all(doubt.group != group for doubt in found._looked_at):
            return False
        return (groups.inexact, groups.ahead) == unsafe

    wait_for(looked, 60, f"of the groups of {flow.settings.name} {unsafe} are inexact and ahead")


def wait_status(commands: Commands, file: Path, flow: str) -> None:
    """Wait until `twinlog status` shows a report of a flow without an unsafe group."""

    def shown() -> bool:
        told = commands.run("status", file, "--flow", flow, code=None)
        assert "1 followed" in told
        return "ahead of their translation" not in told and "lack an exact translation" not in told

    wait_for(shown, 60, "status knows the moved group, too")


def copied_by_mirror_maker(pair: tuple[KafkaCluster, KafkaCluster], topic: str, syncs: Sequence[int]) -> None:
    """Both partitions have 300 records and their copies, at the same offsets, and offset syncs of some."""
    east, west = pair
    compacted = {"cleanup.policy": "compact"}
    for cluster, name in ((west, "mm2-offsets.east.internal"), (east, "mm2-offset-syncs.west.internal")):
        if name not in topics(cluster):
            create_topic(cluster, name, config=compacted)
    create_topic(east, topic, PARTITIONS)
    create_topic(west, f"east.{topic}", PARTITIONS)
    for number in range(PARTITIONS):
        produce(east, topic, numbered(300), partition=number)
        produce(west, f"east.{topic}", numbered(300), partition=number)
        found = [OffsetSync(TopicName(topic), number, SourceOffset(at), TargetOffset(at)) for at in syncs]
        produce(east, "mm2-offset-syncs.west.internal", [NewRecord(one.value, one.key) for one in found])
        key = json.dumps(["MirrorSourceConnector", {"cluster": "east", "partition": number, "topic": topic}])
        position = NewRecord(b'{"offset":299}', key.replace(" ", "").encode())
        produce(west, "mm2-offsets.east.internal", [position])


@pytest.mark.scenario
def test_a_group_that_went_back_by_an_offset_sync_skips_nothing_that_it_read_there(
    pair: tuple[KafkaCluster, KafkaCluster],
    commands: Commands,
    topic_name: str,
    stack: ExitStack,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It read up to 150 on west, and continues at 101 on east: by that place its offset on west is 49 too far."""
    monkeypatch.setattr(checkpoint_writer, "LATE_S", 1.0)
    east, west = pair
    topic, remote, group = topic_name, f"east.{topic_name}", f"g-{topic_name}"
    copied_by_mirror_maker(pair, topic, (0, 100, 250))
    commit_offsets(east, {group: {(topic, number): 120 for number in range(PARTITIONS)}})
    file = commands.file("east->west", "west->east")
    ways = ("--wave", "syncs", "--fence", "none")
    flow = LightFlow(file, "east->west")
    try:
        flow.wait_until_caught_up()
        enter_group(stack, west, "east-mm2", remote)
        followed = followed_groups(stack, file, "east->west")
        wait_doubt(followed, group, (1, 0))
        commands.run("switchover", file, "--from", "east", "--to", "west", *ways)
        wait_doubt(followed, group, (0, 0))
        assert "1 has moved" in commands.run("groups", file, "--flow", "east:west")
        wait_status(commands, file, "east:west")
    finally:
        flow.stop()
    assert stands(west, group, remote) == [101] * PARTITIONS
    commit_offsets(west, {group: {(remote, number): 150 for number in range(PARTITIONS)}})
    produce(west, topic, numbered(5))
    with LightFlow(file, "west->east"):
        enter_group(stack, east, "west-mm2", topic)
        commands.run("switchback", file, "--from", "west", "--to", "east", *ways)
    told = commands.run("groups", file, "--flow", "east:west", code=1)
    assert "would skip" not in told
    assert "may skip" not in told
    audited = json.loads(commands.run("audit", file, "--flow", "east:west", "-o", "json", code=None))
    assert [one["text"] for one in audited["findings"] if one["kind"] == "group-skips"] == []

    # An emergency ends the switchback before it, whose journal is on the lost cluster.
    back = ("switchback", file, "--from", "west", "--to", "east", "--wave", "syncs", "--status")
    assert "Switchback west -> east: done" in commands.run(*back)
    there = ("--from", "east", "--to", "west", "--emergency", *ways)
    commands.run("switchover", commands.file("east->west", "west->east", east_is_lost=True), *there)
    returned = commands.run(*back)
    assert "Switchback west -> east: returned" in returned
    assert "point producers" not in returned
    # East is back, and lacks the end of the switchback; west has the emergency after it.
    repeat = "run twinlog switchover FILE --from east --to west --wave syncs --emergency again"
    told = commands.run("groups", file, "--flow", "west:east", code=None)
    assert "has moved" not in told
    assert f"a later switchover moved {group} back to the source" in told
    assert repeat in told
    # By offset syncs, the place of the group on west is between 101 and 250, and the group has read up to 150 there.
    told = commands.run("groups", file, "--flow", "east:west", code=1)
    assert f"the group would repeat some, up to 100 records; {repeat}, which commits this position" in told
    commands.run("switchover", file, *there)
    assert "has moved" in commands.run("groups", file, "--flow", "east:west")
    told = commands.run("groups", file, "--flow", "west:east", code=None)
    assert "has moved" not in told
    assert repeat not in told
