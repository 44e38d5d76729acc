"""Names that are legal regular expressions and hardly what their writer meant."""

from __future__ import annotations

import re

from twinlog.config.key import Form, Key
from twinlog.config.values import Value

_WILDCARD = re.compile(r"[\w.-]*[\w-]\*")
_QUOTES = ("'", '"')


def pattern_warnings(key: Key, value: Value) -> list[str]:
    """Warnings of a list of regular expressions; none of other values."""
    if key.form is not Form.PATTERNS or not isinstance(value, tuple):
        return []
    found = [
        f"{item!r} is a regular expression, where * repeats the character before it; for every name that begins so "
        f"write {item[:-1]}.*"
        for item in value
        if _WILDCARD.fullmatch(item)
    ]
    quoted = next((item for item in value if item.startswith(_QUOTES) or item.endswith(_QUOTES)), None)
    if quoted is not None:
        found.append(f"the quotes of {quoted} count as part of the name; write it without them")
    return found
