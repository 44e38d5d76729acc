"""The commands of `twinlog` in their sections; each command is imported alone, when it is called."""

from __future__ import annotations

import importlib
import logging
import os
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from threading import Event
from typing import Annotated, Any, ClassVar

import typer
import typer.main

from twinlog import __version__
from twinlog.console import signals
from twinlog.console.command_class import CommandApp, TwinlogGroup
from twinlog.console.command_log import print_error
from twinlog.console.exit_codes import UNREACHABLE
from twinlog.errors import TwinlogError
from twinlog.errors.message_ids import told


def launcher() -> None:
    """Print the path of the file for `spark-submit`; write the command of twinlog after this path.

    Exit codes: 0; 2; 4.

    Example: spark-submit --master spark://spark-1:7077 "$(twinlog launcher)" run mm2.properties
    """
    typer.echo(Path(__file__).parents[1] / "launcher.py")


def warm_up() -> None:
    """Prepare Spark once per machine or image: later starts take some seconds less. Contacts no cluster.

    The preparation takes about a minute, and some 160 MB in the cache directory ($TWINLOG_CACHE,
    $XDG_CACHE_HOME/twinlog or ~/.cache/twinlog). Repeat it after an update of Spark or Java.

    Exit codes: 0; 2; 3 Spark does not start, or the cache directory takes no files; 4.

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
            print_error(f"TW-USE-03: ended by {ended_by[0].name}")
            raise typer.Exit(signals.exit_code()) from None
        print_error(told(error, "TW-SPARK-24"))
        raise typer.Exit(UNREACHABLE) from None
    typer.echo(f"done: {path} ({path.stat().st_size / 1e6:.0f} MB)")


class Shell(StrEnum):
    """A shell that completes words of a command line."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.", show_default=False)],
) -> None:
    """Print the completion script of a shell: the shell then completes commands and options of twinlog.

    Exit codes: 0; 2; 4.

    Example: source <(twinlog completion bash)

    Example: twinlog completion zsh > ~/.zfunc/_twinlog

    Example: twinlog completion fish > ~/.config/fish/completions/twinlog.fish
    """
    from typer.completion import (  # type: ignore[attr-defined]  # noqa: PLC0415 - only this command needs it
        get_completion_script,
    )

    typer.echo(get_completion_script(prog_name="twinlog", complete_var=COMPLETES, shell=shell.value))


COMPLETES = "_TWINLOG_COMPLETE"
"""The variable of the environment by which the script of a shell asks for words."""

RUN, INSPECT, FAIL_OVER = "Run", "Inspect", "Fail over"
REPAIR, CONNECT, SET_UP = "Repair", "Connect", "Set up"
SECTIONS = (RUN, INSPECT, FAIL_OVER, REPAIR, CONNECT, SET_UP)


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """The place of a subcommand: the function of a module that it calls, or its app.

    `section` is its place in the help of `twinlog`, `page` the page of docs that has more about it.
    """

    section: str
    name: str
    module: str
    function: str
    page: str
    context: Mapping[str, Any] | None = None


class OnDemand(TwinlogGroup):
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
    alone = CommandApp()
    if isinstance(called, typer.Typer):
        alone.add_typer(called, name=command.name)
    else:
        alone.command(command.name, context_settings=None if command.context is None else dict(command.context))(called)
    # Typer makes a group only for several commands.
    made: Any = typer.main.get_command(alone)
    found = made.commands[command.name] if isinstance(called, typer.Typer) else made
    found.section, found.page = command.section, command.page
    return found


