"""Puts the subcommands together."""

from __future__ import annotations

from typing import Annotated

import typer

from twinlog import __version__
from twinlog.cli.check import check
from twinlog.cli.connect import connect
from twinlog.cli.connectors.commands import app as connectors
from twinlog.cli.convert import convert
from twinlog.cli.diff import diff
from twinlog.cli.groups import groups
from twinlog.cli.launcher import launcher
from twinlog.cli.plan import plan
from twinlog.cli.replay import replay
from twinlog.cli.run import run
from twinlog.cli.status import status
from twinlog.cli.switchover import switchback, switchover
from twinlog.cli.translate import translate
from twinlog.cli.verify import verify
from twinlog.cli.warm_up import warm_up

app = typer.Typer(
    name="twinlog",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # Lines of a paragraph are joined, and wrapped where the terminal ends.
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
# connect-mirror-maker's `--clusters a b c` leaves b and c over.
_CLUSTERS = {"allow_extra_args": True}
app.command(context_settings=_CLUSTERS)(run)
app.command()(check)
app.command()(plan)
app.command()(diff)
app.command()(convert)
app.command()(translate)
app.command()(verify)
app.command()(replay)
app.command()(status)
app.command()(groups)
app.command()(switchover)
app.command()(switchback)
app.command()(connect)
app.add_typer(connectors, name="connectors")
app.command("warm-up")(warm_up)
app.command()(launcher)


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
