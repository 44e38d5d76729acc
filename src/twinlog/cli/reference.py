"""Writes docs/commands.md from the help of each command: `python -m twinlog.cli.reference > docs/commands.md`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import PurePosixPath
from typing import Any

import typer.main

from twinlog.cli.main import app
from twinlog.console.exit_codes import MEANINGS
from twinlog.console.help_page import HelpPage

_INTRODUCTION = """\
# Commands

<!-- Generated from the help of each command: make reference -->

`twinlog --help` lists the commands, and `twinlog COMMAND --help` prints a section of this page.

## Shared options

| option | meaning |
|---|---|
| `--flow east:west` | a flow of FILE. Write `'east->west'` in quotes: otherwise the shell empties a file `west` |
| `--topic`, `--group` | may be repeated: `--topic orders --topic 'pay.*'` |
| `--from`, `--to` | clusters |
| `--since`, `--until` | times: `2026-11-20T08:00:00Z`, or milliseconds since 1970 |
| `--from-offset`, `--to-offset` | offsets |
| `--dry-run` | prints the changes, and changes nothing. `twinlog plan` is the dry run of `twinlog run` |
| `-o table`, `-o json`, `-o yaml` | the form of the result on stdout |
| `--timeout SECONDS` | the longest wait for a silent cluster, or for the result |
| `--yes`, `-y` | skips the question before a change |
| `-v`, `-q` | more lines on stderr, or fewer: `-q` keeps results, warnings and errors |
| `--log-format json` | each line on stderr is an object, see [the log](#the-log-as-json) |

Option names of earlier versions still work, for example `--json`, `--topics`, `--rehearse` and `--until caught-up`.

## Exit codes

All commands have the same codes. The section of a command has its special cases.

| code | meaning |
|---|---|
"""

_AFTER_CODES = """
`twinlog run`, `connect` and `console` end with 0 after Ctrl-C (SIGINT) and SIGTERM: a supervisor that restarts on
failure leaves them stopped. [`connect-mirror-maker`](running.md#mirrormaker-2s-command), and [`connect-distributed` and
`connect-standalone`](connect.md#run-as-a-service), have Kafka's codes.

```console
$ twinlog status mm2.properties --max-lag 5m -q || echo "look at the mirror: code $?"
```

## The log as JSON

With `--log-format json`, or `TWINLOG_LOG_FORMAT=json` in the environment, each line on stderr is an object:

```json
{"time": "2026-11-29T08:00:00.123Z", "level": "error", "id": "TW-GAP-01", "flow": "east->west",
 "topic": "orders", "partition": 3, "text": "orders-3 is held at source offset 5000: ..."}
```

`time`, `level` and `text` are in every line. `id` is the id of [the message](messages.md); a line about a flow, topic
or partition names it. Errors of options stay text.

## Completion in a shell

```bash
source <(twinlog completion bash)
```

This line completes commands, options and their values; write it into `~/.bashrc` for every new shell. For other shells
use `twinlog completion zsh` or `twinlog completion fish`.
"""


def render() -> str:
    """The page."""
    return "\n".join(_lines()).rstrip("\n") + "\n"


def _lines() -> Iterator[str]:
    yield _INTRODUCTION.rstrip("\n")
    yield from (f"| {code} | {meaning} |" for code, meaning in MEANINGS.items())
    yield _AFTER_CODES
    root = typer.main.get_command(app)
    with root.make_context("twinlog", [], resilient_parsing=True) as context:
        for section, rows in HelpPage.of(root, context).commands:
            yield f"## {section}"
            yield ""
            for name, _ in rows:
                yield from _command(root, name, context)


def _command(group: Any, name: str, parent: Any, said: frozenset[tuple[str, str]] = frozenset()) -> Iterator[str]:
    """The section of a command, and the sections of its subcommands; `said` are rows that a section above has."""
    command = group.commands[name]
    with command.make_context(name, [], parent=parent, resilient_parsing=True) as context:
        page = HelpPage.of(command, context)
        shared = _shared(command, context) if page.commands else ()
        yield from (f"{'#' * (3 if not said else 4)} {context.command_path}", "")
        for paragraph in (page.doc.summary, *page.doc.more):
            yield from (_prose(paragraph), "")
        yield from ("```console", *(f"$ {example}" for example in page.doc.examples), "```", "")
        yield from ("```text", page.usage, "```", "")
        rows = [*page.arguments, *page.options, *shared]
        title = "option of each command below" if shared else "argument or option"
        yield from _table((title, "meaning"), [row for row in rows if row not in said and row not in _log_rows()])
        if ("", page.note) not in said and page.note:
            yield from (_prose(page.note), "")
        own = page.doc.exits or (() if said else page.exits)
        yield from _table(("exit code", "meaning"), [(str(code), text) for code, text in own])
        if page.page and not said:
            path = PurePosixPath(page.page).relative_to("docs")
            yield from (f"More: [{path.stem}]({path})", "")
        for below in getattr(command, "commands", {}):
            yield from _command(command, below, context, said | {*shared, ("", page.note), ("", "")})


def _shared(group: Any, context: Any) -> list[tuple[str, str]]:
    """The options that each subcommand of a group has, and that take no place of their own in each section."""
    below: list[list[tuple[str, str]]] = []
    for name, command in group.commands.items():
        with command.make_context(name, [], parent=context, resilient_parsing=True) as inner:
            page = HelpPage.of(command, inner)
            below.append(_shared(command, inner) if page.commands else list(page.options))
    return [row for row in below[0] if all(row in rows for rows in below)]


@cache
def _log_rows() -> frozenset[tuple[str, str]]:
    """The options of the log, which every command has."""
    root: Any = typer.main.get_command(app)
    with root.make_context("twinlog", [], resilient_parsing=True) as parent:
        command = root.commands["launcher"]
        with command.make_context("launcher", [], parent=parent, resilient_parsing=True) as context:
            return frozenset(HelpPage.of(command, context).options)


def _table(head: Sequence[str], rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    rows = list(rows)
    if rows:
        yield f"| {' | '.join(head)} |"
        yield "|---|---|"
        for name, text in rows:
            shown = name if name.isdecimal() else f"`{_cell(name)}`"
            yield f"| {shown} | {_cell(_prose(text))} |"
        yield ""


def _prose(text: str) -> str:
    """Text for Markdown: a name in angle brackets or with underscores would be markup."""
    return re.sub(r"(?<![`\w])(~?[\w./-]*(?:__|[<>~{}*])[^\s`,;()]*[^\s`,;().])(?!`)", r"`\1`", text)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(render())
