"""A moment, as users write it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import typer

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST = (1 << 63) - 1

HELP = "ms since 1970, or ISO 8601 such as 2026-11-20T08:00:00Z; without a zone it is UTC."


SECONDS_BELOW = 10**11
"""What is below was in March 1973 at the latest, if it means milliseconds; as seconds it is a moment of now."""


def shown(moment: int) -> str:
    """Milliseconds since 1970 as ISO 8601 in UTC."""
    return (EPOCH + timedelta(milliseconds=moment)).isoformat().replace("+00:00", "Z")


def moment_ms(text: str | None, option: str, forms: str = HELP) -> int | None:
    """Milliseconds since 1970; None of nothing. Raises typer.BadParameter.

    An @ may stand before them, as `twinlog replay` needs it: a number without one is an offset. `forms` is what may be
    written.
    """
    if text is None:
        return None
    digits = text.strip().removeprefix("@")
    if digits.isdecimal():
        moment = int(digits)
    else:
        try:
            found = datetime.fromisoformat(text.strip())
        except ValueError:
            raise typer.BadParameter(f"{text!r} is no moment; write {forms}", param_hint=option) from None
        moment = (found.replace(tzinfo=found.tzinfo or UTC) - EPOCH) // timedelta(milliseconds=1)
    if digits.isdecimal() and 0 < moment < SECONDS_BELOW:
        typer.echo(f"twinlog: {option} {text} is {shown(moment)}: numbers are milliseconds since 1970", err=True)
    # Brokers take negative numbers for something else, and have 8 bytes for them.
    if not 0 <= moment <= LAST:
        raise typer.BadParameter(f"{text!r} is before 1970, or too far away; write {forms}", param_hint=option)
    return moment
