"""Two versions of a file: what a running process takes over, what needs a restart, and with what its flows go on."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from harness.certificates import authority
from tests.unit.config import own_code
from tests.unit.config.said import said
from twinlog.config.file_changes import FileChange, KeyChange, RunningFile, compare
from twinlog.config.keys.key import UpdateMode
from twinlog.config.keys.table import live_fields
from twinlog.config.load import load_file
from twinlog.settings.flow import FlowSettings

BASE = """\
clusters = east, west, north
east.bootstrap.servers = e:9092
west.bootstrap.servers = w:9092
north.bootstrap.servers = n:9092
east->west.enabled = true
west->east.enabled = true
topics = orders.*
east->west.topics = orders, payments
"""


class File:
    """One file with its versions."""

    def __init__(self, path: Path, text: str = BASE) -> None:
        self.path = path
        self.clusters: list[str] | None = None
        self.write(text)
        self.running = RunningFile.of(load_file(path))

    def write(self, text: str) -> None:
        self.path.write_text(text)

    def read(self, text: str | None = None) -> FileChange:
        """What is different now; it is not taken over yet."""
        if text is not None:
            self.write(text)
        return compare(self.running, load_file(self.path, self.clusters))

    def take(self, text: str) -> FileChange:
        change = self.read(text)
        self.running = change.running
        return change

    def flow(self, name: str) -> FlowSettings:
        return next(flow for flow in self.running.config.flows if flow.name == name)


@pytest.fixture
def file(tmp_path: Path) -> File:
    return File(tmp_path / "mm2.properties")


def told(change: FileChange) -> dict[str, tuple[UpdateMode, tuple[str, ...]]]:
    return {one.key: (one.takes, one.flows) for one in change.keys}


def test_the_same_file_changes_nothing(file: File) -> None:
    change = file.read(BASE.replace("orders, payments", "orders,payments") + "\n# a comment\n")
    assert (change.keys, change.same, dict(change.waiting)) == ((), True, {})
    assert change.running.config.flows == file.running.config.flows


@pytest.mark.parametrize(
    ("line", "how", "flows"),
    [
        ("east->west.topics.exclude = .*-old", UpdateMode.AT_ONCE, ("east->west",)),
        ("topics.exclude = .*-old", UpdateMode.AT_ONCE, ("east->west", "west->east")),
        ("groups = app-.*", UpdateMode.AT_ONCE, ("east->west", "west->east")),
        ("west->east.groups.blacklist = tmp-.*", UpdateMode.AT_ONCE, ("west->east",)),
        ("config.properties.exclude = retention.*", UpdateMode.AT_ONCE, ("east->west", "west->east")),
        ("east->west.refresh.topics.interval.seconds = 7", UpdateMode.AT_ONCE, ("east->west",)),
        ("east->west.sync.topic.configs.enabled = false", UpdateMode.PAUSE, ("east->west",)),
        ("east->west.twinlog.gap.policy = continue", UpdateMode.PAUSE, ("east->west",)),
        ("east->west.emit.offset-syncs.enabled = false", UpdateMode.PAUSE, ("east->west",)),
        ("east->west.emit.checkpoints.enabled = false", UpdateMode.AT_ONCE, ("east->west",)),
        ("tasks.max = 4", UpdateMode.RESTART, ("east->west", "west->east")),
        ("east->west.tasks.max = 4", UpdateMode.RESTART, ("east->west",)),
        ("west->east.tasks.max = 1", UpdateMode.NOTHING, ()),
        ("east->north.tasks.max = 4", UpdateMode.NOTHING, ()),
        ("west.offset.storage.topic = positions", UpdateMode.RESTART, ("east->west",)),
        ("west.exactly.once.source.support = enabled", UpdateMode.RESTART, ("east->west",)),
        ("east.consumer.fetch.max.bytes = 1000000", UpdateMode.RESTART, ("east->west",)),
        ("east.admin.reconnect.backoff.ms = 70", UpdateMode.RESTART, ("east->west", "west->east", "north->east")),
        ("north.consumer.fetch.max.bytes = 1000000", UpdateMode.NOTHING, ()),
        ("twinlog.metrics.listeners = http://:9404", UpdateMode.RESTART, ()),
        ("errors.retry.timeout = 5", UpdateMode.NOTHING, ()),
        ("replication.policy.separator = _", UpdateMode.RESTART, ("east->west", "west->east")),
    ],
)
def test_what_becomes_of_a_line(file: File, line: str, how: UpdateMode, flows: tuple[str, ...]) -> None:
    key, _, value = line.partition(" = ")
    change = file.read(f"{BASE}{line}\n")
    assert told(change) == {key: (how, flows)}
    (one,) = change.keys
    assert str(one) == f"{file.path}:9: {key} = {value} (not written before)"
    live = how in (UpdateMode.AT_ONCE, UpdateMode.PAUSE)
    assert change.changed == (flows if live else ())
    changed = {new.name for new in change.running.config.flows if new not in file.running.config.flows if new.enabled}
    assert changed == (set(flows) if live else set())
    # Taken over once, it is told once; what needs a restart each time.
    file.running = change.running
    again = file.read()
    assert again.same
    assert told(again) == (
        {key: (how, flows)} if how in (UpdateMode.RESTART, UpdateMode.NOTHING) and not live else {}
    ) or (how is UpdateMode.NOTHING and not again.keys)
    # What is written back needs none.
    assert file.read(BASE).changed == (flows if live else ())


def test_a_line_that_another_one_wins_over_changes_nothing(file: File) -> None:
    change = file.read(BASE.replace("topics = orders.*", "topics = everything"))
    assert told(change) == {"topics": (UpdateMode.AT_ONCE, ("west->east",))}
    change = file.read(BASE.replace("topics = orders.*", "topics = x") + "west->east.topics = orders.*\n")
    assert told(change) == {"topics": (UpdateMode.NOTHING, ()), "west->east.topics": (UpdateMode.NOTHING, ())}
    assert change.same


def test_a_line_that_is_gone_is_told_with_what_it_was(file: File) -> None:
    (one,) = file.read(BASE.replace("east->west.topics = orders, payments\n", "")).keys
    assert str(one) == f"{file.path}: east->west.topics is gone from the file (orders, payments before)"
    assert one.takes is UpdateMode.AT_ONCE


def test_live_keys_are_taken_over_beside_others_that_are_not(file: File) -> None:
    change = file.take(BASE.replace("orders, payments", ".*") + "tasks.max = 3\nsync.group.offsets.enabled = true\n")
    flow = file.flow("east->west")
    assert (flow.topics, flow.tasks_max, flow.sync_group_offsets_interval_s) == ((".*",), 1, 1.0)
    assert [one.key for one in change.select_keys(UpdateMode.RESTART)] == ["tasks.max"]
    assert [one.key for one in change.select_keys(UpdateMode.AT_ONCE)] == [
        "east->west.topics",
        "sync.group.offsets.enabled",
    ]
    # The process still runs with one task, so that this is no change any more.
    assert file.read(BASE.replace("orders, payments", ".*") + "sync.group.offsets.enabled = true\n").keys == ()


def test_flows_begin_and_end_with_the_file(file: File) -> None:
    text = BASE.replace("west->east.enabled = true", "west->east.enabled = false") + "east->north.enabled = true\n"
    change = file.take(text + "east->north.tasks.max = 5\n")
    assert (change.changed, change.begun, change.ended) == ((), ("east->north",), ("west->east",))
    assert told(change) == {
        "west->east.enabled": (UpdateMode.AT_ONCE, ("west->east",)),
        "east->north.enabled": (UpdateMode.AT_ONCE, ("east->north",)),
        "east->north.tasks.max": (UpdateMode.AT_ONCE, ("east->north",)),
    }
    assert file.flow("east->north").tasks_max == 5
    assert not file.flow("west->east").enabled
    assert [flow.name for flow in file.running.config.all_enabled] == ["east->west", "east->north"]
    flows = file.running.config.flows
    assert [flow.enabled for flow in flows] == sorted((flow.enabled for flow in flows), reverse=True)
    # From now on it runs.
    assert told(file.read(text + "east->north.tasks.max = 6\n")) == {
        "east->north.tasks.max": (UpdateMode.RESTART, ("east->north",))
    }


def test_a_flow_of_a_cluster_that_is_new_begins(file: File) -> None:
    more = BASE.replace("west, north", "west, north, south") + "south.bootstrap.servers = s:9092\n"
    change = file.take(f"{more}south.producer.batch.size = 1000\neast->south.enabled = true\n")
    assert change.begun == ("east->south",)
    assert {one.takes for one in change.keys} == {UpdateMode.AT_ONCE}
    assert file.running.config.clusters == ("east", "west", "north", "south")


def test_a_cluster_that_is_gone_needs_a_restart(file: File) -> None:
    file.take(BASE + "north->west.enabled = true\n")
    lines = [line for line in BASE.splitlines() if "north" not in line]
    less = "\n".join([*lines, "clusters = east, west", "east->west.groups = app"])
    change = file.take(less)
    assert told(change) == {
        "clusters": (UpdateMode.RESTART, ()),
        "east->west.groups": (UpdateMode.AT_ONCE, ("east->west",)),
    }
    assert change.ended == ()
    assert file.flow("north->west").enabled
    assert [flow.name for flow in file.running.config.all_enabled] == ["east->west", "west->east", "north->west"]
    assert told(file.read(less)) == {"clusters": (UpdateMode.RESTART, ())}
    file.take(BASE + "north->west.enabled = true\neast->west.groups = app\n")
    assert file.read().keys == ()


@pytest.mark.parametrize(
    ("line", "waits"),
    [
        ("east.security.protocol = SSL", True),
        ("replication.policy.separator = _", True),
        ("west.offset.storage.topic = positions", False),
        ("east->west.tasks.max = 4", False),
    ],
)
def test_a_flow_does_not_begin_beside_others_with_settings_of_another_version(
    file: File, line: str, waits: bool
) -> None:
    change = file.take(f"{BASE}east->north.enabled = true\n{line}\n")
    assert change.begun == (() if waits else ("east->north",))
    key = line.partition(" =")[0]
    assert dict(change.waiting) == ({"east->north": f"{key} has changed as well, and needs a restart"} if waits else {})
    # Until then it writes heartbeats, as before.
    assert file.flow("east->north").enabled is not waits
    assert "->".join(("east", "north")) in [flow.name for flow in file.running.config.all_enabled] or waits


def test_a_flow_that_ends_writes_heartbeats_to_the_cluster_that_it_knew(file: File) -> None:
    text = BASE.replace("east->west.enabled = true", "").replace("w:9092", "elsewhere:9092")
    change = file.take(text)
    assert change.ended == ("east->west",)
    assert file.flow("east->west").target_admin.client.bootstrap_servers == ("w:9092",)


def test_secrets_and_references_are_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPICS", "orders")
    text = (
        BASE
        + "config.providers = env\nconfig.providers.env.class = "
        + "org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
        + "west->east.topics = ${env:TOPICS}\n"
        + "east.security.protocol = SASL_PLAINTEXT\neast.sasl.mechanism = PLAIN\n"
        + "east.sasl.jaas.config = org.apache.kafka.common.security.plain.PlainLoginModule required "
        + 'username="u" password="first-secret";\n'
    )
    file = File(tmp_path / "mm2.properties", text)
    monkeypatch.setenv("TOPICS", "payments")
    change = file.read(text.replace("first-secret", "second-secret"))
    lines = list(said(change.keys))
    assert lines == [
        (
            f"{file.path}:11: west->east.topics = ${{env:TOPICS}}, the text behind its reference has changed "
            f"(${{env:TOPICS}} before)"
        ),
        (
            f"{file.path}:14: east.sasl.jaas.config = [hidden], the text behind its reference has changed ([hidden] "
            "before)"
        ),
    ]
    assert told(change)["west->east.topics"] == (UpdateMode.AT_ONCE, ("west->east",))
    assert told(change)["east.sasl.jaas.config"][0] is UpdateMode.RESTART


def test_a_key_store_with_another_content_is_told(tmp_path: Path) -> None:
    store = tmp_path / "ca.pem"
    store.write_text(authority("first").pem)
    text = f"{BASE}ssl.truststore.type = PEM\neast.security.protocol = SSL\neast.ssl.truststore.location = {store}\n"
    file = File(tmp_path / "mm2.properties", text)
    assert file.read().keys == ()
    store.write_text(authority("second").pem)
    (one,) = file.read().keys
    assert (one.key, one.takes) == ("east.ssl.*, east.sasl.*", UpdateMode.RESTART)
    assert one.flows == ("east->west", "west->east")


module = own_code.modules("changing")


def test_a_class_of_the_users_has_what_it_had_of_keys_that_need_a_restart(
    tmp_path: Path, module: own_code.Writer
) -> None:
    name = module("""
        class Filter:
            def configure(self, settings): ...
            def accepts(self, topic): return True
    """)
    own = f"east->west.topic.filter.class = {name}:Filter\neast->west.my.teams = a, b\n"
    file = File(tmp_path / "mm2.properties", BASE + own)
    # The line of the class is another one: that is no change.
    change = file.take("# moved\n" + BASE.replace("orders, payments", "x") + own.replace("a, b", "c"))
    assert told(change) == {
        "east->west.topics": (UpdateMode.AT_ONCE, ("east->west",)),
        "east->west.my.teams": (UpdateMode.RESTART, ("east->west",)),
    }
    assert change.select_keys(UpdateMode.RESTART)[0].after == "[hidden], the text behind its reference has changed"
    settings = dict(file.flow("east->west").class_settings)
    assert (settings["topics"], settings["my.teams"]) == ("x", "a, b")


def test_only_flows_to_chosen_clusters_run_here(file: File) -> None:
    file.clusters = ["west"]
    file.running = RunningFile.of(load_file(file.path, ["west"]))
    change = file.take(BASE + "north->west.enabled = true\nwest->north.enabled = true\nwest->east.topics = new\n")
    assert (change.begun, change.changed) == (("north->west",), ())
    everything = {flow.name: flow for flow in file.running.config.all_enabled}
    assert list(everything) == ["east->west", "west->east", "west->north", "north->west"]
    assert everything["west->east"].topics == ("new",)


LINES = (
    "topics = a, b",
    "west->east.topics = c",
    "groups = g.*",
    "emit.checkpoints.interval.seconds = 9",
    "twinlog.gap.policy = continue",
    "east->west.twinlog.gap.policy = continue",
    "tasks.max = 2",
    "east.consumer.fetch.max.bytes = 1000000",
    "east->west.offset.lag.max = 3",
    "north->west.enabled = true",
    "east->north.enabled = true",
    "east->west.enabled = false",
    "emit.heartbeats.enabled = false",
    "replication.policy.separator = _",
)


@pytest.mark.drawn
def test_what_was_taken_over_is_told_once_and_the_rest_stays(file: File, chance: random.Random) -> None:
    live = set(live_fields())
    for _ in range(40):
        text = "\n".join([BASE, *chance.sample(LINES, chance.randrange(len(LINES)))])
        file.write(text)
        written = {flow.name: flow for flow in load_file(file.path).config.flows}
        before = {flow.name: flow for flow in file.running.config.flows}
        first = file.take(text)
        again = file.read()
        assert again.same, text
        assert again.select_keys(UpdateMode.RESTART) == first.select_keys(UpdateMode.RESTART), text
        assert not again.select_keys(UpdateMode.AT_ONCE, UpdateMode.PAUSE), text
        for flow in file.running.config.flows:
            old, new = before.get(flow.name), written[flow.name]
            for name in FlowSettings.__dataclass_fields__:
                if flow.name in first.waiting:
                    assert old is flow
                elif old is None or (flow.enabled and not old.enabled) or name in live or name == "enabled":
                    assert getattr(flow, name) == getattr(new, name), (text, name)
                elif flow.enabled:
                    assert getattr(flow, name) == getattr(old, name), (text, name)


def test_a_change_is_shown_for_people() -> None:
    assert str(KeyChange("topics", "f:3", None, "b", UpdateMode.AT_ONCE)) == "f:3: topics = b (not written before)"
