"""`twinlog check`: reads a configuration and prints its problems; it contacts no cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from twinlog.cli.check_worker import check_resource, check_worker
from twinlog.cli.summary import summary
from twinlog.config import load
from twinlog.config.file_kind import FileKind, kind_of
from twinlog.config.queries import check_queries
from twinlog.config.text.explain import explain as explain_key
from twinlog.console.options import Secrets
from twinlog.console.wrong_file import ends_if_wrong, print_warnings


def check(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A MirrorMaker 2 properties file, Strimzi's KafkaMirrorMaker2, or the file of a Connect worker or "
            "of a connector.",
            show_default=False,
        ),
    ],
    more: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[CONNECTOR]...", help="Connectors of the worker, properties or JSON.", show_default=False
        ),
    ] = None,
    explain: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Print this key's value in each flow, and the line that sets it."),
    ] = None,
    clusters: Annotated[
        list[str] | None,
        typer.Option(metavar="ALIAS ...", help="Look only at flows whose target is one of these aliases."),
    ] = None,
    secrets: Secrets = None,
) -> None:
    """Read a configuration, print every problem and warning, and what each flow would do. Contacts no cluster.

    Where a flow has transform.sql, Spark analyses the query, which takes some seconds.

    Ends with code 1 if something is wrong.

    Example: twinlog check mm2.properties --explain topics.exclude

    Example: twinlog check connect-distributed.properties source.json

    Example: twinlog check mirror.yaml --secrets /mnt/secrets
    """
    # connect-mirror-maker's `--clusters a b c` passes b and c as arguments of their own.
    wanted = None if clusters is None else [*clusters, *map(str, more or [])]
    kind = kind_of(path)
    if kind is not FileKind.MIRROR:
        if explain is not None or clusters is not None:
            raise typer.BadParameter(f"{path} is no file of MirrorMaker 2", param_hint="--explain and --clusters")
        if kind is FileKind.RESOURCE:
            _check_resource(path, secrets, more or [])
            return
        _check_worker(path if kind is FileKind.WORKER else None, more or [], path)
        return
    if more and clusters is None:
        raise typer.BadParameter(f"unexpected argument {str(more[0])!r}")
    with ends_if_wrong(1):
        if explain is not None:
            for line in explain_key(path, explain):
                typer.echo(str(line))
            return
        config = load(path, wanted)
        unchecked = check_queries(config.flows, path)
    print_warnings((*config.warnings, *unchecked))
    for flow in config.flows:
        if flow.enabled:
            typer.echo("\n".join(summary(flow)))
    beating = [flow.name for flow in config.flows if not flow.enabled]
    if beating:
        typer.echo("not enabled, heartbeats only\n  " + ", ".join(beating))


def _check_resource(path: Path, secrets: Path | None, more: Sequence[Path]) -> None:
    if more:
        raise typer.BadParameter(f"unexpected argument {str(more[0])!r}")
    with ends_if_wrong(1):
        lines, warnings = check_resource(path, secrets)
    print_warnings(warnings)
    typer.echo("\n".join(lines))


def _check_worker(worker: Path | None, more: Sequence[Path], path: Path) -> None:
    with ends_if_wrong(1):
        lines, warnings = check_worker(worker, more if worker is not None else [path, *more])
    print_warnings(warnings)
    typer.echo("\n".join(lines))
