"""The Spark settings that suit leases: of a Spark that twinlog starts, and of a session that it is given."""

from __future__ import annotations

from collections.abc import Mapping

from twinlog.jvm.late_compiler import LATE

ROWS = "spark.twinlog.rows"
"""What a row of a query is: a copied range, or a record."""

RECORDS = "records"
ROW_KINDS = ("ranges", RECORDS)


def local_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Those of a Spark of this process, whose other settings are these."""
    # A row for each record is what its JVM spends its time on, if there is one.
    compiler = " ".join(LATE) if settings.get(ROWS) == RECORDS else "-XX:TieredStopAtLevel=1"
    return {
        # The JVM plans leases and moves no data: Spark's smallest heap, given back when unused, one collector thread.
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
    # A lease has a row now and then: compiling code for them costs more than it saves.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Those of a streaming query: a session may have its own, beside other sessions of the same Spark."""

RECORDS_SETTINGS = {
    # It saves more than half of what a row costs the JVM.
    "spark.sql.codegen.factoryMode": "FALLBACK",
}
"""Instead of these, where a row is a record."""

SETTINGS = {
    **QUERY_SETTINGS,
    "spark.python.worker.reuse": "true",
    # Less work than TCP for what passes between Python and the JVM.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.locality.wait": "0s",
    "spark.speculation": "false",
    # A task's Python worker may hold partitions: a cancelled task must not keep them for long.
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
