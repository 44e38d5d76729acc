"""Runs the flows of a configuration in this process: its log, its display, its metrics, and the signals that end it."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING, Annotated

import typer

from twinlog.cli.heap import share_heap
from twinlog.cli.live import LogLines
from twinlog.clock import SYSTEM
from twinlog.config import MirrorConfig
from twinlog.config.text.values import ValueRefusedError, parse_listener
from twinlog.console import signals
from twinlog.console.command_log import end_process, log_to_stderr
from twinlog.console.log_options import shows_progress
from twinlog.console.spark_batch import adopted
from twinlog.errors import EngineError, ListenError, TwinlogError
from twinlog.errors.message_ids import id_of, with_id
from twinlog.settings.worker import MetricsSettings
from twinlog.spark.submitted import is_submitted

if TYPE_CHECKING:
    from rich.console import Console

    from twinlog.cli.live_table import LiveTable
    from twinlog.connect.rest.users import Users
    from twinlog.worker.reload.reloading import ReloadableFile, Reloader
    from twinlog.worker.runner import Runner
    from twinlog.worker.spark_flows import SparkOptions

log = logging.getLogger("twinlog")

MetricsListeners = Annotated[
    list[str] | None,
    typer.Option(
        metavar="URL",
        help="Serve /metrics and /metrics.json at this address, for example http://127.0.0.1:9404, in place of "
        "twinlog.metrics.listeners.",
        show_default=False,
    ),
]

HANGUP = "SIGHUP"
"""The origin of a request to read the file, in the log."""


def with_listeners(settings: MetricsSettings, given: list[str] | None) -> MetricsSettings:
    """The settings of a file with the listeners of a command line instead, if there are any. Raises BadParameter."""
    if not given:
        return settings
    try:
        listeners = tuple(parse_listener(text) for text in given)
    except ValueRefusedError as refused:
        raise typer.BadParameter(
            f"found {refused.found}, expected {refused.expected}", param_hint="--metrics-listener"
        ) from None
    if settings.https is None and any(one.scheme == "https" for one in listeners):
        raise typer.BadParameter(
            "an https address needs twinlog.metrics.listeners and its .https.ssl.keystore.location in FILE",
            param_hint="--metrics-listener",
        )
    return replace(settings, listeners=listeners)


@contextmanager
def served(config: MirrorConfig, runner: Runner, users: Users | None) -> Iterator[None]:
    """Serve the metrics and the console of a runner meanwhile, if a listener is wanted.

    Raises OSError for an address in use.
    """
    settings = config.metrics
    if not settings.listeners:
        yield
        return
    from twinlog.connect.rest.metrics import metrics_server  # noqa: PLC0415 - nobody else needs a web server
    from twinlog.connect.rest.middleware import CONSOLE_ROOT  # noqa: PLC0415
    from twinlog.console.flow_files import FlowsOfFile  # noqa: PLC0415
    from twinlog.ui.mounted import MountedConsole  # noqa: PLC0415
    from twinlog.worker.metrics.exposition import Pages  # noqa: PLC0415
    from twinlog.worker.run_metrics import RunMetrics  # noqa: PLC0415

    def flows() -> FlowsOfFile:
        return FlowsOfFile([*(one.settings for one in runner.flows), *(one.settings for one in runner.idle)])

    pages = Pages(RunMetrics(runner, partitions=settings.partitions, clock=SYSTEM).measure, settings.names)
    console = MountedConsole(config.console, users, flows) if config.console.enabled else None
    server = metrics_server(settings, pages, console=console)
    server.start()
    if console is not None:
        log.info("the console is at %s", ", ".join(f"{url}{CONSOLE_ROOT}/" for url in server.urls))
    try:
        yield
    finally:
        if console is not None:
            console.close()
        server.stop()


@dataclass(frozen=True, slots=True)
class ExitCodes:
    """A program's exit codes.

    `failed`: a flow or all of it failed. `broken`: Spark failed to start or died, or an address is taken. `nothing` and
    `held`: a flow that was to catch up found no topic, or has held partitions.
    """

    failed: int
    broken: int
    nothing: int
    held: int


def run_flows(
    config: MirrorConfig,
    codes: ExitCodes,
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    until_caught_up: bool = False,
    warnings: Sequence[str] = (),
    file: ReloadableFile | None = None,
    users: Users | None = None,
) -> int:
    """Run the flows until SIGTERM, SIGINT or their end; the exit code.

    `warnings` are logged before the warnings of FILE.

    With `file` SIGHUP and `twinlog reload` have it read again. `users` may log in to the console; without them the
    console serves only browsers of this machine.
    """
    share_heap()
    # Spark's own log goes to the same place if spark-submit started it.
    terminal = _terminal() if shows_progress() and sys.stderr.isatty() and not is_submitted() else None
    log_to_stderr(terminal)
    for warning in (*warnings, *config.warnings, *(() if users is None else users.warnings)):
        log.warning("%s", with_id(str(warning), "TW-FILE-21"))
    try:
        stop = _RunSignalHandler(file)
        signals.call(stop, stop.hang_up)
        with adopted(master, conf or {}) as given:
            from twinlog.worker.spark_flows import SparkOptions  # noqa: PLC0415 - Spark is slow to import

            bridge = config.bridge and given is None
            spark = SparkOptions(master, conf or {}, bridge, listener=config.driver, given=given)
            return _run(config, terminal, codes, stop, spark, until_caught_up, file, users)
    except (EngineError, ListenError) as error:
        log.error("%s: twinlog ends: %s", id_of(error, "TW-FLOW-07"), error)
        return codes.broken
    except Exception as error:
        known = isinstance(error, (TwinlogError, OSError))
        text = error if known else f"internal error: {error!r}"
        log.error("%s: twinlog ends: %s", id_of(error, "TW-FLOW-07"), text)
        log.debug("it ends here:", exc_info=error)
        return codes.failed


class _RunSignalHandler:
    """Handles a signal.

    Before flows run, a signal ends the process; afterwards it lets the runner end in order. On SIGHUP the file is read
    again.
    """

    def __init__(self, file: ReloadableFile | None) -> None:
        self._lock = Lock()
        self._file = file
        self._runner: Runner | None = None
        self._reloader: Reloader | None = None
        self._hung_up = False
        self.number: signal.Signals | None = None

    def hang_up(self) -> None:
        """Read the file again, now or once there is something that runs by it."""
        if self._file is None:
            log.warning("TW-RELOAD-05: SIGHUP: a run that ends once all is copied keeps its settings")
            return
        with self._lock:
            self._hung_up, reloader = True, self._reloader
        if reloader is not None:
            reloader.request_reload(HANGUP)

    def __call__(self, number: signal.Signals) -> None:
        with self._lock:
            if self.number is None:
                self.number = number
                log.info("stopping (%s)", number.name)
            if self._runner is None:
                end_process(signals.exit_code())
        self._runner.stop()

    def begin(self, runner: Runner, reloader: Reloader | None) -> None:
        """From now on there is something that has to end in order."""
        with self._lock:
            self._runner, self._reloader = runner, reloader
            hung_up = self._hung_up
        if hung_up and reloader is not None:
            reloader.request_reload(HANGUP)


def _run(
    config: MirrorConfig,
    terminal: Console | None,
    codes: ExitCodes,
    stop: _RunSignalHandler,
    spark: SparkOptions,
    until_caught_up: bool,
    file: ReloadableFile | None,
    users: Users | None,
) -> int:
    from twinlog.worker.reload.reload_requests import ReloadRequests  # noqa: PLC0415
    from twinlog.worker.reload.reloading import Reloader  # noqa: PLC0415
    from twinlog.worker.runner import (  # noqa: PLC0415
        Outcome,
        Runner,
        RunOptions,
    )

    runner = Runner(config.flows, RunOptions(spark, until_caught_up), config.all_enabled)
    reloader = None if file is None else Reloader(file, runner)
    requests = None if reloader is None else ReloadRequests(reloader)
    stop.begin(runner, reloader)
    display = LogLines(runner) if terminal is None else _table(runner, terminal)

    def started(_: Runner) -> None:
        display.start()
        if requests is not None:
            requests.start()

    try:
        with served(config, runner, users):
            outcome = runner.run(started=started)
    finally:
        display.stop()
        if requests is not None:
            requests.stop()
    if outcome is Outcome.STOPPED:
        return 0 if stop.number is None else signals.exit_code()
    ends = {Outcome.FAILED: codes.failed, Outcome.NOTHING: codes.nothing, Outcome.HELD: codes.held}
    return ends.get(outcome, 0)


def _terminal() -> Console:
    from rich.console import Console  # noqa: PLC0415 - only a terminal waits for it

    return Console(stderr=True)


def _table(runner: Runner, terminal: Console) -> LiveTable:
    from twinlog.cli.live_table import LiveTable  # noqa: PLC0415 - only a terminal waits for it

    return LiveTable(runner, terminal)
