"""The help of a command, as text for a terminal and as a section of docs/commands.md.

The docstring of a command has its parts as paragraphs: the summary; more about it; `Exit codes: 0 ...; 1 ...; 2; 3; 4`,
where a number alone has its meaning for all commands; and `Example: ...`, a command that can be copied. A subcommand
without exit codes of its own has those of its group.
"""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from twinlog.console.exit_codes import MEANINGS

LEAST_WIDTH, MOST_WIDTH = 60, 100
_LABEL = 30
"""The columns of an option and its values; a longer label has a line of its own."""

_BEFORE_CODE = re.compile(r"; (?=\d(?:\s|;|$))")
_CODES = re.compile(r"(\d)(?:\s+(.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Docstring:
    """The parts of a command's docstring."""

    summary: str
    more: tuple[str, ...] = ()
    exits: tuple[tuple[int, str], ...] = ()
    examples: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str) -> Docstring:
        """Read a docstring. Raises ValueError for an unknown exit code."""
        paragraphs = [" ".join(part.split()) for part in text.strip().split("\n\n") if part.strip()]
        exits: list[tuple[int, str]] = []
        more, examples = [], []
        for part in paragraphs[1:]:
            kind, _, rest = part.partition(": ")
            if kind == "Example":
                examples.append(rest)
            elif kind == "Exit codes":
                exits += map(_exit_code, _BEFORE_CODE.split(rest.removesuffix(".")))
            else:
                more.append(part)
        return cls(paragraphs[0] if paragraphs else "", tuple(more), tuple(exits), tuple(examples))


def _exit_code(text: str) -> tuple[int, str]:
    found = _CODES.fullmatch(text.strip())
    if found is None or int(found[1]) not in MEANINGS:
        raise ValueError(f"{text!r} is no exit code of {sorted(MEANINGS)}")
    return int(found[1]), found[2] or MEANINGS[int(found[1])]


@dataclass(frozen=True, slots=True)
class HelpPage:
    """All that the help of a command has."""

    usage: str
    doc: Docstring
    exits: tuple[tuple[int, str], ...]
    arguments: tuple[tuple[str, str], ...]
    options: tuple[tuple[str, str], ...]
    commands: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    note: str
    page: str

    @classmethod
    def of(cls, command: Any, context: Any) -> HelpPage:
        """The page of a command of Typer's, in the context of its call."""
        doc = Docstring.of(command.help or "")
        shown = [param for param in command.get_params(context) if not getattr(param, "hidden", False)]
        options = [param for param in shown if param.param_type_name == "option"]
        arguments = [param for param in shown if param.param_type_name == "argument"]
        return cls(
            usage(command, context),
            doc,
            doc.exits or _inherited(context, "exits"),
            tuple((one.metavar or one.name.upper(), _text(one, context)) for one in arguments),
            tuple((_label(one, context), _text(one, context)) for one in options),
            _sections(command, context),
            command.epilog or "",
            _page(command, context),
        )

    def lines(self, width: int) -> Iterator[str]:
        """The page for a terminal of so many columns."""
        yield from _wrapped(self.doc.summary, width)
        for paragraph in self.doc.more:
            yield ""
            yield from _wrapped(paragraph, width)
        yield from ("", "Usage:", f"  {self.usage}")
        for title, rows in self.commands:
            yield from ("", f"{title}:", *_rows(rows, width))
        if self.doc.examples:
            yield from ("", "Examples:" if len(self.doc.examples) > 1 else "Example:")
            yield from (f"  {example}" for example in self.doc.examples)
        if self.arguments:
            yield from ("", "Arguments:", *_rows(self.arguments, width))
        yield from ("", "Options:", *_rows(self.options, width))
        if self.exits:
            yield from ("", "Exit codes:", *_rows([(str(code), text) for code, text in self.exits], width))
        if self.note:
            yield ""
            yield from _wrapped(self.note, width)
        if self.page:
            yield from ("", f"Documentation: {self.page}")


