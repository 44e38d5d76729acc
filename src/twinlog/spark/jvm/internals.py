"""The one place for what pyspark and py4j call private: names that begin with an underscore, and the JVM behind them.

Only a Spark that twinlog has started is asked for these. `given_session.py` does without, for sessions of others.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from py4j.clientserver import SHUTDOWN_FINALIZER_WORKER
from pyspark import SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession, SQLContext

from twinlog.spark.jvm.figures import JvmFigures, read_figures

ADDRESS_FILE_VARIABLE = "_PYSPARK_DRIVER_CONN_INFO_PATH"
"""Names the file into which a JVM writes the address of its gateway."""

_GATEWAY_VARIABLES = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")
_RUNS_IN = re.compile(r"(\d+) -> ([^,]+)")
_MONITOR = "Idle Worker Monitor"
_FACTORY_OF = "org$apache$spark$api$python$PythonWorkerFactory$MonitorThread$$$outer"


def spark_home() -> Path:
    """Where pyspark keeps its jars and scripts."""
    return Path(_find_spark_home())


def open_gateway(port: int, secret: str) -> Any:
    """Make the JVM that listens there the one of pyspark, and return its gateway."""
    os.environ.update(zip(_GATEWAY_VARIABLES, (str(port), secret), strict=True))
    try:
        gateway = launch_gateway()
    finally:
        for name in _GATEWAY_VARIABLES:
            del os.environ[name]
    SparkContext._ensure_initialized(gateway=gateway)
    return gateway


def quieten_accumulators(session: SparkSession) -> None:
    """Their server would print a stack trace when its line to the JVM ends."""
    session.sparkContext._accumulatorServer.handle_error = lambda *_: None


def is_stopped() -> bool:
    """Whether the context that pyspark has is stopped in its JVM; raises what py4j raises."""
    context = SparkContext._active_spark_context
    return context is not None and context._jsc is not None and bool(context._jsc.sc().isStopped())


def concurrent_tasks(session: SparkSession) -> int:
    """How many tasks run at once; 0 without an executor."""
    context = session.sparkContext._jsc.sc()
    return int(context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile()))


def request_executors(session: SparkSession, most: int) -> None:
    """Ask the manager of a cluster for so many executors in all; with 0 kill those that are there."""
    context = session.sparkContext
    scala, java = context._jsc.sc(), context._jvm
    scala.requestTotalExecutors(most, 0, java.PythonUtils.toScalaMap(java.java.util.HashMap()))
    if not most:
        scala.killExecutors(scala.getExecutorIds())


def leaving_tasks(session: SparkSession) -> frozenset[int]:
    """The numbers of the task attempts that run in executors which are being decommissioned.

    Spark reports that to nobody else: the scheduler gives such an executor no more tasks, and the executor ends once
    those that it has are over.
    """
    context = session.sparkContext._jsc.sc()
    # One call each: maps of Scala come as text.
    pending = context.schedulerBackend().executorsPendingDecommission().keySet().mkString(",")
    leaving = set(pending.split(",")) - {""}
    if not leaving:
        return frozenset()
    running = context.taskScheduler().taskIdToExecutorId().mkString(",")
    return frozenset(int(task) for task, executor in _RUNS_IN.findall(running) if executor in leaving)


def jvm_figures(session: SparkSession) -> JvmFigures:
    """What the JVM reports of itself."""
    return read_figures(session.sparkContext._jvm)


def end_useless_threads(session: SparkSession) -> None:
    """End the threads that Spark keeps of queries which have ended.

    For the Python process of each streaming source it starts one that looks for idle workers every ten seconds for
    ever, though only a daemon has such (Spark class PythonWorkerFactory). It ends when it is interrupted.
    """
    threads = session.sparkContext._jvm.java.lang.Thread.getAllStackTraces().keySet()
    for thread in list(threads):
        if thread.getName().startswith(_MONITOR) and not getattr(thread, _FACTORY_OF)().useDaemonEnabled():
            thread.interrupt()


def forget(gateway: Any, added: Sequence[str]) -> None:
    """Undo what pyspark and py4j keep of a JVM, so that they can have another one.

    `gateway` is None when none was opened, `added` is what pyspark put into `sys.path` for it.
    """
    context = SparkContext._active_spark_context
    with SparkContext._lock:
        SparkContext._active_spark_context = None
        SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    SQLContext._instantiatedContext = None
    # The directory is gone, and another process may make a new one of that name.
    sys.path[:] = [place for place in sys.path if place not in added]
    if context is not None:
        context._jsc = None
        accumulators = getattr(context, "_accumulatorServer", None)
        if accumulators is not None:
            # It ends within a second or so by itself; there is no need to wait.
            threading.Thread(target=_shut, args=(accumulators,), name="accumulators", daemon=True).start()
    if gateway is not None:
        # Proxies of JVM objects that are collected late must not call a port that another process has by then.
        client = gateway._gateway_client
        client.is_connected = False
        client.close()
        if hasattr(client, "finalizer_deque"):
            client.finalizer_deque.appendleft(SHUTDOWN_FINALIZER_WORKER)


def _shut(accumulators: Any) -> None:
    # Its socket lies in the engine's directory, which may go at the same moment.
    with contextlib.suppress(FileNotFoundError):
        accumulators.shutdown()
