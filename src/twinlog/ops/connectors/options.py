"""The options of every command of `twinlog connectors`, and the results of errors, shared by all."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from twinlog.console.command_log import print_problems
from twinlog.errors import ConfigError, TwinlogError
from twinlog.kafka.retry import CONNECT_REST
from twinlog.ops.connectors.rest import DEFAULT_URL, URL, ConnectRest, TlsFiles, access

EXIT_TROUBLE, EXIT_USAGE = 1, 2

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Skip the question.")]
Names = Annotated[list[str], typer.Argument(metavar="NAME ...", help="Connectors.", show_default=False)]
Name = Annotated[str, typer.Argument(metavar="NAME", help="A connector.", show_default=False)]


def _options(
    *,
    url: Annotated[
        str, typer.Option(metavar="URL", envvar=URL, help="Address of any worker of the group.")
    ] = DEFAULT_URL,
    cacert: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar="TWINLOG_CONNECT_CACERT",
            help="PEM file of authorities to trust, besides the system's.",
            show_default=False,
        ),
    ] = None,
    cert: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar="TWINLOG_CONNECT_CERT",
            help="PEM file of the client's certificate, which may contain its key.",
            show_default=False,
        ),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", envvar="TWINLOG_CONNECT_KEY", help="PEM file of the client's key.", show_default=False
        ),
    ] = None,
    retry: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", min=0, help="How long to ask again while the worker starts or its group rebalances."
        ),
    ] = CONNECT_REST.patience_s,
    listens_later: Annotated[
        bool, typer.Option("--listens-later", help="Ask again also while the port is still closed.")
    ] = False,
) -> ConnectRest:
    """The worker that these options name."""
    way = access(url, TlsFiles(cacert, cert, key), warn=note)
    return ConnectRest(way, note, patience_s=retry, listens_later=listens_later)


def asks_worker(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose first parameter is the worker: it gets the options that name the worker, in its place.

    A refusal or a silent worker ends it with EXIT_TROUBLE, wrong options and files with EXIT_USAGE.
    """
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    shared = inspect.signature(_options, eval_str=True).parameters

    @wraps(command)
    def run(**given: Any) -> None:
        worker = {name: given.pop(name) for name in shared}
        try:
            command(_options(**worker), **given)
        except ConfigError as error:
            print_problems(error)
            raise typer.Exit(EXIT_USAGE) from None
        except TwinlogError as error:
            trouble(str(error))
            raise typer.Exit(EXIT_TROUBLE) from None

    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in (*own, *shared.values())]
    run.__dict__["__signature__"] = inspect.Signature(parameters)
    return run


def note(text: str) -> None:
    """Print a line about the progress on stderr: stdout has only the answer."""
    typer.echo(text, err=True)


def trouble(text: str) -> None:
    """Print a line about a failure on stderr."""
    typer.echo(f"twinlog: {text}", err=True)


def confirm(question: str, yes: bool, otherwise: str) -> None:
    """Ask before an irreversible action; ends the command if the answer is no."""
    if yes:
        return
    try:
        agreed = typer.confirm(question)
    except typer.Abort:
        note("")
        raise typer.BadParameter("the input is closed; give --yes to skip the question") from None
    if not agreed:
        note(otherwise)
        raise typer.Exit(EXIT_TROUBLE)


def each(names: list[str], step: Callable[[str], None]) -> None:
    """Take a step for every name, also after a failed step; then the command ends with EXIT_TROUBLE."""
    failed = False
    for name in dict.fromkeys(names):
        try:
            step(name)
        except TwinlogError as error:
            failed = True
            trouble(f"{name}: {error}")
    if failed:
        raise typer.Exit(EXIT_TROUBLE)
