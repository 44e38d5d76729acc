"""Settings that are legal and surely not meant get a warning, and the flow runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from twinlog.config import MirrorConfig, load
from twinlog.errors import ConfigError

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
NOTHING = "source.cluster.alias =\ntarget.cluster.alias =\n"
BASE = "clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\na->b.enabled = true\n"


def read(folder: Path, text: str) -> MirrorConfig:
    file = folder / "mm2.properties"
    file.write_text(text, "utf-8")
    return load(file)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("b.bootstrap.servers = c:1, a:1\n", "share a bootstrap server"),
        ("a->b.enabled = true \n", "MirrorMaker 2 would leave it off"),
        (
            f"b->a.enabled = true\nb->a.replication.policy.class = {IDENTITY}\n",
            "copied in a cycle",
        ),
        (
            "a->b.admin.request.timeout.ms = 1\na.admin.request.timeout.ms = 2\n",
            "write a->b.source.admin.request.timeout.ms",
        ),
        ("a.sasl.jaas.config = x\n", "is ignored, for security.protocol is PLAINTEXT"),
        ('topics = "orders", x\n', 'the quotes of "orders" count as part of the name'),
        ("a->b.groups = 'shop, x'\n", "the quotes of 'shop count"),
        ("topics = shop.*, orders*\n", "write orders.*"),
        ("topics==orders\n", "'=orders' is impossible as a name: a second = belongs to the value; write a single ="),
        ("topics = x\\d\n", "a backslash before a letter or digit is dropped"),
        ("a.bootstrap.servers = a:2\n", "was already written at line 2; this wins"),
        ("replication.policy.separator =\n", "a->b leaves out each topic whose name has 'b' before its last letter"),
        ("replication.policy.separator =\na->b.source.cluster.alias = east\n", "write a separator; to silence"),
        ("replication.policy.separator =\nsource.cluster.alias =\n", "and leave the rest as it is; to silence"),
        (f"{NOTHING}replication.policy.class = {IDENTITY}\n", "a->b calls source and target ''"),
        ("source.cluster.alias = east\n", "stored positions are named after 'east' in a->b instead of 'a'"),
        ("a->b.target.cluster.alias = west\n", "heartbeats are named after 'west' in a->b instead of 'b'"),
        (
            "b->a.enabled = true\nreplication.policy.separator =\nsource.cluster.alias =\n",
            "as topic names are kept (an empty separator and an empty source.cluster.alias), a topic that both mirror",
        ),
    ],
)
def test_each_warning_appears_once(tmp_path: Path, more: str, words: str) -> None:
    config = read(tmp_path, BASE + more)
    assert len([warning for warning in config.warnings if words in warning]) == 1
    assert "a->b" in [flow.name for flow in config.flows]


def test_a_plain_file_has_no_warnings(tmp_path: Path) -> None:
    assert read(tmp_path, BASE).warnings == ()


@pytest.mark.parametrize(
    "more",
    [
        # As the alias of a cluster is one letter, remote topics are recognised.
        "a->b.target.cluster.alias =\nreplication.policy.separator =\n",
        "sync.topic.configs.enabled = false\nreplication.policy.separator =\n" + NOTHING,
        "source.cluster.alias =\n",
        f"source.cluster.alias =\nreplication.policy.class = {IDENTITY}\n",
        "source.cluster.alias = a\ntarget.cluster.alias = b\n",
    ],
)
def test_aliases_and_separators_that_lead_nobody_astray_have_no_warning(tmp_path: Path, more: str) -> None:
    assert read(tmp_path, BASE + more).warnings == ()


def test_two_targets_whose_offset_syncs_would_mix_are_warned_of(tmp_path: Path) -> None:
    text = (
        "clusters = a, b, c\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\nc.bootstrap.servers = c:1\n"
        "a->b.enabled = true\na->c.enabled = true\nsync.topic.configs.enabled = false\n"
        "replication.policy.separator =\nsource.cluster.alias =\n"
    )
    assert not [text for text in read(tmp_path, text).warnings if "offset syncs to the same topic" in text]
    (mixed,) = [one for one in read(tmp_path, text + "target.cluster.alias =\n").warnings if "offset syncs" in one]
    assert "a->b and a->c write offset syncs to the same topic, mm2-offset-syncsinternal on a" in mixed
    assert "write a->b.target.cluster.alias and a->c.target.cluster.alias with an alias each" in mixed
    there = text + "target.cluster.alias =\noffset-syncs.topic.location = target\n"
    assert not [one for one in read(tmp_path, there).warnings if "offset syncs to the same topic" in one]


def test_an_alias_with_the_separator_inside_is_warned_of(tmp_path: Path) -> None:
    text = (
        "clusters = eu.west, b\neu.west.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\neu.west->b.enabled = true\n"
    )
    assert "the alias eu.west contains the separator '.'" in "\n".join(read(tmp_path, text).warnings)
    dashed = text + "replication.policy.separator = _\n"
    assert read(tmp_path, dashed).warnings == ()


def test_the_longest_alias_owns_a_key(tmp_path: Path) -> None:
    text = (
        "clusters = us, us.west\nreplication.policy.separator = _\n"
        "us.bootstrap.servers = a:1\nus.west.bootstrap.servers = b:1\nus->us.west.enabled = true\n"
    )
    flow = read(tmp_path, text).flows[0]
    assert flow.consumer.client.bootstrap_servers == ("a:1",)
    assert flow.producer.client.bootstrap_servers == ("b:1",)


def test_a_key_that_is_switched_off_needs_no_warning(tmp_path: Path) -> None:
    assert read(tmp_path, BASE + "emit.heartbeats.enabled = false\nsync.topic.acls.enabled = FALSE\n").warnings == ()


def test_values_without_effect_are_not_checked(tmp_path: Path) -> None:
    (warning,) = read(tmp_path, BASE + "b.producer.max.block.ms = soon\n").warnings
    assert warning.endswith("Java clients, and are ignored here: b.producer.max.block.ms")


def test_unknown_keys_are_ignored_only_by_the_exact_setting(tmp_path: Path) -> None:
    forgiven = BASE + "nonsense = 1\ntwinlog.unknown.keys = warn # for now\n"
    assert any("nonsense: an unknown key, ignored" in warning for warning in read(tmp_path, forgiven).warnings)


def test_an_unknown_alias_gets_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read(
            tmp_path,
            "clusters = east, b\neast.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\neast->b.enabled = true\n"
            "esat.bootstrap.servers = c:1\neast -> b.topics = x\n",
        )
    assert [problem.expected for problem in caught.value.problems] == [
        "a known key (did you mean east.bootstrap.servers?); clusters names east, b",
        "a flow in a single word, east->b.topics, because a key ends at its first blank",
    ]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("b->c.topics = orders, x\n", "flows a->c and b->c: both would write orders on c,"),
        ("b->c.topics = x\n", None),
        ("b->c.topics = orders\nb->c.topics.exclude = orders\n", None),
        ("b->c.topics = orders\nb->c.replication.policy.class = DEFAULT\n", None),
    ],
)
def test_two_flows_that_name_one_remote_topic_are_warned_of(tmp_path: Path, more: str, words: str | None) -> None:
    text = (
        "clusters = a, b, c\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\nc.bootstrap.servers = c:1\n"
        f"a->c.enabled = true\nb->c.enabled = true\na->c.topics = orders, y.*\n"
        f"replication.policy.class = {IDENTITY}\n"
        + more.replace("DEFAULT", "org.apache.kafka.connect.mirror.DefaultReplicationPolicy")
    )
    warned = [warning for warning in read(tmp_path, text).warnings if "both would write" in warning]
    assert [one[: len(words or "")] for one in warned] == ([] if words is None else [words])


BOTH = BASE + "b->a.enabled = true\n"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (
            "b->a.replication.policy.separator = _\n",
            "mm2.properties:6: b->a.replication.policy.separator: the flows a->b, b->a call remote topics differently",
        ),
        ("b->a.replication.policy.separator = _\n", "(orders, a.orders, b_a.orders, ...)"),
        ("b->a.replication.policy.separator = _\na->b.topics = t, u\nb->a.topics = a[.]t\n", None),
        ("b->a.replication.policy.separator = _\na->b.topics = sales.*\nb->a.topics = .*sales\n", None),
        ("b->a.replication.policy.separator = _\na->b.topics = .*sales\nb->a.topics = a.*\n", "(sales, a.sales"),
        ("b->a.replication.policy.separator = .\n", None),
        ("replication.policy.separator = _\n", None),
    ],
)
def test_flows_that_do_not_recognise_each_others_copies_are_warned_of(
    tmp_path: Path, more: str, words: str | None
) -> None:
    heartbeats = "a->b.heartbeats.replication.enabled = false\nb->a.heartbeats.replication.enabled = false\n"
    warnings = [one for one in read(tmp_path, BOTH + more + heartbeats).warnings if "in a cycle" in one]
    assert len(warnings) == (words is not None)
    assert (words or "") in "".join(warnings)


def test_a_cycle_over_a_flow_of_another_host_is_warned_of(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(
        "clusters = a, b, c\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\nc.bootstrap.servers = c:1\n"
        "a->b.enabled = true\nb->c.enabled = true\nc->a.enabled = true\n"
        "b->c.replication.policy.separator = _\nc->a.replication.policy.separator = -\n"
    )
    for targets in (["a"], ["b"], None):
        (warning,) = (one for one in load(file, targets).warnings if "in a cycle" in one)
        assert "c->a.replication.policy.separator" in warning
    file.write_text(f"{file.read_text()}replication.policy.class = {IDENTITY}\n")
    (warning,) = (one for one in load(file).warnings if "in a cycle" in one)
    assert "they are left out" in warning
