"""Writes docs/messages.md and the pages of docs/messages: `python -m twinlog.ops.explain.reference docs`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from twinlog.ops.explain.message import REPORT, Message, Page
from twinlog.ops.explain.table import PAGES

_NOTE = "<!-- Generated from src/twinlog/ops/explain: make reference -->"
_LINK = re.compile(r"\]\((?!\w+:)([^)]+)\)")

_INDEX = f"""\
# Troubleshooting: all messages

{_NOTE}

Take the id from the log line, for example `TW-GAP-01`, or an alert's name, and ask for meaning and next steps:

```console
$ twinlog explain TW-GAP-01
$ twinlog explain TwinlogDown
$ grep ERROR twinlog.log | tail -1 | twinlog explain -
```

Each warning and each error has an id: in the log, in the output of a command, in errors and traces of the REST API, in
`/health`, and in `twinlog status`. With `--log-format json` the id is the field `id`. A number keeps its message for
ever.

The tables below lead to the entries. A message marked with * is a line for information, without an id:
`twinlog explain` finds the line by its words. Each entry has these parts:

- the lines of the log, in which capital letters, `...`, east and west are placeholders;
- the meaning;
- **Impact:** the effect on records and consumer groups;
- **Look:** commands that show more. An entry without this part has the commands at the head of its section;
- **Mend:** the change that ends the trouble;
- **Escalate:** the step after a change that failed. An entry without this part has the step at the head of its
  section, or else the step below.

**Escalate:** {REPORT}
"""

_NEXT = "\nNext: [held partitions](held.md), [monitoring](monitoring.md), [metrics and alerts](metrics.md).\n"


def pages() -> Mapping[str, str]:
    """The text of each generated page by its path below docs/."""
    texts = {f"messages/{page.name}.md": "\n".join(_page(page)) for page in PAGES}
    return {"messages.md": "\n".join(_index()), **texts}


def _index() -> Iterator[str]:
    yield _INDEX
    for page in PAGES:
        yield f"## {page.title}\n"
        yield "| id | message | severity |"
        yield "|---|---|---|"
        for area in page.areas:
            for message in area.messages:
                link = f"messages/{page.name}.md#{message.id.lower()}"
                yield f"| [{message.id}]({link}) | {message.title}{_marks(message)} | {message.severity} |"
        yield ""
    yield _NEXT.strip()
    yield ""


def _marks(message: Message) -> str:
    star = "" if message.in_line else " *"
    return f"{star} (earlier versions)" if message.retired else star


def _page(page: Page) -> Iterator[str]:
    yield f"# {page.title}\n"
    yield f"{_NOTE}\n"
    yield "In a log line, capital letters, `...`, east and west are placeholders."
    for area in page.areas:
        yield f"\n## {area.title} ({area.name})\n"
        yield f"{_nested(area.about)}\n"
        yield f"**Look:** {_commands(area.look)}"
        if area.escalate != REPORT:
            yield f"\n**Escalate:** {_nested(area.escalate)}"
        for message in area.messages:
            yield from _message(message)
    yield "\nNext: [all messages](../messages.md), [monitoring](../monitoring.md).\n"


def _message(message: Message) -> Iterator[str]:
    yield f"\n### {message.id}\n"
    yield f"**{message.title}** ({message.severity}{', of earlier versions' if message.retired else ''})\n"
    yield "```text"
    yield from message.shapes
    yield "```\n"
    if message.meaning:
        yield f"{_nested(message.meaning)}\n"
    yield f"- **Impact:** {_nested(message.impact)}"
    if message.look:
        yield f"- **Look:** {_commands(message.look)}"
    yield f"- **Mend:** {_nested(message.mend)}"
    if message.escalate:
        yield f"- **Escalate:** {_nested(message.escalate)}"


def _commands(commands: Iterable[str]) -> str:
    return ", ".join(f"`{command}`" for command in commands)


def _nested(text: str) -> str:
    """Links of a page below docs/messages, instead of docs/."""
    return _LINK.sub(lambda link: f"](../{link[1]})", text)


def write_pages(docs: Path) -> None:
    """Write all pages below `docs`, and delete pages that the table lacks."""
    texts = pages()
    for path in (docs / "messages").glob("*.md"):
        if f"messages/{path.name}" not in texts:
            path.unlink()
    for name, text in texts.items():
        path = docs / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]))
