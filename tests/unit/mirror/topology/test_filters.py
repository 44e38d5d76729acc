"""Expressions match what they match in Java, or are refused with a reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from twinlog.errors import PatternError
from twinlog.mirror.topology.filters import compile_list, name_beginnings, share_no_name, spelled_out

RECORDED = Path(__file__).parents[3] / "recorded" / "patterns.jsonl"
ROWS = {row["pattern"]: row for row in map(json.loads, RECORDED.read_text("utf-8").splitlines())}


@pytest.mark.parametrize("pattern", ROWS)
def test_matches_what_java_matches(pattern: str) -> None:
    row = ROWS[pattern]
    if row["matches"] is None:
        with pytest.raises(PatternError):
            compile_list((pattern,))
        return
    compiled = compile_list((pattern,))
    assert compiled is not None
    assert [name for name in row["matches"] if not compiled.matches(name)] == []
    assert [name for name in row["matches_not"] if compiled.matches(name)] == []


def test_an_empty_list_matches_nothing() -> None:
    assert compile_list(()) is None


def test_one_expression_may_span_entries() -> None:
    # `topics = orders-(eu,us)`: MirrorMaker 2 joins the pieces with | before it compiles them.
    compiled = compile_list(("orders-(eu", "us)"))
    assert compiled is not None
    assert compiled.matches("orders-us")
    assert not compiled.matches("us)")


def test_a_flag_reaches_the_entries_after_it() -> None:
    compiled = compile_list(("foo", "(?i)bar", "baz"))
    assert compiled is not None
    assert [name for name in ("foo", "FOO", "BAR", "BAZ") if compiled.matches(name)] == ["foo", "BAR", "BAZ"]


@pytest.mark.parametrize(
    ("patterns", "reason"),
    [
        (("*",), "for every name write .*"),
        (("a{1", "3}"), "at character 2 of 'a{1'"),
        (("a{1", "3}"), "a comma inside it splits the entry"),
        (("fine", "b(ar"), "an unclosed parenthesis, at character 2 of 'b(ar'"),
        (("fine", "+"), "at character 1 of '+'"),
        (("a|b", "fine", "[b-a]"), "at character 2 of '[b-a]'"),
        (("a", "b)"), "at character 2 of 'b)'"),
    ],
)
def test_names_the_wrong_entry(patterns: tuple[str, ...], reason: str) -> None:
    with pytest.raises(PatternError) as caught:
        compile_list(patterns)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        (("west_orders.v1",), {"west_orders.v1"}),
        ((r"west_orders\.v1", "b"), {"west_orders.v1", "b"}),
        (("west_orders|payments",), {"west_orders", "payments"}),
        ((r"\Qa.b|c\E|d\-e|\Qopen",), {"a.b|c", "d-e", "open"}),
        (("a.*|b", ".*", "[a]", "[|]", r"c\d", "d?", "e{2}", "^f$", ""), {"b"}),
        (("(a|b)|c", "d(e", "f)g|h", "(?i)i|j"), {"c", "h", "i", "j"}),
        (("[a[b|c]d]|e", r"(?x)f g # h|i"), {"e", "fg"}),
    ],
)
def test_names_that_a_list_spells_out(patterns: tuple[str, ...], names: set[str]) -> None:
    assert spelled_out(patterns) == names


@pytest.mark.parametrize(
    ("patterns", "beginnings"),
    [
        (("orders", "orders.v1"), {("orders", False), ("orders.v1", False)}),
        ((r"pay.*|log\.v[12]", "a+b"), {("pay", True), ("log.v", True), ("", True)}),
        ((".*", "(a|b)c", "^f"), {("", True)}),
    ],
)
def test_texts_that_the_names_of_a_list_begin_with(
    patterns: tuple[str, ...], beginnings: set[tuple[str, bool]]
) -> None:
    assert set(name_beginnings(patterns)) == beginnings


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        (("a", "b"), ("c",), True),
        (("a|b",), ("c", "b"), False),
        (("a.b",), ("a.c",), True),
        (("a.b",), ("axb",), False),
        ((r"a\.b",), ("a.b",), False),
        (("a", "ab"), ("abc",), True),
        (("a.*",), ("b.*",), True),
        (("a.*",), ("ab.*",), False),
        (("a.*",), ("ab",), False),
        (("ab.*",), ("a",), True),
        ((".*",), ("a",), False),
        ((".*a",), ("b",), False),
        (("(?i)a",), ("b",), False),
        (("(a|b)",), ("c",), False),
        ((r"\Qa|b\E",), ("c",), True),
        (("a+",), ("b",), False),
        ((r"\w",), ("bc",), False),
        (("[a[b|c]]",), ("b",), False),
        (("a.*?",), ("ab",), False),
    ],
)
def test_lists_that_share_no_name_are_known_where_that_is_plain(
    one: tuple[str, ...], other: tuple[str, ...], apart: bool
) -> None:
    assert share_no_name(one, other) == share_no_name(other, one) == apart
