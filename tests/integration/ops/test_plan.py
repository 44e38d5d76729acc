"""What `twinlog plan` and `twinlog diff` read of real clusters and say about them: nothing is changed, and a run does
what was said."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.acls import Acl as BrokerAcl
from harness.acls import acls, create_acls
from harness.checks.leftovers import cluster_content
from harness.cluster import KafkaCluster, side_by_side
from harness.groups import commit_offsets, group_offsets
from harness.produce import numbered, produce
from harness.quotas import quota
from harness.topics import (
    add_partitions,
    create_topic,
    delete_records,
    offsets,
    set_topic_config,
    topic_config,
    topics,
)
from harness.wait import wait_for
from tests.connected_admins import connected_admin, plain_login
from tests.integration.mirror_process import flow_properties
from tests.integration.running import sasl_properties
from tests.integration.without_spark import FlowWithoutSpark
from twinlog.cli.main import app
from twinlog.config import load
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.model.acls import Acl, AclOperation, AclPermissionType, ResourceType
from twinlog.model.types import GroupId, TopicName, TopicPartition
from twinlog.ops.inventory import LogOffsets, read_inventory
from twinlog.settings.client import ClientSettings

Clusters = tuple[KafkaCluster, KafkaCluster]
RESOURCE = """\
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
metadata: {{name: mirror}}
spec:
  connectCluster: south
  clusters:
    - {{alias: north, bootstrapServers: "{source}"}}
    - alias: south
      bootstrapServers: "{target}"
      config: {{group.id: k, config.storage.topic: k-configs, offset.storage.topic: k-offsets,
        status.storage.topic: k-status, offset.storage.replication.factor: 1}}
  mirrors:
    - sourceCluster: north
      targetCluster: south
      sourceConnector:
        config: {{replication.factor: 1, offset-syncs.topic.replication.factor: 1}}
      checkpointConnector:
        config: {{checkpoints.topic.replication.factor: 1, sync.group.offsets.enabled: true}}
      topicsPattern: "{topic}"
      groupsPattern: "{group}"
"""
READER = "kafkaui"
"""A login that may only describe things."""


@pytest.fixture(scope="module")
def guarded() -> Iterator[Clusters]:
    """Source and target with authorizers."""
    source = KafkaCluster("plan-source", heap="384m", acls=True)
    target = KafkaCluster("plan-target", heap="384m", acls=True)
    with side_by_side(source, target) as both:
        for cluster in both:
            # Consumers that look at a cluster make it create the topic of groups, which a plan must not.
            commit_offsets(cluster, {"first": {(create_topic(cluster, "first"), 0): 0}})
        yield both


@contextmanager
def connected(cluster: KafkaCluster, user: str | None = None) -> Iterator[ClusterAdmin]:
    """Connections to a cluster, as a super user or as `user`."""
    settings = ClientSettings(tuple(cluster.bootstrap.split(",")))
    if user is not None:
        settings = plain_login(cluster, user)
    with connected_admin(cluster.name, settings, 60) as admin:
        yield admin


def write(path: Path, clusters: Clusters, user: str | None = None, **settings: str) -> Path:
    """A file with a flow north->south; keys with `_` in place of dots."""
    flow = {
        "sync.topic.acls.enabled": "true",
        "sync.group.offsets.enabled": "true",
        "emit.heartbeats.enabled": "false",
        "offset-syncs.topic.replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
        **{key.replace("_", "."): value for key, value in settings.items()},
    }
    lines = flow_properties("north->south", *clusters, flow)
    if user is not None:
        lines += sasl_properties(dict(zip(("north", "south"), clusters, strict=True)), user)
    path.write_text(f"clusters = north, south\n{lines}", "utf-8")
    return path


def plan(file: Path, code: int, *options: str) -> dict[str, Any]:
    """The plan of the file's one flow."""
    done = CliRunner().invoke(app, ["plan", str(file), "-o", "json", *options], catch_exceptions=False)
    assert done.exit_code == code, done.output
    (flow,) = json.loads(done.stdout)["flows"]
    return dict(flow)


