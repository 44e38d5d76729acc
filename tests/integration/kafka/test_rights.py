"""Clusters with an authorizer: what a flow lacks is named until it has it, and ACLs of topics are carried over."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from harness.acls import Acl, acls, create_acls
from harness.cluster import KafkaCluster, side_by_side
from harness.consume import consume
from harness.groups import Committed, commit_offsets, group_offsets
from harness.produce import numbered, produce
from harness.topics import add_partitions, create_topic, delete_topic, set_topic_config, topic_config, topics
from harness.wait import wait_for
from tests.connected_admins import connected_admins, plain_login
from tests.integration.copying import flow_settings
from tests.integration.without_spark import FlowWithoutSpark
from twinlog.kafka.retry import RetryPolicy
from twinlog.mirror.groups.safe_move import Obstacle
from twinlog.mirror.topics.acls import AclSync
from twinlog.mirror.unlisted_topics import HiddenOffsets
from twinlog.model.types import TopicName
from twinlog.ops.groups.command import lines, missing
from twinlog.ops.groups.reader import GroupsReader
from twinlog.settings.client import AdminSettings, ConsumerSettings, ProducerSettings
from twinlog.settings.flow import FlowSettings

USER = "User:mirrormaker"
LACKS = re.compile(r"cluster (north|south): User:mirrormaker lacks (\w+) on (topic \S+|every topic|the cluster),")
Clusters = tuple[KafkaCluster, KafkaCluster]


@pytest.fixture(scope="module")
def guarded() -> Iterator[Clusters]:
    """Source and target with authorizers."""
    source = KafkaCluster("guarded-source", heap="384m", acls=True)
    target = KafkaCluster("guarded-target", heap="384m", acls=True)
    with side_by_side(source, target) as both:
        yield both


def as_mirrormaker(clusters: Clusters, user: str = "mirrormaker", **settings: Any) -> FlowSettings:
    """A flow north->south that logs in, and does no more than copy and keep topics in step."""
    reading, writing = (plain_login(cluster, user) for cluster in clusters)
    plain = flow_settings(
        *clusters,
        emit_offset_syncs=False,
        emit_heartbeats_interval_s=None,
        emit_checkpoints_interval_s=None,
        sync_topic_configs_interval_s=0.2,
        sync_topic_acls_interval_s=0.2,
        refresh_topics_interval_s=0.2,
        heartbeats_replication_enabled=False,
    )
    return replace(
        plain,
        consumer=ConsumerSettings(reading),
        producer=ProducerSettings(writing),
        source_admin=AdminSettings(reading),
        target_admin=AdminSettings(writing),
        **settings,
    )


def grant(cluster: KafkaCluster, *wanted: Acl) -> None:
    create_acls(cluster, wanted)


@contextmanager
def synced(clusters: Clusters, **settings: Any) -> Iterator[AclSync]:
    """The job that carries ACLs over, as a super user."""
    flow = flow_settings(*clusters, **settings)
    with connected_admins(flow) as (source, target):
        yield AclSync(flow, source, target)


def delete_acls(cluster: KafkaCluster, gone: Acl) -> None:
    """Delete an ACL and wait until the broker has forgotten it."""
    pattern = AclBindingFilter(
        ResourceType[gone.resource],
        gone.name,
        ResourcePatternType[gone.pattern],
        gone.principal,
        gone.host,
        AclOperation[gone.operation],
        AclPermissionType[gone.permission],
    )
    admin = AdminClient(cluster.client_config())
    admin.delete_acls([pattern])[pattern].result(60)
    wait_for(lambda: gone not in acls(cluster), 60, f"{gone} is gone")


def test_what_is_missing_is_named_until_it_is_there(
    guarded: Clusters, new_name: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    source, target = guarded
    topic = new_name("t")
    remote = f"north.{topic}"
    create_topic(source, topic, config={"retention.ms": "-1"})
    produce(source, topic, numbered(10))
    readable = Acl(topic, "User:ann", "READ")
    grant(source, Acl(topic, USER, "DESCRIBE"), readable)
    settings = as_mirrormaker(guarded, topics=(topic,))
    # One topic to write to is enough for the broker to take somebody for a producer.
    names = {"the cluster": "kafka-cluster", "every topic": settings.positions_topic}
    named: list[tuple[str, str, str]] = []
    changed = False

    def ended_or_copies(flow: FlowWithoutSpark) -> bool:
        return flow.runner.ended or bool(set(LACKS.findall(caplog.text)) - set(named)) or done(flow)

    def done(flow: FlowWithoutSpark) -> bool:
        """Copied, in step, and heard of on the driver."""
        there = topics(target)
        return (
            there.get(remote) == 2
            and topic_config(target, remote).get("flush.ms") == "7000"
            and len(consume(target, remote)) == 10
            and replace(readable, name=remote) in acls(target)
            and flow.runner.flow_status.summary().partitions == 2
        )

    caplog.set_level(logging.INFO, "twinlog")
    for _ in range(30):
        caplog.clear()
        with FlowWithoutSpark(settings) as flow:
            wait_for(partial(ended_or_copies, flow), 60, "the flow copies, or logs what it lacks")
            lacking = set(LACKS.findall(caplog.text)) - set(named)
            if not lacking and done(flow):
                break
        assert len(lacking) >= 1, caplog.text
        for cluster, operation, resource in sorted(lacking):
            named.append((cluster, operation, resource))
            grant(
                source if cluster == "north" else target,
                Acl(
                    names.get(resource, resource.removeprefix("topic ")),
                    USER,
                    operation,
                    resource="BROKER" if resource == "the cluster" else "TOPIC",
                ),
            )
        if remote in topics(target) and not changed:
            # From now on there is something to keep in step.
            changed = True
            add_partitions(source, topic, 2)
            set_topic_config(source, topic, {"flush.ms": "7000"})
    own = [f"topic mm2-{name}.north.internal" for name in ("offsets", "twinlog-progress", "twinlog-offsets")]
    assert set(named) == {
        ("north", "DESCRIBE_CONFIGS", f"topic {topic}"),
        ("north", "READ", f"topic {topic}"),
        ("north", "DESCRIBE", "the cluster"),
        *(("south", operation, name) for operation in ("CREATE", "DESCRIBE") for name in own),
        # That nothing is asked of single topics, as there is no such topic, cannot be seen without it.
        ("south", "READ", "topic mm2-twinlog-control.north.internal"),
        ("south", "DESCRIBE_CONFIGS", "topic mm2-twinlog-control.north.internal"),
        # The reports of processes with another group are read, too: two processes must not copy the same topic.
        *(("south", "READ", name) for name in own),
        *(("south", "WRITE", name) for name in own[1:]),
        *(("south", "DESCRIBE_CONFIGS", name) for name in own),
        *(
            ("south", operation, f"topic {remote}")
            for operation in ("CREATE", "DESCRIBE", "WRITE", "ALTER", "DESCRIBE_CONFIGS", "ALTER_CONFIGS")
        ),
        ("south", "WRITE", "every topic"),
        ("south", "DESCRIBE", "the cluster"),
        ("south", "ALTER", "the cluster"),
    }


def test_a_right_that_is_granted_while_the_flow_runs_is_enough(
    guarded: Clusters, new_name: Callable[[str], str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One topic that may not be mirrored yet keeps none of the others."""
    monkeypatch.setattr("twinlog.worker.topics.refused_topics.REFUSED", RetryPolicy(0.2, 0.2))
    source, target = guarded
    now, later = new_name("t"), new_name("t")
    for topic in (now, later):
        create_topic(source, topic)
        produce(source, topic, numbered(10))
        grant(source, Acl(topic, USER, "READ"))
    grant(source, Acl(now, USER, "DESCRIBE_CONFIGS"))
    settings = as_mirrormaker(guarded, topics=(now, later))
    by_default = flow_settings(*guarded)
    settings = replace(
        settings,
        producer=by_default.producer,
        target_admin=by_default.target_admin,
        sync_topic_acls_interval_s=None,
    )
    with FlowWithoutSpark(settings) as flow:
        wait_for(lambda: f"north.{now}" in topics(target), 60, "the first topic is there")
        wait_for(lambda: len(consume(target, f"north.{now}")) == 10, 60, "the first topic is copied")
        assert f"north.{later}" not in topics(target)
        assert f"lacks DESCRIBE_CONFIGS on topic {later}, needed for reading its settings" in caplog.text

        grant(source, Acl(later, USER, "DESCRIBE_CONFIGS"))
        wait_for(lambda: f"north.{later}" in topics(target), 60, "the other topic is there")
        wait_for(lambda: len(consume(target, f"north.{later}")) == 10, 60, "the other topic is copied")
        assert not flow.runner.ended
    assert caplog.text.count(f"remote topic north.{later}: ") == 1


