"""Listeners and header rules, as a worker's properties have them."""

from __future__ import annotations

import pytest

from twinlog.connect.rest.headers import HeaderRule, parse_header_rules
from twinlog.connect.rest.settings import Listener, parse_listener


@pytest.mark.parametrize(
    ("text", "listener", "shown"),
    [
        ("http://:8083", Listener(False, "", 8083), "http://:8083"),
        ("HTTP://0.0.0.0:8083", Listener(False, "0.0.0.0", 8083), "http://0.0.0.0:8083"),
        (" https://my-host.example:0 ", Listener(True, "my-host.example", 0), "https://my-host.example:0"),
        ("http://[::1]:80", Listener(False, "::1", 80), "http://[::1]:80"),
        ("http://[fe80::1%eth0]:80", Listener(False, "fe80::1%eth0", 80), "http://[fe80::1%eth0]:80"),
    ],
)
def test_a_listener_is_read(text: str, listener: Listener, shown: str) -> None:
    assert parse_listener(text) == listener
    assert str(listener) == shown


@pytest.mark.parametrize(
    "text", ["", "8083", "http://host", "ftp://host:1", "http://:-1", "http://:65536", "http://a/b:1"]
)
def test_what_is_no_listener(text: str) -> None:
    with pytest.raises(ValueError, match=r"[Ll]istener"):
        parse_listener(text)


def test_header_rules_are_read() -> None:
    text = ' add X-A: 1,"set Cache-Control: no-cache, \\"x\\"" , SETDATE Expires: -1000, addDate X-B:2 '
    assert parse_header_rules(text) == (
        HeaderRule("X-A", "1", True, False),
        HeaderRule("Cache-Control", 'no-cache, "x"', False, False),
        HeaderRule("Expires", "-1000", False, True),
        HeaderRule("X-B", "2", True, True),
    )
    assert parse_header_rules("  ") == ()
    assert parse_header_rules("setDate Expires: 60000")[0].at(1_700_000_000) == "Tue, 14 Nov 2023 22:14:20 GMT"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("set", "Invalid format"),
        ("set X", "Invalid format"),
        ("put X: 1", "Invalid header config action: 'put'"),
        ("set a b: 1", "Invalid header name 'a b'"),
        ("set : 1", "Invalid header name ''"),
        ("set X: ü", "Invalid value"),
        ("set X: a\r\nb: c", "Invalid value"),
        ("setDate X: soon", "milliseconds"),
        ('set X: a "b', "a quote"),
        ("set X: 1,,set Y: 2", "Invalid format"),
    ],
)
def test_what_is_no_header_rule(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_header_rules(text)
