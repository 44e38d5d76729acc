"""The grammar of header rules of the REST API."""

from __future__ import annotations

import pytest

from twinlog.config.text.values import ValueRefusedError, parse_header_rules
from twinlog.settings.worker import HeaderSettings


def test_header_rules_are_read() -> None:
    text = ' add X-A: 1,"set Cache-Control: no-cache, \\"x\\"" , SETDATE Expires: -1000, addDate X-B:2, set X-C: a:b '
    assert parse_header_rules(text) == (
        HeaderSettings("add", "X-A", "1"),
        HeaderSettings("set", "Cache-Control", 'no-cache, "x"'),
        HeaderSettings("setDate", "Expires", "-1000"),
        HeaderSettings("addDate", "X-B", "2"),
        HeaderSettings("set", "X-C", "a:b"),
    )
    assert parse_header_rules("  ") == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("set", "then Name: value"),
        ("set X", "then Name: value"),
        ("put X: 1", "set, add, setDate, addDate"),
        ("set a b: 1", "then Name: value"),
        ("set : 1", "then Name: value"),
        ("set X: \u00fc", "printable ASCII"),
        ("set X: a\r\nb: c", "printable ASCII"),
        ("setDate X: soon", "milliseconds"),
        ('set X: a "b', "quote"),
        ("set X: 1,,set Y: 2", "then Name: value"),
    ],
)
def test_what_is_no_header_rule(text: str, expected: str) -> None:
    with pytest.raises(ValueRefusedError) as refused:
        parse_header_rules(text)
    assert expected in refused.value.expected
