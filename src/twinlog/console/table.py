"""Columns of text, and bytes a second in words."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import typer

_FACTORS = {"": 1.0, "B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "kbit": 125.0, "Mbit": 125e3, "Gbit": 125e6}
_RATE = re.compile(r"(\d+(?:\.\d+)?) ?([a-zA-Z]*)(?:/s)?")


def rate_of(text: str) -> float:
    """Parse a number of bytes a second, for example `50MB/s` or `1 Gbit/s`. Raises typer.BadParameter."""
    found = _RATE.fullmatch(text.strip())
    factor = None if found is None else _FACTORS.get(found[2])
    if found is None or factor is None or not float(found[1]):
        units = ", ".join(filter(None, _FACTORS))
        raise typer.BadParameter(
            f"{text!r} is an unknown rate; write a number and a unit ({units}), as in 50MB/s", param_hint="--rate"
        )
    return float(found[1]) * factor


def shown_duration(seconds: float) -> str:
    """About how long, in words: the two largest units."""
    whole = max(1, round(seconds))
    parts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, whole = divmod(whole, size)
        if count or parts:
            parts.append(f"{count} {unit}" if count else "")
    return " ".join(filter(None, parts[:2]))


GAP = "  "


def table(rows: Sequence[Sequence[str]], numbers: Collection[int] = ()) -> list[str]:
    """The lines of a table, whose head is the first of `rows`; the columns `numbers` are right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        GAP.join(
            cell.rjust(width) if column in numbers else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
