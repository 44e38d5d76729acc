"""Expressions match what they match in Java, or are refused with a reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from twinlog.flows.patterns import PatternError, compile_list, share_no_name, spelled_out

RECORDED = Path(__file__).parents[2] / "recorded" / "patterns.jsonl"
ROWS = {row["pattern"]: row for row in map(json.loads, RECORDED.read_text("utf-8").splitlines())}

NOT_SUPPORTED = {
    "[a-c&&[b]]": "intersection",
    "[a[bc]]+": "class inside a class",
    "[[:alpha:]]": "class inside a class",
    r"\cA": r"escape \c",
    r"\h": r"escape \h",
    r"\R": r"escape \R",
    r"\v": r"escape \v",
    r"[\v]": r"escape \v",
    r"\N": r"escape \N",
    r"\pL+": "write the characters out",
    r"\p{L}+": "write the characters out",
    r"\p{IsAlphabetic}+": "write the characters out",
    "(?x)a b": "flag 'x'",
    "(?u)a": "flag 'u'",
    "a{3}{2}": "multiple repeat",
}


@pytest.mark.parametrize("pattern", [pattern for pattern in ROWS if pattern not in NOT_SUPPORTED])
def test_matches_what_java_matches(pattern: str) -> None:
    row = ROWS[pattern]
    if row["matches"] is None:
        with pytest.raises(PatternError):
            compile_list((pattern,))
        return
    compiled = compile_list((pattern,))
    assert compiled is not None
    assert [name for name in row["matches"] if not compiled.fullmatch(name)] == []
    assert [name for name in row["matches_not"] if compiled.fullmatch(name)] == []


@pytest.mark.parametrize(("pattern", "reason"), NOT_SUPPORTED.items())
def test_names_what_is_not_supported(pattern: str, reason: str) -> None:
    assert pattern in ROWS
    with pytest.raises(PatternError) as caught:
        compile_list((pattern,))
    assert reason in str(caught.value)


def test_an_empty_list_matches_nothing() -> None:
    assert compile_list(()) is None


def test_one_expression_may_span_entries() -> None:
    # `topics = orders-(eu,us)`: MirrorMaker 2 joins the pieces with | before it compiles them.
    compiled = compile_list(("orders-(eu", "us)"))
    assert compiled is not None
    assert compiled.fullmatch("orders-us")
    assert not compiled.fullmatch("us)")


def test_a_flag_reaches_the_entries_after_it() -> None:
    compiled = compile_list(("foo", "(?i)bar", "baz"))
    assert compiled is not None
    assert [name for name in ("foo", "FOO", "BAR", "BAZ") if compiled.fullmatch(name)] == ["foo", "BAR", "BAZ"]


@pytest.mark.parametrize(
    ("patterns", "reason"),
    [
        (("*",), "for every name write .*"),
        (("a{1", "3}"), "a comma inside it splits the entry"),
        (("fine", "b(ar"), "never closed"),
        (("fine", "+"), "in '+'"),
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
        (("(a|b)|c", "d(e", "f)g|h", "(?i)i|j"), {"c", "h", "j"}),
    ],
)
def test_names_that_a_list_spells_out(patterns: tuple[str, ...], names: set[str]) -> None:
    assert spelled_out(patterns) == names


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
        ((r"\Qa|b\E",), ("c",), False),
        (("a+",), ("b",), False),
        ((r"\w",), ("bc",), False),
    ],
)
def test_lists_that_share_no_name_are_known_where_that_is_plain(
    one: tuple[str, ...], other: tuple[str, ...], apart: bool
) -> None:
    assert share_no_name(one, other) == share_no_name(other, one) == apart
