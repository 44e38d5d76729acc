"""`twinlog connectors offsets`: the offsets that connectors have stored (KIP-875)."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from twinlog.config.connector import connector_kind
from twinlog.console.command_class import CommandApp
from twinlog.console.data_format import DataFormat, print_result
from twinlog.console.options import DryRun, Output, Yes
from twinlog.console.table import table
from twinlog.errors import ConfigError, RequestError
from twinlog.errors.mistakes import ConfigProblem
from twinlog.ops.connectors.options import Name, asks_worker, confirm
from twinlog.ops.connectors.rest import LOGIN_HELP, ConnectRest
from twinlog.settings.flow import ConnectorKind

NONE = "none"

Entry = dict[str, Any]
"""A `partition` and its `offset`, as in JSON."""

_HEADS = {"sourceClusterAlias": "SOURCE", "targetClusterAlias": "TARGET"}


@dataclass(frozen=True, slots=True)
class _PartitionFormat:
    """The fields of a partition in a kind of connector (Kafka class MirrorUtils)."""

    fields: tuple[str, ...]
    example: str


_FORMS: dict[ConnectorKind, _PartitionFormat] = {
    "source": _PartitionFormat(("cluster", "topic", "partition"), "TOPIC:PARTITION=OFFSET, as orders:3=1200"),
    "checkpoint": _PartitionFormat(("group", "topic", "partition"), "TOPIC:PARTITION=none with --group"),
    "heartbeat": _PartitionFormat(("sourceClusterAlias", "targetClusterAlias"), "none, or 0"),
}


def offset_rows(entries: Sequence[Entry]) -> list[tuple[str, ...]]:
    """Rows of a table, with its head: a column for each word that names a partition."""
    fields = next((form.fields for form in _FORMS.values() if all(_is(entry, form) for entry in entries)), None)
    if fields is None:
        # Of another connector, on a worker of Kafka's.
        return [("PARTITION", "OFFSET"), *((str(entry["partition"]), _offset(entry)) for entry in entries)]
    head = (_HEADS.get(field, field.upper()) for field in fields)
    # Sorted by type first: numbers by value.
    in_order = sorted(entries, key=lambda entry: [(type(part).__name__, part) for part in _place(entry, fields)])
    return [(*head, "OFFSET"), *((*map(str, _place(entry, fields)), _offset(entry)) for entry in in_order)]


def _place(entry: Entry, fields: Sequence[str]) -> list[Any]:
    return [entry["partition"][field] for field in fields]


def _is(entry: Entry, form: _PartitionFormat) -> bool:
    return set(entry["partition"]) == set(form.fields)


def _offset(entry: Entry) -> str:
    offset = entry["offset"]
    if offset is None:
        return NONE
    return str(offset["offset"]) if set(offset) == {"offset"} else str(offset)


def offset_entries(words: Sequence[str], config: dict[str, str], groups: Sequence[str] = ()) -> list[Entry]:
    """The offsets that `words` of a command line name, of the connector with this configuration. Raises ConfigError."""
    kind = connector_kind(config.get("connector.class", ""))
    if kind is None:
        raise _wrong("OFFSET", "words for another connector than MirrorMaker 2's", "--file")
    if groups and kind != "checkpoint":
        raise _wrong("--group", repr(groups[0]), "none, since only checkpoints have groups")
    if kind == "checkpoint" and not groups:
        raise _wrong("--group", "missing", "the group whose checkpoints are meant")
    source = config.get("source.cluster.alias", "source").strip()
    if kind == "heartbeat":
        target = config.get("target.cluster.alias", "target").strip()
        pair = {"sourceClusterAlias": source, "targetClusterAlias": target}
        return [{"partition": pair, "offset": _number(word, word, kind)} for word in words]
    owners = [{"cluster": source}] if kind == "source" else [{"group": group} for group in groups]
    return [_of_topic(word, own, kind) for own in owners for word in words]


def _of_topic(word: str, own: dict[str, Any], kind: ConnectorKind) -> Entry:
    place, _, offset = word.partition("=")
    topic, _, partition = place.rpartition(":")
    if not topic or not partition.isdecimal():
        raise _wrong("OFFSET", repr(word), _FORMS[kind].example)
    return {"partition": {**own, "topic": topic, "partition": int(partition)}, "offset": _number(offset, word, kind)}


def _number(offset: str, word: str, kind: ConnectorKind) -> dict[str, int] | None:
    if offset == NONE:
        return None
    if not offset.isdecimal():
        raise _wrong("OFFSET", repr(word), _FORMS[kind].example)
    return {"offset": int(offset)}


def _wrong(key: str, found: str, expected: str) -> ConfigError:
    return ConfigError([ConfigProblem("twinlog connectors offsets", None, key, found, expected)])


offsets = CommandApp(no_args_is_help=True)


@offsets.callback(epilog=LOGIN_HELP)
def about() -> None:
    """List, alter and reset stored offsets. A connector must be stopped before they can be changed.

    Example: twinlog connectors offsets list 'east->west.Source'
    """


@offsets.command("list", epilog=LOGIN_HELP)
@asks_worker
def list_(rest: ConnectRest, name: Name, output: Output = DataFormat.TABLE) -> None:
    """Print the stored offsets of a connector: of a source connector the last record copied of each partition.

    With -o json in the form that `alter --file` reads.

    Example: twinlog connectors offsets list 'east->west.Source' -o json > offsets.json
    """
    found = rest.get("connectors", name, "offsets")
    print_result(output, lambda: found, lambda: _offset_lines(name, found["offsets"]))


def _offset_lines(name: str, entries: Sequence[Entry]) -> list[str]:
    if not entries:
        return [f"{name} lacks stored offsets"]
    rows = offset_rows(entries)
    columns = enumerate(zip(*rows[1:], strict=True))
    numbers = [at for at, cells in columns if all(cell.isdecimal() for cell in cells)]
    return table(rows, numbers)


@offsets.command(epilog=LOGIN_HELP)
@asks_worker
def alter(
    rest: ConnectRest,
    name: Name,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TOPIC:PARTITION=OFFSET",
            help="OFFSET is that of the last record that counts as copied, or `none`: the offset is deleted.",
            show_default=False,
        ),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(metavar="GROUP", help="The group of a checkpoint; may be repeated.", show_default=False),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="JSON as `list -o json` prints it.", show_default=False),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Replace stored offsets of a stopped connector; all other offsets stay.

    A source connector continues with the record after OFFSET, and a partition at `none` begins at its first record.
    Offsets of checkpoints and heartbeats are 0 or `none`; a heartbeat connector has a single offset, which leaves out
    TOPIC and PARTITION.

    Example: twinlog connectors offsets alter 'east->west.Source' orders:0=1199 orders:1=none

    Example: twinlog connectors offsets alter 'east->west.Checkpoint' orders:0=none --group shop

    Example: twinlog connectors offsets alter 'east->west.Source' --file offsets.json
    """
    if bool(words) == (file is not None):
        raise typer.BadParameter("give either TOPIC:PARTITION=OFFSET or --file")
    if file is not None:
        if group:
            raise typer.BadParameter("FILE has the groups in it", param_hint="--group")
        entries = _read(file)
    else:
        entries = offset_entries(words or [], rest.get("connectors", name, "config"), group or ())
    if dry_run:
        before = rest.get("connectors", name, "offsets")["offsets"]
        typer.echo("\n".join(_change_lines(name, before, entries)))
        return
    _change(rest, "PATCH", name, {"offsets": entries})


