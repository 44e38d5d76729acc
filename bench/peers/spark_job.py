"""Spark's own Kafka source and sink as a mirror: `python -m bench.peers.spark_job SOURCE TARGET TOPIC REMOTE CHECKPOINT
CODEC JARS`.

A structured streaming query copies key, value, headers and partition of each record; the sink has no column for the
timestamp. The query reads everything that is there in each of its micro-batches, and ends at SIGTERM. JARS are those of
the source with commas between.
"""

from __future__ import annotations

import os
import signal
import sys

HEAP = "2g"
SOURCE_OPTIONS = {
    "startingOffsets": "earliest",
    "includeHeaders": "true",
    "kafka.max.partition.fetch.bytes": "2097152",
    "kafka.fetch.max.bytes": "52428800",
    "kafka.max.poll.records": "5000",
}
SINK_OPTIONS = {"kafka.batch.size": "262144", "kafka.linger.ms": "5"}
"""Consumers and producers have the tuning of MirrorMaker 2."""


def main() -> None:
    from pyspark.sql import SparkSession  # noqa: PLC0415 - the bench itself needs no Spark

    source, target, topic, remote, checkpoint, codec, jars = sys.argv[1:]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", HEAP).config("spark.ui.showConsoleProgress", "false")
    spark = builder.config("spark.jars", jars).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    reader = spark.readStream.format("kafka").options(**SOURCE_OPTIONS)
    rows = reader.option("kafka.bootstrap.servers", source).option("subscribe", topic).load()
    writer = rows.select("key", "value", "headers", "partition").writeStream.format("kafka").options(**SINK_OPTIONS)
    writer = writer.option("kafka.bootstrap.servers", target).option("kafka.compression.type", codec)
    query = writer.option("topic", remote).option("checkpointLocation", checkpoint).start()
    # Python handles a signal between two looks only.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    while not query.awaitTermination(1):
        pass


if __name__ == "__main__":
    main()
