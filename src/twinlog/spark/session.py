"""Starts Spark for flows: as small as it can be locally, and as the user says elsewhere."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

LOCAL_SETTINGS = {
    # The JVM plans leases and moves no data: a small heap and one collector thread are enough.
    "spark.driver.memory": "256m",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss512k -XX:ReservedCodeCacheSize=96m",
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
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "50",
}

LOG_SETTINGS = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = spark: %p %c{1}: %m%n
appender.console.filter.threshold.type = ThresholdFilter
appender.console.filter.threshold.level = error
"""


def local_master(slots: int) -> str:
    """The master for `slots` tasks in one process; a task is tried again in another Python worker up to four times."""
    return f"local[{max(1, slots)},4]"


def start_session(master: str, conf: Mapping[str, str], *, app_name: str = "twinlog") -> SparkSession:
    """Start Spark; `conf` wins over twinlog's own settings. Blocks for seconds.

    Spark runs its tasks with the interpreter that runs this; on other machines the same path must exist, or
    `spark.pyspark.python` says another.
    """
    python = sys.executable
    os.environ.setdefault("PYSPARK_PYTHON", python)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", python)
    # Spark's launcher asks the system's shell for the host's name otherwise, and warns when it is a loopback one.
    local = master.startswith("local")
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = {**SETTINGS, **(LOCAL_SETTINGS if local else {}), **conf}
    logging_file = Path(tempfile.mkdtemp(prefix="twinlog-")) / "log4j2.properties"
    logging_file.write_text(LOG_SETTINGS)
    options = settings.get("spark.driver.extraJavaOptions", "")
    settings["spark.driver.extraJavaOptions"] = f"{options} -Dlog4j2.configurationFile={logging_file.as_uri()}".strip()
    builder = SparkSession.builder.master(master).appName(app_name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    session: SparkSession = builder.getOrCreate()
    return session