def named(some: list[Mapping[str, Any]], key: str) -> dict[str, Mapping[str, Any]]:
    return {str(one[key]): one for one in some}


def test_a_run_does_what_the_plan_says_and_then_nothing_is_left(
    guarded: Clusters, new_name: Callable[[str], str], tmp_path: Path
) -> None:
    source, target = guarded
    fresh, grown, excluded, group, idle = (new_name(kind) for kind in ("fresh", "grown", "left-out", "g", "idle"))
    create_topic(source, fresh, 2, config={"retention.ms": "-1", "max.message.bytes": "2000000"})
    create_topic(source, grown, 3, config={"retention.ms": "-1", "segment.ms": "70000"})
    create_topic(source, excluded)
    create_topic(target, f"north.{grown}", 1, config={"retention.ms": "-1", "segment.ms": "80000", "flush.ms": "5"})
    produce(source, fresh, numbered(100), partition=0)
    produce(source, fresh, numbered(50), partition=1)
    delete_records(source, fresh, 20, 1)
    produce(source, grown, numbered(7), partition=2)
    readers = [BrokerAcl(fresh, "User:ann", "READ"), BrokerAcl(fresh, "User:bob", "WRITE")]
    create_acls(source, readers)
    commit_offsets(source, {group: {(fresh, 0): 60, (fresh, 1): 50, (grown, 2): 3}, idle: {(excluded, 0): 0}})
    file = write(
        tmp_path / "mm2.properties", guarded, topics=f"{fresh},{grown},{excluded}", topics_exclude="left-out.*"
    )

    before = [cluster_content(cluster) for cluster in guarded]
    planned = plan(file, 0, "--rate", "1kB/s")
    text = CliRunner().invoke(app, ["plan", str(file)])
    assert text.exit_code == 0
    assert [cluster_content(cluster) for cluster in guarded] == before, "a plan changes nothing"

    assert (planned["problems"], planned["done"]) == ([], False)
    create = named(planned["create"], "topic")
    assert create[f"north.{fresh}"]["configs"] == {"retention.ms": "-1", "max.message.bytes": "2000000"}
    assert planned["grow"] == [{"topic": f"north.{grown}", "old": 1, "new": 3}]
    changed = [(one["topic"], one["setting"], one["old"], one["new"]) for one in planned["settings"]]
    assert changed == [
        (f"north.{grown}", "flush.ms", "5", None),
        (f"north.{grown}", "segment.ms", "80000", "70000"),
    ]
    assert planned["acls"] == [f"ALLOW READ on north.{fresh} for User:ann from *"]
    groups = named(planned["groups"], "group")
    assert (groups[group]["becomes"], groups[group]["partitions"]) == ("moves", 3)
    assert groups[idle]["becomes"] == "stays"
    assert groups[idle]["why"].startswith("it has committed no offset in a topic that topics")
    copy = named(planned["copy"]["topics"], "topic")
    assert {topic: one["records"] for topic, one in copy.items()} == {fresh: 130, grown: 7}
    assert planned["copy"]["records"] == 137
    assert planned["copy"]["seconds"] == planned["copy"]["bytes"] / 1000 > 0
    assert named(planned["not_copied"], "topic")[excluded]["why"] == "topics.exclude matches it (left-out.*)"
    assert any(fresh in note and "older records are deleted already" in note for note in planned["notes"])
    assert "a run would create " in text.output
    assert f"~ south: north.{grown}: segment.ms 80000 -> 70000" in text.output

    settings = load(file).flows[0]
    ends = {(fresh, 0): 100, (fresh, 1): 30, (grown, 2): 7}
    with FlowWithoutSpark(settings):
        wait_for(
            lambda: all(offsets(target, f"north.{topic}", part)[1] == end for (topic, part), end in ends.items()),
            60,
            "all is copied",
        )
        wait_for(lambda: len(group_offsets(target, [group])[group]) == 3, 60, "the group has moved")
        wait_for(lambda: acls(target) != before[1]["acls"], 60, "the ACL is there")
        wait_for(
            lambda: topic_config(target, f"north.{grown}").get("segment.ms") == "70000", 60, "the settings are in step"
        )
    after = cluster_content(target)
    new = set(after["topics"]) - set(before[1]["topics"])
    here = set(topics(source)) - set(before[0]["topics"])
    assert new == {name for name, one in create.items() if one["cluster"] == "south"}
    assert here == {name for name, one in create.items() if one["cluster"] == "north"}
    for name in new | here:
        cluster = target if create[name]["cluster"] == "south" else source
        assert topics(cluster)[name] == create[name]["partitions"]
        assert topic_config(cluster, name) == create[name]["configs"]
    assert after["topics"][f"north.{grown}"] == 3
    assert after["configs"][f"north.{grown}"] == {"retention.ms": "-1", "segment.ms": "70000"}
    assert {str(acl) for acl in after["acls"] - before[1]["acls"]} == {
        f"TOPIC LITERAL north.{fresh}: ALLOW READ User:ann from *"
    }
    moved = {where: committed.offset for where, committed in after["groups"][group].items()}
    assert moved == {(f"north.{fresh}", 0): 60, (f"north.{fresh}", 1): 30, (f"north.{grown}", 2): 3}

    again = plan(file, 0)
    assert (again["done"], again["problems"], again["create"], again["grow"]) == (True, [], [], [])
    assert (again["settings"], again["acls"], again["copy"]["records"]) == ([], [], 0)
    assert named(again["groups"], "group")[group]["becomes"] == "in-step"
    assert "north->south: nothing is left to do" in CliRunner().invoke(app, ["plan", str(file)]).output

    produce(source, grown, numbered(9), partition=2)
    delete_records(source, grown, 12, 2)
    gone = plan(file, 1)
    (problem,) = gone["problems"]
    assert problem["kind"] == "gap"
    assert f"{grown}-2: source offsets 7 to 11 (5 offsets) were deleted before they were copied" in problem["text"]
    by_policy = f"set north->south.twinlog.gap.policy.{grown} = skip and run twinlog reload FILE"
    assert f"run twinlog topics accept-gap FILE {grown}-2 --flow north:south; " in problem["text"]
    assert problem["text"].endswith(by_policy)
    assert gone["copy"]["records"] == 4


