"""One Spark session that reads two topics and writes a third, again and again, by one format.

`python -m bench.spark.frames_job FORMAT BROKERS ROUNDS JARS TOPIC_1K TOPIC_100 OUT RECORDS` prints one line of JSON:
the seconds of each round by its job. JARS are the jars of Spark's own source with commas between, or empty.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable

VALUE_BYTES = 1_000


def main() -> None:
    from pyspark.sql import DataFrame, SparkSession  # noqa: PLC0415 - the bench itself needs no Spark

    kind, brokers, rounds, jars, topic_1k, topic_100, out, records = sys.argv[1:]
    # Tasks run with the Python that runs this.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "1g").config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.python.unix.domain.socket.enabled", "true")
    if jars:
        builder = builder.config("spark.jars", jars)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")

    def read(topic: str) -> DataFrame:
        reader = spark.read.format(kind).option("kafka.bootstrap.servers", brokers)
        return reader.option("subscribe", topic).load()

    def timed(step: Callable[[], None]) -> list[float]:
        took = []
        for _ in range(int(rounds)):
            begun = time.monotonic()
            step()
            took.append(time.monotonic() - begun)
        return took

    def drop(topic: str) -> Callable[[], None]:
        return lambda: read(topic).write.format("noop").mode("overwrite").save()

    def write() -> None:
        rows = spark.range(0, int(records), 1, 1)
        # Padding each value to its whole size would cost Spark more than handing it to the writer.
        value = f"concat(lpad(CAST(id AS STRING), 16, '0'), repeat('x', {VALUE_BYTES - 16})) AS value"
        rows = rows.selectExpr("CAST(id AS STRING) AS key", value)
        writer = rows.write.format(kind).option("kafka.bootstrap.servers", brokers).option("topic", out)
        writer.mode("append").save()

    found = {"read_1k": timed(drop(topic_1k)), "read_100": timed(drop(topic_100)), "write_1k": timed(write)}
    print(json.dumps(found), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