@offsets.command(epilog=LOGIN_HELP)
@asks_worker
def reset(rest: ConnectRest, name: Name, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Delete all stored offsets of a stopped connector: a source connector copies everything again.

    Example: twinlog connectors offsets reset 'east->west.Source' --yes
    """
    rest.get("connectors", name)
    if dry_run:
        count = len(rest.get("connectors", name, "offsets")["offsets"])
        typer.echo(f"{name}: all stored offsets would be deleted: {count}")
        return
    confirm(f"Delete all stored offsets of {name}?", yes, "nothing was changed")
    _change(rest, "DELETE", name, None)


def _change_lines(name: str, before: Sequence[Entry], entries: Sequence[Entry]) -> list[str]:
    """A line for each offset that would be replaced, with the stored offset. Raises ConfigError."""
    lines = []
    for entry in entries:
        if not _is_whole(entry):
            raise _wrong("offsets", repr(entry), '{"partition": {...}, "offset": {...} or null}')
        stored = next((one for one in before if one["partition"] == entry["partition"]), None)
        place = " ".join(f"{field}={value}" for field, value in entry["partition"].items())
        now = NONE if stored is None else _offset(stored)
        lines.append(f"{name}: {place}: offset {now} would be {_offset(entry)}")
    return lines


def _is_whole(entry: object) -> bool:
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("partition"), dict)
        and "offset" in entry
        and isinstance(entry["offset"], dict | None)
    )


def _read(file: Path) -> list[Entry]:
    expected = 'JSON with {"offsets": [{"partition": {...}, "offset": {...} or null}, ...]}'
    try:
        found: Any = json.loads(file.read_bytes())
    except OSError as error:
        raise ConfigError([ConfigProblem(str(file), None, "", str(error.strerror), expected)]) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError([ConfigProblem(str(file), None, "", f"broken JSON: {error}", expected)]) from None
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
            raise RequestError(
                400, f"{name} is still running: `twinlog connectors stop {word}` ends its tasks"
            ) from None
        raise
    typer.echo(answer["message"])
    typer.echo(f"`twinlog connectors resume {word}` starts it")
