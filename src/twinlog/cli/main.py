"""The commands of `twinlog`; each command is imported alone, when it is called."""

from __future__ import annotations

import importlib
import logging
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Annotated, Any, ClassVar

import typer
import typer.core
import typer.main

from twinlog import __version__
from twinlog.console import signals
from twinlog.errors import TwinlogError


def launcher() -> None:
    """Print the path of the file that `spark-submit` is given to start twinlog, with the command after it.

    Example: spark-submit --master spark://spark-1:7077 "$(twinlog launcher)" run mm2.properties
    """
    typer.echo(Path(__file__).parents[1] / "launcher.py")


def warm_up() -> None:
    """Prepare Spark's start once per machine or image: later starts take some seconds less.

    Takes about a minute and some 160 MB in the cache directory ($TWINLOG_CACHE, $XDG_CACHE_HOME/twinlog or
    ~/.cache/twinlog). Contacts no cluster. After an update of Spark or Java, run it again.

    Example: twinlog warm-up
    """
    ended_by: list[signal.Signals] = []
    ending = Event()

    def end(number: signal.Signals) -> None:
        ended_by.append(number)
        ending.set()

    signals.call(end)
    logging.basicConfig(level=logging.ERROR)
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    from twinlog.spark.class_archive import warm_up as make  # noqa: PLC0415 - Spark is slow to import, --help must not wait

    typer.echo("starting Spark once, this takes about a minute ...")
    try:
        path = make(ending)
    except (TwinlogError, OSError) as error:
        if ended_by:
            typer.echo(f"twinlog: ended by {ended_by[0].name}", err=True)
            raise typer.Exit(signals.exit_code(ended_by[0])) from None
        typer.echo(f"problem: {error}", err=True)
        raise typer.Exit(1) from None
    typer.echo(f"done: {path} ({path.stat().st_size / 1e6:.0f} MB)")


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
        LazyCommand("audit", "twinlog.ops.audit.command", "audit"),
        LazyCommand("acls", "twinlog.ops.acls.command", "acls"),
        LazyCommand("diff", "twinlog.ops.diff.command", "diff"),
        LazyCommand("convert", "twinlog.ops.convert.command", "convert"),
        LazyCommand("translate", "twinlog.ops.translate.command", "translate"),
        LazyCommand("verify", "twinlog.ops.verify.command", "verify"),
        LazyCommand("replay", "twinlog.ops.replay.command", "replay"),
        LazyCommand("status", "twinlog.ops.status.command", "status"),
        LazyCommand("topics", "twinlog.ops.topics.commands", "app"),
        LazyCommand("groups", "twinlog.ops.groups.command", "groups"),
        LazyCommand("explain", "twinlog.explain.command", "explain"),
        LazyCommand("switchover", "twinlog.ops.switchover.command", "switchover"),
        LazyCommand("switchback", "twinlog.ops.switchover.command", "switchback"),
        LazyCommand("connect", "twinlog.cli.connect", "connect"),
        LazyCommand("warm-up", "twinlog.cli.main", "warm_up"),
        LazyCommand("launcher", "twinlog.cli.main", "launcher"),
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
