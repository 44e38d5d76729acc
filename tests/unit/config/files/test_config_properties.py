"""A properties text is read by Java's rules, and every entry knows its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from twinlog.config.properties import parse_properties, read_properties, without_inline_comment
from twinlog.errors import ConfigError

TEXT = """\
# a comment
! another
equals=1
colon: 2
blank 3
  spaced  =  4 \\
    and 5
\t
escaped\\ key = a\\\\.b\\-c
unicode = \\u0041
twice = first
joined = a,\\
# not a comment
twice = second
no.value
value.with = an # inside
"""


def test_keys_values_and_lines() -> None:
    assert [(entry.key, entry.value, entry.line) for entry in parse_properties(TEXT, "f")] == [
        ("equals", "1", 3),
        ("colon", "2", 4),
        ("blank", "3", 5),
        ("spaced", "4 and 5", 6),
        ("escaped key", "a\\.b-c", 9),
        ("unicode", "A", 10),
        ("twice", "first", 11),
        ("joined", "a,# not a comment", 12),
        ("twice", "second", 14),
        ("no.value", "", 15),
        ("value.with", "an # inside", 16),
    ]


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_lines_are_counted_with_every_ending(ending: str) -> None:
    text = ending.join(["a=1", "", "b=\\", "  2", "# c", "d=3"])
    assert [(entry.key, entry.line) for entry in parse_properties(text, "f")] == [("a", 1), ("b", 3), ("d", 6)]


def test_a_form_feed_is_a_blank_and_no_line() -> None:
    assert [(entry.key, entry.value, entry.line) for entry in parse_properties("a=1\n\x0cb\x0c=\x0c2\nc=3\n", "f")] == [
        ("a", "1", 1),
        ("b", "2", 2),
        ("c", "3", 3),
    ]


def test_a_broken_escape_names_its_line_and_no_character_of_its_value() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_properties("a=1\nb.password=pa\\u5ecr3t\n", "mm2.properties")
    assert str(caught.value).startswith("mm2.properties:2: a broken \\u escape; write \\u and four")
    assert "5ecr" not in str(caught.value)


def test_bytes_are_latin_1(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_bytes(b"name=\xe9\n")
    assert read_properties(file)[0].value == "\u00e9"
    assert read_properties(file)[0].remarks == ()


@pytest.mark.parametrize("rest", [b"clusters = a, b\n", b"# a comment\nclusters = a, b\n"])
def test_a_byte_order_mark_is_left_out_with_a_warning(tmp_path: Path, rest: bytes) -> None:
    file = tmp_path / "mm2.properties"
    file.write_bytes(b"\xef\xbb\xbf" + rest)
    (entry,) = read_properties(file)
    assert (entry.key, entry.value) == ("clusters", "a, b")
    assert [remark.split(",")[0] for remark in entry.remarks] == ["the file begins with a byte order mark"]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_is_refused(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "mm2.properties"
    file.write_bytes("\ufeffclusters = a, b\n".encode(encoding))
    with pytest.raises(ConfigError, match="UTF-16 text; give the file in ISO-8859-1"):
        read_properties(file)


@pytest.mark.parametrize(
    ("line", "remark"),
    [
        (b"topics = p\\d+", "a backslash before a letter or digit is dropped"),
        (b"topics = p\\\\d+, a\\.b, \\u0041\\t", None),
        ("password = größe".encode(), "looks like UTF-8"),
        ("password = größe".encode("iso-8859-1"), None),
        (b"password = gr\\u00f6\\u4e00", None),
    ],
)
def test_a_value_that_javas_rules_change_is_reported_without_its_text(
    tmp_path: Path, line: bytes, remark: str | None
) -> None:
    file = tmp_path / "mm2.properties"
    file.write_bytes(line + b"\n")
    (entry,) = read_properties(file)
    assert [one[: len(remark or "")] for one in entry.remarks] == ([] if remark is None else [remark])
    assert all("gr" not in one for one in entry.remarks)


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("a, b # text", "a, b"),
        ("a, b\t# text # more", "a, b"),
        ("a#b", "a#b"),
        ("# all of it", ""),
        ("a ", "a "),
    ],
)
def test_comments_after_values(value: str, kept: str) -> None:
    assert without_inline_comment(value) == kept
