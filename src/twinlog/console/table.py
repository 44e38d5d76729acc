"""Columns of text."""

from __future__ import annotations

from collections.abc import Collection, Sequence

GAP = "  "


def table(rows: Sequence[Sequence[str]], numbers: Collection[int] = ()) -> list[str]:
    """The lines of a table, the first of `rows` being its head; the columns `numbers` end below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        GAP.join(
            cell.rjust(width) if column in numbers else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
