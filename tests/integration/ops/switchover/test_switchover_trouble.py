"""What keeps `twinlog switchover` from its end on real brokers: a stopped flow, a hidden topic, a lost source."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack

import pytest

from harness.acls import Acl, acls, create_acls
from harness.cluster import KafkaCluster
from harness.groups import commit_offsets
from harness.produce import NewRecord, numbered, produce
from harness.topics import create_topic, topics
from tests.integration.flows.light_flow import copy_what_is_there
from tests.integration.ops.switchover.commands import (
    CHECKPOINTS,
    MIRROR,
    PARTITIONS,
    Commands,
    ends,
    enter_group,
    producer_rights,
    stands,
)
from tests.integration.running import sasl_properties
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.users import alter_producer_quotas
from twinlog.mirror.records import Checkpoint
from twinlog.model.quotas import EVERY_USER, Quota
from twinlog.model.types import GroupId, SourceOffset, TargetOffset, TopicName
from twinlog.ops.switchover.fencing import RATE
from twinlog.settings.client import ClientSettings


def test_a_flow_that_does_not_run_is_an_obstacle_and_is_waited_for_until_the_timeout(
    pair: tuple[KafkaCluster, KafkaCluster], commands: Commands, topic_name: str, stack: ExitStack
) -> None:
    east, west = pair
    create_topic(east, topic_name, PARTITIONS)
    produce(east, topic_name, numbered(20))
    file = commands.file("east->west")
    copy_what_is_there(file, "east->west")
    produce(east, topic_name, numbered(5, start=100))
    there = ("switchover", file, "--from", "east", "--to", "west", "--wave", "stopped", "--fence", "none")
    reported = ("--report", commands.home / "stopped")
    for words in (("--dry-run",), reported):
        text = commands.run(*there, *words, code=1)
        assert "TW-SWITCH-12: no process of flow east->west is in its group, and its positions stayed the same" in text
    assert "nothing was changed" in text
    assert commands.report(commands.home / "stopped")["state"] == "refused"
    status = commands.run(*there, "--status")
    assert "Switchover east -> west: refused" in status
    assert "1. no process of flow east->west is in its group" in status
    assert "nothing was changed" in commands.run(*there, "--dry-run", "--emergency")

    # A process that copies nothing.
    enter_group(stack, west, "east-mm2", f"east.{topic_name}")
    began = time.monotonic()
    text = commands.run(*there, "--timeout", "4", "--near", "0", *reported, code=1)
    assert time.monotonic() - began < 60
    late = "TW-SWITCH-10: step catch-up took longer than 4 s, and producers stayed unfenced: 5 records left"
    assert late in text, text
    assert "everything was undone, producers may write to east; mend that, and run the same command again" in text
    assert "Switchover east -> west: aborted" in commands.run(*there, "--status")
    assert commands.report(commands.home / "stopped")["state"] == "aborted"
    produce(east, topic_name, numbered(1, start=200))


@pytest.mark.scenario
def test_a_topic_that_brokers_hide_is_an_obstacle_and_is_named_once_it_is_seen(
    pair: tuple[KafkaCluster, KafkaCluster], commands: Commands, topic_name: str, stack: ExitStack
) -> None:
    east, west = pair
    seen, hidden, login = f"{topic_name}-a", f"{topic_name}-b", f"User:{MIRROR}"
    for topic in (seen, hidden):
        create_topic(east, topic, PARTITIONS)
        produce(east, topic, numbered(20))
    plain = commands.file("east->west").read_text()
    files = {}
    for name, topics_line in {"seen": seen, "hidden": hidden, "both": f"{seen}, {hidden}"}.items():
        files[name] = commands.home / f"{name}.properties"
        files[name].write_text(plain + f"topics = {topics_line}\n")
    copy_what_is_there(files["seen"], "east->west")
    enter_group(stack, west, "east-mm2", f"east.{seen}")
    rights = [
        Acl("mm2-", login, "ALL", pattern="PREFIXED"),
        Acl("mm2-", login, "ALL", resource="TRANSACTIONAL_ID", pattern="PREFIXED"),
        *(Acl(seen, login, operation) for operation in ("READ", "DESCRIBE_CONFIGS")),
    ]
    create_acls(east, rights)
    by_login = {name: commands.home / f"{name}-login.properties" for name in files}
    for name, path in by_login.items():
        path.write_text(files[name].read_text() + sasl_properties({"east": east}, MIRROR))
    ends_of = ("--from", "east", "--to", "west", "--fence", "none")
    there = ("switchover", by_login["both"], *ends_of, "--wave", "hidden")
    commands.run(*there)

    # The file spells the topic out, and the remote topic shows that it was copied.
    copy_what_is_there(files["hidden"], "east->west")
    lacks = f"{hidden}: the login lacks DESCRIBE on east, so the topic would be left behind"
    assert lacks in commands.run("switchover", by_login["hidden"], *ends_of, "--wave", "b", "--dry-run", code=1)
    both = ("switchover", by_login["both"], *ends_of, "--wave", "c", "--dry-run")
    assert lacks in commands.run(*both, code=1)
    assert "the same command only commits the offsets of groups again" in commands.run(*there, "--dry-run")
    create_acls(east, [Acl(hidden, login, operation) for operation in ("READ", "DESCRIBE_CONFIGS")])
    line = f"TW-SWITCH-20: {hidden} was not moved, as the check did not see it"
    assert line in commands.run(*there, code=1)
    commands.run("switchover", by_login["hidden"], *ends_of, "--wave", "b")
    commands.run(*there)


@pytest.mark.scenario
def test_an_emergency_knows_its_groups_and_fences_the_source_once_that_is_back(
    pair: tuple[KafkaCluster, KafkaCluster], commands: Commands, topic_name: str
) -> None:
    east, west = pair
    topic, remote, group = topic_name, f"east.{topic_name}", f"g-{topic_name}"
    create_topic(east, topic, PARTITIONS)
    create_acls(east, producer_rights(topic))
    rights = acls(east)
    produce(east, topic, numbered(200))
    file, lost = commands.file("east->west"), commands.file("east->west", east_is_lost=True)
    copy_what_is_there(file, "east->west")
    end = ends(west, remote)[0]
    # MirrorMaker 2 would have translated 30 to an earlier offset.
    checkpoint = Checkpoint(GroupId(group), TopicName(remote), 0, SourceOffset(30), TargetOffset(5))
    if CHECKPOINTS not in topics(west):
        create_topic(west, CHECKPOINTS, config={"cleanup.policy": "compact"})
    produce(west, CHECKPOINTS, [NewRecord(checkpoint.value, checkpoint.key)])
    emergency = ("--from", "east", "--to", "west", "--wave", "lost", "--emergency")
    why = (
        "the last checkpoint is of 30, and on the target the group continues at 30: it repeats the records that it "
        f"read on the source after the checkpoint, up to {end - 30} records"
    )
    text = commands.run("switchover", lost, *emergency, "--dry-run")
    assert f"commit for group {group} on west: {remote}-0 at 30; {why}" in text, text
    path = commands.home / "lost"
    text = commands.run("switchover", lost, *emergency, "--report", path)
    # The clock of the command has the wait for the silent cluster.
    assert float(text.split(" s  check ")[0].split()[-1]) > 10, text
    report = commands.report(path)
    # The test's flow writes no report.
    assert "records of east without a copy: unknown, as the flow lacks a report" in str(report["notes"])
    assert stands(west, group, remote)[0] == 30
    assert [report["groups"][group][name] for name in ("skipped", "repeated")] == [0, end - 30]
    assert "by hand" not in "".join(report["next"])
    assert any("producers on east stay unfenced" in line for line in report["next"])

    # East is back; the group had read on there, and the flow copies what was left.
    commit_offsets(east, {group: {(topic, 0): 40}})
    produce(east, topic, numbered(10, start=1000))
    copy_what_is_there(file, "east->west")
    for _ in range(2):
        began = time.monotonic()
        commands.run("switchover", file, *emergency, "--report", path)
        assert time.monotonic() - began < 60
        again = commands.report(path)
        assert again["run"] == report["run"]
        assert "unfenced" not in json.dumps(again)
        rows = [(row["end"], row["copied"]) for row in again["partitions"]]
        assert rows == [(one, one) for one in ends(east, topic)], again["notes"]
        assert "records of east without a copy: 0 records at " in str(again["notes"])
        assert any("producers stay fenced on east" in line for line in again["next"])
        assert [one.name for one in acls(east) if one.permission == "DENY"] == [topic]
        assert stands(west, group, remote)[0] == 40
        assert [again["groups"][group][name] for name in ("skipped", "repeated")] == [0, 0]
        # The first of these commands after the return ends the switchover before it, too.
        again_done = ("fence", "groups", "close")
        times = {one["step"]: one["done"] for one in report["steps"] if one["step"] not in again_done}
        assert {one["step"]: one["done"] for one in again["steps"] if one["step"] in times} == times
        assert all(one["seconds"] < 30 for one in again["steps"])
    commands.run("switchover", file, *emergency[:-1], "--release")
    assert acls(east) == rights
    # A denial that no journal knows stays, and the release names it.
    create_acls(east, [Acl(topic, "User:*", "WRITE", "DENY")])
    for wave in ("lost", "without-a-journal"):
        there = ("--from", "east", "--to", "west", "--wave", wave)
        text = commands.run("switchover", file, *there, "--release", code=1)
        assert f"TW-SWITCH-21: fence of DENY WRITE User:* on {topic} stays" in text, text
        assert f"kafka-acls.sh --bootstrap-server {east.bootstrap}" in text, text
    # So does a quota.
    limit_every_user(east, RATE)
    try:
        for mode in ("--release", "--status"):
            text = commands.run("switchover", file, *there, mode, code=1)
            assert "TW-SWITCH-21: " in text, text
            assert "fence of producer_byte_rate = 10 for user <default> stays" in text, text
            assert f"kafka-configs.sh --bootstrap-server {east.bootstrap}" in text, text
    finally:
        limit_every_user(east, None)


def limit_every_user(cluster: KafkaCluster, rate: float | None) -> None:
    admin = ClusterAdmin("any", ClientSettings((cluster.bootstrap,)))
    try:
        admin.connect()
        admin.call(alter_producer_quotas, admin.client, [Quota(EVERY_USER, rate)])
    finally:
        admin.close()
