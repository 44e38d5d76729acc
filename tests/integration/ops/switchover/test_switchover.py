"""`twinlog switchover` and `switchback` on real brokers, killed at several steps: groups skip and repeat nothing."""

from __future__ import annotations

import json
import signal
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from harness.acls import acls, create_acls
from harness.checks.checker import SLOW_TICK_S, Load, require_clean
from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.groups import commit_offsets
from harness.produce import NewRecord, numbered, produce
from harness.topics import create_topic, topics
from harness.wait import wait_for
from tests.integration.consuming import Member
from tests.integration.flows.light_flow import LightFlow, copy_what_is_there
from tests.integration.ops.switchover.commands import (
    CHECKPOINTS,
    PARTITIONS,
    WRITER,
    Commands,
    ends,
    enter_group,
    producer_rights,
    stands,
)
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.users import alter_producer_quotas, describe_producer_quotas
from twinlog.mirror.records import Checkpoint
from twinlog.mirror.topics.journal_keys import StepPhase, SwitchoverState
from twinlog.model.types import Alias, GroupId, SourceOffset, TargetOffset, TopicName
from twinlog.ops.switchover.journal import JournalEntry, JournalLine, SwitchoverRun, TopicJournal
from twinlog.ops.switchover.model import SwitchoverDirection, SwitchoverKind, SwitchoverOptions
from twinlog.ops.verify.signing import VerifyingKey
from twinlog.ops.verify.statement import read_statement
from twinlog.settings.client import ClientSettings

TO_WEST = ("--from", "east", "--to", "west", "--wave", "names stay")
TO_EAST = ("--from", "west", "--to", "east", "--wave", "names stay")


def quotas(cluster: KafkaCluster) -> list[str]:
    admin = ClusterAdmin("any", ClientSettings((cluster.bootstrap,)))
    try:
        admin.connect()
        return sorted(map(str, admin.call(describe_producer_quotas, admin.client)))
    finally:
        admin.close()


def lift_quotas(cluster: KafkaCluster) -> None:
    """Remove the quotas that a switchover leaves on a closed cluster, for the tests after it."""
    admin = ClusterAdmin("any", ClientSettings((cluster.bootstrap,)))
    try:
        admin.connect()
        found = admin.call(describe_producer_quotas, admin.client)
        admin.call(alter_producer_quotas, admin.client, [replace(quota, rate=None) for quota in found])
    finally:
        admin.close()


def wait_refused(load: Load, why: str) -> None:
    wait_for(lambda: any(why in error for error in load.errors), 60, f"the producer gets {why}")


