"""The right form of a wrong command line: a file in place of a command, a wrong option, arguments in a wrong order."""

from __future__ import annotations

import shlex
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any

_ENDINGS = {".properties", ".yaml", ".yml", ".json"}
_OF_FILE = ("--config", "--config-file", "--file", "--properties", "-c", "-f")
"""Options that other programs have for their file, which is an argument here."""

_LONG = {"-g": "--group", "-t": "--topic"}
"""Options that Kafka's tools and others have, by the names of this program."""


def looks_like_file(word: str) -> bool:
    """Whether a word is an existing file, or ends like a file of settings."""
    return Path(word).suffix in _ENDINGS or Path(word).is_file()


def file_as_command(words: Sequence[str], commands: Container[str]) -> str | None:
    """The sentence about a file in place of the command; None if the first word is no file.

    A command behind the file comes first, else the kind of the file decides: a worker's file is for `connect`.
    """
    file, *rest = words
    if not looks_like_file(file):
        return None
    if rest and rest[0] in commands:
        form = [rest[0], file, *rest[1:]]
    else:
        from twinlog.config.file_kind import FileKind, known_kind  # noqa: PLC0415 - only a wrong command line needs it

        by_kind = {FileKind.WORKER: "connect", FileKind.CONNECTOR: "check", FileKind.CLIENT: "check"}
        form = [by_kind.get(known_kind(file) or FileKind.MIRROR, "run"), *words]
    return f"{file} is a file, and a command comes first; {_did_you_mean('twinlog', form)}"


def hint_about_option(context: Any, name: str | None, words: Sequence[str]) -> str | None:
    """The sentence about the unknown option `name` of a command that has FILE; None if its right form is unknown."""
    at = next((number for number, word in enumerate(words) if word == name or word.startswith(f"{name}=")), None)
    if name is None or at is None or _arguments_of(context) == []:
        return None
    if (name, context.command.name) == ("--dry-run", "run"):
        file = next(filter(looks_like_file, words), "FILE")
        return f"{name} is an unknown option; {_did_you_mean('twinlog plan', [file])}"
    attached = words[at].partition("=")[2] if "=" in words[at] else None
    value = words[at + 1 : at + 2] if attached is None else [attached]
    before, after = words[:at], words[at + (2 if attached is None else 1) :]
    right = _LONG.get(name)
    if right is not None and any(right in param.opts for param in context.command.params):
        return f"{name} is an unknown option; {_did_you_mean(context.command_path, [*before, right, *value, *after])}"
    if name not in _OF_FILE or (value and len(name) == 2 and not looks_like_file(value[0])):
        return None
    form = _did_you_mean(context.command_path, [*(value or ["FILE"]), *before, *after])
    return f"{name} is an unknown option, and FILE is an argument without an option; {form}"


def hint_about_arguments(context: Any, words: Sequence[str]) -> str | None:
    """The sentence about a FILE that is missing while a later argument is a file; None for the right order."""
    file, *others = _arguments_of(context) or [None]
    if not isinstance(file, str | Path) or Path(file).exists():
        return None
    texts = [one if isinstance(one, list | tuple) else [one] for one in others]
    # Files of connectors are paths, and at the right place.
    found = next((one for some in texts for one in some if isinstance(one, str) and Path(one).is_file()), None)
    if found is None:
        return None
    rest = list(words)
    rest.remove(found)
    return f"{file} is no file, and FILE comes first; {_did_you_mean(context.command_path, [found, *rest])}"


def _arguments_of(context: Any) -> list[Any]:
    """The values of the arguments of a command whose first argument is FILE; empty for any other command."""
    arguments = [param for param in context.command.params if param.param_type_name == "argument"]
    has_file = arguments and arguments[0].metavar == "FILE"
    return [context.params.get(param.name) for param in arguments] if has_file else []


def _did_you_mean(command: str, words: Sequence[str]) -> str:
    return f"did you mean: {command} {shlex.join(words)}"
