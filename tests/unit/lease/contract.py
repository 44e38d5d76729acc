"""What crosses between driver and tasks, as text: each message and each pickled class with its fields and their types.

`contract.txt` is that text for the present `VERSION`. Run this module to renew it; it refuses while `VERSION` is the
one that the file names, because both sides would believe that they understand each other.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Literal, NewType, TypeVar, Union, get_args, get_origin, get_type_hints

from twinlog.lease.channel import LeaseTicket
from twinlog.lease.messages import VERSION, Message
from twinlog.settings.flow import FlowSettings
from twinlog.spark.source import SCHEMA

FILE = Path(__file__).with_name("contract.txt")
WAY_OUT = "raise VERSION in lease/messages.py and run `.venv/bin/python -m tests.unit.lease.contract` to renew"
PLAIN = (*get_args(Message), LeaseTicket)
"""Messages, and what a task is started with: only their fields travel."""

PICKLED = (FlowSettings,)
"""What a ticket and the options of a planner have pickled."""


def contract(messages: tuple[Any, ...] = PLAIN, pickled: tuple[Any, ...] = PICKLED) -> str:
    """All that crosses. Of what is pickled the module travels, too."""
    found: dict[str, list[str]] = {}
    for cls in messages:
        _add(found, cls, module=False)
    for cls in pickled:
        _add(found, cls, module=True)
    classes = [line for name in sorted(found) for line in (name, *found[name])]
    return "\n".join((f"version {VERSION}", f"row {SCHEMA}", *classes, ""))


def _add(found: dict[str, list[str]], cls: Any, *, module: bool) -> None:
    name = _name(cls, module=module)
    if name in found:
        return
    found[name] = []
    if "__reduce__" in vars(cls):
        return  # What travels is the text it is made from.
    hints = get_type_hints(cls)
    names = [field.name for field in fields(cls)] if is_dataclass(cls) else cls._fields
    for field in names:
        found[name].append(f"    {field}: {_text(hints[field], module=module)}")
        for inner in _classes(hints[field]):
            _add(found, inner, module=module)


def _name(cls: Any, *, module: bool) -> str:
    return f"{cls.__module__}.{cls.__qualname__}" if module else str(cls.__qualname__)


def _text(hint: Any, *, module: bool) -> str:
    """A type by its parts; a NewType as what it is when it travels."""
    while isinstance(hint, NewType):
        hint = hint.__supertype__
    if isinstance(hint, TypeVar):
        return hint.__name__
    origin = get_origin(hint)
    if origin is Literal:
        return " | ".join(sorted(map(repr, get_args(hint))))
    inner = [("..." if arg is ... else _text(arg, module=module)) for arg in get_args(hint)]
    if origin in (Union, UnionType):
        return " | ".join(inner)
    if origin is not None:
        name = _name(origin, module=module) if is_dataclass(origin) else origin.__name__
        return f"{name}[{', '.join(inner)}]"
    return "None" if hint is type(None) else _name(hint, module=module and not _is_plain(hint))


def _classes(hint: Any) -> Iterator[Any]:
    """The classes with fields in a type."""
    if isinstance(hint, type) and get_origin(hint) is None:
        if not _is_plain(hint):
            yield hint
        return
    if is_dataclass(origin := get_origin(hint)):
        yield origin
    if origin is not Literal:
        for arg in get_args(hint):
            yield from _classes(arg)


def _is_plain(hint: Any) -> bool:
    if is_dataclass(hint) or hasattr(hint, "_fields"):
        return False
    assert hint.__module__ == "builtins", f"{hint} crosses, and nobody looks at what it holds"
    return True


def main() -> None:
    """Renew the file, or end with the reason why not."""
    now = contract()
    before = FILE.read_text(encoding="utf-8") if FILE.exists() else ""
    if now != before and now.splitlines()[0] == before.partition("\n")[0]:
        sys.exit(f"what crosses has changed, and VERSION is still {VERSION}: raise it in lease/messages.py first")
    FILE.write_text(now, encoding="utf-8")


if __name__ == "__main__":
    main()
