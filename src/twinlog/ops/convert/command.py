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
from twinlog.console.command_log import ends_if_wrong, print_note, print_warning_line
from twinlog.console.exit_codes import FOUND, WRONG
from twinlog.console.new_files import write_new_files
from twinlog.ops.convert.model import Mirrors, Output
from twinlog.ops.convert.readers import mirrors_of_connectors, mirrors_of_properties, mirrors_of_resource
from twinlog.ops.convert.secrets import SecretStore
from twinlog.ops.convert.to_properties import to_connectors, to_properties
from twinlog.ops.convert.to_strimzi import to_strimzi
from twinlog.ops.convert.versions import to_version

_MOUNTED = Path("/mnt/secrets")


class MirrorForm(StrEnum):
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
            metavar="INPUT",
            help="A MirrorMaker 2 properties file; or Strimzi's KafkaMirrorMaker2; or connectors as JSON or "
            "properties, with the file of their worker if they have a worker.",
            show_default=False,
        ),
    ],
    form: Annotated[
        MirrorForm,
        typer.Option("-o", "--output", help="The form to write; --output-dir names the folder.", show_default=False),
    ],
    api_version: Annotated[
        StrimziApiVersion, typer.Option("--api-version", help="The version of Strimzi's resource to write.")
    ] = StrimziApiVersion.V1,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--output-dir",
            metavar="DIR",
            help="Write files there, and keep existing files. By default a single file is printed.",
            show_default=False,
        ),
    ] = None,
    secrets: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder of Secrets, DIR/NAME/KEY; with --output-dir the values in INPUT are written there. Default: "
            "DIR/secrets of --output-dir, or /mnt/secrets.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write a mirror in another form: MirrorMaker 2's properties, connectors of Kafka Connect, Strimzi's resource.

    Settings that lack a place in the form are listed with their lines. Secrets only go into files of their own that
    only you may read. Works without clusters.

    Exit codes: 0; 1 a setting lacks a place in the form, and the rest is written; 2 an option or INPUT is wrong, and
    nothing is written; 4.

    Example: twinlog convert mm2.properties -o strimzi --output-dir mirror

    Example: twinlog convert worker.properties source.json checkpoint.json -o properties
    """
    vault = _absolute(secrets or (folder / "secrets" if folder is not None else _MOUNTED))
    with ends_if_wrong(WRONG):
        made = _made(inputs, form, _version(api_version), SecretStore(str(vault)))
    if folder is None and len(made.files) > 1:
        raise typer.BadParameter(f"the result is {len(made.files)} files: name a folder", param_hint="--output-dir")
    if folder is None:
        typer.echo("".join(made.files.values()), nl=False)
    else:
        _write(made, folder, vault)
    for remark in made.remarks:
        print_note(f"note: {remark}")
    if folder is None:
        for name, key in made.secrets:
            print_warning_line(
                f"note: INPUT has {key} of the Secret {name}, which is left out; --output-dir DIR writes it to a file "
                "[TW-FILE-20]"
            )
    for one in made.not_converted:
        print_warning_line(f"not converted: {one} [TW-FILE-20]")
    if made.not_converted:
        raise typer.Exit(FOUND)


def _version(api: StrimziApiVersion) -> Version:
    return "v1" if api is StrimziApiVersion.V1 else "v1beta2"


def _made(inputs: Sequence[Path], to: MirrorForm, version: Version, vault: SecretStore) -> Output:
    kinds = [kind_of(path) for path in inputs]
    if len(inputs) > 1 and set(kinds) & {FileKind.MIRROR, FileKind.RESOURCE}:
        raise typer.BadParameter("a single file of this kind at a time; only connectors and their worker come together")
    if kinds == [FileKind.RESOURCE] and to is MirrorForm.STRIMZI:
        return to_version(inputs[0], version)
    mirrors, form = _read(inputs, kinds)
    if form is to:
        raise typer.BadParameter(f"{inputs[0]} has this form already", param_hint="--output")
    if to is MirrorForm.PROPERTIES:
        return to_properties(mirrors, vault)
    return to_connectors(mirrors, vault) if to is MirrorForm.CONNECTORS else to_strimzi(mirrors, vault, version)


def _read(inputs: Sequence[Path], kinds: Sequence[FileKind]) -> tuple[Mirrors, MirrorForm]:
    if kinds == [FileKind.RESOURCE]:
        return mirrors_of_resource(inputs[0]), MirrorForm.STRIMZI
    if kinds == [FileKind.MIRROR]:
        return mirrors_of_properties(read_properties(inputs[0]), str(inputs[0])), MirrorForm.PROPERTIES
    workers = [path for path, kind in zip(inputs, kinds, strict=True) if kind is FileKind.WORKER]
    if len(workers) > 1:
        raise typer.BadParameter(f"{workers[1]} is the file of another worker: a single worker at a time")
    connectors = [path for path in inputs if path not in workers]
    return mirrors_of_connectors(workers[0] if workers else None, connectors), MirrorForm.CONNECTORS


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))


def _write(made: Output, output: Path, folder: Path) -> None:
    files = {output / name: (text.encode(), 0o644) for name, text in made.files.items()}
    files |= {folder / name / key: (value.encode(), 0o600) for (name, key), value in made.secrets.items()}
    write_new_files(files, kept="; DIR is as before")
    for path in files:
        print_note(f"wrote {path}")
