"""Amounts and moments: in words for people, and as users write a moment, in milliseconds since 1970 or ISO 8601."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def counted(count: int, name: str) -> str:
    """A number of items in words: `1 partition`, `1,200 partitions`, `2 processes`."""
    return f"{count:,} {name}" if count == 1 else f"{count:,} {name}{'es' if name.endswith('s') else 's'}"


def shown_count(count: int | None, *, exact: bool) -> str:
    """A number of records in words; a number that is not `exact` is a maximum, None is unknown."""
    if count is None:
        return "unknown"
    return f"{count:,}" if exact or not count else f"up to {count:,}"


def shown_bytes(size: float) -> str:
    """Bytes, in powers of ten."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def shown_age(seconds: float) -> str:
    """Seconds as an age, rounded by its size."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST = (1 << 63) - 1
"""Brokers have 8 bytes for a moment, and take negative numbers for special values."""


def shown_moment(moment: int) -> str:
    """Milliseconds since 1970 as ISO 8601 in UTC, without zero milliseconds; a moment outside of the years 1 to 9999
    stays a number."""
    try:
        found = EPOCH + timedelta(milliseconds=moment)
        return found.isoformat(timespec="milliseconds" if moment % 1000 else "seconds").replace("+00:00", "Z")
    except OverflowError:
        return str(moment)


def read_moment(text: str) -> int | None:
    """Milliseconds since 1970; a moment that lacks a zone is in UTC.

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
