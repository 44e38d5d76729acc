"""A moment as users write it: milliseconds since 1970, or ISO 8601."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST = (1 << 63) - 1
"""Brokers have 8 bytes for a moment, and take negative numbers for special values."""


def shown_moment(moment: int) -> str:
    """Milliseconds since 1970 as ISO 8601 in UTC."""
    return (EPOCH + timedelta(milliseconds=moment)).isoformat().replace("+00:00", "Z")


def read_moment(text: str) -> int | None:
    """Milliseconds since 1970; a moment without a zone is in UTC.

    None for a text of another form.

    Raises OverflowError for a moment before 1970 or too far in the future.
    """
    text = text.strip()
    if text.isdecimal():
        moment = int(text)
    else:
        try:
            found = datetime.fromisoformat(text)
        except ValueError:
            return None
        moment = (found.replace(tzinfo=found.tzinfo or UTC) - EPOCH) // timedelta(milliseconds=1)
    if not 0 <= moment <= LAST:
        raise OverflowError(f"{text!r} is before 1970, or too far away")
    return moment
