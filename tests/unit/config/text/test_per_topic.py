"""A key that may have another value for some topics: where its forms may stand, which one counts, what is wrong."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.unit.config.files import worker_files
from tests.unit.config.said import said
from twinlog.config.connector import CONNECTOR_CLASSES, read_connector
from twinlog.config.keys import table as keys
from twinlog.config.keys.key import Key, KeyType, Level
from twinlog.config.keys.table import ALL_KEYS, CONNECTOR, CONNECTOR_KEYS, WORKER_FILE, KeyTable, worker_file_keys
from twinlog.config.properties import PropertyEntry, parse_properties
from twinlog.config.text import entries, explain, precedence
from twinlog.config.text.config_reader import ConfigReader, Problems, topic_rule
from twinlog.config.worker import worker_of
from twinlog.settings.per_topic import PerTopic

COLOUR = Key(
    "twinlog.colour",
    KeyType.ENUM,
    "red",
    "The colour of a topic.",
    Level.FLOW,
    choices=("red", "green", "blue", "grey"),
    per_topic=True,
)
BASE = "clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\na->b.enabled = true\n"


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    for table in (CONNECTOR, WORKER_FILE):
        with_it = KeyTable((*table.exact.values(), COLOUR))
        monkeypatch.setattr(table, "exact", with_it.exact)
        monkeypatch.setattr(table, "_per_topic", with_it._per_topic)
    monkeypatch.setattr(precedence, "PER_TOPIC_PREFIXES", ("twinlog.colour.",))
    names = keys.TOP_LEVEL_CONNECTOR_NAMES | {COLOUR.name}
    monkeypatch.setattr(precedence, "TOP_LEVEL_CONNECTOR_NAMES", names)


def read(text: str) -> tuple[PerTopic[object], list[str], list[str]]:
    """The values of a flow a->b, the problems of the file, and its warnings."""
    found = entries.parse_file(parse_properties(BASE + text, "f"), "f")
    problems = Problems(found.problems)
    layer = precedence.resolve_flow(found, *found.aliases).connector
    values = ConfigReader(layer, CONNECTOR, problems).per_topic(COLOUR.name)
    return values, list(said(problems.all())), list(said(found.warnings))


def test_the_default_counts_where_no_pattern_matches() -> None:
    values, problems, warnings = read("a->b.twinlog.colour.orders = green\n")
    assert (values.for_topic("orders"), values.for_topic("orders2")) == ("green", "red")
    assert values.default == "red"
    assert (problems, warnings) == ([], [])


@pytest.mark.parametrize("order", [1, -1])
def test_a_name_wins_then_the_longest_pattern_whatever_their_order(order: int) -> None:
    lines = [
        "a->b.twinlog.colour = grey",
        "a->b.twinlog.colour.or\\\\.v1 = red",
        "a->b.twinlog.colour.or.* = green",
        "a->b.twinlog.colour.or\\\\.v[0-9]+ = blue",
    ]
    values, problems, _ = read("\n".join(lines[::order]))
    assert [values.for_topic(name) for name in ("or.v1", "or.v2", "orders", "other")] == [
        "red",
        "blue",
        "green",
        "grey",
    ]
    assert not problems
    assert [rule.pattern for rule in values.rules] == [r"or\.v1", r"or\.v[0-9]+", "or.*"]


def test_of_equally_long_patterns_the_first_in_the_alphabet_wins() -> None:
    lines = ["twinlog.colour.ab.* = green", "twinlog.colour..*ba = blue"]
    for text in (lines, lines[::-1]):
        values, _, _ = read("\n".join(text))
        assert values.for_topic("abba") == "blue"


def test_top_level_counts_for_every_flow_and_each_form_is_looked_up_by_itself() -> None:
    values, problems, warnings = read(
        "twinlog.colour.x = green\ntwinlog.colour.y = green\na->b.twinlog.colour = grey\na->b.twinlog.colour.y = blue\n"
    )
    assert [values.for_topic(name) for name in "xyz"] == ["green", "blue", "grey"]
    assert (problems, warnings) == ([], [])


def test_what_is_wrong_names_its_line() -> None:
    _, problems, _ = read(
        "a->b.twinlog.colour.a[ = red\na->b.twinlog.colour. = red\na->b.twinlog.colour.x = pink\n"
        "a->b.twinlog.colour.y = ${env:NO}\n"
    )
    expected = "write twinlog.colour. and a regular expression for names of topics, or twinlog.colour for every topic"
    colours = "write red, green, blue or grey"
    env = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
    declared = f"config.providers = env and config.providers.env.class = {env}"
    undeclared = "${env:NO} stays as it is, because config.providers lacks 'env'"
    assert problems == [
        f"f:5: a->b.twinlog.colour.a[: an unclosed [, at character 2 of 'a['; {expected}",
        f"f:6: a->b.twinlog.colour.: the part after the last dot is missing, in ''; {expected}",
        f"f:7: a->b.twinlog.colour.x: 'pink' is invalid; {colours}",
        f"f:8: a->b.twinlog.colour.y: {undeclared}; write {declared}",
    ]


def test_a_doubtful_pattern_is_a_warning() -> None:
    _, problems, warnings = read("a->b.twinlog.colour.orders* = green\n")
    assert problems == []
    assert len(warnings) == 1
    assert warnings[0].startswith(
        "f:5: a->b.twinlog.colour.orders*: 'orders*' is a regular expression, and its * repeats"
    )


def test_a_form_below_an_alias_has_no_effect() -> None:
    values, problems, warnings = read("a.twinlog.colour.x = green\n")
    assert (values.rules, problems) == ((), [])
    assert warnings == ["f:5: a.twinlog.colour.x: ignored here; write A->B.twinlog.colour.x, with the flow's aliases"]


def test_a_misspelled_key_is_still_unknown() -> None:
    _, problems, _ = read("a->b.twinlog.color.x = green\n")
    assert len(problems) == 1
    assert "f:5: a->b.twinlog.color.x: unknown key" in problems[0]


def connector(config: Mapping[str, str], text: str = "") -> tuple[list[str], list[str]]:
    """Problems and warnings of a connector beside a worker's file with more lines."""
    worker = worker_of(parse_properties(worker_files.distributed() + text, "w"), "w")
    ends = {"source.cluster.alias": "a", "source.cluster.bootstrap.servers": "a:1"}
    full = {"connector.class": CONNECTOR_CLASSES["source"], **ends, **config}
    problems, warnings = Problems([]), list(worker.warnings)
    entries = {key: PropertyEntry(key, value, "connector c", None, value) for key, value in full.items()}
    read_connector("c", entries, worker, problems, warnings)
    return list(said(problems.all())), [text for text in said(warnings) if "colour" in text]


