"""The Spark settings that suit leases: of a Spark that twinlog starts, and of a session that it is given."""

from __future__ import annotations

LOCAL_SETTINGS = {
    # The JVM plans leases and moves no data: Spark's smallest heap, given back when unused, and one collector thread.
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": (
        "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss512k -XX:ReservedCodeCacheSize=96m "
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
