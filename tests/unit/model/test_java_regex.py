"""One expression: where it is wrong, in what time it matches, what its groups did."""

from __future__ import annotations

import pickle

import pytest

from twinlog.errors import PatternError
from twinlog.model.java_regex.pattern import PatternMatch, java_pattern


@pytest.mark.parametrize(
    ("pattern", "at"),
    [
        ("ab(c", 3),
        ("ab)c", 3),
        (r"team-a\.[\w-", 9),
        (r"x\y", 2),
        (r"x[a\y]", 4),
        ("a(?<n>b)(?<n>c)", 9),
        ("ab{x}", 3),
        ("ab{3,1}", 3),
        ("ab**", 4),
        ("[ac-b]", 3),
        ("a(?<=(?:b|c)*)", 2),
        # What was quoted or is a comment counts as it is written.
        (r"\Qa.b[\E(", 9),
        ("(?x) a # comment (\n (b", 21),
        (r"\Q.\E[z-a]", 7),
    ],
)
def test_an_error_names_the_place_in_what_was_written(pattern: str, at: int) -> None:
    with pytest.raises(PatternError) as caught:
        java_pattern(pattern)
    assert caught.value.at == at - 1
    shown = f"'{pattern}'" if pattern.isprintable() else repr(pattern)
    assert str(caught.value).endswith(f"at character {at} of {shown}")


def test_of_a_long_expression_what_is_around_the_place_is_shown() -> None:
    with pytest.raises(PatternError) as caught:
        java_pattern("a" * 5000 + ")" + "b" * 5000)
    assert ", at character 5001 of ...'" + "a" * 100 + ")" + "b" * 99 + "'..." in str(caught.value)


NAME = "a" * 249
"""As long as a topic's name can be."""


@pytest.mark.parametrize("pattern", ["(a|aa)+b", "(((a{1,99}){1,99}){1,99})b", r"(a|aa)+\1b"])
def test_what_would_take_years_is_refused_after_a_while(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twinlog.model.java_regex.pattern.MATCH_S", 0.1)
    compiled = java_pattern(pattern)
    with pytest.raises(PatternError, match=r"more than 0\.1 s for the name 'aaa") as caught:
        compiled.matches(NAME)
    assert caught.value.text == pattern
    with pytest.raises(PatternError, match=r"more than 0\.1 s"):
        compiled.find(NAME)


@pytest.mark.parametrize(
    "pattern", ["(a+)+b", "(a*)*b", "(a|a)*b", "([a-z]+[.]?)*X", "(.*)*X", "(x+x+)+y", "(.*a){20}b"]
)
def test_what_a_naive_matcher_would_take_years_for_is_answered(pattern: str) -> None:
    assert not java_pattern(pattern).matches(NAME)


@pytest.mark.parametrize("pattern", ["((((a{100}){100}){100}){100})", "(?:a|b){100000}"])
def test_repeats_that_would_take_all_memory_are_refused(pattern: str) -> None:
    with pytest.raises(PatternError, match="repeat counts that together ask for more characters than a name has"):
        java_pattern(pattern)


def test_a_repeat_beyond_every_name_matches_none() -> None:
    assert not java_pattern("a{2147483647}").matches(NAME)
    assert java_pattern("a{0,2147483647}").matches(NAME)


def test_a_list_of_thousands_of_names_is_taken() -> None:
    compiled = java_pattern("|".join(f"topic-{number}.v1" for number in range(3_000)))
    assert compiled.matches("topic-2999.v1")
    assert not compiled.matches("topic-3000.v1")


@pytest.mark.parametrize("pattern", ["(" * 5_000 + ")" * 5_000, "[" * 5_000 + "a" + "]" * 5_000])
def test_parentheses_nested_too_deep_are_refused(pattern: str) -> None:
    with pytest.raises(PatternError, match="nested too deep"):
        java_pattern(pattern)


def test_what_java_takes_and_is_not_supported_is_refused_with_the_reason() -> None:
    with pytest.raises(PatternError, match="a group that refers to itself"):
        java_pattern(r"(a\1?){2}")
    with pytest.raises(PatternError, match="canonical equivalence, which is unsupported"):
        java_pattern("(?c)a")


def test_groups_are_numbered_as_java_does_whatever_is_beside_them() -> None:
    compiled = java_pattern("(?<=x(y)|(z)zz)(?<name>a)(b)?")
    assert (compiled.groups, compiled.names) == (4, {"name": 3})
    assert compiled.find("xya") == PatternMatch(2, 3, ("a", "y", None, "a", None))
    assert compiled.find("zzzab") == PatternMatch(3, 5, ("ab", None, "z", "a", "b"))
    assert compiled.find("a") is None


def test_an_expression_travels_as_its_text() -> None:
    compiled = java_pattern("(?i)a+")
    assert pickle.loads(pickle.dumps(compiled)) is compiled
