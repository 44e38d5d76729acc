"""Values are read by ConfigDef's rules and checked against what their key allows."""

from __future__ import annotations

import pytest

from twinlog.config.keys.key import Key, KeyType, Level, ValueForm
from twinlog.config.text.values import Value, ValueRefusedError, parse_value


def key(type_: KeyType, **rules: object) -> Key:
    return Key("some.key", type_, None, "Some key.", Level.FLOW, **rules)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tested", "text", "value"),
    [
        (key(KeyType.BOOL), " TRUE ", True),
        (key(KeyType.BOOL), "False", False),
        (key(KeyType.INT), " -7 ", -7),
        (key(KeyType.INT), "+7", 7),
        (key(KeyType.INT), "2147483647", 2**31 - 1),
        (key(KeyType.LONG), "9223372036854775807", 2**63 - 1),
        (key(KeyType.DOUBLE), "0.5", 0.5),
        (key(KeyType.LIST), " a ,b,, a,c ", ("a", "b", "c")),
        (key(KeyType.LIST), "", ()),
        (key(KeyType.STRING), " a b ", "a b"),
        (key(KeyType.PASSWORD), " a b ", "a b"),
        (key(KeyType.CLASS), " org.example.Class ", "org.example.Class"),
        (key(KeyType.ENUM, choices=("One", "Two"), any_case=True), " one ", "One"),
        (
            key(KeyType.LIST, form=ValueForm.SERVERS),
            "a:1,[::1]:65535, SASL_PLAINTEXT://b.c-d:9092",
            ("a:1", "[::1]:65535", "SASL_PLAINTEXT://b.c-d:9092"),
        ),
        (key(KeyType.STRING, form=ValueForm.TOPIC), "a.b_c-d", "a.b_c-d"),
    ],
)
def test_accepted(tested: Key, text: str, value: Value) -> None:
    assert parse_value(tested, text) == value


@pytest.mark.parametrize(
    ("tested", "text", "expected"),
    [
        (key(KeyType.BOOL), "maybe", "true or false"),
        (key(KeyType.INT), "2147483648", "to 2147483647"),
        (key(KeyType.SHORT), "40000", "to 32767"),
        (key(KeyType.INT), "1.0", "whole number"),
        (key(KeyType.INT), "1_000", "whole number"),
        (key(KeyType.INT), "\u0661", "whole number"),
        (key(KeyType.INT, minimum=1, maximum=5), "6", "from 1 to 5"),
        (key(KeyType.INT, minimum=-1, nonzero=True), "0", "of 1 or more, or -1 for"),
        (key(KeyType.DOUBLE, minimum=0.5, maximum=1.0), "0.4", "from 0.5 to 1"),
        (key(KeyType.DOUBLE), "half", "a number"),
        (key(KeyType.ENUM, choices=("One", "Two")), "one", "One or Two"),
        (key(KeyType.LIST, choices=("legacy", "new")), "legacy, old", "legacy and new"),
        (key(KeyType.CLASS, accepted_classes=("a.B",)), "c.D", "a.B"),
        (key(KeyType.LIST, form=ValueForm.SERVERS), "", "host:port"),
        (key(KeyType.LIST, form=ValueForm.SERVERS), "a:1, b", "host:port"),
        (key(KeyType.LIST, form=ValueForm.SERVERS), "a:0", "port from 1"),
        (key(KeyType.LIST, form=ValueForm.SERVERS), "a b:1", "host:port"),
        (key(KeyType.STRING, form=ValueForm.TOPIC), "a b", "topic name"),
        (key(KeyType.STRING, form=ValueForm.TOPIC), "..", "topic name"),
        (key(KeyType.STRING, form=ValueForm.TOPIC), "x" * 250, "topic name"),
        (
            key(KeyType.STRING, form=ValueForm.TOPIC_PART_OR_NOTHING),
            "a b",
            "legal in topic names (a-z A-Z 0-9 . _ -), or",
        ),
        (key(KeyType.LIST, form=ValueForm.PATTERNS), "a, (b", "a regular expression"),
    ],
)
def test_refused(tested: Key, text: str, expected: str) -> None:
    with pytest.raises(ValueRefusedError) as caught:
        parse_value(tested, text)
    assert expected in caught.value.expected
