"""The Spark of a command, started by the command or by spark-submit, and a batch job in it.

The job shows its progress on a terminal, and signals end it.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn, TypeVar

import typer

from twinlog.console import signals
from twinlog.console.command_log import end_process, print_error
from twinlog.console.exit_codes import end_with
from twinlog.errors import TwinlogError
from twinlog.spark.spark_connect import refuse_connect
from twinlog.spark.submitted import adopt, end, is_submitted

if TYPE_CHECKING:
    from twinlog.lease.channel import DriverAddress
    from twinlog.spark.engine import Engine
    from twinlog.spark.given_session import GivenSession
    from twinlog.spark.settings import TaskResources

END_S = 30.0
"""How long a cluster may take to get its executors back."""

T = TypeVar("T")

STOP_S = 10.0


@contextmanager
def adopted(master: str | None, conf: Mapping[str, str]) -> Iterator[GivenSession | None]:
    """Yields the session of spark-submit, which ends afterwards; None if the command starts a Spark itself.

    Raises EngineError, also for a request for Spark Connect.
    """
    if not is_submitted():
        refuse_connect(master, conf, os.environ)
        yield None
        return
    given = _on_a_thread(conf)
    try:
        yield given
    finally:
        end(given.session, END_S)


def _on_a_thread(conf: Mapping[str, str]) -> GivenSession:
    """On the main thread, pyspark would take Ctrl-C for itself."""
    found: list[GivenSession] = []
    failed: list[Exception] = []

    def run() -> None:
        try:
            found.append(adopt(conf))
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="spark")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return found[0]


class SparkSignalHandler:
    """Handles a signal: until Spark starts it ends the process, afterwards Spark ends, and then the command.

    `way_out` is added to the line that reports it.
    """

    def __init__(self, way_out: str = "") -> None:
        self._way_out = way_out
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self.number: signal.Signals | None = None

    def __call__(self, number: signal.Signals) -> None:
        with self._lock:
            self.number = self.number or number
            if self._engine is not None:
                self._engine.interrupt()
                return
        print_error(f"TW-USE-03: ended by {number.name}")
        end_process(signals.exit_code())

    def begin(self, engine: Engine) -> None:
        """From now on Spark has to end first."""
        with self._lock:
            self._engine = engine

    def end_command(self, error: TwinlogError) -> NoReturn:
        """End the command on an error, with a line."""
        if self.number is not None:
            print_error(f"TW-USE-03: ended by {self.number.name}{self._way_out}")
            raise typer.Exit(signals.exit_code()) from None
        end_with(error)


def run_in_spark(
    job: Callable[[Engine, DriverAddress | None], T],
    master: str | None,
    conf: Mapping[str, str],
    stop: SparkSignalHandler,
    *,
    need: TaskResources,
    doing: str,
    offsets: int,
) -> T:
    """Start Spark, run a job in it whose tasks go through so many offsets, and end Spark. Raises EngineError.

    A cluster is asked for the resources of the job, as far as the user and `spark-defaults.conf` leave them open.
    """
    from twinlog.console.progress import BatchProgress  # noqa: PLC0415 - Spark is slow to import, --help must not wait
    from twinlog.lease.task_progress import ProgressServer  # noqa: PLC0415
    from twinlog.spark.given_session import GivenEngine  # noqa: PLC0415
    from twinlog.spark.refusals import MASTER  # noqa: PLC0415
    from twinlog.spark.session import SparkEngine, local_master  # noqa: PLC0415
    from twinlog.spark.settings import derived, file_settings  # noqa: PLC0415

    with adopted(master, conf) as given:
        engine: Engine
        if given is None:
            ways = dict.fromkeys(conf, "--conf") | ({} if master is None else {MASTER: "--master"})
            master = master or local_master(os.cpu_count() or 1)
            sized = derived(master, need, {**file_settings(), **conf})
            engine = SparkEngine(master, {**sized, **conf}, given=ways)
        else:
            engine = GivenEngine(given)
        stop.begin(engine)
        try:
            engine.start()
            engine.wait_for_slot(STOP_S, threading.Event())
            with ProgressServer(engine.host) as server, BatchProgress(doing, offsets, lambda: server.done):
                return job(engine, server.address)
        finally:
            engine.stop(STOP_S)