def test_the_disk_of_offsets_that_a_run_fills_depends_on_the_target(
    guarded: Clusters, new_name: Callable[[str], str], tmp_path: Path
) -> None:
    source, target = guarded
    topic = new_name("head")
    create_topic(source, topic, 2)
    produce(source, topic, numbered(60), partition=1)
    delete_records(source, topic, 40, 1)
    file = write(tmp_path / "mm2.properties", guarded, topics=topic, twinlog_offsets="identical")
    # A new topic gets the settings of the cluster.
    head = {
        "topic": topic,
        "remote": f"north.{topic}",
        "offsets": 40,
        "seconds": 40 / 25_000_000,
        "bytes_per_replica": 18,
        "disk_bytes_per_replica": 18,
        "freed_after_seconds": 1.0,
    }
    planned = plan(file, 0)
    assert planned["fill"] == [head]
    takes = "40 offsets before its first records: filled, and deleted again (about 1 s, and 18 B on each replica, "
    takes = f"{takes}at most 18 B of its disk at a time: a broker frees whole segments, up to 1 s after each step"
    assert [takes in note for note in planned["notes"] if note.startswith(f"{topic} keeps")] == [True]
    create_topic(target, f"north.{topic}", 2, config={"file.delete.delay.ms": "9500"})
    assert plan(file, 0)["fill"] == [{**head, "freed_after_seconds": 10}]


