"""A streaming query with Spark's own Kafka source and file sink: `spark_query.py BOOTSTRAP TOPIC CHECKPOINT OUT JARS`.

The query writes partition, offset and key of each record as JSON, exactly once by the log of the sink, and reads
`MOST` records in a micro-batch. It runs until it is killed. JARS are those of the source with commas between.
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

MOST = 250
HEAP = "512m"


def main() -> None:
    bootstrap, topic, checkpoint, out, jars = sys.argv[1:]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", HEAP).config("spark.ui.showConsoleProgress", "false")
    spark = builder.config("spark.jars", jars).getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    reader = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", MOST)
    rows = reader.option("kafka.isolation.level", "read_committed").load()
    lines = rows.selectExpr("partition", "offset", "CAST(key AS STRING) AS key")
    writer = lines.writeStream.format("json").option("path", out).option("checkpointLocation", checkpoint)
    writer.start().awaitTermination()


if __name__ == "__main__":
    main()
