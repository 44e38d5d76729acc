"""Values of the REST API's keys that have a grammar of their own (Kafka classes RestServer and RestServerConfig)."""

from __future__ import annotations

import re
from typing import cast, get_args

from twinlog.config.refused import ValueRefusedError
from twinlog.settings.metrics import ListenerAddress, Scheme
from twinlog.settings.worker import HeaderAction, HeaderSettings

_LISTENER = re.compile(r"([A-Za-z]+)://(?:\[([0-9A-Fa-f:.%]*)\]|([0-9A-Za-z._%-]*)):([0-9]+)")
_RULE = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^,"]*))\s*(?:,|$)')
_ESCAPED = re.compile(r"\\(.)")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")
_MILLISECONDS = re.compile(r"[+-]?[0-9]{1,15}")
_MOST_PORTS = 2**16


def parse_listener(text: str) -> ListenerAddress:
    """Parse an address, for example `http://0.0.0.0:8083`. Raises ValueRefusedError."""
    found = _LISTENER.fullmatch(text.strip())
    scheme = "" if found is None else found[1].lower()
    if found is None or scheme not in get_args(Scheme) or int(found[4]) >= _MOST_PORTS:
        raise ValueRefusedError(repr(text), "http://host:port or https://host:port")
    return ListenerAddress(cast(Scheme, scheme), found[2] or found[3] or "", int(found[4]))


def parse_header_rules(text: str) -> tuple[HeaderSettings, ...]:
    """Parse rules, for example `set X-Frame-Options: DENY, "add Cache-Control: no-cache, no-store"`.

    Raises ValueRefusedError.

    The grammar is the grammar of Jetty's class HeaderFilter: the action in any case, quotes if a rule holds a comma.
    """
    rules: list[HeaderSettings] = []
    left = text.strip()
    while left:
        match = _RULE.match(left)
        if match is None:
            raise ValueRefusedError(repr(left), "no quote inside of a rule, and an end of every quote")
        quoted, bare = match.groups()
        rules.append(_rule(bare.strip() if quoted is None else _ESCAPED.sub(r"\1", quoted)))
        left = left[match.end() :]
    return tuple(rules)


def _rule(item: str) -> HeaderSettings:
    word, _, header = item.strip().partition(" ")
    name, colon, value = (part.strip() for part in header.partition(":"))
    action = next((known for known in get_args(HeaderAction) if known.lower() == word.lower()), None)
    if action is None or not colon or _HEADER_NAME.fullmatch(name) is None:
        actions = ", ".join(get_args(HeaderAction))
        raise ValueRefusedError(repr(item), f"{actions}, then Name: value; in quotes where it has a comma")
    if _HEADER_VALUE.fullmatch(value) is None:
        raise ValueRefusedError(repr(item), "printable ASCII as the value of a header")
    if action.endswith("Date") and _MILLISECONDS.fullmatch(value) is None:
        raise ValueRefusedError(repr(item), f"milliseconds from the answer on as the value of {action}")
    return HeaderSettings(cast(HeaderAction, action), name, value)