@pytest.mark.scenario
def test_there_and_back_with_prefixes_killed_at_several_steps(
    pair: tuple[KafkaCluster, KafkaCluster], commands: Commands, topic_name: str, stack: ExitStack
) -> None:
    east, west = pair
    topic, remote, group = topic_name, f"east.{topic_name}", f"g-{topic_name}"
    create_topic(east, topic, PARTITIONS)
    create_acls(east, producer_rights(topic))
    rights = acls(east)
    file = commands.file("east->west", "west->east")
    there = ("switchover", file, "--from", "east", "--to", "west", "--wave", "prefixes")
    load = Load(east, topic, PARTITIONS, rate=300, user=WRITER, tick_s=SLOW_TICK_S).start()
    wait_for(lambda: min(ends(east, topic)) > 100, 60, "there are records")
    flow = LightFlow(file, "east->west")
    try:
        with Member(east, group, [topic], "classic") as member:
            member.read(50)
            member.commit()
            rehearsed = commands.run(*there, "--rehearse")
            assert f"create ACL on east: DENY WRITE on {topic} for User:* from *" in rehearsed
            assert f"create topic {topic} on west with 2 partitions" in rehearsed
            assert "nothing was changed" in rehearsed
            assert acls(east) == rights
            assert topic not in topics(west)

            # Undone, producers go on. A super user passes the fence, and so the source does not come to rest.
            with Load(east, topic, PARTITIONS, rate=50, name="super"):
                ended = commands.kill_at("settle", *there, number=signal.SIGINT)
            assert commands.killed == 1
            assert "ended by SIGINT: east->west is running, last step" in ended
            assert "producers are fenced; the same command continues there, --abort undoes it" in ended
            wait_refused(load, "TOPIC_AUTHORIZATION_FAILED")
            load.abandon()
            commands.run(*there, "--abort")
            assert acls(east) == rights
            load = Load(east, topic, PARTITIONS, rate=300, user=WRITER, name="again", tick_s=SLOW_TICK_S).start()
            before = ends(east, topic)
            wait_for(lambda: min(ends(east, topic)) > max(before), 60, "producers write again")

            for step in ("fence", "groups"):
                commands.kill_at(step, *there)
            assert commands.killed >= 2
            wait_refused(load, "TOPIC_AUTHORIZATION_FAILED")
            load.abandon()
            path, key = commands.home / "there", commands.home / "proof.key"
            commands.run("keygen", "--out", key)
            commands.run(*there, "--report", path, "--sign", key)
            report = commands.report(path)
            assert report["state"] == "done"
            statement = path.with_name("there.statement.json")
            assert read_statement(statement, VerifyingKey.read(Path(f"{key}.pub.pem"))).result == "moved"
            (flow_data,) = json.loads(statement.read_text())["flows"]
            assert [part["source_end"] for part in flow_data["partitions"]] == ends(east, topic)
            assert [row["end"] for row in report["partitions"]] == ends(east, topic)
            assert [row["to_end"] for row in report["partitions"]] == ends(west, remote)
            assert report["groups"][group]["members_on_source"]
            assert any(f"groups with members on east: {group}" in line for line in report["next"])
            # It reads on until it stops.
            rest = sum(ends(east, topic)) - 50
            member.read(rest)
            member.commit()
        require_clean(east, topic, west, remote)
        assert topics(west)[topic] == PARTITIONS
        commands.run(*there, "--report", path)
        assert stands(west, group, remote) == ends(west, remote)
        # Nothing that producers write on west before its consumers come is skipped.
        assert stands(west, group, topic) == [0, 0]
        assert commands.report(path)["groups"][group]["repeated"] == 0
        markdown = path.with_name("there.md").read_text()
        assert "# Switchover east -> west: done" in markdown
        assert "done" in commands.run(*there, "--status")
    finally:
        flow.stop()
        load.abandon()

    # Producers and consumers are on west now.
    back = ("switchback", file, "--from", "west", "--to", "east", "--wave", "prefixes")
    produce(west, topic, numbered(40))
    commit_offsets(west, {group: {(topic, number): end for number, end in enumerate(ends(west, topic))}})
    flow = LightFlow(file, "west->east")
    load = Load(west, topic, PARTITIONS, rate=100, client_id="shop", tick_s=SLOW_TICK_S).start()
    try:
        wait_for(lambda: sum(ends(west, topic)) > 100, 60, "there are new records")
        commands.kill_at("settle", *back)
        path = commands.home / "back"
        commands.run(*back, "--report", path)
        load.abandon()
        report = commands.report(path)
        assert report["fence"] == "quota"
        assert [row["end"] for row in report["partitions"]] == ends(west, topic)
        # Only what was written on west came over.
        assert f"west.{remote}" not in topics(east)
        assert ends(east, f"west.{topic}") == ends(west, topic)
        # East is as it was before, and west is closed.
        assert acls(east) == rights
        assert "producer_byte_rate = 10 for user <default>" in quotas(west)
        # The group had read all of east's own records on west.
        assert stands(east, group, topic) == ends(east, topic)
        assert None not in stands(east, group, f"west.{topic}")
        # The copies of what was written on west are no records to mirror: the next move may begin.
        flow.stop()
        flow = LightFlow(file, "east->west")
        flow.wait_until_caught_up()
        told = commands.run("groups", file, "--flow", "east:west", "--wait", "--timeout", "60")
        assert "east->west: 1 of 1 group may move now" in told
        audited = commands.run("audit", file, "--flow", "east:west", "-o", "json", code=1)
        assert f"west.{topic}" not in json.dumps(json.loads(audited)["findings"])

        # Records of west that the group reads on east would come again on west, except by a switchover.
        stood, end = stands(west, group, topic)[0], ends(west, topic)[0]
        assert stood is not None
        commit_offsets(east, {group: {(f"west.{topic}", 0): ends(east, f"west.{topic}")[0]}})
        told = commands.run("groups", file, "--flow", "east:west", "--wait", "--timeout", "60", code=1)
        assert f"on the target the group stands at {stood}, {end - stood} before its position" in told
        assert f"1 may not: left-to-switchover; an operator has to act for {group}" in told
        audited = commands.run("audit", file, "--flow", "east:west", "-o", "json", code=1)
        repeats = [one for one in json.loads(audited)["findings"] if one["kind"] == "group-repeats"]
        assert [one["text"] for one in repeats] == [f"group {group} would repeat {end - stood} records on west"]
        syncs = commands.home / "syncs.properties"
        syncs.write_text(f"{file.read_text()}sync.group.offsets.enabled = true\n")
        planned = commands.run("plan", syncs, "--flow", "east:west", "--all")
        assert f"west.{topic}-0: on the target the group stands at {stood}" in planned
        enter_group(stack, west, "east-mm2", remote)
        rehearsed = commands.run(*there, "--dry-run")
        assert f"commit for group {group} on west: {topic}-0 at {end}" in rehearsed
    finally:
        load.abandon()
        flow.stop()
        lift_quotas(west)