def test_what_a_run_would_fail_at_is_said_before(
    guarded: Clusters, new_name: Callable[[str], str], tmp_path: Path
) -> None:
    source, target = guarded
    taken, large, twin, wide = (new_name(kind) for kind in ("taken", "large", "twin", "wide"))
    create_topic(source, large, config={"max.message.bytes": "2000000", "retention.ms": "-1"})
    for topic in (taken, twin, wide):
        create_topic(source, topic)
    create_topic(target, f"north.{taken}")
    produce(target, f"north.{taken}", numbered(3))
    create_topic(target, f"north_{twin}")
    create_topic(target, f"north.{wide}", 2)
    excluded = "max.message.bytes"
    file = write(
        tmp_path / "mm2.properties",
        guarded,
        topics=",".join((taken, large, twin, wide)),
        config_properties_exclude=excluded,
        replication_factor="3",
    )
    before = [cluster_content(cluster) for cluster in guarded]
    planned = plan(file, 1)
    assert [cluster_content(cluster) for cluster in guarded] == before
    found = {(problem["kind"], problem["text"]) for problem in planned["problems"]}
    assert {kind for kind, _ in found} == {"clash", "record-limit", "replication-factor", "refused"}

    def says(kind: str, *words: str) -> bool:
        return any(kind == one and all(word in text for word in words) for one, text in found)

    assert says("clash", f"north.{taken} is on south with 3 records of another origin than this flow")
    assert says("clash", f"north.{wide} has 2 partitions on south, {wide} has 1")
    assert says("record-limit", f"records of up to 2000000 bytes (max.message.bytes) may come to north.{large}")
    assert says("replication-factor", f"cluster south refuses replication factor 3 of north.{large} (")
    assert says("refused", f"south refuses north.{twin}: Topic 'north.{twin}' collides with existing topic"), found
    assert f"north.{twin}" not in named(planned["create"], "topic")
    text = CliRunner().invoke(app, ["plan", str(file)])
    assert text.exit_code == 1
    assert "! TW-PLAN-04: record-limit: records of up to 2000000 bytes" in text.output

    # A class of the user's that fails on a topic fails its flow alone.
    with file.open("a", encoding="utf-8") as lines:
        lines.write(f"north->south.replication.policy.class = {__name__}:Failing\nsouth->north.enabled = true\n")
    done = CliRunner().invoke(app, ["plan", str(file), "-o", "json"], catch_exceptions=False)
    assert done.exit_code == 1
    failing, other = json.loads(done.stdout)["flows"]
    assert [problem["kind"] for problem in failing["problems"]] == ["class"]
    assert f"of {__name__}:Failing raises ValueError: north knows no" in failing["problems"][0]["text"]
    assert other["flow"] == "south->north"
    assert named(other["create"], "source")[f"north_{twin}"]


class Failing:
    """A replication policy that cannot name all topics."""

    def remote_name(self, alias: str, topic: str) -> str:
        if topic != "orders":
            raise ValueError(f"{alias} knows no {topic}")
        return f"of-{alias}-{topic}"

    def source_alias(self, topic: str) -> str | None:
        return None

    def upstream_name(self, topic: str) -> str | None:
        return None


