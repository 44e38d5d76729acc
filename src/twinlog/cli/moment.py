"""A moment, as users write it."""

from __future__ import annotations

from datetime import UTC, datetime

import typer

HELP = "ms since 1970, or ISO 8601 such as 2026-11-20T08:00:00Z; without a zone it is UTC."


def moment_ms(text: str | None, option: str) -> int | None:
    """Milliseconds since 1970; None of nothing. Raises typer.BadParameter."""
    if text is None:
        return None
    if text.strip().isdecimal():
        return int(text)
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no moment; write {HELP}", param_hint=option) from None
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    return round(found.timestamp() * 1000)
