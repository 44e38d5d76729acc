"""A release looks at the denials that stand after it: only denials of its own fence are gone."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import partial

import pytest

from harness.virtual.cluster import VirtualCluster
from harness.virtual.loop import VirtualLoop, virtual_loop
from tests.unit.ops.switchover.machines import A_TO_B, PLANNED, machine
from tests.unit.ops.switchover.scripted import FENCE_PLAN, Brokers, Kill, ScriptedWorld
from tests.unit.ops.switchover.test_one_cluster import between
from tests.unit.worker.topics.test_topic_conflicts import flow
from twinlog.errors import RefusedError
from twinlog.errors.message_ids import told
from twinlog.kafka.admin.cluster import ClusterAdmin, both_clusters
from twinlog.model.acls import Acl, AclOperation, AclPermissionType, PatternType, ResourceType, acls_data
from twinlog.model.quotas import EVERY_USER, Quota, QuotaEntity
from twinlog.model.types import Alias, TopicName
from twinlog.ops.switchover import clusters
from twinlog.ops.switchover.clusters import LiveClusters
from twinlog.ops.switchover.fencing import RATE, UNLIMITED
from twinlog.ops.switchover.journal import JournalEntries
from twinlog.ops.switchover.lasting_fences import name_lasting_denials, name_lasting_quotas
from twinlog.ops.switchover.model import Data, FenceMethod, MovedTopic, UnderWayError
from twinlog.ops.switchover.report import report
from twinlog.ops.switchover.session import print_failed_parts, print_unknown_fences
from twinlog.settings.client import ClientSettings

OSLO = Alias("oslo")
CLIENT = ClientSettings(("oslo:9092",), "twinlog", "SASL_SSL")
TOPICS = (TopicName("orders"), TopicName("clicks"))
STAYS = "fence of DENY WRITE User:* on orders stays"
LIFTED = "keep producers away from a: the fence there is lifted"


def deny(topic: str, **changed: object) -> Acl:
    acl = Acl(ResourceType.TOPIC, topic, "User:*", "*", AclOperation.WRITE, AclPermissionType.DENY)
    return replace(acl, **changed)  # type: ignore[arg-type]


def named(*acls: Acl, others: dict[str, Data] | None = None) -> list[str]:
    return name_lasting_denials(acls, TOPICS, others or {}, OSLO, CLIENT)


def test_denials_that_stay_are_named_with_the_command_that_removes_them() -> None:
    tool = "kafka-acls.sh --bootstrap-server oslo:9092 --command-config oslo-admin.properties --remove --force"
    write = f"{tool} --deny-principal 'User:*' --operation Write"
    why = "it was set by hand or by an earlier switchover: remove it by"
    names = f"fence of DENY WRITE User:* on clicks, orders stays, {why} {write} --topic clicks --topic orders"
    prefix = f"fence of DENY WRITE User:* on ord stays, {why} {write} --topic ord --resource-pattern-type prefixed"
    assert named(deny("orders"), deny("clicks"), deny("ord", pattern=PatternType.PREFIXED)) == [names, prefix]
    assert "DENY ALL User:* on orders stays" in named(deny("orders", operation=AclOperation.ALL))[0]


@pytest.mark.parametrize(
    "other",
    [
        deny("payments"),
        deny("orders", principal="User:ann"),
        deny("orders", host="10.0.0.1"),
        deny("orders", operation=AclOperation.READ),
        deny("orders", permission=AclPermissionType.ALLOW),
    ],
)
def test_an_acl_that_lets_producers_write_is_no_fence(other: Acl) -> None:
    assert named(other) == []


def test_the_fence_of_another_wave_is_lifted_by_that_wave() -> None:
    wave = deny("ord", pattern=PatternType.PREFIXED)
    (line,) = named(wave, others={"wave w of switchover a->b": {"remove": acls_data([wave.of_topic])}})
    assert line == (
        "fence of DENY WRITE User:* on ord stays, it is the fence of wave w of switchover a->b: lift it by --release "
        "of that move"
    )


def test_the_quotas_of_a_fence_are_named_with_the_commands_that_remove_them() -> None:
    own, ann = Quota(QuotaEntity(user="mirror"), UNLIMITED), Quota(QuotaEntity(user="ann"), 500.0)
    slow = Quota(QuotaEntity(user="", client_id="c 1"), RATE)
    tool = "kafka-configs.sh --bootstrap-server oslo:9092 --command-config oslo-admin.properties --alter"
    every, other, exempt = name_lasting_quotas([own, ann, slow, Quota(EVERY_USER, RATE)], OSLO, CLIENT)
    assert every == (
        "fence of producer_byte_rate = 10 for user <default> stays, it was set by hand or by an earlier switchover: "
        f"remove it by {tool} --entity-type users --entity-default --delete-config producer_byte_rate"
    )
    assert f"{tool} --entity-type users --entity-default --entity-type clients --entity-name 'c 1' --delete" in other
    assert "--entity-name mirror --delete-config producer_byte_rate, and set the former quota of user mirror" in exempt
    assert name_lasting_quotas([own, ann, slow], OSLO, CLIENT) == [], "users without a quota produce"
    assert name_lasting_quotas([Quota(EVERY_USER, 1e6)], OSLO, CLIENT) == [], "a quota of an administrator"


def test_a_release_and_the_status_name_a_quota_that_no_journal_has(capsys: pytest.CaptureFixture[str]) -> None:
    quota = "fence of producer_byte_rate = 10 for user <default> stays"
    brokers = Brokers(A_TO_B, lasting_quotas=(quota,))
    with pytest.raises(UnderWayError) as refused:
        machine(brokers).release_fence()
    assert told(refused.value) == f"TW-SWITCH-21: {quota}"
    world = ScriptedWorld(brokers, Kill())
    assert print_unknown_fences(world, JournalEntries())
    assert f"TW-SWITCH-21: {quota}" in capsys.readouterr().err
    # A switchover with a fence of ACLs leaves the quota, too.
    entries = machine(brokers).run(PLANNED)
    assert not print_unknown_fences(world, entries), "the report has the fence of its own switchover"
    assert report(machine(brokers).release_fence())["failed"] == [f"TW-SWITCH-21: {quota}"]
    brokers.lasting_quotas, brokers.noted_fence = (), None
    assert not print_unknown_fences(world, JournalEntries())
    brokers.noted_fence = FENCE_PLAN
    assert print_unknown_fences(world, JournalEntries())
    assert "a is fenced by a switchover whose journal is lost: --release lifts" in capsys.readouterr().err


def test_a_release_that_leaves_a_denial_fails_until_the_denial_is_gone(capsys: pytest.CaptureFixture[str]) -> None:
    brokers = Brokers(A_TO_B)
    machine(brokers).run(PLANNED)
    brokers.lasting_denials = (STAYS,)
    entries = machine(brokers).release_fence()
    assert not brokers.fenced
    found = report(entries)
    assert found["failed"] == [f"TW-SWITCH-21: {STAYS}"]
    assert found["failed"][0] in found["next"]
    assert LIFTED not in found["next"]
    assert print_failed_parts(entries) == 1
    assert f"TW-SWITCH-21: {STAYS}" in capsys.readouterr().err
    brokers.lasting_denials = ()
    entries = machine(brokers).release_fence()
    assert report(entries)["next"][-1] == LIFTED
    assert print_failed_parts(entries) == 0


def test_without_a_journal_a_release_names_the_denials_that_it_finds() -> None:
    brokers = Brokers(A_TO_B, lasting_denials=(STAYS,))
    with pytest.raises(UnderWayError) as refused:
        machine(brokers).release_fence()
    assert told(refused.value) == f"TW-SWITCH-21: {STAYS}"
    # Its journal is lost, and the source has kept the data to lift its own fence.
    brokers.fenced, brokers.noted_fence = True, FENCE_PLAN
    with pytest.raises(UnderWayError, match=rf"^{STAYS[:20]}"):
        machine(brokers).release_fence()
    assert not brokers.fenced
    brokers.lasting_denials = ()
    with pytest.raises(UnderWayError, match="must be done before its fence can be released"):
        machine(brokers).release_fence()


def test_without_a_journal_and_the_right_to_read_acls_producers_may_be_fenced(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []
    read = ScriptedWorld.find_lasting_denials

    def count(world: ScriptedWorld, topics: Collection[MovedTopic]) -> list[str]:
        reads.append(len(topics))
        return read(world, topics)

    monkeypatch.setattr(ScriptedWorld, "find_lasting_denials", count)
    brokers = Brokers(A_TO_B, acls_hidden=True)
    doubt = "producers may still be fenced on a: the login lacks DESCRIBE on cluster a"
    with pytest.raises(UnderWayError) as refused:
        machine(brokers).release_fence()
    assert told(refused.value) == f"TW-SWITCH-21: {doubt}"
    assert print_unknown_fences(ScriptedWorld(brokers, Kill()), JournalEntries())
    assert f"TW-SWITCH-21: {doubt}" in capsys.readouterr().err
    assert reads == [1, 1], "a release and a command read the denials once each"
    # The data to lift its own fence are enough.
    brokers.fenced, brokers.noted_fence = True, FENCE_PLAN
    machine(brokers).release_fence()
    assert not brokers.fenced


def test_hidden_acls_are_listed_by_an_administrator(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object) -> None:
        raise RefusedError("cluster east: User:mirror lacks DESCRIBE on the cluster")

    with virtual_loop(1) as loop:
        east, west = VirtualCluster(loop, "east"), VirtualCluster(loop, "west")

        def connect(alias: str, client: ClientSettings) -> ClusterAdmin:
            return ClusterAdmin(alias, client, VirtualLoop(loop.world))

        monkeypatch.setattr(clusters, "both_clusters", partial(both_clusters, connect=connect))
        there = between(flow("east", "west", "default"), east, west)
        found = LiveClusters(
            there, between(flow("west", "east", "default"), west, east), [Alias("east"), Alias("west")]
        )
        try:
            found.connect(5.0)
            monkeypatch.setattr(found.source, "call", refuses)
            monkeypatch.setattr(found._other_journal, "read", JournalEntries)
            with pytest.raises(RefusedError) as refused:
                found.find_lasting_denials([])
        finally:
            found.close()
    servers = ",".join(there.source_admin.client.bootstrap_servers)
    command = f"kafka-acls.sh --bootstrap-server {servers} --list"
    assert str(refused.value).endswith(f"; an administrator lists denials by {command}")


def test_a_release_without_a_journal_is_done_when_nothing_stays() -> None:
    brokers = Brokers(A_TO_B, fenced=True, noted_fence=FENCE_PLAN)
    entries = machine(brokers).release_fence()
    assert not brokers.fenced
    assert (entries, print_failed_parts(entries)) == (JournalEntries(), 0)


def test_only_a_fence_by_acls_is_looked_for() -> None:
    brokers = Brokers(A_TO_B)
    machine(brokers).run(replace(PLANNED, fence=FenceMethod.QUOTA))
    brokers.lasting_denials = (STAYS,)
    assert report(machine(brokers).release_fence())["failed"] == []
