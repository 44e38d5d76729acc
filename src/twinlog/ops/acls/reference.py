"""Writes the tables of rights into the documents: `python -m twinlog.ops.acls.reference docs`.

A table is between the lines `<!-- rights NAME -->` and `<!-- end of rights -->` of a page.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from twinlog.ops.acls.command_rights import COMMAND_ROWS, SWITCHOVER_ROWS
from twinlog.ops.acls.rights import USES, RightRow
from twinlog.ops.acls.run_rights import RUN_ROWS

PAGES = ("security.md", "switchover.md")
_TABLE = re.compile(r"(<!-- rights (\w+) -->\n)(.*?)(\n<!-- end of rights -->)", re.DOTALL)


def tables() -> Mapping[str, str]:
    """Each table in Markdown, by its name."""
    return {
        "source": _table(row for row in RUN_ROWS if row.side == "source"),
        "target": _table(row for row in RUN_ROWS if row.side == "target"),
        "commands": _by_command(COMMAND_ROWS),
        "switchover": _table(SWITCHOVER_ROWS),
    }


def with_tables(page: str) -> str:
    """A page with its tables as the code has them. Raises KeyError for a table of an unknown name."""
    known = tables()
    return _TABLE.sub(lambda found: f"{found[1]}\n{known[found[2]]}\n{found[4]}", page)


def _table(rows: Iterable[RightRow]) -> str:
    lines = dict.fromkeys(f"| {row.on} | {_operations(row)} | {row.why} |" for row in rows)
    return "\n".join(["| on | operations | for |", "|---|---|---|", *lines])


def _by_command(rows: Iterable[RightRow]) -> str:
    lines = []
    for row in rows:
        commands = ", ".join(f"`{use}`" for use in USES if use in row.uses)
        lines.append(f"| {row.side} | {row.on} | {_operations(row)} | {row.why} | {commands} |")
    return "\n".join(["| cluster | on | operations | for | commands |", "|---|---|---|---|---|", *lines])


def _operations(row: RightRow) -> str:
    return ", ".join(operation.name for operation in row.operations)


def write_tables(folder: Path) -> None:
    """Write the tables into the pages of a folder."""
    for name in PAGES:
        page = folder / name
        page.write_text(with_tables(page.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    write_tables(Path(sys.argv[1]))
