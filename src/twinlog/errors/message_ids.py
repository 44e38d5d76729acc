"""Ids of messages: `TW-GAP-01` at the beginning of a log line, in traces and in reasons.

A line has a single id. `twinlog explain TW-GAP-01` prints the meaning, from `twinlog.ops.explain`. Code that logs has
the id as a literal, so that tasks of Spark load none of these texts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

ID = re.compile(r"\bTW-[A-Z]+-\d\d\b")
"""Any id in a text."""

EVENT_IDS: Mapping[str, str] = {
    "dead-letter": "TW-RECORD-08",
    "difference": "TW-PROOF-01",
    "fenced": "TW-TARGET-06",
    "foreign": "TW-TARGET-04",
    "gap": "TW-GAP-01",
    "heartbeats": "TW-TARGET-09",
    "limit": "TW-RECORD-06",
    "log start": "TW-IDENT-03",
    "oversized": "TW-RECORD-09",
    "positions": "TW-TARGET-07",
    "progress": "TW-INTERNAL-06",
    "proof": "TW-PROOF-02",
    "refused": "TW-RECORD-09",
    "routed": "TW-TRANSFORM-02",
    "syncs": "TW-TARGET-08",
    "target": "TW-TARGET-02",
    "transaction": "TW-TARGET-05",
    "transform": "TW-RECORD-07",
    "waiting": "TW-WAIT-05",
}
"""The id of each kind of event that a copier reports. The text of an event has a more specific id in front, if any."""

_MARKED = re.compile(r"\b(TW-[A-Z]+-\d\d): ")
_BRACKETED = re.compile(r" ?\[(TW-[A-Z]+-\d\d)\]$")


def id_of(error: BaseException, default: str) -> str:
    """The id of an error's cause, `default` for an error whose cause is unknown."""
    return getattr(error, "message_id", "") or default


def with_id(text: str, default: str) -> str:
    """`text` with an id in front: the first id that is in it already, else `default`.

    A problem of a file has its id in brackets at the end; a text of several problems stays as it is.
    """
    found = _MARKED.search(text)
    if found is not None:
        return f"{found[0]}{text[: found.start()]}{text[found.end() :]}"
    ids = ID.findall(text)
    bracketed = _BRACKETED.search(text)
    if len(ids) == 1 and bracketed is not None:
        return f"{bracketed[1]}: {text[: bracketed.start()]}"
    return text if ids else f"{default}: {text}"


def id_first(text: str) -> str:
    """`text` with the id that is in it in front; a text without an id stays as it is."""
    return with_id(text, "") if ID.search(text) else text


def split_id(text: str) -> tuple[str, str]:
    """`text` without its id, and the id: in front, or in brackets at the end; "" for a text that lacks an id.

    >>> split_id("Invalid value 0 for configuration tasks.max: expected 1 [TW-FILE-22]")
    ('Invalid value 0 for configuration tasks.max: expected 1', 'TW-FILE-22')
    """
    marked, bracketed = _MARKED.match(text), _BRACKETED.search(text)
    if marked is not None:
        return text[marked.end() :], marked[1]
    return (text, "") if bracketed is None else (text[: bracketed.start()], bracketed[1])


def without_id(text: str) -> str:
    """`text` without an id in front, for a line that has an id of its own."""
    found = _MARKED.match(text)
    return text if found is None else text[found.end() :]


def with_event_id(kind: str, text: str) -> str:
    """An event of a copier as a line: `TW-TARGET-04: foreign: east.orders-0: ...`."""
    return with_id(f"{kind}: {text}", EVENT_IDS[kind])


def told(error: BaseException, default: str = "") -> str:
    """The text of an error with an id in front: of its cause, of its class, or `default`.

    Without any of them it is the text alone.
    """
    message_id = getattr(error, "message_id", "") or getattr(error, "kind_id", "") or default
    return with_id(str(error), message_id) if message_id else str(error)