def test_a_login_that_may_only_read_learns_which_rights_a_run_needs(
    guarded: Clusters, new_name: Callable[[str], str], tmp_path: Path
) -> None:
    source, target = guarded
    topic, there, group = new_name("t"), new_name("there"), new_name("g")
    for name in (topic, there):
        create_topic(source, name, config={"retention.ms": "-1"})
        produce(source, name, numbered(5))
    create_topic(target, f"north.{there}")
    commit_offsets(source, {group: {(topic, 0): 2}})
    commit_offsets(target, {new_name("other"): {(f"north.{there}", 0): 0}})
    user = "User:connect"
    reads = [BrokerAcl("kafka-cluster", user, "DESCRIBE", resource="BROKER")]
    for cluster, names in ((source, (topic, there)), (target, (f"north.{topic}", f"north.{there}"))):
        rights = [BrokerAcl(name, user, right) for name in names for right in ("DESCRIBE", "DESCRIBE_CONFIGS")]
        rights += [BrokerAcl(group, user, "DESCRIBE", resource="GROUP"), *reads]
        create_acls(cluster, [*rights, BrokerAcl("__consumer_offsets", user, "DESCRIBE")])
    create_acls(source, [BrokerAcl(topic, "User:ann", "READ")])
    file = write(tmp_path / "mm2.properties", guarded, "connect", topics=f"{topic},{there}")

    before = [cluster_content(cluster) for cluster in guarded]
    planned = plan(file, 1)
    assert [cluster_content(cluster) for cluster in guarded] == before
    assert {problem["kind"] for problem in planned["problems"]} == {"permission"}
    lacks = [problem["text"] for problem in planned["problems"]]
    for cluster, right in (
        ("north", f"READ on topic {', '.join(sorted((topic, there)))}"),
        ("south", f"CREATE on topic north.{topic}"),
        ("south", f"WRITE on topic north.{there}"),
        ("south", f"WRITE on topic north.{topic}"),
        ("south", f"ALTER_CONFIGS on topic north.{there}"),
        ("south", "ALTER on the cluster"),
        ("south", f"READ on group {group}"),
    ):
        assert any(f"cluster {cluster}: {user} lacks {right}, needed for " in text for text in lacks), (right, lacks)
    # What would be done once the rights are there.
    assert named(planned["create"], "topic")[f"north.{topic}"]["partitions"] == 1
    assert [(one["topic"], one["setting"]) for one in planned["settings"]] == [(f"north.{there}", "retention.ms")]
    assert planned["acls"] == [f"ALLOW READ on north.{topic} for User:ann from *"]
    assert named(planned["groups"], "group")[group]["becomes"] == "moves"
    assert planned["copy"]["records"] == 10

    # Nothing else tells that a topic to come could not be written; rights need not be carried over for that.
    planned = plan(
        write(tmp_path / "alone.properties", guarded, "connect", topics=topic, sync_topic_acls_enabled="false"), 1
    )
    wanted = f"cluster south: {user} lacks WRITE on topic north.{topic}, needed for "
    assert any(wanted in problem["text"] for problem in planned["problems"]), planned["problems"]
    assert not any("creating ACLs" in problem["text"] for problem in planned["problems"])


