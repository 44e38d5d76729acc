"""Starts Spark for flows: as small as it can be locally, and as the user says elsewhere."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from twinlog.settings import FlowSettings
from twinlog.spark.archive import use_options
from twinlog.spark.nursery import Nursery
from twinlog.spark.query import FlowQuery
from twinlog.task.wire import DriverAddress

log = logging.getLogger(__name__)

LOCAL_SETTINGS = {
    # The JVM plans leases and moves no data: Spark's smallest heap, given back when unused, and one collector thread.
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": (
        "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss512k -XX:ReservedCodeCacheSize=96m "
        "-Xms64m -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=20"
    ),
}

CLUSTER_SETTINGS = {
    # Records pass through Python beside the executor's JVM, which therefore needs next to nothing.
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=20",
}

SETTINGS = {
    "spark.python.worker.reuse": "true",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.adaptive.enabled": "false",
    "spark.locality.wait": "0s",
    "spark.speculation": "false",
    "spark.sql.streaming.pollingDelay": "10ms",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # A task's Python worker may hold partitions: a cancelled task must not keep them for long.
    "spark.python.task.killTimeout": "1s",
    # A lease has a row now and then: compiling code for them costs more than it saves.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "50",
}

LOG_SETTINGS = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c{1}: %m%n
appender.console.filter.threshold.type = ThresholdFilter
appender.console.filter.threshold.level = error
"""


def local_master(slots: int) -> str:
    """The master for `slots` tasks in one process; a task is tried again in another Python worker up to four times."""
    return f"local[{max(1, slots)},4]"


class SparkEngine:
    """One Spark session for all flows of a process; starting it blocks for seconds.

    `conf` wins over twinlog's own settings. Spark runs its tasks with the interpreter that runs this; on other machines
    the same path must exist, or `spark.pyspark.python` says another. `java_options` are added to the JVM's, instead of
    those that use the class archive of `twinlog warm-up`.
    """

    def __init__(
        self, master: str, conf: Mapping[str, str], *, app_name: str = "twinlog", java_options: str | None = None
    ) -> None:
        self.local = master.startswith("local")
        self._ending = threading.Event()
        self._scratch = Path(tempfile.mkdtemp(prefix="twinlog-"))
        self._nursery: Nursery | None = None
        if self.local:
            # Spark would look up the host's name otherwise, and warn when it is a loopback one.
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            if not _PYTHON_VARIABLES & set(os.environ) and not _PYTHON_SETTINGS & set(conf):
                self._open_nursery()
        for name in _PYTHON_VARIABLES:
            os.environ.setdefault(name, sys.executable)
        settings = {
            "spark.sql.warehouse.dir": str(self._scratch / "warehouse"),
            **SETTINGS,
            **(LOCAL_SETTINGS if self.local else CLUSTER_SETTINGS),
            **conf,
        }
        log_file = self._scratch / "log4j2.properties"
        log_file.write_text(LOG_SETTINGS)
        archive = use_options() if java_options is None else java_options
        options = (settings.get("spark.driver.extraJavaOptions", ""), archive, _LOG_OPTION + log_file.as_uri())
        settings["spark.driver.extraJavaOptions"] = " ".join(filter(None, options))
        spark_conf = SparkConf().setMaster(master).setAppName(app_name).setAll(list(settings.items()))
        gateway = launch_gateway(spark_conf, popen_kwargs={"stderr": subprocess.PIPE})
        threading.Thread(
            target=_pass_on, args=(gateway.proc.stderr, self._ending), name="spark stderr", daemon=True
        ).start()
        SparkContext._ensure_initialized(gateway=gateway)
        self._session: SparkSession = SparkSession.builder.config(conf=spark_conf).getOrCreate()

    def _open_nursery(self) -> None:
        try:
            self._nursery = Nursery(self._scratch)
            os.environ.update(dict.fromkeys(_PYTHON_VARIABLES, str(self._nursery.launcher)))
        except OSError as error:
            # Such as a temporary directory whose name is too long for a socket: Spark then starts Python itself.
            log.debug("Python is started anew for each of Spark's daemons: %r", error)

    @property
    def slots(self) -> int:
        """How many tasks run at once; on a cluster it changes as executors come and go, and is 0 without any."""
        context = self._session.sparkContext._jsc.sc()
        return int(context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile()))

    def wait_for_slot(self, timeout_s: float) -> None:
        """On a cluster, wait until the first executor has registered."""
        deadline = time.monotonic() + timeout_s
        while not self.slots and time.monotonic() < deadline:
            time.sleep(0.1)

    @property
    def executor_memory(self) -> str:
        """Memory of an executor's JVM, as Spark writes it."""
        return str(self._session.conf.get("spark.executor.memory", "1g"))

    @property
    def host(self) -> str:
        """The address under which tasks reach this process."""
        return str(self._session.conf.get("spark.driver.host", "127.0.0.1"))

    @property
    def web_url(self) -> str | None:
        """Spark's own pages, None when they are switched off."""
        url = self._session.sparkContext.uiWebUrl
        return None if url is None else str(url)

    def query(self, settings: FlowSettings, address: DriverAddress) -> FlowQuery:
        """Start the streaming query of a flow."""
        return FlowQuery(self._session, settings, address, self._scratch)

    def stop(self, timeout_s: float) -> None:
        """Stop Spark; its JVM is killed when it takes longer than `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        # Whoever asks the JVM something just now gets no answer, which is no news.
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        if not self.local:
            stopping = threading.Thread(target=self._stop_quietly, daemon=True)
            stopping.start()
            stopping.join(timeout_s / 2)
        gateway = SparkContext._gateway
        process = getattr(gateway, "proc", None)
        if process is not None:
            # The JVM ends with its standard input, and stops Spark on its way; what it still says is about its end.
            self._ending.set()
            accumulators = getattr(self._session.sparkContext, "_accumulatorServer", None)
            if accumulators is not None:
                # It would print a stack trace when its line to the JVM ends.
                accumulators.handle_error = lambda *_: None
            process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, deadline - time.monotonic()))
            process.kill()
        if self._nursery is not None:
            self._nursery.close()
            for name in _PYTHON_VARIABLES:
                del os.environ[name]
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _stop_quietly(self) -> None:
        try:
            self._session.stop()
        except Exception as error:
            log.debug("stopping Spark: %r", error)


_PYTHON_VARIABLES = {"PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"}
_PYTHON_SETTINGS = {"spark.pyspark.python", "spark.pyspark.driver.python"}
_LOG_OPTION = "-Dlog4j2.configurationFile="
_NOISE = ("WARNING: Using incubator modules", "Setting default log level", "To adjust logging level use")


def _pass_on(stream: IO[bytes], ending: threading.Event) -> None:
    """Spark's own complaints, and those of its Python workers, go to the log; a stack trace only at debug level."""
    for raw in stream:
        line = raw.decode(errors="replace").rstrip()
        if line and not line.startswith(_NOISE):
            deep = ending.is_set() or line.startswith(
                ("\t", " ", "at ", "Caused by", "Traceback", "org.apache.spark", "java.")
            )
            log.log(logging.DEBUG if deep else logging.WARNING, "spark: %s", line)