def usage(command: Any, context: Any) -> str:
    """The command line of a command, with its arguments and the options that it needs."""
    params = [param for param in command.params if not getattr(param, "hidden", False)]
    parts = [context.command_path]
    parts += [_argument_usage(param) for param in params if param.param_type_name == "argument"]
    parts += [
        f"{_name(param)} {_values(param, context)}"
        for param in params
        if param.param_type_name == "option" and param.required
    ]
    return " ".join([*parts, "COMMAND" if getattr(command, "commands", None) is not None else "[OPTIONS]"])


def help_text(command: Any, context: Any) -> str:
    """The help of a command, for the terminal of this process."""
    columns = shutil.get_terminal_size().columns
    width = max(LEAST_WIDTH, min(MOST_WIDTH, columns))
    return "\n".join(HelpPage.of(command, context).lines(width)) + "\n"


def _inherited(context: Any, part: str) -> Any:
    """A part of the docstring of the nearest command above."""
    while (context := context.parent) is not None:
        found = getattr(Docstring.of(context.command.help or ""), part)
        if found:
            return found
    return ()


def _page(command: Any, context: Any) -> str:
    """The page of the documentation about a command, or about the command above it."""
    while True:
        page: str = getattr(command, "page", "")
        if page or context.parent is None:
            return page
        context = context.parent
        command = context.command


def _sections(command: Any, context: Any) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    """The subcommands of a command by their sections, each with its summary."""
    sections: dict[str, list[tuple[str, str]]] = {}
    for name in getattr(command, "commands", {}):
        below = command.commands[name]
        if not below.hidden:
            title = getattr(below, "section", "") or "Commands"
            sections.setdefault(title, []).append((name, short_summary(below)))
    order = getattr(command, "sections", ())
    titles = [title for title in order if title in sections] + [title for title in sections if title not in order]
    return tuple((title, tuple(sections[title])) for title in titles)


def short_summary(command: Any) -> str:
    """The first sentence of a command's help, as the help of the command above lists it."""
    summary = Docstring.of(command.help or "").summary
    return re.split(r"(?<=[.:])\s", summary, maxsplit=1)[0].rstrip(".:")


def _argument_usage(param: Any) -> str:
    name = param.metavar or param.name.upper()
    if param.nargs == -1:
        return f"{name}..." if param.required else f"[{name}...]"
    return name if param.required else f"[{name}]"


def _name(param: Any) -> str:
    return str(next((opt for opt in param.opts if opt.startswith("--")), param.opts[0]))


def _label(param: Any, context: Any) -> str:
    names = ", ".join(sorted(param.opts, key=len))
    values = _values(param, context)
    return f"{names} {values}" if values else names


def _values(param: Any, context: Any) -> str:
    """The form of an option's value: its choices, or the word for it."""
    if param.is_flag or param.count:
        return ""
    return str(param.metavar or param.display_type(context).strip("<>"))


def _text(param: Any, context: Any) -> str:
    """The description of a parameter, with its default and its variable of the environment."""
    text = (param.help or "").strip()
    if param.show_default and not getattr(param, "is_flag", False):
        default = param.get_default(context, call=False)
        if default not in (None, "", (), []):
            shown = (
                default.value
                if hasattr(default, "value")
                else f"{default:g}"
                if isinstance(default, float)
                else default
            )
            text += f" Default: {shown}."
    if param.envvar:
        text += f" Variable: {param.envvar}."
    return text.strip()


def _wrapped(text: str, width: int, indent: str = "") -> list[str]:
    # A value, for example 2026-11-20T08:00:00Z or --dry-run, is never broken in two.
    return textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _rows(rows: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    column = min(_LABEL, max((len(label) for label, _ in rows), default=0)) + 4
    for label, text in rows:
        lines = _wrapped(text, width - column)
        first = f"  {label}"
        if len(first) > column - 2 or not lines:
            yield first
        else:
            yield f"{first.ljust(column)}{lines.pop(0)}"
        yield from (f"{'':{column}}{line}" for line in lines)