def test_connectors_of_a_worker_are_planned_each_for_its_own_work(
    guarded: Clusters, new_name: Callable[[str], str], tmp_path: Path
) -> None:
    source, target = guarded
    topic, group = new_name("t"), new_name("g")
    create_topic(source, topic, 2)
    produce(source, topic, numbered(9))
    commit_offsets(source, {group: {(topic, 0): 4}})
    converter = "org.apache.kafka.connect.converters.ByteArrayConverter"
    topics_of_worker = "".join(f"{what}.storage.topic = w-{what}\n" for what in ("config", "offset", "status"))
    worker = tmp_path / "worker.properties"
    worker.write_text(
        f"bootstrap.servers = {target.bootstrap}\ngroup.id = w\n{topics_of_worker}"
        f"offset.storage.replication.factor = 1\nkey.converter = {converter}\nvalue.converter = {converter}\n",
        "utf-8",
    )
    files = [str(worker)]
    for kind in ("Source", "Checkpoint", "Heartbeat"):
        files.append(str(tmp_path / f"{kind}.json"))
        config = {
            "connector.class": f"org.apache.kafka.connect.mirror.Mirror{kind}Connector",
            "source.cluster.alias": "north",
            "target.cluster.alias": "south",
            "source.cluster.bootstrap.servers": source.bootstrap,
            "target.cluster.bootstrap.servers": target.bootstrap,
            "topics": topic,
            "groups": group,
            "replication.factor": "1",
            "sync.group.offsets.enabled": "true",
            **{f"{of}.topic.replication.factor": "1" for of in ("offset-syncs", "checkpoints", "heartbeats")},
        }
        Path(files[-1]).write_text(json.dumps({"name": kind, "config": config}), "utf-8")
    done = CliRunner().invoke(app, ["plan", *files, "-o", "json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    plans = named(json.loads(done.stdout)["flows"], "flow")
    assert set(plans) == {"Source", "Checkpoint", "Heartbeat"}
    assert {f"north.{topic}", "w-offset"} <= set(named(plans["Source"]["create"], "topic"))
    assert (plans["Source"]["copy"]["records"], plans["Source"]["groups"]) == (9, [])
    following = plans["Checkpoint"]
    assert set(named(following["create"], "topic")) <= {"north.checkpoints.internal"}
    assert named(following["groups"], "group")[group]["becomes"] == "moves"
    assert (following["copy"]["records"], following["not_copied"]) == (0, [])
    assert set(named(plans["Heartbeat"]["create"], "topic")) <= {"heartbeats"}

    resource = tmp_path / "mirror.yaml"
    resource.write_text(RESOURCE.format(source=source.bootstrap, target=target.bootstrap, topic=topic, group=group))
    done = CliRunner().invoke(app, ["plan", str(resource), "-o", "json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    of_resource = named(json.loads(done.stdout)["flows"], "flow")
    copying, following = (of_resource[f"north->south.Mirror{kind}Connector"] for kind in ("Source", "Checkpoint"))
    assert {f"north.{topic}", "k-offsets"} <= set(named(copying["create"], "topic"))
    assert copying["copy"]["topics"] == plans["Source"]["copy"]["topics"]
    assert following["groups"] == plans["Checkpoint"]["groups"]


def test_clusters_differ_until_the_flow_has_run_and_where_somebody_changes_them(
    guarded: Clusters, new_name: Callable[[str], str], tmp_path: Path
) -> None:
    source, target = guarded
    topic, group = new_name("t"), new_name("g")
    create_topic(source, topic, 2, config={"retention.ms": "-1"})
    produce(source, topic, numbered(30))
    commit_offsets(source, {group: {(topic, 0): 10}})
    create_acls(source, [BrokerAcl(topic, "User:eve", "READ", "DENY"), BrokerAcl(topic, "User:eve", "WRITE")])
    file = write(tmp_path / "mm2.properties", guarded, topics=topic)

    def differences(*options: str) -> list[tuple[Any, ...]]:
        """Those of this test; others share the clusters."""
        done = CliRunner().invoke(app, ["diff", *options, "-o", "json"], catch_exceptions=False)
        found = json.loads(done.stdout)["differences"]
        assert done.exit_code == bool(found), done.output
        mine = [one for one in found if topic in one["what"] or one["what"] == group]
        return [(one["kind"], one["what"], one["detail"], one["left"], one["right"]) for one in mine]

    deny = f"DENY READ on topic north.{topic} for User:eve from *"
    assert differences(str(file), "--from", "north", "--to", "south") == [
        ("topic", f"{topic} / north.{topic}", None, "2 partitions", None),
        ("acl", deny, None, "yes", None),
        ("group", group, None, "1 partition", None),
    ]
    with FlowWithoutSpark(load(file).flows[0]):
        wait_for(lambda: not differences(str(file), "--from", "south", "--to", "north"), 60, "the clusters are in step")
    create_acls(target, [BrokerAcl(f"north.{topic}", "User:bob", "ALL")])
    set_topic_config(target, f"north.{topic}", {"retention.ms": "86400000"})
    add_partitions(target, f"north.{topic}", 3)
    produce(source, topic, numbered(5))
    both = f"{topic} / north.{topic}"
    assert differences(str(file), "--from", "north", "--to", "south") == [
        ("partitions", both, None, "2", "3"),
        ("setting", both, "retention.ms", "-1", "86400000"),
        ("acl", f"ALLOW ALL on topic north.{topic} for User:bob from *", None, None, "yes"),
        ("lag", group, f"north.{topic}-0", "25 behind", "20 behind"),
    ]
    with quota(source, topic, "producer_byte_rate", 5_000_000):
        assert differences(str(file), "--from", "north", "--to", "south")[3] == (
            "quota",
            f"client-id {topic}",
            "producer_byte_rate",
            "5000000",
            None,
        )
        text = CliRunner().invoke(app, ["diff", str(file), "--from", "north", "--to", "south"]).output
    assert f"~ {both}: retention.ms: -1 | 86400000" in text
    assert f"- client-id {topic}: producer_byte_rate: 5000000 on north, none on south" in text

    sides = []
    for name, cluster in zip(("here", "there"), guarded, strict=True):
        sides.append(tmp_path / f"{name}.properties")
        sides[-1].write_text(cluster.java_properties("admin"), "utf-8")
    kinds = {(kind, what) for kind, what, *_ in differences(*map(str, sides))}
    assert {("topic", topic), ("topic", f"north.{topic}"), ("group", group)} <= kinds


def test_an_inventory_holds_what_the_cluster_holds(guarded: Clusters, new_name: Callable[[str], str]) -> None:
    cluster = guarded[0]
    topic, other, group = TopicName(new_name("t")), TopicName(new_name("t")), GroupId(new_name("g"))
    create_topic(cluster, topic, 3, config={"retention.ms": "-1"})
    create_topic(cluster, other)
    produce(cluster, topic, numbered(30), partition=1)
    commit_offsets(cluster, {group: {(topic, 1): 12}})
    create_acls(cluster, [BrokerAcl(topic, "User:ann", "READ"), BrokerAcl(group, "User:ann", "READ", resource="GROUP")])
    steps: list[tuple[str, int, int]] = []
    with connected(cluster) as admin:
        found = read_inventory(admin, wanted=lambda name: name == topic, progress=lambda *step: steps.append(step))
    described = found.topics[topic]
    assert (described.topic.partitions, described.replicas, described.leaderless) == (3, 1, 0)
    assert found.may(AclOperation.WRITE, topic)
    assert found.may(AclOperation.ALTER)
    assert found.may(AclOperation.READ, other)
    assert set(found.configs) == {topic}
    assert next(entry.value for entry in found.configs[topic] if entry.name == "retention.ms") == "-1"
    assert found.logs == {(topic, 0): LogOffsets(0, 0), (topic, 1): LogOffsets(0, 30), (topic, 2): LogOffsets(0, 0)}
    assert found.sizes is not None
    assert found.sizes[TopicPartition(topic, 1)] > 30 > found.sizes[TopicPartition(topic, 0)] == 0
    (disk,) = found.disks
    assert disk.total
    assert disk.usable is not None
    assert disk.usable <= disk.total
    assert found.groups[group].empty
    assert {where: committed.offset for where, committed in found.committed[group].items()} == {(topic, 1): 12}
    assert found.acls is not None
    assert Acl(ResourceType.GROUP, group, "User:ann", "*", AclOperation.READ, AclPermissionType.ALLOW) in found.acls
    assert found.unread == ()
    assert {what for what, *_ in steps} == {"topics", "settings", "log ends", "groups"}


def test_an_inventory_says_what_the_login_may_not_read(guarded: Clusters, new_name: Callable[[str], str]) -> None:
    cluster = guarded[1]
    topic, unseen, group = TopicName(new_name("t")), TopicName(new_name("t")), new_name("g")
    create_topic(cluster, topic)
    create_topic(cluster, unseen)
    commit_offsets(cluster, {group: {(topic, 0): 1}})
    create_acls(cluster, [BrokerAcl(topic, f"User:{READER}", "DESCRIBE")])
    with connected(cluster, READER) as admin:
        found = read_inventory(admin)
    assert (topic in found.topics, unseen in found.topics, found.groups) == (True, False, {})
    assert found.may(AclOperation.DESCRIBE, topic)
    assert found.may(AclOperation.READ, topic) is False
    assert found.may(AclOperation.DESCRIBE) is False
    assert found.logs == {(topic, 0): LogOffsets(0, 0)}
    assert not found.configs
    assert found.hidden == {topic}
    assert found.sizes is None
    assert found.acls is None
    lacks = f"cluster {cluster.name}: User:{READER} lacks"
    assert found.unread == (
        f"{lacks} DESCRIBE_CONFIGS on topic {topic}, needed for reading its settings",
        f"{lacks} DESCRIBE on the cluster, needed for reading the sizes of its logs",
        f"{lacks} DESCRIBE on the cluster, needed for reading its ACLs",
    )
