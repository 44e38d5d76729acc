"""`twinlog convert`: the same mirror in another form, and the settings that lack a place in that form."""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from twinlog.config.file_kind import FileKind, kind_of
from twinlog.config.properties import read_properties
from twinlog.config.strimzi.fields import Version
from twinlog.console.command_log import EXIT_CONFIG, ends_if_wrong
from twinlog.ops.convert.model import Mirrors, Output
from twinlog.ops.convert.readers import mirrors_of_connectors, mirrors_of_properties, mirrors_of_resource
from twinlog.ops.convert.secrets import SecretStore
from twinlog.ops.convert.to_properties import to_connectors, to_properties
from twinlog.ops.convert.to_strimzi import to_strimzi
from twinlog.ops.convert.versions import to_version

EXIT_NOT_CONVERTED = 3
_MOUNTED = Path("/mnt/secrets")


class OutputFormat(StrEnum):
    """How a mirror can be written."""

    PROPERTIES = "properties"
    CONNECTORS = "connectors"
    STRIMZI = "strimzi"


class StrimziApiVersion(StrEnum):
    """The versions of Strimzi's resource."""

    V1 = "v1"
    V1BETA2 = "v1beta2"


def convert(
    inputs: Annotated[
        list[Path],
        typer.Argument(
            metavar="INPUT...",
            help="A MirrorMaker 2 properties file; or Strimzi's KafkaMirrorMaker2; or connectors as JSON or "
            "properties, with the file of their worker if they have a worker.",
            show_default=False,
        ),
    ],
    to: Annotated[OutputFormat, typer.Option("--to", help="The form to write.", show_default=False)],
    version: Annotated[
        StrimziApiVersion, typer.Option("--version", help="Of Strimzi's resource.")
    ] = StrimziApiVersion.V1,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="DIR",
            help="Write files there, and keep existing files. By default a single file is printed.",
            show_default=False,
        ),
    ] = None,
    secrets: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder of Secrets, DIR/NAME/KEY; with -o the values in INPUT are written there. Default: "
            "DIR/secrets of -o, or /mnt/secrets.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write a mirror in another form: MirrorMaker 2's properties, connectors of Kafka Connect, Strimzi's resource.

    Settings that lack a place in the form are listed with their lines. Secrets only go into files of their own that
    only you may read. Works without clusters.

    Ends with code 0, 2 when INPUT is wrong, before any write, and 3 when something lacks a place in the form.

    Example: twinlog convert mm2.properties --to strimzi -o mirror

    Example: twinlog convert worker.properties source.json checkpoint.json --to properties
    """
    folder = _absolute(secrets or (output / "secrets" if output is not None else _MOUNTED))
    with ends_if_wrong(EXIT_CONFIG):
        made = _made(inputs, to, _version(version), SecretStore(str(folder)))
    if output is None and len(made.files) > 1:
        raise typer.BadParameter(f"the result is {len(made.files)} files: name a folder", param_hint="-o")
    if output is None:
        typer.echo("".join(made.files.values()), nl=False)
    else:
        _write(made, output, folder)
    for remark in made.remarks:
        typer.echo(f"note: {remark}", err=True)
    if output is None:
        for name, key in made.secrets:
            typer.echo(
                f"note: INPUT has {key} of the Secret {name}, which is left out; -o DIR writes it to a file",
                err=True,
            )
    for one in made.not_converted:
        typer.echo(f"not converted: {one}", err=True)
    if made.not_converted:
        raise typer.Exit(EXIT_NOT_CONVERTED)


def _version(api: StrimziApiVersion) -> Version:
    return "v1" if api is StrimziApiVersion.V1 else "v1beta2"


def _made(inputs: Sequence[Path], to: OutputFormat, version: Version, vault: SecretStore) -> Output:
    kinds = [kind_of(path) for path in inputs]
    if len(inputs) > 1 and set(kinds) & {FileKind.MIRROR, FileKind.RESOURCE}:
        raise typer.BadParameter("a single file of this kind at a time; only connectors and their worker come together")
    if kinds == [FileKind.RESOURCE] and to is OutputFormat.STRIMZI:
        return to_version(inputs[0], version)
    mirrors, form = _read(inputs, kinds)
    if form is to:
        raise typer.BadParameter(f"{inputs[0]} has this form already", param_hint="--to")
    if to is OutputFormat.PROPERTIES:
        return to_properties(mirrors, vault)
    return to_connectors(mirrors, vault) if to is OutputFormat.CONNECTORS else to_strimzi(mirrors, vault, version)


def _read(inputs: Sequence[Path], kinds: Sequence[FileKind]) -> tuple[Mirrors, OutputFormat]:
    if kinds == [FileKind.RESOURCE]:
        return mirrors_of_resource(inputs[0]), OutputFormat.STRIMZI
    if kinds == [FileKind.MIRROR]:
        return mirrors_of_properties(read_properties(inputs[0]), str(inputs[0])), OutputFormat.PROPERTIES
    workers = [path for path, kind in zip(inputs, kinds, strict=True) if kind is FileKind.WORKER]
    if len(workers) > 1:
        raise typer.BadParameter(f"{workers[1]} is the file of another worker: a single worker at a time")
    connectors = [path for path in inputs if path not in workers]
    return mirrors_of_connectors(workers[0] if workers else None, connectors), OutputFormat.CONNECTORS


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))


def _write(made: Output, output: Path, folder: Path) -> None:
    files = {output / name: (text, 0o644) for name, text in made.files.items()}
    files |= {folder / name / key: (value, 0o600) for (name, key), value in made.secrets.items()}
    there = [path for path in files if path.exists()]
    if there:
        typer.echo(f"problem: {there[0]} exists; DIR is as before", err=True)
        raise typer.Exit(EXIT_CONFIG)
    try:
        for path, (text, mode) in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
                file.write(text)
            typer.echo(f"wrote {path}", err=True)
    except OSError as error:
        typer.echo(f"problem: {error.filename}: {error.strerror}", err=True)
        raise typer.Exit(EXIT_CONFIG) from None
