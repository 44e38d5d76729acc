"""The Spark settings that suit leases: of a Spark that twinlog starts, and of a given session."""

from __future__ import annotations

from collections.abc import Mapping

from twinlog.jvm.late_compiler import LATE

ROWS = "spark.twinlog.rows"
"""The meaning of a row of a query: a copied range, or a record."""

RECORDS = "records"
ROW_KINDS = ("ranges", RECORDS)


def local_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings of a Spark of this process; `settings` are its other settings."""
    # If there is a row for each record, the JVM spends its time on these rows.
    compiler = " ".join(LATE) if settings.get(ROWS) == RECORDS else "-XX:TieredStopAtLevel=1"
    return {
        # The JVM plans leases and moves no data: Spark's smallest heap, given back when unused, a single collector
        # thread.
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": (
            f"-XX:+UseSerialGC {compiler} -Xss512k -XX:ReservedCodeCacheSize=96m "
            "-Xms64m -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=20"
        ),
    }


QUERY_SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.pollingDelay": "10ms",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # A lease has a row now and then: compiling code for these rows costs more than it saves.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""The settings of a streaming query: a session may have its own, beside other sessions of the same Spark."""

RECORDS_SETTINGS = {
    # Compiled code saves more than half of a row's cost in the JVM.
    "spark.sql.codegen.factoryMode": "FALLBACK",
}
"""Replaces settings of `QUERY_SETTINGS` if a row is a record."""

SETTINGS = {
    **QUERY_SETTINGS,
    "spark.python.worker.reuse": "true",
    # Unix sockets need less work than TCP for the data between Python and the JVM.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.locality.wait": "0s",
    "spark.speculation": "false",
    # A task's Python worker may hold partitions: a cancelled task must release them soon.
    "spark.python.task.killTimeout": "1s",
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
