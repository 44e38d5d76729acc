"""The options of every command of `twinlog connectors`, and the results of errors, shared by all."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from twinlog.console.command_log import print_error, print_note
from twinlog.console.exit_codes import FOUND, UNREACHABLE, code_of, end_with, failure_text
from twinlog.errors import TwinlogError
from twinlog.errors.message_ids import id_first
from twinlog.kafka.retry import CONNECT_REST
from twinlog.ops.connectors.rest import CACERT, CERT, DEFAULT_URL, KEY, REQUEST_S, URL, ConnectRest, TlsFiles, access

Names = Annotated[list[str], typer.Argument(metavar="NAME", help="Connectors.", show_default=False)]
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
            envvar=CACERT,
            help="PEM file of authorities to trust, besides the system's.",
            show_default=False,
        ),
    ] = None,
    cert: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar=CERT,
            help="PEM file of the client's certificate, which may contain its key.",
            show_default=False,
        ),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", envvar=KEY, help="PEM file of the client's key.", show_default=False),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            min=0,
            help="How long to ask again while the worker starts or its group rebalances, in seconds.",
        ),
    ] = CONNECT_REST.patience_s,
    retry: Annotated[float | None, typer.Option(min=0, hidden=True)] = None,
    listens_later: Annotated[
        bool, typer.Option("--listens-later", help="Ask again also while the port is still closed.")
    ] = False,
) -> ConnectRest:
    """The worker that these options name."""
    way = access(url, TlsFiles(cacert, cert, key), warn=print_note)
    # By default an answer may take longer than a retry: a worker itself gives a request up after 90 seconds.
    request_s = REQUEST_S if timeout == CONNECT_REST.patience_s else max(1.0, timeout)
    patience_s = timeout if retry is None else retry
    return ConnectRest(way, print_note, patience_s=patience_s, listens_later=listens_later, request_s=request_s)


def asks_worker(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose first parameter is the worker: it gets the options that name the worker, in its place.

    An error ends it with the error's code. A command with a `timeout` of its own keeps it.
    """
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    kept = {parameter.name for parameter in own}
    shared = {
        name: parameter
        for name, parameter in inspect.signature(_options, eval_str=True).parameters.items()
        if name not in kept
    }

    @wraps(command)
    def run(**given: Any) -> None:
        worker = {name: given.pop(name) for name in shared}
        try:
            command(_options(**worker), **given)
        except TwinlogError as error:
            end_with(error)

    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in (*own, *shared.values())]
    run.__dict__["__signature__"] = inspect.Signature(parameters)
    return run


def confirm(question: str, yes: bool, otherwise: str) -> None:
    """Ask before an irreversible action; ends the command if the answer is no."""
    if yes:
        return
    try:
        agreed = typer.confirm(question)
    except typer.Abort:
        print_note("")
        raise typer.BadParameter("the input is closed; give --yes to skip the question") from None
    if not agreed:
        print_note(otherwise)
        raise typer.Exit(FOUND)


def each(names: list[str], step: Callable[[str], None]) -> None:
    """Take a step for every name, also after a failed step; then the command ends with the code of the failures."""
    codes = set()
    for name in dict.fromkeys(names):
        try:
            step(name)
        except TwinlogError as error:
            codes.add(code_of(error))
            print_error(id_first(f"{name}: {failure_text(error)}"))
    if codes:
        raise typer.Exit(UNREACHABLE if UNREACHABLE in codes else FOUND)
