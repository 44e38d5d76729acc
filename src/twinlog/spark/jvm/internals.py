"""The only module with private parts of pyspark and py4j: names that begin with an underscore, and the JVM behind them.

These parts are used only for a Spark that twinlog has started. `given_session.py` avoids them, for sessions of other
owners.
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
from py4j.protocol import INPUT_CONVERTER
from pyspark import SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession, SQLContext
from pyspark.sql.types import NumpyArrayConverter, NumpyScalarConverter

from twinlog.spark.jvm.figures import JvmFigures, read_figures

ADDRESS_FILE_VARIABLE = "_PYSPARK_DRIVER_CONN_INFO_PATH"
"""The variable with the name of the file into which a JVM writes the address of its gateway."""

_NUMPY = (NumpyArrayConverter, NumpyScalarConverter)
_GATEWAY_VARIABLES = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")
_RUNS_IN = re.compile(r"(\d+) -> ([^,]+)")
_MONITOR = "Idle Worker Monitor"
_FACTORY_OF = "org$apache$spark$api$python$PythonWorkerFactory$MonitorThread$$$outer"


def spark_home() -> Path:
    """The folder of pyspark's jars and scripts."""
    return Path(_find_spark_home())


def open_gateway(port: int, secret: str) -> Any:
    """Make the JVM that listens at the port pyspark's JVM, and return its gateway."""
    refuse_numpy()
    os.environ.update(zip(_GATEWAY_VARIABLES, (str(port), secret), strict=True))
    try:
        gateway = launch_gateway()
    finally:
        for name in _GATEWAY_VARIABLES:
            del os.environ[name]
    SparkContext._ensure_initialized(gateway=gateway)
    return gateway


def refuse_numpy() -> None:
    """Give calls of the JVM no values of numpy.

    pyspark's converters of these values import numpy, pandas, pyarrow and pyspark's test tools for the first argument
    of any type.
    """
    INPUT_CONVERTER[:] = [one for one in INPUT_CONVERTER if not isinstance(one, _NUMPY)]


def quieten_accumulators(session: SparkSession) -> None:
    """Silence the server of accumulators: it would print a stack trace when its connection to the JVM ends."""
    session.sparkContext._accumulatorServer.handle_error = lambda *_: None


def is_stopped() -> bool:
    """Whether pyspark's context is stopped in its JVM; raises the errors of py4j."""
    context = SparkContext._active_spark_context
    return context is not None and context._jsc is not None and bool(context._jsc.sc().isStopped())


def concurrent_tasks(session: SparkSession) -> int:
    """The number of tasks that run at once; 0 if there is no executor."""
    context = session.sparkContext._jsc.sc()
    return int(context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile()))


def request_executors(session: SparkSession, most: int) -> None:
    """Request this total number of executors from the manager of a cluster; with 0 kill the present executors."""
    context = session.sparkContext
    scala, java = context._jsc.sc(), context._jvm
    scala.requestTotalExecutors(most, 0, java.PythonUtils.toScalaMap(java.java.util.HashMap()))
    if not most:
        scala.killExecutors(scala.getExecutorIds())


def leaving_tasks(session: SparkSession) -> frozenset[int]:
    """The numbers of the task attempts that run in executors which are being decommissioned.

    Spark tells only its scheduler, which gives these executors no more tasks. An executor ends once its present tasks
    are over.
    """
    context = session.sparkContext._jsc.sc()
    # Each map takes a single call: maps of Scala come as text.
    pending = context.schedulerBackend().executorsPendingDecommission().keySet().mkString(",")
    leaving = set(pending.split(",")) - {""}
    if not leaving:
        return frozenset()
    return frozenset(task for task, executor in task_executors(session).items() if executor in leaving)


def task_executors(session: SparkSession) -> dict[int, str]:
    """The executor of each running task attempt, by the number of the attempt."""
    running = session.sparkContext._jsc.sc().taskScheduler().taskIdToExecutorId().mkString(",")
    return {int(task): str(executor) for task, executor in _RUNS_IN.findall(running)}


def jvm_figures(session: SparkSession) -> JvmFigures:
    """The JVM's metrics of itself."""
    return read_figures(session.sparkContext._jvm)


def end_useless_threads(session: SparkSession) -> None:
    """End the threads that Spark keeps after the end of their queries.

    For the Python process of each streaming source, Spark starts a thread that looks for idle workers every ten
    seconds, for ever. Only a daemon has idle workers (Spark class PythonWorkerFactory). An interrupt ends the thread.
    """
    threads = session.sparkContext._jvm.java.lang.Thread.getAllStackTraces().keySet()
    for thread in list(threads):
        if thread.getName().startswith(_MONITOR) and not getattr(thread, _FACTORY_OF)().useDaemonEnabled():
            thread.interrupt()


def forget(gateway: Any, added: Sequence[str]) -> None:
    """Remove a JVM from pyspark and py4j, so that they can use another JVM.

    `gateway` is None if it was never opened; `added` has the entries that pyspark put into `sys.path` for the JVM.
    """
    context = SparkContext._active_spark_context
    with SparkContext._lock:
        SparkContext._active_spark_context = None
        SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    SQLContext._instantiatedContext = None
    # The directory is deleted, and another process may make a new directory of that name.
    sys.path[:] = [place for place in sys.path if place not in added]
    if context is not None:
        context._jsc = None
        accumulators = getattr(context, "_accumulatorServer", None)
        if accumulators is not None:
            # The server ends by itself within a second or so; waiting is unneeded.
            threading.Thread(target=_shut, args=(accumulators,), name="accumulators", daemon=True).start()
    if gateway is not None:
        # Proxies of JVM objects that are collected late must never call a port that another process has by then.
        client = gateway._gateway_client
        client.is_connected = False
        client.close()
        if hasattr(client, "finalizer_deque"):
            client.finalizer_deque.appendleft(SHUTDOWN_FINALIZER_WORKER)


def _shut(accumulators: Any) -> None:
    # The socket lies in the engine's directory, which may be removed at the same moment.
    with contextlib.suppress(FileNotFoundError):
        accumulators.shutdown()