@pytest.mark.scenario
def test_there_and_back_where_names_stay(
    pair: tuple[KafkaCluster, KafkaCluster], commands: Commands, topic_name: str, stack: ExitStack
) -> None:
    east, west = pair
    topic, group = topic_name, f"g-{topic_name}"
    create_topic(east, topic, PARTITIONS)
    produce(east, topic, numbered(100))
    commit_offsets(east, {group: {(topic, 0): 10, (topic, 1): ends(east, topic)[1]}})
    forth, back = (commands.file(flow, identity=True) for flow in ("east->west", "west->east"))
    with LightFlow(forth, "east->west") as flow:
        flow.wait_until_caught_up()
        enter_group(stack, west, "east-mm2", topic)
        commands.run("switchover", forth, *TO_WEST, "--fence", "acl")
    assert stands(west, group, topic) == [10, ends(west, topic)[1]]
    cut = ends(west, topic)

    produce(west, topic, numbered(30, start=1000))
    commit_offsets(west, {group: {(topic, 1): ends(west, topic)[1]}})
    commands.kill_at("catch-up", "switchback", back, *TO_EAST, "--near", "0", "--fence", "none")
    with LightFlow(back, "west->east"):
        commands.run("switchback", back, *TO_EAST, "--fence", "none")
    # What came from east is there once, and the new records after it.
    assert ends(east, topic) == ends(west, topic)
    assert sum(ends(east, topic)) == sum(cut) + 30
    assert values(east, topic) == values(west, topic)
    assert stands(east, group, topic) == [10, ends(east, topic)[1]]

    # And once more, with east lost.
    produce(east, topic, numbered(20, start=2000))
    copy_what_is_there(forth, "east->west")
    assert values(west, topic) == values(east, topic)
    produce(east, topic, numbered(5, start=3000))
    stood = Checkpoint(GroupId(group), TopicName(topic), 1, SourceOffset(0), TargetOffset(0))
    late = Checkpoint(GroupId(f"{group}-late"), TopicName(topic), 0, SourceOffset(30), TargetOffset(30))
    if CHECKPOINTS not in topics(west):
        create_topic(west, CHECKPOINTS, config={"cleanup.policy": "compact"})
    produce(west, CHECKPOINTS, [NewRecord(one.value, one.key) for one in (stood, late)])
    lost = commands.file("east->west", identity=True, east_is_lost=True)
    told = commands.run("switchover", lost, *TO_WEST, "--emergency")
    assert "Emergency switchover east -> west: done" in told
    # By its last checkpoint, and never back.
    assert stands(west, late.group, topic)[0] == 30
    assert stands(west, group, topic)[0] == 10
    produce(west, topic, numbered(7, start=4000))
    path = commands.home / "again"
    commands.kill_at("catch-up", "switchback", back, *TO_EAST, "--near", "0", "--fence", "none")
    with LightFlow(back, "west->east"):
        commands.run("switchback", back, *TO_EAST, "--fence", "none", "--report", path)
    assert sum(ends(east, topic)) == sum(ends(west, topic)) + 5
    tail = commands.report(path)["tail"][topic]
    assert sum(end - first for first, end in tail.values()) == 5


def values(cluster: KafkaCluster, topic: str) -> list[list[bytes | None]]:
    found: list[list[bytes | None]] = [[] for _ in range(PARTITIONS)]
    for record in consume(cluster, topic):
        found[record.partition].append(record.value)
    return found


def test_wrong_input_says_what_to_do(commands: Commands) -> None:
    file = commands.file("east->west")
    assert "the clusters of the file are" in commands.run("switchover", file, "--from", "north", "--to", "west", code=2)
    assert "write west->east.enabled = true" in commands.run(
        "switchback", file, "--from", "west", "--to", "east", code=2
    )
    assert "mirrors no topic that exists on east" in commands.run(
        "switchover", file, "--from", "east", "--to", "west", "--wave", "nothing", code=1
    )


def test_the_journal_has_room_for_what_became_of_very_many_groups(
    pair: tuple[KafkaCluster, KafkaCluster], chance: Random
) -> None:
    admin = ClusterAdmin("west", ClientSettings((pair[1].bootstrap,)))
    ends, data = SwitchoverDirection(Alias("north"), Alias("west")), {"groups": chance.randbytes(2 << 20).hex()}
    try:
        admin.connect()
        journal = TopicJournal(ends, admin, 1)
        journal.claim_journal()
        run = SwitchoverRun("one", ends, SwitchoverOptions(SwitchoverKind.PLANNED), SwitchoverState.RUNNING, 0)
        journal.write([JournalLine("groups", StepPhase.DONE, JournalEntry(0, data))], run)
        assert TopicJournal(ends, admin, 1).read().done("groups") == data
    finally:
        admin.close()
