"""The rights of a switchover on real brokers: a lack is found before producers are fenced, and named afterwards."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Literal

import pytest

from harness.acls import Acl, acls, create_acls
from harness.cluster import KafkaCluster
from harness.groups import commit_offsets
from harness.produce import numbered, produce
from harness.topics import create_topic, delete_topic, topics
from tests.connected_admins import plain_login
from tests.integration.flows.light_flow import LightFlow, copy_what_is_there
from tests.integration.kafka.test_rights import delete_acls
from tests.integration.ops.switchover.commands import (
    MIRROR,
    PARTITIONS,
    Commands,
    enter_group,
    producer_rights,
    stands,
)
from tests.integration.running import sasl_properties
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.model.types import Alias
from twinlog.ops.switchover.journal import TOPIC, TopicJournal
from twinlog.ops.switchover.model import SwitchoverDirection

EMERGENCY = ("--from", "east", "--to", "west", "--wave", "refused", "--emergency")


@pytest.mark.scenario
def test_a_commit_that_a_right_is_missing_for_is_found_before_and_named_after(
    pair: tuple[KafkaCluster, KafkaCluster], commands: Commands, topic_name: str, stack: ExitStack
) -> None:
    east, west = pair
    topic, remote, group = topic_name, f"west.{topic_name}", f"g-{topic_name}"
    create_topic(west, topic, PARTITIONS)
    produce(west, topic, numbered(100))
    commit_offsets(west, {group: {(topic, 0): 10}})
    file = commands.file("west->east")
    flow = LightFlow(file, "west->east")
    file.write_text(file.read_text() + sasl_properties({"east": east}, MIRROR))
    there = ("switchover", file, "--from", "west", "--to", "east", "--wave", "rights", "--fence", "none")
    login = f"User:{MIRROR}"
    reads = [Acl(topic, login, "READ"), Acl(group, login, "READ", resource="GROUP")]
    every = [
        Acl("mm2-", login, "ALL", pattern="PREFIXED"),
        Acl("mm2-", login, "ALL", resource="TRANSACTIONAL_ID", pattern="PREFIXED"),
        Acl("west-mm2", login, "ALL", resource="GROUP"),
        Acl(remote, login, "READ"),
        Acl(topic, login, "CREATE"),
        Acl(topic, login, "DESCRIBE"),
        Acl(group, login, "DESCRIBE", resource="GROUP"),
    ]
    create_acls(east, every)
    try:
        flow.wait_until_caught_up()
        enter_group(stack, east, "west-mm2", remote)
        text = commands.run(*there, "--dry-run", code=1)
        assert f"commits of {group} on east would be refused: {login} lacks READ on group {group} of east" in text
        # The rights on a topic that is yet to be created are unknown to a login that may not read ACLs.
        create_acls(east, reads[1:])
        assert "nothing was changed" in commands.run(*there, "--dry-run")
        text = commands.run(*there, code=1)
        lacking = f"TW-SWITCH-20: commits of {group} on east would be refused: {login} lacks READ on topic {topic}"
        assert lacking in text
        assert "west->east is running, last step topics; the same command continues there, --abort undoes it" in text
        assert lacking in commands.run(*there, "--dry-run", code=1)

        create_acls(east, reads)
        assert "nothing was changed" in commands.run(*there, "--dry-run")
        commands.kill_at("settle", *there)
        assert commands.killed == 1
        delete_acls(east, reads[0])
        path = commands.home / "rights"
        text = commands.run(*there, "--take-over", "--report", path, code=1)
        line = f"twinlog: TW-SWITCH-20: east refused the commit of group {group} in {topic}-0 at 0"
        assert line in text, text
        assert f"{login} lacks READ on topic {topic} of east; `twinlog acls FILE --for switchover --missing`" in text
        report = commands.report(path)
        assert report["state"] == "done"
        assert stands(east, group, remote)[0] == 10
        assert stands(east, group, topic) == [None] * PARTITIONS
        create_acls(east, reads[:1])
        commands.run(*there)
        assert stands(east, group, topic) == [0] * PARTITIONS
    finally:
        flow.stop()


@pytest.mark.scenario
def test_an_emergency_whose_fence_may_not_be_lifted_continues_and_lifts_it_once_it_may(
    pair: tuple[KafkaCluster, KafkaCluster], commands: Commands, topic_name: str
) -> None:
    east, west = pair
    topic, remote, group, login = topic_name, f"east.{topic_name}", f"g-{topic_name}", f"User:{MIRROR}"
    create_topic(east, topic, PARTITIONS)
    create_acls(east, producer_rights(topic))
    produce(east, topic, numbered(100))
    file, lost = commands.file("east->west"), commands.file("east->west", east_is_lost=True)
    copy_what_is_there(file, "east->west")
    commands.run("switchover", lost, *EMERGENCY)

    # East is back, and the login may look at its ACLs and quotas, and change neither.
    file.write_text(file.read_text() + sasl_properties({"east": east}, MIRROR))
    looks = [
        Acl("kafka-cluster", login, operation, resource="BROKER") for operation in ("DESCRIBE", "DESCRIBE_CONFIGS")
    ]
    changes = [Acl("kafka-cluster", login, operation, resource="BROKER") for operation in ("ALTER", "ALTER_CONFIGS")]
    rights = [
        Acl("mm2-", login, "ALL", pattern="PREFIXED"),
        Acl("mm2-", login, "ALL", resource="TRANSACTIONAL_ID", pattern="PREFIXED"),
        Acl(topic, login, "READ"),
        Acl(topic, login, "DESCRIBE_CONFIGS"),
        Acl(group, login, "READ", resource="GROUP"),
    ]
    create_acls(east, [*rights, *looks])
    by_quota, path = (*EMERGENCY, "--fence", "quota"), commands.home / "refused"
    try:
        rehearsed = commands.run("switchover", file, *EMERGENCY, "--dry-run")
        (call,) = (line.strip() for line in rehearsed.splitlines() if "create ACL on east: DENY WRITE" in line)
        text = commands.run("switchover", file, *EMERGENCY, code=1)
        assert "TW-SWITCH-20: producers on east are unfenced, though east answers" in text, text
        assert f"{login} lacks ALTER on the cluster" in text, text

        # As if east had created the ACL, and its answer had been lost.
        pattern: Literal["LITERAL", "PREFIXED"] = "PREFIXED" if call.endswith("(prefix)") else "LITERAL"
        denial = Acl(topic, "User:*", "WRITE", "DENY", pattern=pattern)
        create_acls(east, [denial])
        commit_offsets(east, {group: {(topic, 0): 40}})
        rehearsed = commands.run("switchover", file, *by_quota, "--dry-run")
        assert call.replace("create", "delete") in rehearsed, rehearsed
        assert "set on east: producer_byte_rate = 10 for user <default>" in rehearsed
        text = commands.run("switchover", file, *by_quota, "--report", path, code=1)
        assert f"{login} lacks ALTER on the cluster" in text, text
        assert "needed for removing ACLs" in text
        assert denial in acls(east)
        assert stands(west, group, remote)[0] == 40, "the groups follow all the same"
        report = commands.report(path)
        assert "records of east without a copy: 0 records at " in str(report["notes"])
        assert (report["fence"], len(report["failed"])) == ("acl", 1)

        create_acls(east, changes)
        commands.run("switchover", file, *by_quota, "--report", path)
        assert denial not in acls(east)
        report = commands.report(path)
        assert (report["fence"], report["failed"]) == ("quota", [])
        commands.run("switchover", file, *EMERGENCY[:-1], "--release")
    finally:
        for one in {*looks, *changes} & acls(east):
            delete_acls(east, one)


def test_rights_on_the_journal_are_found_without_a_change(pair: tuple[KafkaCluster, KafkaCluster]) -> None:
    """By real brokers: a rehearsal names each right that the writer of the journal would lack."""
    east, _ = pair
    login = "User:kafkaui"
    every = {
        "CREATE on topic": Acl(TOPIC, login, "CREATE"),
        "WRITE on topic": Acl(TOPIC, login, "WRITE"),
        "WRITE on transactional id": Acl(
            "mm2-twinlog-switchover-", login, "WRITE", "ALLOW", "TRANSACTIONAL_ID", "PREFIXED"
        ),
    }
    if TOPIC in topics(east):
        delete_topic(east, TOPIC)
    settings = plain_login(east, "kafkaui")
    admin = ClusterAdmin("east", settings)
    journal = TopicJournal(SwitchoverDirection(Alias("north"), Alias("east")), admin, 1)

    def lacking() -> list[str]:
        found = [line.split(" lacks ")[1].split(", needed")[0] for line in journal.find_missing_rights()]
        return [line.rpartition(" ")[0] for line in found]

    try:
        admin.connect()
        assert lacking() == ["CREATE on topic", "WRITE on transactional id"]
        create_acls(east, [every["CREATE on topic"]])
        assert lacking() == ["WRITE on transactional id"]
        create_acls(east, every.values())
        assert lacking() == []
        assert TOPIC not in topics(east)

        create_topic(east, TOPIC)
        assert lacking() == []
        delete_acls(east, every["WRITE on topic"])
        create_acls(east, [Acl(TOPIC, login, "READ")])
        assert lacking() == ["WRITE on topic"]
        delete_acls(east, every["WRITE on transactional id"])
        assert lacking() == ["WRITE on topic", "WRITE on transactional id"]
    finally:
        admin.close()
        delete_topic(east, TOPIC)
