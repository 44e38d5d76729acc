"""The lines of mistakes, as a log has them; their ids are left out."""

from __future__ import annotations

import re
from collections.abc import Iterable

from twinlog.errors.mistakes import Mistake

_ID = re.compile(r" \[TW-FILE-\d\d\]$")


def said(mistakes: Iterable[Mistake]) -> tuple[str, ...]:
    """The line of each mistake."""
    return tuple(_ID.sub("", str(mistake)) for mistake in mistakes)
