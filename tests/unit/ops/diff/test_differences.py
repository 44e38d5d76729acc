"""The differences of two clusters by their inventories, and the kinds of differences."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.unit.config.own_code import BASE, Writer, modules
from twinlog.cli.main import app
from twinlog.mirror.topology.filters import DefaultConfigPropertyFilter, DefaultGroupFilter, DefaultTopicFilter
from twinlog.mirror.topology.naming import DefaultReplicationPolicy, IdentityReplicationPolicy
from twinlog.mirror.topology.topology import Topology
from twinlog.model.acls import Acl, AclOperation, AclPermissionType, PatternType, ResourceType
from twinlog.model.groups import CommittedOffset, GroupListing
from twinlog.model.topics import ConfigEntry, ConfigSource, DescribedTopic, Topic
from twinlog.model.types import Alias, GroupId, TopicName, TopicPartition
from twinlog.ops.diff.differences import FlowTopicPairing, TopicPairing, compare_clusters
from twinlog.ops.inventory import Inventory, LogOffsets


def cluster(alias: str, **partitions: int) -> Inventory:
    """Topics with so many partitions, `_` in a name standing for a dot, and no settings."""
    topics = {TopicName(name.replace("_", ".")): count for name, count in partitions.items()}
    return Inventory(
        alias,
        alias,
        (1,),
        topics={name: DescribedTopic(Topic(name, count), 1) for name, count in topics.items()},
        configs={name: [] for name in topics},
        logs={
            TopicPartition(name, part): LogOffsets(0, 100) for name, count in topics.items() for part in range(count)
        },
        acls=[],
    )


def flow_names(policy: DefaultReplicationPolicy | None = None) -> FlowTopicPairing:
    topics = DefaultTopicFilter(exclude=(".*-test",))
    topology = Topology(Alias("east"), Alias("west"), policy or DefaultReplicationPolicy(), topics)
    return FlowTopicPairing(
        topology, DefaultGroupFilter(exclude=("hidden",)), DefaultConfigPropertyFilter(), "east->west"
    )


def differences(left: Inventory, right: Inventory, names: TopicPairing | None = None) -> list[tuple[Any, ...]]:
    found = compare_clusters(left, right, names or flow_names())
    return [(one.kind, one.what, one.detail, one.left, one.right) for one in found]


def own(name: str, value: str) -> list[ConfigEntry]:
    return [ConfigEntry(name, value, ConfigSource.TOPIC)]


def acl(name: str, operation: AclOperation, resource: ResourceType = ResourceType.TOPIC) -> Acl:
    return Acl(resource, name, "User:ann", "*", operation, AclPermissionType.ALLOW, PatternType.LITERAL)


def test_topics_are_compared_with_their_copies() -> None:
    left = cluster("east", a=2, b=1, c=3, west_x=1, mm2_internal=1, heartbeats=1)
    right = cluster("west", east_a=2, east_c=4, east_gone=1, own=7, x=1, east_heartbeats=1)
    assert differences(left, right) == [
        ("topic", "b / east.b", None, "1 partition", None),
        ("partitions", "c / east.c", None, "3", "4"),
        ("topic", "gone / east.gone", None, None, "1 partition"),
    ]
    assert differences(left, replace(left, alias="west"), TopicPairing()) == []


def test_where_names_are_kept_topics_of_the_target_alone_show() -> None:
    names = flow_names(IdentityReplicationPolicy(source=Alias("east")))
    left, right = cluster("east", a=1), cluster("west", a=1, b=1)
    assert differences(left, right, names) == [("topic", "b", None, None, "1 partition")]


def test_a_flow_compares_the_settings_that_it_keeps_in_step() -> None:
    left, right = cluster("east", a=1, b=1), cluster("west", east_a=1, east_b=1)
    excluded = "min.insync.replicas"
    here = {TopicName("a"): [*own("retention.ms", "1"), *own(excluded, "2")], TopicName("b"): own("flush.ms", "3")}
    there = {TopicName("east.a"): own("retention.ms", "9"), TopicName("east.b"): own("flush.ms", "3")}
    found = differences(replace(left, configs=here), replace(right, configs=there))
    assert found == [("setting", "a / east.a", "retention.ms", "1", "9")]


def test_without_a_flow_every_setting_is_compared_wherever_it_comes_from() -> None:
    here = {TopicName("a"): [ConfigEntry("retention.ms", "1", ConfigSource.DEFAULT), *own("only.here", "x")]}
    there = {TopicName("a"): [ConfigEntry("retention.ms", "2", ConfigSource.STATIC_BROKER)]}
    left, right = replace(cluster("l", a=1), configs=here), replace(cluster("r", a=1), configs=there)
    assert differences(left, right, TopicPairing()) == [("setting", "a", "retention.ms", "1", "2")]


def test_acls_are_those_that_the_flow_carries_over_and_others_are_compared_as_they_are() -> None:
    group = acl("g", AclOperation.READ, ResourceType.GROUP)
    left = replace(cluster("east", a=1), acls=[acl("a", AclOperation.ALL), acl("a", AclOperation.WRITE), group])
    right = replace(cluster("west", east_a=1), acls=[acl("east.a", AclOperation.ALTER), acl("own", AclOperation.READ)])
    assert differences(left, right) == [
        ("acl", str(acl("east.a", AclOperation.READ)), None, "yes", None),
        ("acl", str(group), None, "yes", None),
        ("acl", str(acl("east.a", AclOperation.ALTER)), None, None, "yes"),
    ]
    # ALL includes READ, and a fence passes.
    wide = replace(cluster("west", east_a=1), acls=[acl("east.a", AclOperation.ALL), group])
    assert differences(left, wide) == [("acl", str(acl("east.a", AclOperation.ALL)), None, None, "yes")]
    fence = replace(acl("a", AclOperation.WRITE), permission=AclPermissionType.DENY)
    fenced = replace(left, acls=[fence], fences=frozenset({fence.of_topic}))
    assert differences(fenced, cluster("west", east_a=1)) == []
    # Of a cluster whose ACLs are unknown nothing is said.
    assert differences(left, replace(right, acls=None)) == []


def committed(inventory: Inventory, group: str, offsets: dict[tuple[str, int], int]) -> Inventory:
    found = {TopicPartition(TopicName(topic), part): CommittedOffset(at) for (topic, part), at in offsets.items()}
    name = GroupId(group)
    return replace(
        inventory,
        groups={**inventory.groups, name: GroupListing(name, "consumer", "Empty")},
        committed={**inventory.committed, name: found},
    )


def test_groups_are_compared_by_how_far_they_are_behind() -> None:
    left = committed(cluster("east", a=2, z=1), "g", {("a", 0): 40, ("a", 1): 100, ("z", 0): 1})
    left = committed(committed(left, "hidden", {("a", 0): 1}), "new", {("a", 0): 1})
    right = committed(cluster("west", east_a=2, east_z=1, own=1), "g", {("east.a", 0): 10, ("east.a", 1): 100})
    right = committed(right, "own", {("own", 0): 1})
    assert differences(left, right) == [
        ("lag", "g", "east.a-0", "60 behind", "90 behind"),
        ("lag", "g", "east.z-0", "99 behind", None),
        ("group", "new", None, "1 partition", None),
    ]


def replicated(inventory: Inventory, **replicas: int) -> Inventory:
    topics = {name: replace(one, replicas=replicas[name.replace(".", "_")]) for name, one in inventory.topics.items()}
    return replace(inventory, topics=topics)


def test_replicas_are_as_the_flow_wants_them_or_as_on_the_other_cluster() -> None:
    left = replicated(cluster("east", a=1, b=1), a=3, b=1)
    right = replicated(cluster("west", east_a=1, east_b=1), east_a=1, east_b=2)
    assert differences(left, right) == []
    wants = FlowTopicPairing(
        Topology(Alias("east"), Alias("west"), DefaultReplicationPolicy(), DefaultTopicFilter()),
        DefaultGroupFilter(),
        DefaultConfigPropertyFilter(),
        "east->west",
        2,
    )
    assert differences(left, right, wants) == [("replicas", "a / east.a", "replication.factor = 2", "3", "1")]
    alike = replicated(cluster("west", east_a=1, east_b=1), east_a=3, east_b=2)
    assert differences(left, alike, wants) == [("replicas", "a / east.a", "replication.factor = 2", "3", "3")]
    other = replicated(cluster("west", a=1, b=1), a=3, b=2)
    assert differences(left, other, TopicPairing()) == [("replicas", "b", None, "1", "2")]


def test_quotas_are_compared_by_whom_they_are_for() -> None:
    left = replace(cluster("east"), quotas={"user ann": {"producer_byte_rate": 1e9, "request_percentage": 50.0}})
    right = replace(cluster("west"), quotas={"user ann": {"producer_byte_rate": 5.0}, "client-id x": {"rate": 1.5}})
    assert differences(left, right) == [
        ("quota", "client-id x", "rate", None, "1.5"),
        ("quota", "user ann", "producer_byte_rate", "1000000000", "5"),
        ("quota", "user ann", "request_percentage", "50", None),
    ]
    assert differences(left, replace(right, quotas=None)) == []


def test_users_are_compared_by_their_mechanisms() -> None:
    left = replace(cluster("east"), users={"ann": ("SCRAM-SHA-256",), "bob": ("SCRAM-SHA-512",), "eve": ()})
    right = replace(cluster("west"), users={"ann": ("SCRAM-SHA-256", "SCRAM-SHA-512")})
    assert differences(left, right) == [
        ("user", "ann", None, "SCRAM-SHA-256", "SCRAM-SHA-256, SCRAM-SHA-512"),
        ("user", "bob", None, "SCRAM-SHA-512", None),
    ]
    assert differences(replace(left, users=None), right) == []


def test_a_topic_of_a_user_is_compared_whatever_its_name_ends_in() -> None:
    left = cluster("east", heartbeats=1, device_heartbeats=2, north_heartbeats=1, west_heartbeats=1)
    right = cluster("west", heartbeats=1, east_heartbeats=1, east_device_heartbeats=1)
    names = flow_names()
    assert differences(left, right, names) == [
        ("partitions", "device.heartbeats / east.device.heartbeats", None, "2", "1"),
        ("topic", "north.heartbeats / east.north.heartbeats", None, "1 partition", None),
    ]
    # By its records it comes from a mirror of another file.
    names.add_aliases([Alias("north")])
    assert [what for _, what, *_ in differences(left, right, names)] == ["device.heartbeats / east.device.heartbeats"]


def test_within_one_cluster_topics_are_compared_with_the_copies_beside_them() -> None:
    one = cluster("east", orders=2, east_orders=2, audit=3, east_audit=1, own=1, east_own=1, east_gone=1, heartbeats=1)
    assert differences(one, replace(one, alias="west")) == [
        ("partitions", "audit / east.audit", None, "3", "1"),
        ("topic", "gone / east.gone", None, None, "1 partition"),
    ]


module = modules("own_filters")


def test_a_class_that_fails_is_named_with_its_method(
    tmp_path: Path, module: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """
        class Filter:
            def accepts(self, setting): return setting != "flush.ms" or {}[setting]
    """
    name = module(code)
    file = tmp_path / "mm2.properties"
    file.write_text(f"{BASE}config.property.filter.class = {name}:Filter\n")

    def read(*_: object) -> tuple[Inventory, Inventory]:
        here = replace(cluster("a", t=1), configs={TopicName("t"): own("flush.ms", "3")})
        return here, cluster("b", a_t=1)

    monkeypatch.setattr("twinlog.ops.diff.command._read", read)
    monkeypatch.setattr("twinlog.ops.diff.command.log_checks", lambda: None)
    done = CliRunner().invoke(app, ["diff", str(file), "--from", "a", "--to", "b"])
    assert done.exit_code == 2
    assert done.stdout == ""
    assert f"accepts('flush.ms') of {name}:Filter raises KeyError: 'flush.ms'; expected an answer" in done.stderr
