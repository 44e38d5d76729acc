"""`twinlog explain`: the meaning of a message id, and the next steps."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer

from twinlog.console.command_log import print_error
from twinlog.console.data_format import DataFormat, print_result
from twinlog.console.exit_codes import WRONG
from twinlog.console.options import Output
from twinlog.console.table import table
from twinlog.errors.message_ids import ID
from twinlog.ops.explain.message import Message
from twinlog.ops.explain.table import AREAS, MESSAGES, messages_in, near_ids, near_words, of_alert, page_of

_WIDEST = 100
_LISTS = "twinlog explain without an id lists all ids"
_LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")
_ABOUT_AN_ID = re.compile(r"(?:TW-)?[A-Za-z]+-?\d*", re.IGNORECASE)


def explain(
    messages: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ID",
            help="Ids such as TW-GAP-01, an area such as GAP, an alert such as TwinlogDown, or a whole log line in "
            "quotes; - reads lines from stdin.",
            show_default=False,
        ),
    ] = None,
    output: Output = DataFormat.TABLE,
) -> None:
    """Explain a message of the log by its id: meaning, effect on records and groups, commands, and the way out.

    Without an ID prints the list of all messages. Reads no file of yours and contacts no cluster.

    Exit codes: 0; 2 an id is unknown, or no line has a message that twinlog knows; 4.

    Example: twinlog explain TW-GAP-01

    Example: grep ERROR twinlog.log | tail -1 | twinlog explain -
    """
    found, unknown = _found(messages or [])
    for text in unknown:
        print_error(f"TW-USE-07: {text}")
    if not messages:
        found = list(MESSAGES.values())
        rows = [("ID", "SEVERITY", "TITLE"), *((one.id, one.severity, one.title) for one in found)]
        print_result(output, lambda: [_as_json(message) for message in found], lambda: table(rows))
    elif found or output is not DataFormat.TABLE:
        print_result(
            output,
            lambda: [_as_json(message) for message in found],
            lambda: ["\n\n".join("\n".join(_entry(message)) for message in found)],
        )
    if unknown:
        raise typer.Exit(WRONG)


def _found(asked: Sequence[str]) -> tuple[list[Message], list[str]]:
    """The messages of the arguments, and a sentence for each argument without a message."""
    found: dict[str, Message] = {}
    unknown = []
    if any(text != "-" and " " not in text and _by_id(text) is None for text in asked):
        # A log line without quotes comes as words.
        asked = [" ".join(asked)]
    for text in asked:
        lines = sys.stdin.read() if text == "-" else text
        known = _by_id(lines)
        known = messages_in(lines) if known is None else known
        found.update((message.id, message) for message in known)
        if not known:
            unknown.append(_no_message(lines, from_stdin=text == "-"))
    return list(found.values()), unknown


def _by_id(text: str) -> list[Message] | None:
    """The messages of an id, of an area or of an alert; None for any other text."""
    word = text.strip().upper()
    if word in AREAS or word.removeprefix("TW-") in AREAS:
        return list(AREAS[word.removeprefix("TW-")].messages)
    full = word if word.startswith("TW-") else f"TW-{word}"
    if full in MESSAGES:
        return [MESSAGES[full]]
    alert = of_alert(word)
    if alert is not None:
        return [alert]
    return [] if ID.fullmatch(full) else None


def _no_message(text: str, *, from_stdin: bool) -> str:
    found = ID.search(text.upper())
    shown = text.strip() if found is None else found[0]
    if found is not None or _ABOUT_AN_ID.fullmatch(shown):
        if found is not None or shown[-1].isdigit() or shown.upper().startswith("TW-"):
            near = near_ids(shown)
            offer = f"; near it are {', '.join(near)}" if near else ""
            return f"{shown} is an unknown id{offer}; {_LISTS}"
        words = near_words(shown)
        offer = f"; did you mean {' or '.join(words)}?" if words else ";"
        return f"{shown} is neither an id nor an alert{offer} {_LISTS}"
    what = "the lines of stdin have" if from_stdin else f"{textwrap.shorten(shown, 80)!r} has"
    return f"{what} neither a known id (TW-AREA-NN) nor the words of a known message"


def _entry(message: Message) -> Iterator[str]:
    area = AREAS[message.area]
    yield f"{message.id}: {message.title} ({message.severity}{', of earlier versions' if message.retired else ''})"
    yield from _section("Line", [plain(line) for line in message.shapes])
    yield from _section("Meaning", [plain(text) for text in [message.meaning] if text])
    yield from _section("Impact", [plain(message.impact)])
    yield from _section("Look", [f"$ {command}" for command in area.looks_of(message)], wrap=False)
    yield from _section("Mend", [plain(message.mend)])
    yield from _section("Escalate", [plain(area.escalation_of(message))])
    yield from _section("Page", [f"docs/messages/{page_of(message).name}.md#{message.id.lower()}"], wrap=False)


def _section(name: str, paragraphs: Sequence[str], *, wrap: bool = True) -> Iterator[str]:
    width = min(shutil.get_terminal_size((_WIDEST, 24)).columns, _WIDEST)
    for number, paragraph in enumerate(paragraphs):
        head = f"  {name if number == 0 else '':<10}"
        if wrap:
            yield from textwrap.wrap(
                paragraph,
                max(width, 40),
                initial_indent=head,
                subsequent_indent=" " * len(head),
                break_long_words=False,
                break_on_hyphens=False,
            )
        else:
            yield head + paragraph


def plain(text: str) -> str:
    """Markdown for a terminal: a link becomes its words and its page."""
    return _LINK.sub(lambda link: f"{link[1]} (docs/{link[2]})", text)


def _as_json(message: Message) -> dict[str, Any]:
    area = AREAS[message.area]
    return {
        "id": message.id,
        "area": area.name,
        "title": message.title,
        "severity": message.severity,
        "lines": list(message.shapes),
        "meaning": plain(message.meaning),
        "impact": plain(message.impact),
        "look": list(area.looks_of(message)),
        "mend": plain(message.mend),
        "escalate": plain(area.escalation_of(message)),
        "page": f"docs/messages/{page_of(message).name}.md#{message.id.lower()}",
        "retired": message.retired,
    }
