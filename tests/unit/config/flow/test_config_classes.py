"""Python classes named in a file: loaded, configured and asked; refused with the line that names them."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from tests.unit.config.own_code import Writer, modules, read
from tests.unit.config.said import said
from twinlog.config.text.explain import explain
from twinlog.errors import ConfigError
from twinlog.mirror.topology.plugins import config_filter_of, group_filter_of, policy_of
from twinlog.mirror.topology.topology import topology_of
from twinlog.model.types import Alias, TopicName

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"

POLICY = """
class Suffix:
    mark = "-from-"

    def configure(self, settings):
        self.settings = dict(settings)
        self.mark = settings.get("replication.policy.mark", self.mark)

    def remote_name(self, alias, topic):
        return f"{topic}{self.mark}{alias}"

    def source_alias(self, topic):
        return topic.rpartition(self.mark)[2] if self.mark in topic else None

    def upstream_name(self, topic):
        return topic.rpartition(self.mark)[0] if self.mark in topic else None
"""

module = modules("own_classes")


def test_a_policy_of_ones_own_names_topics(tmp_path: Path, module: Writer) -> None:
    name = module(POLICY)
    config = read(
        tmp_path,
        f"replication.policy.class = {name}:Suffix\nreplication.policy.mark = _of_\na->b.anything = 7\n"
        "a.sasl.jaas.config = secret\na->b.consumer.fetch.min.bytes = 2\n",
    )
    flow = pickle.loads(pickle.dumps(config.flows[0]))
    assert flow.policy == "custom"
    assert dict(flow.class_settings) == {
        "replication.policy.class": f"{name}:Suffix",
        "replication.policy.mark": "_of_",
        "anything": "7",
        "enabled": "true",
        "source.cluster.alias": "a",
        "target.cluster.alias": "b",
    }
    topology = topology_of(flow)
    assert topology.remote_name(TopicName("orders")) == "orders_of_a"
    assert topology.source_topic(TopicName("orders_of_a")) == "orders"
    assert topology.source_topic(TopicName("orders_of_c")) is None
    assert topology.refusal(TopicName("orders_of_c_of_b")) == "it came from the target cluster b"
    assert topology.refusal(TopicName("orders_of_b_of_c")) == "it came from the target cluster b"
    assert topology.mirrors(TopicName("orders"))
    # Heartbeats and internal topics keep the names that MirrorMaker 2 gives them.
    assert topology.remote_name(TopicName("heartbeats")) == "a.heartbeats"
    assert topology.policy.passes_as_heartbeats(TopicName("x.a.heartbeats"))
    assert topology.policy.checkpoints_topic(Alias("a")) == "a.checkpoints.internal"


def test_the_class_of_the_manual(tmp_path: Path, module: Writer) -> None:
    blocks = (Path(__file__).parents[4] / "docs" / "transforms.md").read_text("utf-8").split("```")
    code = next(block.removeprefix("python\n") for block in blocks if "class Suffix" in block)
    lines = next(block.removeprefix("properties\n") for block in blocks if "naming:Suffix" in block)
    topology = topology_of(read(tmp_path, lines.replace("naming:", f"{module(code)}:")).flows[0])
    assert topology.remote_name(TopicName("orders")) == "orders.of-a"
    assert topology.source_topic(TopicName("orders.of-a")) == "orders"
    assert topology.policy.source_alias(TopicName("orders")) is None


def test_filters_of_ones_own(tmp_path: Path, module: Writer) -> None:
    name = module(
        """
        class Topics:
            def accepts(self, topic): return len(topic) < 7

        class Groups:
            def configure(self, settings): self.prefix = settings["group.prefix"]
            def accepts(self, group): return group.startswith(self.prefix)

        class Settings:
            def accepts(self, setting): return setting == "retention.ms"

        class Defaults(Settings):
            def accepts_default(self, setting): return True
        """
    )
    flow = read(
        tmp_path,
        f"topic.filter.class = {name}:Topics\na->b.group.filter.class = {name}:Groups\na->b.group.prefix = app-\n"
        f"config.property.filter.class = {name}:Settings\ntopics = nothing\ngroups = nothing\n",
    ).flows[0]
    topology = topology_of(flow)
    assert topology.mirrors(TopicName("orders"))
    assert topology.refusal(TopicName("payments")) == f"{name}:Topics does not accept it"
    assert topology.refusal(TopicName("__x")) == "it is an internal topic"
    assert [group_filter_of(flow).accepts(group) for group in ("app-1", "other")] == [True, False]
    chosen = config_filter_of(flow)
    assert (chosen.accepts("retention.ms"), chosen.accepts("segment.ms")) == (True, False)
    assert not chosen.accepts_default("retention.ms")
    more = f"config.property.filter.class = {name}:Defaults\n"
    assert config_filter_of(read(tmp_path, more).flows[0]).accepts_default("x")


def test_what_a_class_raises_is_told_in_one_line(tmp_path: Path, module: Writer) -> None:
    """A class that called `sys.exit` ended the command without a word."""
    code = """
        import sys

        class Topics:
            def accepts(self, topic):
                if topic == "out":
                    sys.exit(7)
                if topic == "long":
                    raise ValueError("one\\n  two")
                return True
    """
    topology = topology_of(read(tmp_path, f"topic.filter.class = {module(code)}:Topics\n").flows[0])
    for topic, told in {
        "out": "raises SystemExit: 7; expected",
        "long": "raises ValueError: one two; expected",
    }.items():
        with pytest.raises(ConfigError, match=told):
            topology.mirrors(TopicName(topic))


NOT_ALL = "class P:\n    def remote_name(self, alias, topic): return topic\n"
SHAPED = POLICY.replace("class Suffix", "class P")


@pytest.mark.parametrize(
    ("code", "name", "found", "expected"),
    [
        (None, "no_such_module_here:P", "the module 'no_such_module_here' is missing", "set PYTHONPATH"),
        ("", "{}.inner:P", "the module '{}.inner' is missing", "set PYTHONPATH"),
        ("import no_such_library_here", "{}:P", "importing {} raises ModuleNotFoundError", "a class that can be used"),
        ("1 / 0", "{}:P", "importing {} raises ZeroDivisionError", "a class that can be used"),
        ("P = 3", "{}:P", "the module {} has no class 'P'", "package.module:Class"),
        ("class P:\n    def __init__(self, x): pass", "{}:P", "P() raises TypeError", "a class that can be used"),
        (NOT_ALL, "{}:P", "{}:P has no method source_alias", "remote_name, source_alias, upstream_name"),
        (
            SHAPED.replace("self.settings = dict", "self.settings = wrong"),
            "{}:P",
            "P.configure(...) raises NameError",
            "a class that can be used",
        ),
        (
            SHAPED.replace('return f"', 'return b"'),
            "{}:P",
            "remote_name('a', 'orders') of {}:P returns b'",
            "a string",
        ),
        (
            SHAPED.replace("-from-", " from "),
            "{}:P",
            "remote_name('a', 'orders') of {}:P returns 'orders from a'",
            "a legal topic name",
        ),
        (SHAPED.replace("else None", "else 0"), "{}:P", None, None),
        (
            SHAPED.replace("rpartition(self.mark)[2]", "nothing"),
            "{}:P",
            "source_alias('orders-from-a') of {}:P raises AttributeError",
            "an answer",
        ),
    ],
)
def test_a_policy_that_cannot_be_used(
    tmp_path: Path, module: Writer, code: str | None, name: str, found: str | None, expected: str | None
) -> None:
    made = module(code) if code is not None else ""
    text = f"# a line\nreplication.policy.class = {name.format(made)}\n"
    if found is None or expected is None:
        # Only another topic shows what is wrong with this one.
        policy = policy_of(read(tmp_path, text).flows[0])
        with pytest.raises(
            ConfigError, match=r"6: replication\.policy\.class: source_alias\('orders'\) of .* returns 0"
        ):
            policy.source_alias(TopicName("orders"))
        return
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    (problem,) = caught.value.problems
    assert (problem.key, problem.line) == ("replication.policy.class", 6)
    assert found.format(made) in problem.text
    assert expected in problem.expected


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import sys\nsys.exit('usage: own')", "importing {} raises SystemExit: usage: own;"),
        ("class P:\n    def __init__(self): raise SystemExit(3)", "P() raises SystemExit: 3;"),
        (
            SHAPED.replace('return f"', 'raise SystemExit(f"').replace('{alias}"', '{alias}")'),
            "remote_name('a', 'orders') of {}:P raises SystemExit: orders",
        ),
        ("raise ValueError('one\\n  two\\nthree')", "importing {} raises ValueError: one two three;"),
    ],
)
def test_code_that_ends_its_process_or_says_much_is_one_line(
    tmp_path: Path, module: Writer, code: str, told: str
) -> None:
    name = module(code)
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, f"replication.policy.class = {name}:P\n")
    (problem,) = str(caught.value).splitlines()
    assert told.format(name) in problem


@pytest.mark.parametrize("answer", ["None", "1", "'yes'"])
@pytest.mark.parametrize("key", ["topic.filter.class", "group.filter.class", "config.property.filter.class"])
def test_a_filter_must_return_a_bool(tmp_path: Path, module: Writer, key: str, answer: str) -> None:
    name = module(f"class F:\n    def accepts(self, name): return {answer}\n")
    with pytest.raises(ConfigError, match=rf"a->b\.{key}: accepts\(.*\) of .*:F returns .*; expected True or False"):
        read(tmp_path, f"a->b.{key} = {name}:F\n")


@pytest.mark.parametrize("name", ["com.example.Own", "own:", ":Own", "own.Own()", "own:Own.inner", "1own:Own"])
def test_a_name_that_is_no_python_class(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=r"a class of your own in Python, as package\.module:Class"):
        read(tmp_path, f"replication.policy.class = {name}\n")


@pytest.mark.parametrize(
    "name", [IDENTITY, "io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy", f" {IDENTITY} "]
)
def test_java_names_stand_for_what_is_built_in(tmp_path: Path, name: str) -> None:
    mirror = "org.apache.kafka.connect.mirror.Default"
    text = (
        f"replication.policy.class = {name}\ntopic.filter.class = {mirror}TopicFilter\n"
        f"group.filter.class = {mirror}GroupFilter\nconfig.property.filter.class = {mirror}ConfigPropertyFilter\n"
    )
    flow = read(tmp_path, text).flows[0]
    assert (flow.policy, flow.policy_class, flow.topic_filter_class, flow.class_settings) == (
        "identity",
        None,
        None,
        (),
    )


def test_settings_of_a_class_are_only_known_where_it_is(tmp_path: Path, module: Writer) -> None:
    named = f"a->b.replication.policy.class = {module(POLICY)}:Suffix\n"
    for wrong in ("b->a.own = 1\n", "own = 1\n", "a.own = 1\n"):
        with pytest.raises(ConfigError, match="unknown key"):
            read(tmp_path, named + wrong)
    with pytest.raises(ConfigError, match="unknown key"):
        read(tmp_path, "replication.policy.own = 1\n")
    config = read(tmp_path, named + "replication.policy.own = 1\na->b.own = 2\na->b.topic.exclude = x\n")
    (warning,) = said(config.warnings)
    assert "a->b.topic.exclude: unknown key, left to" in warning
    assert "did you mean a->b.topics.exclude?" in warning
    (found,) = explain(tmp_path / "mm2.properties", "a->b.own")
    assert str(found).startswith("a->b: own = 2  (")


def test_a_cycle_of_names_ends(tmp_path: Path, module: Writer) -> None:
    code = """
    class P:
        def remote_name(self, alias, topic): return topic
        def source_alias(self, topic): return "c"
        def upstream_name(self, topic): return {"x": "y", "y": "x"}.get(topic, topic)
    """
    topology = topology_of(read(tmp_path, f"replication.policy.class = {module(code)}:P\n").flows[0])
    assert topology.mirrors(TopicName("x"))


def test_nothing_of_a_class_runs_for_heartbeats_alone(tmp_path: Path, module: Writer) -> None:
    name = module("raise RuntimeError('loaded')")
    flows = read(tmp_path, f"b->a.replication.policy.class = {name}:P\n").flows
    assert [(flow.name, flow.policy) for flow in flows] == [("a->b", "default"), ("b->a", "default")]


def test_no_separator_where_names_are_kept(tmp_path: Path) -> None:
    """As many resources of Strimzi's have it beside the identity policy."""
    flow = read(tmp_path, f"replication.policy.class = {IDENTITY}\nreplication.policy.separator =\n").flows[0]
    assert flow.offset_syncs_topic == "mm2-offset-syncsbinternal"
    assert flow.keeps_names
    assert flow.sync_topic_configs_interval_s is not None
