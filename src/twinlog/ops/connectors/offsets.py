"""`twinlog connectors offsets`: the offsets that connectors have stored (KIP-875)."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from twinlog.console.table import table
from twinlog.errors import ConfigError, ConfigProblem, RequestError
from twinlog.ops.connectors import offset_forms
from twinlog.ops.connectors.access import LOGIN_HELP
from twinlog.ops.connectors.offset_forms import Entry
from twinlog.ops.connectors.options import Json, Name, Yes, asks_worker, confirm
from twinlog.ops.connectors.rest import ConnectRest

offsets = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")


@offsets.callback(epilog=LOGIN_HELP)
def about() -> None:
    """List, alter and reset stored offsets. A connector must be stopped before they can be changed.

    Example: twinlog connectors offsets list 'east->west.Source'
    """


@offsets.command("list", epilog=LOGIN_HELP)
@asks_worker
def list_(rest: ConnectRest, name: Name, as_json: Json = False) -> None:
    """Print the stored offsets of a connector: of a source connector the last record copied of each partition.

    With --json in the form that `alter --file` reads.

    Example: twinlog connectors offsets list 'east->west.Source' --json > offsets.json
    """
    found = rest.get("connectors", name, "offsets")
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    elif found["offsets"]:
        rows = offset_forms.rows(found["offsets"])
        columns = enumerate(zip(*rows[1:], strict=True))
        numbers = [at for at, cells in columns if all(cell.isdecimal() for cell in cells)]
        typer.echo("\n".join(table(rows, numbers)))
    else:
        typer.echo(f"{name} has no stored offsets")


@offsets.command(epilog=LOGIN_HELP)
@asks_worker
def alter(
    rest: ConnectRest,
    name: Name,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TOPIC:PARTITION=OFFSET ...]",
            help="OFFSET is that of the last record that counts as copied, or `none`: the offset is deleted.",
            show_default=False,
        ),
    ] = None,
    group: Annotated[
        str | None, typer.Option(metavar="GROUP", help="Of a checkpoint connector.", show_default=False)
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="JSON as `list --json` prints it.", show_default=False),
    ] = None,
) -> None:
    """Replace stored offsets of a stopped connector; those that are not named stay.

    A source connector goes on with the record after OFFSET, and at the beginning of a partition without one. Offsets
    of checkpoints and heartbeats are 0 or `none`; a heartbeat connector has one, without TOPIC and PARTITION.

    Example: twinlog connectors offsets alter 'east->west.Source' orders:0=1199 orders:1=none

    Example: twinlog connectors offsets alter 'east->west.Checkpoint' orders:0=none --group shop

    Example: twinlog connectors offsets alter 'east->west.Source' --file offsets.json
    """
    if bool(words) == (file is not None):
        raise typer.BadParameter("give either TOPIC:PARTITION=OFFSET or --file")
    if file is not None:
        if group is not None:
            raise typer.BadParameter("FILE has the groups in it", param_hint="--group")
        entries = _read(file)
    else:
        entries = offset_forms.entries(words or [], rest.get("connectors", name, "config"), group)
    _change(rest, "PATCH", name, {"offsets": entries})


@offsets.command(epilog=LOGIN_HELP)
@asks_worker
def reset(rest: ConnectRest, name: Name, yes: Yes = False) -> None:
    """Delete all stored offsets of a stopped connector: a source connector copies everything again.

    Example: twinlog connectors offsets reset 'east->west.Source' --yes
    """
    rest.get("connectors", name)
    confirm(f"Delete all stored offsets of {name}?", yes, "nothing was changed")
    _change(rest, "DELETE", name, None)


def _read(file: Path) -> list[Entry]:
    expected = 'JSON with {"offsets": [{"partition": {...}, "offset": {...} or null}, ...]}'
    try:
        found: Any = json.loads(file.read_bytes())
    except OSError as error:
        raise ConfigError([ConfigProblem(str(file), None, "(file)", str(error.strerror), expected)]) from None
    except ValueError as error:
        raise ConfigError([ConfigProblem(str(file), None, "(file)", f"broken JSON: {error}", expected)]) from None
    entries = found.get("offsets") if isinstance(found, dict) else None
    if not isinstance(entries, list):
        raise ConfigError([ConfigProblem(str(file), None, "offsets", "missing", expected)])
    return entries


def _change(rest: ConnectRest, method: str, name: str, body: Any) -> None:
    word = shlex.quote(name)
    try:
        answer = rest.send_request(method, "connectors", name, "offsets", body=body)[1]
    except RequestError as error:
        if error.status == 400 and "STOPPED" in error.message:
            raise RequestError(400, f"{name} is not stopped: `twinlog connectors stop {word}` ends its tasks") from None
        raise
    typer.echo(answer["message"])
    typer.echo(f"`twinlog connectors resume {word}` starts it")
