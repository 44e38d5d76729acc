"""Ids of messages: `TW-GAP-01` at the beginning of a log line, in traces and in reasons.

A line has a single id. `twinlog explain TW-GAP-01` prints the meaning, from `twinlog.explain.areas`. Code that logs has
the id as a literal, so that tasks of Spark load none of these texts.
"""

from __future__ import annotations

import re

ID = re.compile(r"\bTW-[A-Z]+-\d\d\b")
"""Any id in a text."""

_MARKED = re.compile(r"\b(TW-[A-Z]+-\d\d): ")


def id_of(error: BaseException, default: str) -> str:
    """The id that an error was raised with, `default` for every other error."""
    return getattr(error, "message_id", "") or default


def with_id(text: str, default: str) -> str:
    """`text` with an id in front: the first id that is in it already, else `default`.

    An id in brackets, as the problems of a file have it, stays in its place.
    """
    found = _MARKED.search(text)
    if found is not None:
        return f"{found[0]}{text[: found.start()]}{text[found.end() :]}"
    return text if ID.search(text) else f"{default}: {text}"


def told(error: BaseException, default: str) -> str:
    """The text of an error with its id in front, for a reason or a trace."""
    return with_id(str(error), id_of(error, default))
