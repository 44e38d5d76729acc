"""Puts the subcommands together."""

from __future__ import annotations

from typing import Annotated

import typer

from twinlog import __version__
from twinlog.cli.on_demand import LazyCommand, OnDemand


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
    # Lines of a paragraph are joined, and wrapped where the terminal ends.
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