def test_a_connector_and_its_worker_may_have_them() -> None:
    assert connector({"twinlog.colour.orders\\..*": "green"}, "twinlog.colour.x = blue\n") == ([], [])
    problems, _ = connector({"twinlog.colour.a[": "green"})
    assert len(problems) == 1
    assert problems[0].startswith("connector c: twinlog.colour.a[: an unclosed [, at character 2 of 'a['; write")


def test_a_reference_that_leads_nowhere_is_a_problem() -> None:
    entry = PropertyEntry("twinlog.colour.x", "${file:/none:x}", "f", 1, "${file:/none:x}", unresolved="no such file")
    problems = Problems([])
    values = ConfigReader({entry.key: entry}, CONNECTOR, problems).per_topic(COLOUR.name)
    assert values.rules == ()
    (problem,) = problems.all()
    assert str(problem).startswith("f:1: twinlog.colour.x: ${file:/none:x}: no such file")


def test_values_travel_to_tasks() -> None:
    values, _, _ = read("a->b.twinlog.colour.orders\\\\..* = green\n")
    travelled = pickle.loads(pickle.dumps(values))
    assert travelled == values
    assert travelled.for_topic("orders.v1") == "green"
    # Two processes compare their settings by it.
    assert "green" in repr(values)


def test_java_expressions_match_whole_names() -> None:
    values = PerTopic.of(
        "none", [topic_rule(r"\Qa.b\E", "quoted"), topic_rule("(?i)x|y", "any case"), topic_rule(".", "one")]
    )
    assert [values.for_topic(name) for name in ("a.b", "aXb", "X", "y", "z", "zz")] == [
        *("quoted", "none", "any case", "any case", "one", "none")
    ]
    assert values.rules[0].name
    assert values.map(len).for_topic("a.b") == 6
    assert values.values == ("none", "quoted", "any case", "one")


def _explained(file: Path, key: str) -> list[str]:
    return [str(line) for line in explain.explain(file, key)]


def test_the_form_that_counts_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = Path("f")
    file.write_text(BASE + "twinlog.colour.or.* = green\na->b.twinlog.colour.orders = blue\n")
    default = "a->b: twinlog.colour = red  (default)"
    name = "a->b: twinlog.colour.orders = blue  (f:6, written as a->b.twinlog.colour.orders)"
    longer = "a->b: twinlog.colour.or.* = green  (f:5, written as twinlog.colour.or.*)"
    assert _explained(file, "twinlog.colour") == [name, longer, default]
    assert _explained(file, "twinlog.colour.orders") == [name]
    assert _explained(file, "a->b.twinlog.colour.oranges") == [longer]
    assert _explained(file, "twinlog.colour.or.*") == [longer]
    assert _explained(file, "twinlog.colour.payments") == [default]


@pytest.mark.parametrize("key", [key for key in (*CONNECTOR_KEYS, COLOUR) if key.per_topic], ids=lambda key: key.name)
def test_no_other_key_begins_as_a_key_per_topic_does(key: Key) -> None:
    others = {other.name for other in (*ALL_KEYS, *worker_file_keys())}
    assert [name for name in others if name.startswith(f"{key.name}.")] == []
    assert key.level is Level.FLOW
