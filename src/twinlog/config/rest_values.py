"""Values of the REST API's keys that have a grammar of their own (Kafka classes RestServer and RestServerConfig)."""

from __future__ import annotations

import re
from typing import cast, get_args

from twinlog.config.refused import ValueRefusedError
from twinlog.settings.worker import HeaderAction, HeaderRule, Listener, Scheme

_LISTENER = re.compile(r"([A-Za-z]+)://(?:\[([0-9A-Fa-f:.%]*)\]|([0-9A-Za-z._%-]*)):([0-9]+)")
_BETWEEN_RULES = re.compile(r',(?=(?:[^"]*"[^"]*")*[^"]*$)')
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_MOST_PORTS = 2**16


def parse_listener(text: str) -> Listener:
    """An address such as `http://0.0.0.0:8083`. Raises ValueRefusedError."""
    found = _LISTENER.fullmatch(text.strip())
    scheme = "" if found is None else found[1].lower()
    if found is None or scheme not in get_args(Scheme) or int(found[4]) >= _MOST_PORTS:
        raise ValueRefusedError(repr(text), "http://host:port or https://host:port")
    return Listener(cast(Scheme, scheme), found[2] or found[3] or "", int(found[4]))


def parse_header_rules(text: str) -> tuple[HeaderRule, ...]:
    """Rules such as `set X-Frame-Options: DENY, add Cache-Control: no-store`. Raises ValueRefusedError."""
    return tuple(_rule(item.strip()) for item in _BETWEEN_RULES.split(text)) if text.strip() else ()


def _rule(item: str) -> HeaderRule:
    plain = item[1:-1].strip() if len(item) > 1 and item[0] == item[-1] == '"' else item
    action, _, header = plain.partition(" ")
    name, colon, value = header.partition(":")
    actions = get_args(HeaderAction)
    if action not in actions or not colon or _HEADER_NAME.fullmatch(name.strip()) is None:
        raise ValueRefusedError(repr(item), f"{', '.join(actions)}, then Name: value; in quotes where it has a comma")
    if action.endswith("Date") and not value.strip().lstrip("-").isdigit():
        raise ValueRefusedError(repr(item), f"milliseconds since 1970 as the value of {action}")
    return HeaderRule(cast(HeaderAction, action), name.strip(), value.strip())
