"""Numbers, times, replacements, literals and paths in the forms that Java and Connect give them."""

from __future__ import annotations

import pytest

from twinlog.errors import TransformError
from twinlog.model.java_regex.pattern import java_pattern
from twinlog.transforms.smt.fields import path_of
from twinlog.transforms.smt.java_forms import DateFormat, DateFormatError, Replacement, narrowed, number_text, widened
from twinlog.transforms.smt.literal import literal_bytes

LEAP_DAY_MS = 1_709_168_645_006
"""2024-02-29T01:04:05.006Z, a Thursday."""


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1e7, "1.0E7"),
        (9_999_999.5, "9999999.5"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (-1.5e300, "-1.5E300"),
        (123456.789, "123456.789"),
        (float("inf"), "Infinity"),
        (float("nan"), "NaN"),
        (True, "true"),
        (12, "12"),
        (narrowed(0.1), "0.1"),
        (narrowed(16777217), "1.6777216E7"),
        (narrowed(1e300), "Infinity"),
    ],
)
def test_numbers_are_written_as_java_does(number: float, text: str) -> None:
    assert number_text(number) == text


def test_a_number_of_32_bits_has_its_own_digits_in_64() -> None:
    assert widened(narrowed(0.1)) == 0.10000000149011612
    assert widened(0.1) == 0.1


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyyMMdd", "20240229"),
        ("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "2024-02-29T01:04:05.006Z"),
        ("yy/M/d h a", "24/2/29 1 AM"),
        ("EEE, d MMM yyyy", "Thu, 29 Feb 2024"),
        ("EEEE MMMM D u F", "Thursday February 60 4 5"),
        ("'it''s' HH ''", "it's 01 '"),
    ],
)
def test_times_are_written_by_a_pattern(pattern: str, text: str) -> None:
    assert DateFormat(pattern).format(LEAP_DAY_MS) == text


@pytest.mark.parametrize("pattern", ["yyyy'", "qqq", "ww", "YYYY", "XXXX"])
def test_a_pattern_that_java_refuses_or_that_follows_a_country_is_refused(pattern: str) -> None:
    with pytest.raises(DateFormatError):
        DateFormat(pattern)


@pytest.mark.parametrize(
    ("pattern", "text", "ms"),
    [
        ("yyyy-MM-dd HH:mm:ss.SSS", "2024-02-29 01:04:05.006", LEAP_DAY_MS),
        ("yyyyMMdd", "20240229 and more", 1_709_164_800_000),
        ("yyyy-MM-dd", "2024-02-31", 1_709_337_600_000),
        ("d MMM yyyy", "29 feb 2024", 1_709_164_800_000),
        ("yyyy-MM-dd'T'HHX", "2024-02-29T02+01", 1_709_168_400_000),
        ("h a", "12 AM", 0),
    ],
)
def test_times_are_read_as_leniently_as_java_does(pattern: str, text: str, ms: int) -> None:
    assert DateFormat(pattern).parse(text) == ms


@pytest.mark.parametrize(("pattern", "text"), [("yyyy-MM-dd", "today"), ("yy-MM-dd", "24-02-29"), ("D", "60")])
def test_a_time_that_does_not_follow_its_pattern_is_refused(pattern: str, text: str) -> None:
    with pytest.raises(DateFormatError):
        DateFormat(pattern).parse(text)


@pytest.mark.parametrize(
    ("expression", "replacement", "name", "new"),
    [
        (r"east\.(.*)", "$1", "east.orders", "orders"),
        ("a|.*", "<$0>", "abc", "<a>bc"),
        ("(a)(b)?", "$2$1", "a", "a"),
        ("(.)", "$12", "x", "x2"),
        ("(?<n>.)x", r"\$${n}\\", "ax", "$a\\"),
    ],
)
def test_the_first_match_is_replaced(expression: str, replacement: str, name: str, new: str) -> None:
    assert Replacement(replacement, java_pattern(expression)).first(name) == new


@pytest.mark.parametrize("replacement", ["$", "$2", "$x", "${no}", "${", "\\"])
def test_a_replacement_that_java_refuses_is_refused(replacement: str) -> None:
    with pytest.raises(TransformError):
        Replacement(replacement, java_pattern("(.)"))


@pytest.mark.parametrize(
    ("literal", "content"),
    [
        ("plain text", b"plain text"),
        ("null", None),
        ("0012", b"12"),
        ("1.50", b"1.5"),
        ("1e5", b"100000"),
        ("12:30", b"12"),
        ("localhost:9092", b"localhost:9092"),
        ("2024-01-02T03:04:05.006Z", b"2024-01-02T03:04:05.006Z"),
        ("2024-01-02T00:00:00.000Z", b"2024-01-02"),
        ("9223372036854775808", b"9223372036854775808"),
    ],
)
def test_a_literal_is_written_as_what_connect_takes_it_for(literal: str, content: bytes | None) -> None:
    assert literal_bytes(literal) == content


@pytest.mark.parametrize("literal", ["[1, 2]", ' {"a": 1}'])
def test_a_list_or_a_map_as_literal_is_refused(literal: str) -> None:
    with pytest.raises(TransformError, match="a list or a map"):
        literal_bytes(literal)


@pytest.mark.parametrize(
    ("text", "version", "path"),
    [
        ("a.b", "V1", ("a.b",)),
        ("a.b", "V2", ("a", "b")),
        ("`a.b`.c", "v2", ("a.b", "c")),
        ("a.", "V2", ("a", "")),
        (r"`a\`.b`.c", "V2", ("a`.b", "c")),
    ],
)
def test_paths_lead_to_nested_fields(text: str, version: str, path: tuple[str, ...]) -> None:
    assert path_of(text, version) == path


def test_a_backtick_that_is_never_closed_is_refused() -> None:
    with pytest.raises(TransformError, match="unclosed"):
        path_of("a.`b", "V2")
