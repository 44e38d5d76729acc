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
class CommandPlace:
    """Where a subcommand is: the function of a module that it calls, or its Typer app."""

    name: str
    module: str
    function: str
    context: Mapping[str, Any] | None = None


class OnDemand(typer.core.TyperGroup):
    """A command whose subcommands are at `places`, in the order in which the help lists them."""

    places: ClassVar[tuple[CommandPlace, ...]] = ()

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Found(self.places)  # type: ignore[assignment]


class _Found(Mapping[str, Any]):
    def __init__(self, places: tuple[CommandPlace, ...]) -> None:
        self._places = {place.name: place for place in places}
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = _command(self._places[name])
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def _command(place: CommandPlace) -> Any:
    called = getattr(importlib.import_module(place.module), place.function)
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown")
    if isinstance(called, typer.Typer):
        alone.add_typer(called, name=place.name)
    else:
        alone.command(place.name, context_settings=None if place.context is None else dict(place.context))(called)
    # Typer makes no group for a single command.
    made: Any = typer.main.get_command(alone)
    return made.commands[place.name] if isinstance(called, typer.Typer) else made
