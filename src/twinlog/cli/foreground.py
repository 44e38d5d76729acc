"""Runs the flows of a configuration in this process: its log, its display, and the signals that end it."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, NoReturn

import typer

from twinlog.cli import signals
from twinlog.cli.adopted import adopted
from twinlog.cli.live import LogLines
from twinlog.cli.metrics import served
from twinlog.cli.together import Together
from twinlog.config import MirrorConfig
from twinlog.errors import ConfigError, EngineError, TwinlogError
from twinlog.spark.submitted import is_submitted

if TYPE_CHECKING:
    from twinlog.cli.live_table import LiveTable
    from twinlog.driver.reloading import ReadAgain, Reloader
    from twinlog.driver.runner import Runner
    from twinlog.driver.spark_flows import SparkOptions

log = logging.getLogger("twinlog")

HANGUP = "SIGHUP"
"""Who asks for the file, in the log."""

EXIT_CONFIG = 2
"""A file that is wrong, with programs that would have copied."""


@dataclass(frozen=True, slots=True)
class ExitCodes:
    """A program's exit codes: a flow or all of it failed; Spark did not start, or died; a flow that was to catch up
    found no topic, or has held partitions."""

    failed: int
    broken: int
    nothing: int
    held: int


def print_problems(error: ConfigError) -> None:
    """Every warning and problem of a file, on stderr."""
    print_warnings(error.warnings)
    for problem in error.problems:
        typer.echo(f"problem: {problem}", err=True)


def print_refusal(error: ConfigError) -> None:
    """The same, for a command that would have copied."""
    print_problems(error)
    typer.echo("nothing was started and no cluster was contacted", err=True)


def print_warnings(warnings: Sequence[str]) -> None:
    """What is legal in a file and surely not meant, on stderr."""
    for warning in warnings:
        typer.echo(f"warning: {warning}", err=True)


def run_flows(
    config: MirrorConfig,
    codes: ExitCodes,
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    until_caught_up: bool = False,
    warnings: Sequence[str] = (),
    file: ReadAgain | None = None,
) -> int:
    """Run the flows until SIGTERM, SIGINT or their end; the exit code. `warnings` are logged before those of FILE.

    With `file` SIGHUP and `twinlog reload` have it read again.
    """
    # Spark's own log goes to the same place where spark-submit has started it.
    table = sys.stderr.isatty() and not is_submitted()
    log_to_stderr(table)
    for warning in (*warnings, *config.warnings):
        log.warning("%s", warning)
    try:
        stop = _Stop(file)
        signals.call(stop, stop.hang_up)
        with adopted(master, conf or {}) as given:
            from twinlog.driver.spark_flows import SparkOptions  # noqa: PLC0415 - Spark is slow to import

            spark = SparkOptions(master, conf or {}, config.warm_up, listener=config.driver, given=given)
            return _run(config, table, codes, stop, spark, until_caught_up, file)
    except EngineError as error:
        log.error("twinlog ends: %s", error)
        return codes.broken
    except Exception as error:
        known = isinstance(error, (TwinlogError, OSError))
        log.error("twinlog ends: %s", error if known else f"internal error: {error!r}")
        log.debug("it ends here:", exc_info=error)
        return codes.failed


class _Stop:
    """What a signal does: it ends the process while nothing runs, and afterwards has the runner end in order; SIGHUP
    has the file read again."""

    def __init__(self, file: ReadAgain | None) -> None:
        self._lock = Lock()
        self._file = file
        self._runner: Runner | None = None
        self._reloader: Reloader | None = None
        self._hung_up = False
        self.number: signal.Signals | None = None

    def hang_up(self) -> None:
        """Read the file again, now or once there is something that runs by it."""
        if self._file is None:
            log.warning("SIGHUP: a run that ends once all is copied does not read its file again")
            return
        with self._lock:
            self._hung_up, reloader = True, self._reloader
        if reloader is not None:
            reloader.ask(HANGUP)

    def __call__(self, number: signal.Signals) -> None:
        with self._lock:
            if self.number is None:
                self.number = number
                log.info("stopping (%s)", number.name)
            if self._runner is None:
                end_process(signals.exit_code(number))
        self._runner.stop()

    def begin(self, runner: Runner, reloader: Reloader | None) -> None:
        """From now on there is something that has to end in order."""
        with self._lock:
            self._runner, self._reloader = runner, reloader
            hung_up = self._hung_up
        if hung_up and reloader is not None:
            reloader.ask(HANGUP)


def _run(
    config: MirrorConfig,
    table: bool,
    codes: ExitCodes,
    stop: _Stop,
    spark: SparkOptions,
    until_caught_up: bool,
    file: ReadAgain | None,
) -> int:
    from twinlog.driver.outcome import Outcome  # noqa: PLC0415 - Spark is slow to import, --help must not wait
    from twinlog.driver.reload_requests import ReloadRequests  # noqa: PLC0415
    from twinlog.driver.reloading import Reloader  # noqa: PLC0415
    from twinlog.driver.runner import Runner, RunOptions  # noqa: PLC0415

    runner = Runner(config.flows, RunOptions(spark, until_caught_up), config.all_enabled)
    reloader = None if file is None else Reloader(file, runner)
    requests = None if reloader is None else ReloadRequests(reloader)
    stop.begin(runner, reloader)
    display = _table(runner) if table else LogLines(runner)

    def started(_: Runner) -> None:
        display.start()
        if requests is not None:
            requests.start()

    try:
        with served(config.metrics, runner):
            outcome = runner.run(started=started)
    finally:
        display.stop()
        if requests is not None:
            requests.stop()
    if outcome is Outcome.STOPPED:
        return 0 if stop.number is None else signals.exit_code(stop.number)
    ends = {Outcome.FAILED: codes.failed, Outcome.NOTHING: codes.nothing, Outcome.HELD: codes.held}
    return ends.get(outcome, 0)


def _table(runner: Runner) -> LiveTable:
    from twinlog.cli.live_table import LiveTable  # noqa: PLC0415 - only a terminal waits for it

    return LiveTable(runner)


def end_process(code: int) -> NoReturn:
    """End now: Spark's and Kafka's threads have nothing left to do, and waiting for them could take long."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def log_to_stderr(table: bool) -> None:
    """Write the log to stderr, with `table` so that it goes on above a table there."""
    handler: logging.Handler
    if table:
        from rich.logging import RichHandler  # noqa: PLC0415

        from twinlog.cli.live_table import console  # noqa: PLC0415

        handler = RichHandler(console=console, show_path=False, markup=False, log_time_format="%H:%M:%S")
        handler.setFormatter(logging.Formatter("%(message)s"))
    else:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[Together(handler)])
    log.setLevel(logging.INFO)
    # Lost connections are retried and reported by the flow they belong to.
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
