"""The queries that Spark refuses, before a flow starts; a JVM for the check ends with the check."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from py4j.protocol import Py4JError

from twinlog.errors import TransformError
from twinlog.transforms.sql.jvm import SqlJvm
from twinlog.transforms.sql.query import analyse

ANALYSE_S = 120.0
MOST_KNOWN = 256

_known: dict[str, str | None] = {}
_one_at_a_time = threading.Lock()


def refusals(texts: Iterable[str], *, ask: bool = True) -> dict[str, str]:
    """The reasons to refuse queries, by the text of the query; usable queries are left out.

    The check takes some seconds, for a JVM, unless this process has checked all queries before. With `ask` False,
    unchecked queries are left out, too. Raises EngineError if the JVM fails to start here.
    """
    wanted = list(dict.fromkeys(texts))
    found = _remembered(wanted)
    if ask and len(found) < len(wanted):
        with _one_at_a_time:
            found = _remembered(wanted)
            new = [text for text in wanted if text not in found]
            if new:
                found |= _ask(new)
                _known.update(found)
                for text in list(_known)[: max(0, len(_known) - MOST_KNOWN)]:
                    del _known[text]
    return {text: why for text in wanted if (why := found.get(text)) is not None}


def _remembered(texts: list[str]) -> dict[str, str | None]:
    known = _known.copy()
    return {text: known[text] for text in texts if text in known}


def _ask(texts: list[str]) -> dict[str, str | None]:
    jvm = SqlJvm(brief=True)
    try:
        return {text: _refusal(jvm, text) for text in texts}
    finally:
        jvm.close()


def _refusal(jvm: SqlJvm, text: str) -> str | None:
    try:
        with jvm.within(ANALYSE_S):
            analyse(jvm, text)
    except TransformError as error:
        return error.message
    except (Py4JError, TypeError, OSError) as error:
        raise jvm.lost(error, ANALYSE_S) from None
    return None
