"""The commands of `twinlog`; each command is imported when it is called, and waits for no other command."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import typer
import typer.core
import typer.main

from twinlog import __version__


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """The place of a subcommand: the function of a module that it calls, or its Typer app."""

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
    # Typer makes a group only for several commands.
    made: Any = typer.main.get_command(alone)
    return made.commands[command.name] if isinstance(called, typer.Typer) else made


class _Commands(OnDemand):
    lazy = (
        # connect-mirror-maker's `--clusters a b c` passes b and c as arguments of their own.
        LazyCommand("run", "twinlog.cli.run", "run", {"allow_extra_args": True}),
        LazyCommand("reload", "twinlog.ops.reload.command", "reload"),
        LazyCommand("check", "twinlog.cli.check", "check"),
        LazyCommand("plan", "twinlog.ops.plan.command", "plan"),
        LazyCommand("diff", "twinlog.ops.diff.command", "diff"),
        LazyCommand("convert", "twinlog.ops.convert.command", "convert"),
        LazyCommand("translate", "twinlog.ops.translate.command", "translate"),
        LazyCommand("verify", "twinlog.ops.verify.command", "verify"),
        LazyCommand("replay", "twinlog.ops.replay.command", "replay"),
        LazyCommand("status", "twinlog.ops.status.command", "status"),
        LazyCommand("topics", "twinlog.ops.topics.commands", "app"),
        LazyCommand("groups", "twinlog.ops.groups.command", "groups"),
        LazyCommand("switchover", "twinlog.ops.switchover.command", "switchover"),
        LazyCommand("switchback", "twinlog.ops.switchover.command", "switchback"),
        LazyCommand("connect", "twinlog.cli.connect", "connect"),
        LazyCommand("warm-up", "twinlog.cli.warm_up", "warm_up"),
        LazyCommand("launcher", "twinlog.cli.launcher", "launcher"),
        LazyCommand("connectors", "twinlog.ops.connectors.commands", "app"),
    )


app = typer.Typer(
    name="twinlog",
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # Typer joins the lines of a paragraph, and wraps them at the width of the terminal.
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"twinlog {__version__}")
        raise typer.Exit


@app.callback()
def twinlog(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Keeps clusters of Apache Kafka in step: MirrorMaker 2's files, whole record batches, tasks on Apache Spark.

    Example: twinlog check mm2.properties && twinlog run mm2.properties
    """
