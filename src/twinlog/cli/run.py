"""`twinlog run`: copies until a signal stops it, or until everything has been copied."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from twinlog.cli.foreground import ExitCodes, MetricsListeners, run_flows, with_listeners
from twinlog.config.file_changes import RunningFile
from twinlog.config.file_kind import is_resource
from twinlog.config.load import LoadedFile
from twinlog.config.queries import checked_file
from twinlog.config.strimzi import DEFAULT_LISTENER
from twinlog.console.command_log import end_process, print_refusal
from twinlog.console.exit_codes import FOUND, UNREACHABLE, WRONG
from twinlog.console.options import Conf, Master, Secrets, spark_options
from twinlog.errors import ConfigError
from twinlog.settings.per_topic import PerTopic
from twinlog.worker.reload.reloading import ReloadableFile

EXITS = ExitCodes(failed=FOUND, broken=UNREACHABLE, nothing=FOUND, held=FOUND)


class Until(StrEnum):
    """When `run` ends by itself, in words of before; now `--until-caught-up`."""

    CAUGHT_UP = "caught-up"


def run(
    context: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="A MirrorMaker 2 properties file, or Strimzi's resource.", show_default=False
        ),
    ],
    clusters: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ALIAS",
            help="Run only flows to these clusters, for example --clusters west north.",
            show_default=False,
        ),
    ] = None,
    until_caught_up: Annotated[
        bool,
        typer.Option("--until-caught-up", help="End once every record that exists at the start is copied."),
    ] = False,
    until: Annotated[Until | None, typer.Option(hidden=True)] = None,
    prove: Annotated[
        bool,
        typer.Option(
            "--prove",
            help="Prove all copied topics equal while the flows run, as with twinlog.proof = true. Flows with a "
            "transform are left out.",
        ),
    ] = False,
    master: Master = None,
    conf: Conf = None,
    secrets: Secrets = None,
    listen: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="Serve the REST API for Strimzi's resource at this address. If several machines run FILE, use "
            "http://:8083, which means all addresses of this machine.",
        ),
    ] = DEFAULT_LISTENER,
    metrics_listener: MetricsListeners = None,
    offsets: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            envvar="TWINLOG_OFFSETS_DIR",
            file_okay=False,
            help="Write the offsets that annotations of Strimzi's resource request to DIR/NAME/KEY, by the name of the "
            "ConfigMap. Default: the directory of --secrets, otherwise the directory of FILE.",
            show_default=False,
        ),
    ] = None,
    users: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar="TWINLOG_USERS_FILE",
            help="Allow the REST API of Strimzi's resource and the console only to these users: lines user=password, "
            "plain or from `htpasswd -B`, read once. Default: all clients for the API, and browsers of this machine "
            "for the console.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Run every enabled flow of FILE, and write heartbeats for the remaining flows.

    Change a properties file while it runs, and apply the change by `twinlog reload` or SIGHUP. Changes of Strimzi's
    KafkaMirrorMaker2 act by themselves; its connectors run in a worker of Kafka Connect.

    Exit codes: 0 Ctrl-C (SIGINT) or SIGTERM ended the flows in order, or all is copied with --until-caught-up; 1 a
    flow failed; with --until-caught-up also when a flow finds no topic to copy, or has held partitions; 2 FILE or
    an option is wrong, before any contact with a cluster; 3 Spark does not start, or dies again and again, or
    an address is taken; 4 with --until-caught-up, Ctrl-C or SIGTERM came before all was copied.

    Example: twinlog run mm2.properties

    Example: twinlog run mm2.properties --clusters west --until-caught-up

    Example: twinlog run mirror.yaml --secrets /mnt/secrets
    """
    master, settings = spark_options(master, conf)
    caught_up = until_caught_up or until is Until.CAUGHT_UP
    if is_resource(file):
        _check_options(caught_up, clusters, prove=prove)
        from twinlog.cli.run_resource import run_resource  # noqa: PLC0415 - --help must not wait for it

        run_resource(file, secrets, listen, master, settings, metrics_listener, offsets, users)
    from twinlog.connect.users import users_in  # noqa: PLC0415

    checked = partial(checked_file, file, all_clusters(context, clusters))
    read = partial(_proving, checked) if prove else checked
    try:
        loaded = read()
        known = None if users is None else users_in(users)
    except ConfigError as error:
        print_refusal(error)
        raise typer.Exit(WRONG) from None
    config = replace(loaded.config, metrics=with_listeners(loaded.config.metrics, metrics_listener))
    # A run that ends by itself must see the end of the records that existed at its start.
    again = None if caught_up else ReloadableFile(str(file), RunningFile.of(loaded), read)
    end_process(
        run_flows(config, EXITS, master=master, conf=settings, until_caught_up=caught_up, file=again, users=known)
    )


def _proving(read: Callable[[], LoadedFile]) -> LoadedFile:
    """A file whose flows are all proven, except for flows with a transform. Raises ConfigError."""
    loaded = read()
    flows = tuple(
        flow if flow.transform is not None else replace(flow, proof=PerTopic(default=True))
        for flow in loaded.config.flows
    )
    return replace(loaded, config=replace(loaded.config, flows=flows))


def _check_options(caught_up: bool, clusters: list[str] | None, *, prove: bool) -> None:
    """A worker's connectors come and go while it runs, and it runs until it is stopped."""
    if caught_up:
        raise typer.BadParameter(
            "connectors of a resource belong to a group of workers, beyond the reach of a single process: it runs "
            "until it is stopped",
            param_hint="--until-caught-up",
        )
    if prove:
        raise typer.BadParameter(
            "connectors of a resource are proven by their own key twinlog.proof", param_hint="--prove"
        )
    if clusters is not None:
        raise typer.BadParameter(
            "a resource has a single target, and runs as a whole; leave --clusters out", param_hint="--clusters"
        )


def all_clusters(context: typer.Context, clusters: list[str] | None) -> list[str] | None:
    """The aliases of `--clusters a b c`, as connect-mirror-maker takes them: the words after the first count too."""
    if context.args and not clusters:
        raise typer.BadParameter(f"unexpected argument {context.args[0]!r}")
    return None if clusters is None else [*clusters, *context.args]
