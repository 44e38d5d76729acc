"""Amounts in words for people."""

from __future__ import annotations


def counted(count: int, name: str) -> str:
    """A number of items in words: `1 partition`, `1,200 partitions`."""
    return f"{count:,} {name}{'s' * (count != 1)}"


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
