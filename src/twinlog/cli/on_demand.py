"""Subcommands that are imported when one of them is called: a start does not wait for what the others need."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import typer
import typer.core
import typer.main


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """Where a subcommand is: the function of a module that it calls, or its Typer app."""

    name: str
    module: str
    function: str
    context: Mapping[str, Any] | None = None


class OnDemand(typer.core.TyperGroup):
    """A command whose subcommands are at `lazy`, in the order in which the help lists them."""

    lazy: ClassVar[tuple[LazyCommand, ...]] = ()

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Found(self.lazy)  # type: ignore[assignment]


class _Found(Mapping[str, Any]):
    def __init__(self, lazy: tuple[LazyCommand, ...]) -> None:
        self._lazy = {command.name: command for command in lazy}
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = _command(self._lazy[name])
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._lazy

    def __iter__(self) -> Iterator[str]:
        return iter(self._lazy)

    def __len__(self) -> int:
        return len(self._lazy)


def _command(command: LazyCommand) -> Any:
    called = getattr(importlib.import_module(command.module), command.function)
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown")
    if isinstance(called, typer.Typer):
        alone.add_typer(called, name=command.name)
    else:
        alone.command(command.name, context_settings=None if command.context is None else dict(command.context))(called)
    # Typer makes no group for a single command.
    made: Any = typer.main.get_command(alone)
    return made.commands[command.name] if isinstance(called, typer.Typer) else made
