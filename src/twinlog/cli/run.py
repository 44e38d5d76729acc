"""`twinlog run`: copies until it is told to stop, or until everything has been copied."""

from __future__ import annotations

import logging
import os
import signal
import sys
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from twinlog.cli.live import LiveTable, LogLines
from twinlog.config import load
from twinlog.errors import ConfigError

EXIT_CONFIG = 2


class Until(StrEnum):
    """When `run` ends by itself."""

    CAUGHT_UP = "caught-up"


def run(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A MirrorMaker 2 properties file.", show_default=False)],
    clusters: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ALIAS ...",
            help="Run only flows whose target is one of these aliases.",
            show_default=False,
        ),
    ] = None,
    until: Annotated[
        Until | None,
        typer.Option(
            help="caught-up: end with code 0 when every partition has reached the end it had at the start.",
            show_default=False,
        ),
    ] = None,
    master: Annotated[
        str | None,
        typer.Option(help="Spark's master; without it Spark runs in this process, local[N].", show_default=False),
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option(help="A Spark setting, KEY=VALUE; may be given several times.", show_default=False),
    ] = None,
) -> None:
    """Run every enabled flow of FILE, and write heartbeats for the others.

    Ends with code 0 after Ctrl-C, SIGTERM or --until; 1 when a flow failed; 2 when FILE is wrong, before any cluster is
    contacted.

    Example: twinlog run mm2.properties --clusters west --until caught-up
    """
    settings = _spark_settings(conf or [])
    try:
        config = load(file, all_clusters(context, clusters))
    except ConfigError as error:
        for problem in error.problems:
            typer.echo(f"problem: {problem}", err=True)
        typer.echo("nothing was started and no cluster was contacted", err=True)
        raise typer.Exit(EXIT_CONFIG) from None
    table = sys.stderr.isatty()
    _log_to_stderr(table)
    for warning in config.warnings:
        logging.getLogger("twinlog").warning("%s", warning)

    from twinlog.run.runner import Runner, RunOptions  # noqa: PLC0415 - Spark is slow to import, --help must not wait

    runner = Runner(config.flows, RunOptions(master, settings, until is Until.CAUGHT_UP))

    def stop(number: int, frame: FrameType | None) -> None:
        logging.getLogger("twinlog").info("stopping (%s)", signal.Signals(number).name)
        runner.stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    display = LiveTable(runner) if table else LogLines(runner)
    try:
        code = runner.run(started=lambda _: display.start())
    except Exception as error:
        logging.getLogger("twinlog").error("twinlog ends: %s", error)
        code = 1
    finally:
        display.stop()
    sys.stdout.flush()
    sys.stderr.flush()
    # Spark's and Kafka's threads have nothing left to do; waiting for them could take longer than a clean stop may.
    os._exit(code)


def all_clusters(context: typer.Context, clusters: list[str] | None) -> list[str] | None:
    """The aliases of `--clusters a b c`, as connect-mirror-maker takes them: the words behind the first count too."""
    if context.args and not clusters:
        raise typer.BadParameter(f"unexpected argument {context.args[0]!r}")
    return None if clusters is None else [*clusters, *context.args]


def _spark_settings(pairs: list[str]) -> dict[str, str]:
    settings = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise typer.BadParameter(
                f"{pair!r}: expected KEY=VALUE, as in spark.driver.memory=512m", param_hint="--conf"
            )
        settings[key.strip()] = value.strip()
    return settings


def _log_to_stderr(table: bool) -> None:
    handler: logging.Handler
    if table:
        from rich.logging import RichHandler  # noqa: PLC0415

        from twinlog.cli.live import console  # noqa: PLC0415

        handler = RichHandler(console=console, show_path=False, markup=False)
        handler.setFormatter(logging.Formatter("%(message)s"))
    else:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("twinlog").setLevel(logging.INFO)
    # Lost connections are retried and reported by the flow they belong to.
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    logging.getLogger("py4j").setLevel(logging.ERROR)
