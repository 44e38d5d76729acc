"""`twinlog warm-up`: makes every later start faster."""

from __future__ import annotations

import logging
import signal
from threading import Event

import typer

from twinlog.console import signals
from twinlog.errors import TwinlogError


def warm_up() -> None:
    """Prepare Spark's start once per machine or image: later starts take some seconds less.

    Takes about a minute and some 160 MB in the cache directory ($TWINLOG_CACHE, $XDG_CACHE_HOME/twinlog or
    ~/.cache/twinlog). Contacts no cluster. After an update of Spark or Java, run it again.

    Example: twinlog warm-up
    """
    ended_by: list[signal.Signals] = []
    ending = Event()

    def end(number: signal.Signals) -> None:
        ended_by.append(number)
        ending.set()

    signals.call(end)
    logging.basicConfig(level=logging.ERROR)
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    from twinlog.spark.class_archive import warm_up as make  # noqa: PLC0415 - Spark is slow to import, --help must not wait

    typer.echo("starting Spark once, this takes about a minute ...")
    try:
        path = make(ending)
    except (TwinlogError, OSError) as error:
        if ended_by:
            typer.echo(f"twinlog: ended by {ended_by[0].name}", err=True)
            raise typer.Exit(signals.exit_code(ended_by[0])) from None
        typer.echo(f"problem: {error}", err=True)
        raise typer.Exit(1) from None
    typer.echo(f"done: {path} ({path.stat().st_size / 1e6:.0f} MB)")