class _Commands(OnDemand):
    """The commands of `twinlog`; `lazy` has all of them."""

    sections = SECTIONS
    page = "docs/index.md"
    lazy = (
        # connect-mirror-maker's `--clusters a b c` passes b and c as arguments of their own.
        LazyCommand(RUN, "run", "twinlog.cli.run", "run", "docs/running.md", {"allow_extra_args": True}),
        LazyCommand(RUN, "reload", "twinlog.ops.reload.command", "reload", "docs/running.md#reload-the-file"),
        LazyCommand(RUN, "log-level", "twinlog.ops.log_level.command", "log_level", "docs/monitoring.md#log-levels"),
        LazyCommand(INSPECT, "check", "twinlog.cli.check", "check", "docs/plan.md#check-a-file"),
        LazyCommand(INSPECT, "plan", "twinlog.ops.plan.command", "plan", "docs/plan.md"),
        LazyCommand(INSPECT, "audit", "twinlog.ops.audit.command", "audit", "docs/audit.md"),
        LazyCommand(INSPECT, "canary", "twinlog.ops.canary.commands", "app", "docs/canary.md"),
        LazyCommand(INSPECT, "diff", "twinlog.ops.diff.command", "diff", "docs/plan.md#compare-two-clusters"),
        LazyCommand(INSPECT, "status", "twinlog.ops.status.command", "status", "docs/monitoring.md"),
        LazyCommand(INSPECT, "console", "twinlog.ui.command", "console", "docs/console.md"),
        LazyCommand(INSPECT, "topics", "twinlog.ops.topics.commands", "app", "docs/topics.md"),
        LazyCommand(INSPECT, "verify", "twinlog.ops.verify.command", "verify", "docs/verify.md"),
        LazyCommand(INSPECT, "explain", "twinlog.ops.explain.command", "explain", "docs/messages.md"),
        LazyCommand(
            FAIL_OVER, "groups", "twinlog.ops.groups.command", "groups", "docs/consumer-groups.md#which-groups-may-move"
        ),
        LazyCommand(
            FAIL_OVER,
            "translate",
            "twinlog.ops.translate.command",
            "translate",
            "docs/consumer-groups.md#offset-translation",
        ),
        LazyCommand(FAIL_OVER, "switchover", "twinlog.ops.switchover.command", "switchover", "docs/switchover.md"),
        LazyCommand(
            FAIL_OVER, "switchback", "twinlog.ops.switchover.command", "switchback", "docs/switchover.md#failback"
        ),
        LazyCommand(REPAIR, "replay", "twinlog.ops.replay.command", "replay", "docs/topics.md#backfill-replay-a-range"),
        LazyCommand(CONNECT, "connect", "twinlog.cli.connect", "connect", "docs/connect.md"),
        LazyCommand(
            CONNECT, "connectors", "twinlog.ops.connectors.commands", "app", "docs/connect.md#manage-connectors"
        ),
        LazyCommand(SET_UP, "acls", "twinlog.ops.acls.command", "acls", "docs/security.md#permissions"),
        LazyCommand(SET_UP, "convert", "twinlog.ops.convert.command", "convert", "docs/strimzi.md#convert"),
        LazyCommand(
            SET_UP, "keygen", "twinlog.ops.verify.statement_command", "keygen", "docs/verify.md#signed-statements"
        ),
        LazyCommand(SET_UP, "warm-up", "twinlog.cli.main", "warm_up", "docs/running.md#the-bridge"),
        LazyCommand(SET_UP, "launcher", "twinlog.cli.main", "launcher", "docs/starting.md#spark-submit"),
        LazyCommand(SET_UP, "completion", "twinlog.cli.main", "completion", "docs/commands.md"),
    )

    def _main_shell_completion(self, *given: Any, **named: Any) -> None:
        if COMPLETES in os.environ:
            from typer.completion import completion_init  # type: ignore[attr-defined]  # noqa: PLC0415

            completion_init()
        super()._main_shell_completion(*given, **named)


app = CommandApp(
    name="twinlog",
    cls=_Commands,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"twinlog {__version__}")
        raise typer.Exit


@app.callback()
def twinlog(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Copy topics between clusters of Apache Kafka, with the files of MirrorMaker 2.

    `twinlog COMMAND --help` describes a command.

    Exit codes: 0; 1; 2; 3; 4.

    Example: twinlog check mm2.properties && twinlog run mm2.properties
    """
