"""A moment, as users write it."""

from __future__ import annotations

import typer

from twinlog.model.moment import read_moment, shown_moment

HELP = "ms since 1970, or ISO 8601 such as 2026-11-20T08:00:00Z; without a zone it is UTC."


SECONDS_BELOW = 10**11
"""What is below was in March 1973 at the latest, if it means milliseconds; as seconds it is a moment of now."""


def moment_ms(text: str | None, option: str, forms: str = HELP) -> int | None:
    """Milliseconds since 1970; None of nothing. Raises typer.BadParameter.

    An @ may stand before them, as `twinlog replay` needs it: a number without one is an offset. `forms` is what may be
    written.
    """
    if text is None:
        return None
    digits = text.strip().removeprefix("@")
    try:
        moment = read_moment(digits if digits.isdecimal() else text)
    except OverflowError as error:
        raise typer.BadParameter(f"{error}; write {forms}", param_hint=option) from None
    if moment is None:
        raise typer.BadParameter(f"{text!r} is no moment; write {forms}", param_hint=option)
    if digits.isdecimal() and 0 < moment < SECONDS_BELOW:
        typer.echo(f"twinlog: {option} {text} is {shown_moment(moment)}: numbers are milliseconds since 1970", err=True)
    return moment
