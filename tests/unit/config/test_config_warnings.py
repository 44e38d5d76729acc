"""Settings that are legal and surely not meant get a warning, and the flow runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.config.said import said
from twinlog.config import MirrorConfig, load
from twinlog.errors import ConfigError
from twinlog.errors.mistakes import MistakeKind

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
NOTHING = "source.cluster.alias =\ntarget.cluster.alias =\n"
APART = "a->b.topics = orders.*\nb->a.topics = .*-eu\n"
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
        ("a.sasl.jaas.config = x\n", "ignored, because security.protocol is PLAINTEXT"),
        ("a->b.groups = 'shop, x'\n", "the quotes of 'shop count"),
        ("topics = shop.*, orders*\n", "write orders.*"),
        ("topics = x\\d\n", "a backslash before a letter or digit is dropped"),
        ("a.bootstrap.servers = a:2\n", "already written at line 2; this line counts"),
        ("replication.policy.separator =\n", "a->b leaves out each topic whose name has 'b' before its last letter"),
        ("replication.policy.separator =\na->b.source.cluster.alias = east\n", "write a separator; to silence"),
        ("replication.policy.separator =\nsource.cluster.alias =\n", "and leave the rest as it is; to silence"),
        (f"{NOTHING}replication.policy.class = {IDENTITY}\n", "a->b calls source and target ''"),
        ("source.cluster.alias = east\n", "stored positions are named after 'east' in a->b instead of 'a'"),
        ("a->b.target.cluster.alias = west\n", "heartbeats are named after 'west' in a->b instead of 'b'"),
        (
            f"b->a.enabled = true\nreplication.policy.separator =\nsource.cluster.alias =\n{APART}",
            "as topic names are kept (an empty separator and an empty source.cluster.alias), a topic that both mirror",
        ),
        (
            "b.bootstrap.servers = http://b:2\n",
            "'http://b:2' is read as b:2, because brokers speak Kafka's protocol instead of HTTP; write b:2",
        ),
    ],
)
def test_each_warning_appears_once(tmp_path: Path, more: str, words: str) -> None:
    config = read(tmp_path, BASE + more)
    assert len([warning for warning in said(config.warnings) if words in warning]) == 1
    assert "a->b" in [flow.name for flow in config.flows]


def test_a_plain_file_has_no_warnings(tmp_path: Path) -> None:
    assert said(read(tmp_path, BASE).warnings) == ()


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
    assert said(read(tmp_path, BASE + more).warnings) == ()


def test_two_targets_whose_offset_syncs_would_mix_are_warned_of(tmp_path: Path) -> None:
    text = (
        "clusters = a, b, c\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\nc.bootstrap.servers = c:1\n"
        "a->b.enabled = true\na->c.enabled = true\nsync.topic.configs.enabled = false\n"
        "replication.policy.separator =\nsource.cluster.alias =\n"
    )
    assert not [text for text in said(read(tmp_path, text).warnings) if "offset syncs to the same topic" in text]
    (mixed,) = [
        one for one in said(read(tmp_path, text + "target.cluster.alias =\n").warnings) if "offset syncs" in one
    ]
    assert "a->b and a->c write offset syncs to the same topic, mm2-offset-syncsinternal on a" in mixed
    assert "write a->b.target.cluster.alias and a->c.target.cluster.alias with an alias each" in mixed
    there = text + "target.cluster.alias =\noffset-syncs.topic.location = target\n"
    assert not [one for one in said(read(tmp_path, there).warnings) if "offset syncs to the same topic" in one]


def test_an_alias_with_the_separator_inside_is_warned_of(tmp_path: Path) -> None:
    text = (
        "clusters = eu.west, b\neu.west.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\neu.west->b.enabled = true\n"
    )
    assert "the alias eu.west contains the separator '.'" in "\n".join(said(read(tmp_path, text).warnings))
    dashed = text + "replication.policy.separator = _\n"
    assert said(read(tmp_path, dashed).warnings) == ()


def test_the_longest_alias_owns_a_key(tmp_path: Path) -> None:
    text = (
        "clusters = us, us.west\nreplication.policy.separator = _\n"
        "us.bootstrap.servers = a:1\nus.west.bootstrap.servers = b:1\nus->us.west.enabled = true\n"
    )
    flow = read(tmp_path, text).flows[0]
    assert flow.consumer.client.bootstrap_servers == ("a:1",)
    assert flow.producer.client.bootstrap_servers == ("b:1",)


def test_a_key_that_is_switched_off_needs_no_warning(tmp_path: Path) -> None:
    assert (
        said(read(tmp_path, BASE + "emit.heartbeats.enabled = false\nsync.topic.acls.enabled = FALSE\n").warnings) == ()
    )


def test_values_without_effect_are_not_checked(tmp_path: Path) -> None:
    (warning,) = said(read(tmp_path, BASE + "b.producer.max.block.ms = soon\n").warnings)
    assert warning.endswith("Java clients, and are ignored here: b.producer.max.block.ms")


def test_unknown_keys_are_ignored_only_by_the_exact_setting(tmp_path: Path) -> None:
    forgiven = BASE + "nonsense = 1\ntwinlog.unknown.keys = warn # for now\n"
    assert any("nonsense: unknown key, ignored" in warning for warning in said(read(tmp_path, forgiven).warnings))


def test_an_unknown_alias_gets_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read(
            tmp_path,
            "clusters = east, b\neast.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\neast->b.enabled = true\n"
            "esat.bootstrap.servers = c:1\neast -> b.topics = x\n",
        )
    assert [problem.expected for problem in caught.value.problems] == [
        "did you mean east.bootstrap.servers? clusters names east, b",
        "did you mean east->b.topics? a key ends at its first blank",
    ]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("b->c.topics = orders, x\n", "flows a->c and b->c both write orders on c, because topic names are kept"),
        # The default, all topics.
        ("", "flows a->c and b->c both write orders, y on c, because"),
        ("b->c.topics = yes.*\n", "flows a->c and b->c both write yes on c, because"),
        ("b->c.topics = x\n", None),
        ("b->c.topics = orders\nb->c.topics.exclude = orders\n", None),
        ("b->c.topics = orders\nb->c.replication.policy.class = DEFAULT\n", None),
        ("b->c.topics = orders\ntwinlog.shared.topics = first\n", None),
    ],
)
def test_two_sources_of_one_remote_topic_are_refused(tmp_path: Path, more: str, words: str | None) -> None:
    text = (
        "clusters = a, b, c\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\nc.bootstrap.servers = c:1\n"
        f"a->c.enabled = true\nb->c.enabled = true\na->c.topics = orders, y.*\n"
        f"replication.policy.class = {IDENTITY}\n"
        + more.replace("DEFAULT", "org.apache.kafka.connect.mirror.DefaultReplicationPolicy")
    )
    if words is None:
        assert said(read(tmp_path, text).warnings) == ()
        return
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    (problem,) = caught.value.problems
    assert words in problem.text
    assert problem.kind is MistakeKind.SAME_TOPIC
    # MirrorMaker 2 starts, and mixes the records of both.
    (warning,) = load(tmp_path / "mm2.properties", unknown_keys="warn").warnings
    assert (warning.line, warning.text, warning.kind) == (problem.line, problem.text, problem.kind)


@pytest.mark.parametrize(
    ("more", "both"),
    [
        ("", "orders"),
        ("a->b.topics = orders, x\nb->a.topics = .*\n", "orders, x"),
        ("a->b.topics = sales.*\nb->a.topics = sales\n", "sales"),
        ("a->b.topics = sales.*\nb->a.topics = stock.*\n", None),
        ("a->b.topics = sales\nb->a.topics = .*\nb->a.topics.exclude = sales\n", ""),
    ],
)
def test_two_directions_that_keep_names_are_refused(tmp_path: Path, more: str, both: str | None) -> None:
    text = f"{BASE}b->a.enabled = true\nreplication.policy.class = {IDENTITY}\n{more}"
    if both:
        with pytest.raises(ConfigError) as caught:
            read(tmp_path, text)
        (problem,) = caught.value.problems
        assert f"flows a->b and b->a both mirror {both} and keep the name (identity policy)" in problem.text
        assert problem.kind is MistakeKind.BOTH_WAYS
        (warning,) = load(tmp_path / "mm2.properties", unknown_keys="warn").warnings
        assert warning.text == problem.text
        return
    warnings = said(read(tmp_path, text).warnings)
    # Lists that surely differ are fine; of others nobody knows.
    assert [("would be copied in a cycle" in warning) for warning in warnings] == ([] if both is None else [True])


@pytest.mark.parametrize(
    ("topics", "found", "expected"),
    [
        ("orders payments.*", "'orders payments.*' matches no topic, because a topic name holds no blank", "orders, p"),
        ("orders;payments", "'orders;payments' matches no topic, because a topic name holds no semicolon", "orders, p"),
        ('"orders", x', "'\"orders\"' matches no topic, because quotes count as part of a name", "orders"),
        ("=orders", "'=orders' matches no topic, because a second = belongs to the value", "orders"),
        ("a/b.*", "'a/b.*' matches no topic, because a topic name holds only a-z A-Z 0-9 . _ -", "names that can"),
        ("orders|pay ments", None, ""),
        ("(?x) orders .*", None, ""),
        ("[ab ]c", None, ""),
        ("orders ?x", None, ""),
        ("a\\\\.b", None, ""),
    ],
)
def test_a_topic_that_cannot_exist_is_refused(tmp_path: Path, topics: str, found: str | None, expected: str) -> None:
    for key in ("topics", "a->b.topics", "topics.exclude"):
        text = f"{BASE}{key} = {topics}\n"
        if found is None:
            assert read(tmp_path, text).warnings == ()
            continue
        with pytest.raises(ConfigError) as caught:
            read(tmp_path, text)
        (problem,) = caught.value.problems
        assert (problem.line, problem.key, problem.text) == (5, key, found)
        assert expected in problem.expected
        # MirrorMaker 2 starts, and copies the rest.
        (warning,) = load(tmp_path / "mm2.properties", unknown_keys="warn").warnings
        assert (warning.text, warning.kind) == (found, MistakeKind.IMPOSSIBLE_NAME)


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
    warnings = [one for one in said(read(tmp_path, BOTH + more + heartbeats).warnings) if "in a cycle" in one]
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
        (warning,) = (one for one in said(load(file, targets).warnings) if "in a cycle" in one)
        assert "c->a.replication.policy.separator" in warning
    file.write_text(f"{file.read_text()}replication.policy.class = {IDENTITY}\n")
    with pytest.raises(ConfigError, match=r"in a cycle for ever \(orders, orders.*they are left out"):
        load(file)
    (warning,) = (one for one in said(load(file, unknown_keys="warn").warnings) if "in a cycle" in one)
    assert "they are left out" in warning


def test_a_reference_of_a_key_without_effect_may_have_any_provider(tmp_path: Path) -> None:
    ignored = "producer.acks = ${env:X}\nb.producer.max.block.ms = ${env:X}\n"
    assert not [one for one in read(tmp_path, BASE + ignored).warnings if one.kind is MistakeKind.UNDECLARED]
    with pytest.raises(
        ConfigError, match=r"b\.producer\.acks: \$\{env:X\} stays as it is, because config\.providers lacks"
    ):
        read(tmp_path, BASE + "b.producer.acks = ${env:X}\n")
