"""Connectors of one pair of clusters that do not fit together say what will not work, and how to fix it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.config.files import worker_files
from tests.unit.config.own_code import Writer, modules
from twinlog.config.connector import CONNECTOR_CLASSES, ConnectorFlow, build_connector
from twinlog.config.properties import parse_properties
from twinlog.config.worker import WorkerConfig, load_worker, worker_of
from twinlog.model.types import TopicName, TopicPartition
from twinlog.settings.flow import ConnectorKind
from twinlog.worker.connectors.disagreements import disagreements
from twinlog.worker.connectors.task_configs import checkpoint_tasks, heartbeat_tasks, source_tasks

MANUALS = Path(__file__).parents[2] / "config" / "connectors"
KINDS: tuple[ConnectorKind, ...] = ("source", "checkpoint", "heartbeat")
WORKER = worker_of(parse_properties(worker_files.distributed(), "w"), "w")
ENDS = {
    "source.cluster.alias": "a",
    "source.cluster.bootstrap.servers": "a:1,a:2",
    "target.cluster.alias": "b",
    "target.cluster.bootstrap.servers": "b:1",
}


module = modules("own_naming")


def build(
    kind: ConnectorKind, change: dict[str, str] | None = None, name: str = "", worker: WorkerConfig = WORKER
) -> ConnectorFlow:
    config = {"connector.class": CONNECTOR_CLASSES[kind], **ENDS, **(change or {})}
    return build_connector(name or kind, config, worker)


@pytest.mark.parametrize("folder", ["passwords", "names"])
def test_what_manuals_write(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(MANUALS / folder)
    worker, flows = load_worker("worker.properties"), []
    for kind in KINDS:
        found = json.loads(Path(f"{kind}.json").read_text())
        flows.append(build_connector(found.get("name", kind), found.get("config", found), worker))
    sentences = [str(item) for item in disagreements(flows)]
    if folder == "passwords":
        assert sentences == []
        return
    syncs, naming, beats = sentences
    assert "mm2-checkpoint looks for offset syncs in mm2-offset-syncs.targetcpc.internal on the source" in syncs
    assert "mm2-source writes them to mm2-offset-syncs.sourcemsc.internal on the target" in syncs
    assert "offset-syncs.topic.location = target" in syncs
    assert "name sourcecpc.orders on the target, but mm2-source copies orders to orders" in naming
    assert "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy" in naming
    assert "sourcehbc->targethbc" in beats
    assert "source.cluster.alias = sourcemsc" in beats


@pytest.mark.parametrize(
    ("source", "other", "kind", "settings"),
    [
        ({}, {}, "checkpoint", []),
        ({}, {}, "heartbeat", []),
        ({}, {"source.cluster.bootstrap.servers": "a:2"}, "checkpoint", []),
        (
            {"offset-syncs.topic.location": "target"},
            {},
            "checkpoint",
            [{"offset-syncs.topic.location": "target"}],
        ),
        (
            {"replication.policy.separator": "_"},
            {},
            "checkpoint",
            [{"replication.policy.separator": "_"}, {"replication.policy.separator": "_"}],
        ),
        ({}, {"target.cluster.alias": "c"}, "checkpoint", [{"target.cluster.alias": "b"}]),
        ({"emit.offset-syncs.enabled": "false"}, {}, "checkpoint", [{"emit.offset-syncs.enabled": "true"}]),
        ({}, {"target.cluster.alias": "c"}, "heartbeat", [{"target.cluster.alias": "b"}]),
        # Other clusters, or nobody who copies: then a MirrorMaker 2 may do it.
        ({}, {"source.cluster.bootstrap.servers": "z:1", "target.cluster.alias": "c"}, "checkpoint", []),
        ({"enabled": "false"}, {"target.cluster.alias": "c"}, "checkpoint", []),
        ({}, {"enabled": "false", "target.cluster.alias": "c"}, "checkpoint", []),
    ],
)
def test_what_two_connectors_disagree_in(
    source: dict[str, str], other: dict[str, str], kind: ConnectorKind, settings: list[dict[str, str]]
) -> None:
    found = disagreements([build(kind, other), build("source", source)])
    assert [dict(item.settings) for item in found] == settings


def test_two_that_are_to_copy_one_topic_name_it_and_how_each_may_leave_it_out() -> None:
    one, two = build("source", {"topics": "t, u"}, "one"), build("source", {"topics": "u, v.*"}, "two")
    found = disagreements([one, two])
    assert [item.name for item in found] == ["one", "two"]
    assert str(found[0]).startswith("one and two are both to copy u into the same remote topics. As every record would")
    fixed = build("source", {"topics": "t, u", **found[0].settings}, "one")
    assert disagreements([fixed, two]) == []
    # Who writes it elsewhere doubles nothing.
    router = {
        "transforms": "r",
        "transforms.r.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.r.regex": ".*",
        "transforms.r.replacement": "elsewhere",
    }
    assert disagreements([one, build("source", {"topics": "u", **router}, "two")]) == []
    assert disagreements([one, build("source", {"topics": "u", "source.cluster.alias": "x"}, "two")]) == []
    # One by one, as a route may be of some of them.
    some = build("source", {"topics": "t, u", **router, "transforms.r.regex": r".*\.t"}, "two")
    assert "are both to copy u into" in str(disagreements([one, some])[0])


def test_heartbeats_are_copied_by_both() -> None:
    beats = [build("source", {"topics": "heartbeats"}, name) for name in ("one", "two")]
    assert disagreements(beats) == []
    users = [build("source", {"topics": r"device\.heartbeats"}, name) for name in ("one", "two")]
    assert "both to copy device.heartbeats" in str(disagreements(users)[0])


def test_routes_may_lead_what_two_aliases_name_otherwise_to_one_topic() -> None:
    router = {
        "topics": "u",
        "transforms": "r",
        "transforms.r.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.r.regex": ".*",
        "transforms.r.replacement": "elsewhere",
    }
    one, two = (build("source", {**router, "source.cluster.alias": alias}, alias) for alias in ("x", "y"))
    found = disagreements([one, two])
    assert [item.name for item in found] == ["x", "y"]
    assert str(found[0]).startswith("x and y are both to copy u into the same remote topics. As every record would")


@pytest.mark.parametrize("method", ["remote_name", "source_alias"])
def test_a_class_that_fails_on_a_topic_is_left_to_the_connector_that_meets_it(module: Writer, method: str) -> None:
    """A worker compares its connectors at each change: it would end with all of them."""
    name = module(f"""
        class Naming:
            def remote_name(self, alias, topic): return self.checked("remote_name", topic)
            def source_alias(self, topic): return self.checked("source_alias", topic) and None
            def upstream_name(self, topic): return None
            def checked(self, method, topic):
                if method == "{method}" and topic == "u": raise KeyError(topic)
                return topic
    """)
    text = f"{worker_files.distributed()}twinlog.connector.classes = {name}\n"
    worker = worker_of(parse_properties(text, "w"), "w")
    config = {"replication.policy.class": f"{name}:Naming", "topics": "t, u"}
    one, two = (build("source", config, name, worker) for name in ("one", "two"))
    assert disagreements([one, two]) == []
    mended = [build("source", {**config, "topics": "t"}, name, worker) for name in ("one", "two")]
    assert [item.name for item in disagreements(mended)] == ["one", "two"]


changes = st.fixed_dictionaries(
    {},
    optional={
        "source.cluster.alias": st.sampled_from(["a", "x"]),
        "target.cluster.alias": st.sampled_from(["b", "y"]),
        "replication.policy.separator": st.sampled_from([".", "_"]),
        "replication.policy.internal.topic.separator.enabled": st.sampled_from(["true", "false"]),
        "replication.policy.class": st.sampled_from(
            [f"org.apache.kafka.connect.mirror.{name}ReplicationPolicy" for name in ("Default", "Identity")]
        ),
        "offset-syncs.topic.location": st.sampled_from(["source", "target"]),
    },
)


@given(changes, changes, st.sampled_from(KINDS[1:]))
def test_whoever_writes_what_is_named_agrees(
    source: dict[str, str], other: dict[str, str], kind: ConnectorKind
) -> None:
    there = build("source", source)
    for _ in range(3):
        found = disagreements([there, build(kind, other)])
        if not found:
            break
        assert all(item.settings for item in found)
        other = other | {key: value for item in found for key, value in item.settings.items()}
    assert disagreements([there, build(kind, other)]) == []


def test_tasks_are_those_of_mirrormaker() -> None:
    config = {"name": "copies", "topics": "${file:x:y}"}
    partitions = [TopicPartition(TopicName(topic), number) for topic in ("t", "u-v") for number in range(2)]
    tasks = source_tasks(build("source", {"tasks.max": "3"}), config, partitions)
    assert [task["task.assigned.partitions"] for task in tasks] == ["t-0,u-v-1", "t-1", "u-v-0"]
    assert [task["task.index"] for task in tasks] == ["0", "1", "2"]
    assert {(task["name"], task["topics"]) for task in tasks} == {("copies", "${file:x:y}")}
    assert {task["task.class"] for task in tasks} == {"org.apache.kafka.connect.mirror.MirrorSourceTask"}
    groups = checkpoint_tasks(build("checkpoint", {"tasks.max": "2"}), config, ["a", "b", "c"])
    assert [task["task.assigned.groups"] for task in groups] == ["a,b", "c"]
    assert heartbeat_tasks(build("heartbeat", {"tasks.max": "9"}), config) == [
        {**config, "task.class": "org.apache.kafka.connect.mirror.MirrorHeartbeatTask"}
    ]


def test_whoever_has_nothing_to_do_has_no_task() -> None:
    assert source_tasks(build("source"), {}, []) == []
    assert checkpoint_tasks(build("checkpoint"), {}, []) == []
    off = {"enabled": "false"}
    assert source_tasks(build("source", off), {}, [TopicPartition(TopicName("t"), 0)]) == []
    assert checkpoint_tasks(build("checkpoint", off), {}, ["g"]) == []
    assert heartbeat_tasks(build("heartbeat", {"emit.heartbeats.enabled": "false"}), {}) == []