def test_a_topic_whose_rights_are_revoked_is_held_until_they_are_back(
    guarded: Clusters, new_name: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    """Brokers leave such a topic out of the list of all topics; a process that starts meanwhile knows it as well."""
    source, target = guarded
    topic, deleted = create_topic(source, new_name("t")), create_topic(source, new_name("t"))
    user = "User:connect"
    right = Acl(topic, user, "ALL")
    grant(source, right, Acl(deleted, user, "ALL"), Acl("mm2-offset-syncs.south.internal", user, "READ"))
    grant(target, *(Acl(prefix, user, "ALL", pattern="PREFIXED") for prefix in ("mm2-", "north.")))
    settings = as_mirrormaker(guarded, "connect", topics=(topic, deleted), sync_topic_acls_interval_s=None)
    remote = f"north.{topic}"

    def held(flow: FlowWithoutSpark) -> dict[tuple[str, str], int]:
        return Counter((one.topic, one.reason) for one in flow.runner.held.all())

    def copied(count: int) -> bool:
        return remote in topics(target) and len(consume(target, remote)) >= count

    partitions = topics(source)[topic]
    for name in (topic, deleted):
        produce(source, name, numbered(10))
    with caplog.at_level(logging.INFO, "twinlog"):
        with FlowWithoutSpark(settings) as flow:
            wait_for(lambda: copied(10) and f"north.{deleted}" in topics(target), 60, "the topics are copied")
            delete_acls(source, right)
            produce(source, topic, numbered(10, start=10))
            delete_topic(source, deleted)
            wait_for(lambda: held(flow) == {(topic, "missing right"): partitions}, 60, "the topic is held")
            wait_for(lambda: f"gone from north: {deleted}" in caplog.text, 60, "the deleted topic is gone")
            wait_for(lambda: f"{user} lacks DESCRIBE on topic {topic}" in caplog.text, 60, "the right is named")
            assert held(flow) == {(topic, "missing right"): partitions}
        with FlowWithoutSpark(settings) as flow:
            wait_for(lambda: held(flow) == {(topic, "missing right"): partitions}, 60, "the topic is held again")
            grant(source, right)
            wait_for(lambda: copied(20) and not held(flow), 90, "all is copied")
    assert sorted(int(one.value or b"") for one in consume(target, remote)) == list(range(20))
    assert f"gone from north: {topic}" not in caplog.text


def test_groups_of_a_topic_whose_rights_are_revoked_are_shown_with_the_missing_right(
    guarded: Clusters, new_name: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    """Coordinators leave offsets in such a topic out of their answers, without an error."""
    source, target = guarded
    topic, group, user = create_topic(source, new_name("t")), new_name("shop"), "User:connect"
    right = Acl(topic, user, "ALL")
    grant(source, right, Acl(group, user, "DESCRIBE", resource="GROUP"))
    grant(target, *(Acl(prefix, user, "ALL", pattern="PREFIXED") for prefix in ("mm2-", "north.")))
    grant(target, Acl(group, user, "READ", resource="GROUP"))
    settings = as_mirrormaker(
        guarded,
        "connect",
        topics=(topic,),
        groups=(group,),
        sync_topic_acls_interval_s=None,
        emit_checkpoints_interval_s=0.5,
        sync_group_offsets_interval_s=0.5,
    )
    produce(source, topic, numbered(10))
    commit_offsets(source, {group: {(topic, 0): 5}})
    lacks = f"cluster north: {user} lacks DESCRIBE on topic {topic}, needed for reading the offsets of groups"
    with caplog.at_level(logging.INFO, "twinlog"), FlowWithoutSpark(settings):
        wait_for(lambda: group_offsets(target, [group])[group], 60, "the group is followed")
        with GroupsReader(settings) as reader:
            assert [one.group for one in reader.read().groups] == [group]
            assert reader.read().hidden is None
        delete_acls(source, right)
        line = f"no checkpoints for group {group}: its offsets in topic {topic}, if it has any, are hidden: {lacks}"
        wait_for(lambda: line in caplog.text, 60, "the right is named")
        with GroupsReader(settings) as reader:
            seen = reader.read()
        assert seen.hidden == HiddenOffsets((TopicName(topic),), lacks)
        (shown,) = seen.groups
        assert [reason.obstacle for reason in shown.reasons] == [Obstacle.HIDDEN]
        assert f"the source hides its offset in topic {topic}: {lacks}" in "\n".join(lines(seen))
        assert lacks in missing(seen)
        grant(source, right)


def test_acls_of_topics_are_carried_over_and_never_twice(
    guarded: Clusters, new_name: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    source, target = guarded
    topic, other = new_name("t"), new_name("t")
    there = {
        Acl(topic, "User:ann", "ALL"),
        Acl(topic, "User:bob", "WRITE"),
        Acl(topic, "User:bob", "DESCRIBE", host="10.0.0.1"),
        Acl(topic, "User:eve", "ALL", "DENY"),
        Acl(topic, "User:eve", "WRITE", "DENY"),
        Acl(topic, "User:ann", "READ", pattern="PREFIXED"),
        Acl("*", "User:all", "READ"),
        Acl(other, "User:ann", "READ"),
        Acl(topic, "User:ann", "READ", resource="GROUP"),
    }
    grant(source, *there)
    mine = Acl(f"north.{topic}", "User:own", "ALTER")
    grant(target, mine)
    wanted = {
        mine,
        Acl(f"north.{topic}", "User:ann", "READ"),
        Acl(f"north.{topic}", "User:bob", "DESCRIBE", host="10.0.0.1"),
        Acl(f"north.{topic}", "User:eve", "ALL", "DENY"),
        Acl(f"north.{topic}", "User:eve", "WRITE", "DENY"),
    }
    with synced(guarded, topics=(topic,)) as sync, caplog.at_level(logging.INFO, "twinlog"):
        before = acls(target) - {mine}
        sync.run()
        wait_for(lambda: acls(target) - before == wanted, 60, "the ACLs are on the target")
        assert caplog.text.count("created ACL") == 4
        assert f"ALLOW READ on north.{topic} for User:ann from *" in caplog.text
        assert (
            "for all topics (*) are left out; for rights on all remote topics create ACLs of the prefix north. by "
            "hand" in caplog.text
        )
        assert f"for prefixes of names are left out, as in MirrorMaker 2: {topic}" in caplog.text
        caplog.clear()

        sync.run()
        assert caplog.text == ""

        # What the source takes back stays on the target, as with MirrorMaker 2.
        delete_acls(source, Acl(topic, "User:ann", "ALL"))
        sync.run()
        assert wanted <= acls(target)


def test_where_names_are_kept_no_right_on_all_topics_is_carried_over(
    guarded: Clusters, new_name: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    topic = new_name("t")
    grant(guarded[0], Acl("*", "User:all", "READ"), Acl(topic, "User:ann", "READ"))
    with synced(guarded, topics=(topic,), policy="identity") as sync, caplog.at_level(logging.INFO, "twinlog"):
        sync.run()
        wait_for(lambda: Acl(topic, "User:ann", "READ") in acls(guarded[1]), 60, "the ACL is on the target")
    assert not any(acl.name == "*" for acl in acls(guarded[1]))
    assert "for all topics (*) are left out: where topics keep their names they would open" in caplog.text


def test_without_an_authorizer_there_is_nothing_to_carry_over(
    clusters: Clusters, caplog: pytest.LogCaptureFixture
) -> None:
    with synced(clusters) as sync, caplog.at_level(logging.INFO, "twinlog"):
        sync.run()
        sync.run()
    assert caplog.text.count("cluster north has no authorizer") == 1
    assert "north->south.sync.topic.acls.enabled = false" in caplog.text


def test_a_group_that_may_not_be_committed_for_is_named_until_it_may(
    guarded: Clusters, new_name: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    source, target = guarded
    topic, other = create_topic(source, new_name("t")), create_topic(target, new_name("t"))
    produce(source, topic, numbered(10))
    group, allowed = f"{topic}-one", f"{topic}-other"
    commit_offsets(target, {f"{other}-{number}": {(other, 0): 0} for number in range(20)})
    commit_offsets(source, {name: {(topic, 0): 4} for name in (group, allowed)})
    user = "User:connect"
    grant(source, Acl(topic, user, "ALL"), Acl("mm2-offset-syncs.south.internal", user, "READ"))
    grant(target, *(Acl(prefix, user, "ALL", pattern="PREFIXED") for prefix in ("mm2-", "north.")))
    grant(source, Acl(topic, user, "DESCRIBE", resource="GROUP", pattern="PREFIXED"))
    grant(target, Acl(allowed, user, "READ", resource="GROUP"))
    settings = as_mirrormaker(
        guarded,
        "connect",
        topics=(topic,),
        emit_checkpoints_interval_s=0.2,
        sync_group_offsets_interval_s=0.2,
        sync_topic_acls_interval_s=None,
    )
    missing = f"cluster south: {user} lacks READ on group {group}, needed for committing its offsets"
    there = {(f"north.{topic}", 0): Committed(4)}
    with caplog.at_level(logging.INFO, "twinlog"), FlowWithoutSpark(settings) as flow:
        wait_for(lambda: missing in (flow.runner.flow_status.summary().trouble or ""), 60, "the right is named")
        wait_for(lambda: group_offsets(target, [allowed])[allowed] == there, 60, "the other group's offsets follow")
        assert caplog.text.count(missing) == 1
        assert "north->south.sync.group.offsets.enabled = false" in caplog.text
        grant(target, Acl(group, user, "READ", resource="GROUP"))
        wait_for(lambda: group_offsets(target, [group])[group] == there, 60, "the group's offsets follow")
        wait_for(lambda: flow.runner.flow_status.summary().trouble is None, 60, "the trouble is over")


@pytest.mark.parametrize("mode", ["preparing", "enabled"])
def test_the_right_to_a_transactional_id_is_named_before_anything_is_copied(
    guarded: Clusters, new_name: Callable[[str], str], mode: str
) -> None:
    source, target = guarded
    topic = create_topic(source, new_name("t"))
    produce(source, topic, numbered(10))
    user = "User:kafkaui"
    grant(source, Acl(topic, user, "ALL"), Acl("mm2-offset-syncs.south.internal", user, "READ"))
    grant(target, *(Acl(prefix, user, "ALL", pattern="PREFIXED") for prefix in ("mm2-", "north.")))
    settings = as_mirrormaker(
        guarded,
        "kafkaui",
        topics=(topic,),
        exactly_once=mode,
        worker_group_id=topic,
        sync_topic_acls_interval_s=None,
    )
    with FlowWithoutSpark(settings) as flow:
        wait_for(lambda: flow.runner.ended, 60, "the flow fails")
    name = f"{topic}-MirrorSourceConnector-0"
    assert f"cluster south: {user} lacks WRITE on transactional id {name}," in (flow.runner.reason or "")
    assert f"north.{topic}" not in topics(target)
    grant(target, Acl(f"{topic}-", user, "WRITE", resource="TRANSACTIONAL_ID", pattern="PREFIXED"))
    remote = f"north.{topic}"
    with FlowWithoutSpark(settings) as flow:

        def copied() -> bool:
            return remote in topics(target) and len(consume(target, remote)) == 10

        wait_for(lambda: flow.runner.ended or copied(), 60, "all is copied")
        assert flow.runner.reason is None
