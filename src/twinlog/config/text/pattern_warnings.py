"""Names that are legal regular expressions and hardly what their writer meant."""

from __future__ import annotations

import re

from twinlog.config.keys.key import Form, Key
from twinlog.config.text.values import Value

_WILDCARD = re.compile(r"[\w.-]*[\w-]\*")
_QUOTES = ("'", '"')


def pattern_warnings(key: Key, value: Value) -> list[str]:
    """Warnings of a list of regular expressions; none of other values."""
    return doubts(value) if key.form is Form.PATTERNS and isinstance(value, tuple) else []


def doubts(patterns: tuple[str, ...]) -> list[str]:
    """Warnings of regular expressions for names."""
    found = [
        f"{item!r} is a regular expression, where * repeats the character before it; for every name that begins so "
        f"write {item[:-1]}.*"
        for item in patterns
        if _WILDCARD.fullmatch(item)
    ]
    doubled = next((item for item in patterns if item.startswith("=")), None)
    if doubled is not None:
        found.append(f"{doubled!r} matches no name: a second = belongs to the value; write one")
    quoted = next((item for item in patterns if item.startswith(_QUOTES) or item.endswith(_QUOTES)), None)
    if quoted is not None:
        found.append(f"the quotes of {quoted} count as part of the name; write it without them")
    return found
