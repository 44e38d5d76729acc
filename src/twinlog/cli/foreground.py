"""Runs the flows of a configuration in this process: its log, its display, and the signals that end it."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from enum import Enum
from threading import Event
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

import typer

from twinlog.cli.live import LiveTable, LogLines
from twinlog.cli.together import Together
from twinlog.config import MirrorConfig
from twinlog.errors import ConfigError, EngineError, TwinlogError

if TYPE_CHECKING:
    from twinlog.driver.runner import Runner

log = logging.getLogger("twinlog")


class Outcome(Enum):
    """How a run ended: told to or done; with a flow or all of it failed; or as Spark did not run, or not any more."""

    ENDED = "ended"
    FAILED = "failed"
    BROKEN = "broken"


def print_problems(error: ConfigError) -> None:
    """Every warning and problem of a file, on stderr."""
    print_warnings(error.warnings)
    for problem in error.problems:
        typer.echo(f"problem: {problem}", err=True)


def print_refusal(error: ConfigError) -> None:
    """The same, for what would have begun to copy."""
    print_problems(error)
    typer.echo("nothing was started and no cluster was contacted", err=True)


def print_warnings(warnings: Sequence[str]) -> None:
    """What is legal in a file and surely not meant, on stderr."""
    for warning in warnings:
        typer.echo(f"warning: {warning}", err=True)


def run_flows(
    config: MirrorConfig,
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    until_caught_up: bool = False,
    warnings: Sequence[str] = (),
) -> Outcome:
    """Run the flows until SIGTERM, SIGINT or their end. `warnings` are said before those of the file."""
    table = sys.stderr.isatty()
    _log_to_stderr(table)
    for warning in (*warnings, *config.warnings):
        log.warning("%s", warning)
    try:
        return _run(config, table, master, conf or {}, until_caught_up)
    except EngineError as error:
        log.error("twinlog ends: %s", error)
        return Outcome.BROKEN
    except Exception as error:
        known = isinstance(error, (TwinlogError, OSError))
        log.error("twinlog ends: %s", error if known else f"internal error: {error!r}")
        log.debug("it ends here:", exc_info=error)
        return Outcome.FAILED


def _run(
    config: MirrorConfig, table: bool, master: str | None, conf: Mapping[str, str], until_caught_up: bool
) -> Outcome:
    runner: Runner | None = None
    stopping = Event()

    def stop(number: int, frame: FrameType | None) -> None:
        if not stopping.is_set():
            log.info("stopping (%s)", signal.Signals(number).name)
        stopping.set()
        if runner is not None:
            runner.stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)

    from twinlog.driver.runner import Runner, RunOptions  # noqa: PLC0415 - Spark is slow to import, --help must not wait

    if stopping.is_set():
        return Outcome.ENDED
    runner = Runner(config.flows, RunOptions(master, conf, until_caught_up, config.warm_up), config.all_enabled)
    if stopping.is_set():
        runner.stop()
    display = LiveTable(runner) if table else LogLines(runner)
    try:
        return Outcome.FAILED if runner.run(started=lambda _: display.start()) else Outcome.ENDED
    finally:
        display.stop()


def end_process(code: int) -> NoReturn:
    """End now: Spark's and Kafka's threads have nothing left to do, and waiting for them could take long."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _log_to_stderr(table: bool) -> None:
    handler: logging.Handler
    if table:
        from rich.logging import RichHandler  # noqa: PLC0415

        from twinlog.cli.live import console  # noqa: PLC0415

        handler = RichHandler(console=console, show_path=False, markup=False, log_time_format="%H:%M:%S")
        handler.setFormatter(logging.Formatter("%(message)s"))
    else:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[Together(handler)])
    log.setLevel(logging.INFO)
    # Lost connections are retried and reported by the flow they belong to.
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
