"""Starts Spark for flows: as small as possible locally, and by the user's settings and Python elsewhere."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

from pyspark import SparkConf
from pyspark.sql import SparkSession

from twinlog.errors import EngineError, EngineLostError
from twinlog.lease.channel import DriverAddress
from twinlog.process.jvm import use_options
from twinlog.process.scratch import Scratch
from twinlog.settings.flow import FlowSettings
from twinlog.spark.engine import OfSession
from twinlog.spark.forking.fork_server import ForkServer
from twinlog.spark.jvm.figures import JvmFigures
from twinlog.spark.jvm.process import OUT_OF_MEMORY, Jvm, internals
from twinlog.spark.scratch_dirs import LONGEST_SOCKET_DIR, local_dirs, scratch_parent, sweep_leftovers
from twinlog.spark.settings import CLUSTER_SETTINGS, LOG_SETTINGS, SETTINGS, file_settings, local_settings
from twinlog.spark.source import LeaseQuery

log = logging.getLogger(__name__)


TASKS = "PYSPARK_PYTHON"
DRIVER = "PYSPARK_DRIVER_PYTHON"
_SETTINGS = {TASKS: "spark.pyspark.python", DRIVER: "spark.pyspark.driver.python"}


def interpreters(conf: Mapping[str, str], environment: Mapping[str, str], own: str) -> dict[str, str]:
    """The two variables by which pyspark and its JVM choose a Python; `own` is the default.

    spark-submit reads the settings before it starts a Python, and hands them over in these variables. A setting counts
    more than a variable, and `conf` more than `spark-defaults.conf`, as with spark-submit.
    """
    settings = {**file_settings(), **conf}
    return {name: settings.get(key) or environment.get(name) or own for name, key in _SETTINGS.items()}


def names_one(conf: Mapping[str, str], environment: Mapping[str, str]) -> bool:
    """Whether the user has named a Python for Spark."""
    settings = {**file_settings(), **conf}
    return any(settings.get(key) or environment.get(name) for name, key in _SETTINGS.items())


T = TypeVar("T")


def local_master(slots: int) -> str:
    """The master for `slots` tasks in a process; a task is tried up to four times, in different Python workers."""
    return f"local[{max(1, slots)},4]"


class SparkEngine(OfSession):
    """A single Spark session for all flows of a process, and the JVM behind it.

    `conf` overrides twinlog's own settings; `given` has the way in which each of the user's settings was given. Spark
    runs its tasks with the interpreter of this process. On other machines the same path must exist, or
    `spark.pyspark.python` names another path. `java_options` are added to the options of the JVM, in place of the
    options for the class archive of `twinlog warm-up`. With `numpy`, local tasks can convert between numpy and pyarrow,
    as transforms do.

    Each call raises EngineLostError once the JVM has died. A lost engine stays lost: call `stop`, and a new engine may
    start. A process has a single engine at a time.
    """

    own = True

    def __init__(
        self,
        master: str,
        conf: Mapping[str, str],
        *,
        given: Mapping[str, str] | None = None,
        java_options: str | None = None,
        numpy: bool = False,
    ) -> None:
        self.local = master.startswith("local")
        self._master = master
        self._conf = conf
        self._java_options = java_options
        self._numpy = numpy
        self._jvm = Jvm(given)
        self._session: SparkSession | None = None
        self._scratch: Scratch | None = None
        self._blocks: list[Scratch] = []
        self._fork_server: ForkServer | None = None
        self._replaced: dict[str, str | None] = {}

    def start(self) -> None:
        """Start Spark; blocks for seconds. Raises EngineError, EngineLostError; `stop` ends the started parts."""
        try:
            self._start()
        except OSError as error:
            # The machine is short of memory for a process, or of room for its files.
            raise EngineError(f"Spark cannot be started: {error}", message_id="TW-SPARK-24") from error

    def _start(self) -> None:
        sweep_leftovers(self._conf)
        self._scratch = Scratch(scratch_parent())
        scratch = self._scratch.path
        # The files of Spark's JVM in these folders would stay if the JVM were killed.
        self._blocks = [Scratch(place) for place in local_dirs(self._conf) if place.is_dir()]
        if self.local:
            # Otherwise Spark would look up the host's name, and warn of a loopback address.
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            if not names_one(self._conf, os.environ):
                self._open_fork_server(scratch)
        python = sys.executable if self._fork_server is None else str(self._fork_server.launcher)
        chosen = interpreters(self._conf, os.environ, python)
        self._replaced = {name: os.environ.get(name) for name in chosen}
        os.environ.update(chosen)
        conf = self._settings(scratch)
        blocks = {"SPARK_LOCAL_DIRS": ",".join(str(own.path) for own in self._blocks)} if self._blocks else {}
        # A JVM that starts while this process is killed never ends if its directory is removed before.
        locks = [own.lock for own in (self._scratch, *self._blocks)]
        self._jvm.start(conf, scratch, blocks, locks)
        self._session = self._jvm.session(conf)
        # The JVM of a killed run has locked its directories until its end, which may have come meanwhile.
        sweep_leftovers(self._conf)

    def _settings(self, scratch: Path) -> SparkConf:
        # Users may have set Spark's size for all programs of this machine.
        set_already = file_settings()
        usual = local_settings({**set_already, **self._conf}) if self.local else CLUSTER_SETTINGS
        settings = {
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
            **SETTINGS,
            **{key: set_already.get(key, value) for key, value in usual.items()},
            **self._conf,
        }
        log_file = scratch / "log4j2.properties"
        log_file.write_text(LOG_SETTINGS)
        options = (
            settings.get("spark.driver.extraJavaOptions", ""),
            OUT_OF_MEMORY,
            # A JVM that is killed leaves its files behind; in this folder they are removed with the other files.
            f'"{_TEMP_OPTION}{scratch}"' if len(str(scratch)) < LONGEST_SOCKET_DIR else "",
            use_options() if self._java_options is None else self._java_options,
            _LOG_OPTION + log_file.as_uri(),
        )
        settings["spark.driver.extraJavaOptions"] = " ".join(filter(None, options))
        return SparkConf().setMaster(self._master).setAppName("twinlog").setAll(list(settings.items()))

    def _open_fork_server(self, scratch: Path) -> None:
        try:
            self._fork_server = ForkServer(scratch, numpy=self._numpy)
        except OSError as error:
            # For example a temporary directory whose name is too long for a socket: Spark then starts Python itself.
            log.debug("Python is started anew for each of Spark's daemons: %r", error)

    def require_alive(self) -> None:
        """Raises EngineLostError if the JVM has died; cheaper than a call to it."""
        self._jvm.require_alive()

    @property
    def slots(self) -> int:
        """The number of tasks that run at once; on a cluster it changes with the executors, and may be 0."""
        with self.asked():
            return internals.concurrent_tasks(self._running)

    def take_executors(self, most: int) -> None:
        """On a standalone cluster, limit the executors to `most`; with 0 the present executors are given back at once.

        Does nothing elsewhere: local tasks need no executors, and other managers assign executors by their own rules.
        """
        if not self._master.startswith("spark://"):
            return
        with self.asked():
            internals.request_executors(self._running, most)

    def leaving_tasks(self) -> frozenset[int]:
        """Spark's numbers of the tasks whose executors will end soon; empty if unknown."""
        if self.local:
            return frozenset()
        with self.asked():
            return internals.leaving_tasks(self._running)

    def task_executors(self) -> Mapping[int, str]:
        """The executor of each running task, by Spark's number of the task."""
        with self.asked():
            return internals.task_executors(self._running)

    def figures(self) -> JvmFigures:
        """The JVM's metrics of itself."""
        with self.asked():
            return internals.jvm_figures(self._running)

    def query(self, name: str, flows: Sequence[FlowSettings], address: DriverAddress) -> LeaseQuery:
        """Start the streaming query `name`, whose tasks work for `flows` by the leases of the server at `address`."""
        session = self._running
        assert self._scratch is not None
        with self.asked():
            return LeaseQuery(
                session, self.asked, name, flows, address, self._scratch.path, internals.end_useless_threads
            )

    def run_tasks(self, work: Callable[[Iterator[Any]], Iterator[T]], shares: Sequence[Any]) -> list[T]:
        """Run a batch job with a task for each share, and return the results of all tasks."""
        session = self._running
        with self.asked():
            if not shares:
                return []
            found: list[T] = session.sparkContext.parallelize(shares, len(shares)).mapPartitions(work).collect()
            return found

    def expect_end(self) -> None:
        """Spark will stop soon: its later log lines are logged at debug level only."""
        self._jvm.expect_end()

    def interrupt(self) -> None:
        """Kill the JVM at once: a call to it raises EngineLostError. `stop` is still needed."""
        self._jvm.interrupt()

    def stop(self, timeout_s: float) -> None:
        """Stop Spark, or its remains; its JVM is killed after `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        self.expect_end()
        session, self._session = self._session, None
        if session is not None and not self.local and self._jvm.alive:
            stopping = threading.Thread(target=_stop_quietly, args=(session,), daemon=True)
            stopping.start()
            # The remaining time is for the end of the JVM.
            stopping.join(timeout_s * 0.8)
            if stopping.is_alive():
                log.warning(
                    "TW-SPARK-16: Spark takes longer than %.0f s to stop and is ended: %s may keep idle executors",
                    timeout_s * 0.8,
                    self._master,
                )
        self._jvm.end(max(0.1, deadline - time.monotonic()))
        if self._fork_server is not None:
            self._fork_server.close()
        for name, before in self._replaced.items():
            os.environ.pop(name, None)
            if before is not None:
                os.environ[name] = before
        for scratch in (self._scratch, *self._blocks):
            if scratch is not None:
                scratch.remove()

    @property
    def _running(self) -> SparkSession:
        if self._session is None:
            raise EngineLostError("Spark does not run")
        return self._session

    def asked(self) -> AbstractContextManager[None]:
        return self._jvm.asked()


def _stop_quietly(session: SparkSession) -> None:
    try:
        session.stop()
    except Exception as error:
        log.debug("stopping Spark: %r", error)


_LOG_OPTION = "-Dlog4j2.configurationFile="
_TEMP_OPTION = "-Djava.io.tmpdir="
