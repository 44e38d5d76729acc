"""Flows on a SparkSession of yours: `twinlog.start` and `twinlog.run`, for programs and notebooks.

    import twinlog

    with twinlog.start(spark, "mm2.properties") as mirroring:
        ...                                    # your own queries continue beside it
        mirroring.flows()                      # how each flow does
    twinlog.run(spark, "mm2.properties", until_caught_up=True)

The flows run as with `twinlog run`, on that session in the place of a Spark of its own. All messages go to the logger
`twinlog`; standard output stays empty.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from twinlog.config import MirrorConfig
from twinlog.config.file_changes import RunningFile
from twinlog.config.file_kind import is_resource
from twinlog.config.queries import checked_file
from twinlog.errors import TwinlogError
from twinlog.errors.message_ids import id_of, with_id
from twinlog.spark.given_session import GivenSession
from twinlog.worker.reload.reload_report import ReloadReport
from twinlog.worker.reload.reload_requests import ReloadRequests
from twinlog.worker.reload.reloading import ReloadableFile, Reloader
from twinlog.worker.runner import Outcome, Runner, RunOptions
from twinlog.worker.spark_flows import SparkOptions
from twinlog.worker.status.flow_status import Summary

if TYPE_CHECKING:
    from twinlog.connect.rest.metrics import MetricsServer

__all__ = ["FlowProgress", "Mirroring", "Outcome", "ReloadReport", "Summary", "run", "start"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FlowProgress:
    """The condition of a flow: its state in a word, as the table of `twinlog run` has it, the reason of the state, and
    figures."""

    name: str
    state: str
    why: str | None
    figures: Summary


class Mirroring:
    """The flows of a file, on a session. Close it with `stop`, or use it as a context manager.

    `twinlog.start` makes it. Its methods may be called by any thread.
    """

    def __init__(
        self,
        session: Any,
        config: MirrorConfig,
        *,
        until_caught_up: bool = False,
        slots: int | None = None,
        file: ReloadableFile | None = None,
    ) -> None:
        self._config = config
        given = GivenSession(session, slots=slots)
        self.session = given.own
        """The session of the flows: `session.streams` has their queries, for a `StreamingQueryListener`."""
        options = RunOptions(SparkOptions(bridge=False, listener=config.driver, given=given), until_caught_up)
        self._runner = Runner(config.flows, options, config.all_enabled)
        self._reloader = None if file is None or until_caught_up else Reloader(file, self._runner)
        self._requests = None if self._reloader is None else ReloadRequests(self._reloader)
        self._metrics: MetricsServer | None = None
        self._outcome: Outcome | None = None
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="twinlog", daemon=True)

    def begin(self) -> None:
        """Begin to copy. Raises OSError if the file asks for metrics at an address that is in use."""
        for warning in self._config.warnings:
            log.warning("%s", with_id(str(warning), "TW-FILE-21"))
        settings = self._config.metrics
        if settings.listeners:
            from twinlog.clock import SYSTEM  # noqa: PLC0415 - nobody else needs a web server
            from twinlog.connect.rest.metrics import metrics_server  # noqa: PLC0415
            from twinlog.worker.metrics.exposition import Pages  # noqa: PLC0415
            from twinlog.worker.run_metrics import RunMetrics  # noqa: PLC0415

            measured = RunMetrics(self._runner, partitions=settings.partitions, clock=SYSTEM)
            server = metrics_server(settings, Pages(measured.measure, settings.names))
            server.start()
            self._metrics = server
        self._thread.start()
        if self._requests is not None:
            self._requests.start()

    def __enter__(self) -> Mirroring:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def is_active(self) -> bool:
        """Whether it still runs."""
        return self._thread.is_alive()

    @property
    def error(self) -> Exception | None:
        """The reason that ended it as a whole, for example the end of the session; None while it runs, and after any
        other end."""
        return self._error

    def flows(self) -> list[FlowProgress]:
        """How each flow of the file does that copies; after the end as well."""
        found = []
        for flow in self._runner.flows:
            state, why = flow.status
            found.append(FlowProgress(flow.settings.name, state, why, flow.flow_status.summary()))
        return found

    def reload(self, *, only_look: bool = False) -> ReloadReport:
        """Read the file again, and have the flows run as it says now: as SIGHUP has `twinlog run` do it.

        With a wrong file all flows stay as they are, and the report has the file's problems. `only_look` only reports.
        Raises TwinlogError if the flows came from another source than a properties file, or end once all is copied.
        """
        if self._reloader is None:
            raise TwinlogError(
                "only flows that were started with the path of a properties file, to run on, read it again"
            )
        return self._reloader.reload("Mirroring.reload", only_look=only_look)

    def wait(self, timeout_s: float | None = None) -> Outcome | None:
        """Wait until it ends, and return how; None when that takes longer than `timeout_s` seconds.

        It ends by `stop`, when all flows have failed, and with `until_caught_up` when everything is copied that was
        there at the start. Raises EngineError when the session has ended under it.
        """
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            return None
        if self._error is not None:
            raise self._error
        return self._outcome

    def stop(self, timeout_s: float | None = None) -> None:
        """Stop copying: batches in flight are waited for, and positions are stored. The session lives on.

        Returns once that is done, after some seconds, or after `timeout_s`.
        """
        self._runner.stop()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            self._outcome = self._runner.run()
        except Exception as error:
            text = error if isinstance(error, (TwinlogError, OSError)) else repr(error)
            log.error("%s: twinlog ends: %s", id_of(error, "TW-FLOW-07"), text)
            log.debug("it ends here:", exc_info=error)
            self._error = error
        finally:
            if self._requests is not None:
                self._requests.stop()
            if self._metrics is not None:
                self._metrics.stop()


def start(
    session: Any,
    config: str | Path | MirrorConfig,
    *,
    clusters: Sequence[str] | None = None,
    until_caught_up: bool = False,
    slots: int | None = None,
) -> Mirroring:
    """Begin to run the enabled flows of a file on `session`, a SparkSession, and return at once.

    `config` is the argument of `twinlog run`: the path of MirrorMaker 2's properties, or of Strimzi's resource, whose
    mirrors are flows here. With `clusters` only the flows to these targets run. `slots` is how many tasks may run at
    once; by default flows leave a single slot of the session to other queries, if it has several.

    Raises ConfigError when the file is wrong, and EngineError when the session is of Spark Connect, or is stopped; both
    come before any contact with a cluster.
    """
    file: ReloadableFile | None = None
    if isinstance(config, MirrorConfig):
        read = config
    else:
        again = partial(checked_file, config, clusters)
        loaded = again()
        read = loaded.config
        file = None if is_resource(config) else ReloadableFile(str(config), RunningFile.of(loaded), again)
    mirroring = Mirroring(session, read, until_caught_up=until_caught_up, slots=slots, file=file)
    mirroring.begin()
    return mirroring


def run(
    session: Any,
    config: str | Path | MirrorConfig,
    *,
    clusters: Sequence[str] | None = None,
    until_caught_up: bool = False,
    slots: int | None = None,
) -> Outcome:
    """`start`, and wait for the end, which is returned; Ctrl-C stops it in order.

    Raises the errors of `start` and `Mirroring.wait`.
    """
    mirroring = start(session, config, clusters=clusters, until_caught_up=until_caught_up, slots=slots)
    with mirroring:
        outcome = mirroring.wait()
    assert outcome is not None
    return outcome
