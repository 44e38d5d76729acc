"""`python -m harness.prepare`: everything that is made once and makes each later start of a JVM faster.

Kafka's jars, the other PySpark that tests run with, and the class archives of Kafka and of Spark. What exists is left
as it is; all works without archives.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.errors import HarnessError
from harness.groups import commit_offsets
from harness.jvm.archive import archive_file, record_options
from harness.jvm.jars import kafka_classpath, locked
from harness.produce import numbered, produce
from harness.spark.other_release import other_spark
from harness.topics import create_topic
from twinlog.process.jvm import archive_file as spark_archive_file

DEADLINE_S = 60.0


def record_broker() -> None:
    """Let one node work a little, and keep the classes that it needed. Raises HarnessError."""
    kept = archive_file()
    with locked(kept.with_suffix(".lock")):
        if kept.is_file():
            return
        with tempfile.TemporaryDirectory(prefix=".archive-", dir=kept.parent) as work:
            fresh = Path(work, kept.name)
            cluster = KafkaCluster("archive", heap="384m")
            for broker in cluster.brokers.values():
                broker.process.command[1:1] = record_options(fresh)
            with cluster:
                topic = create_topic(cluster, "archive")
                produce(cluster, topic, numbered(10), transactional_id=topic)
                consume(cluster, topic)
                commit_offsets(cluster, {"archive": {(topic, 0): 1}})
                cluster.stop(DEADLINE_S)
            if not fresh.is_file():
                raise HarnessError(f"Kafka left no class archive at {fresh}")
            fresh.rename(kept)


def main() -> None:
    spark = None
    if not spark_archive_file().is_file():
        print("Preparing quicker starts of Spark and Kafka (once, about a minute) ...", flush=True)
        spark = subprocess.Popen([Path(sys.executable).with_name("twinlog"), "warm-up"], stdout=subprocess.DEVNULL)
    kafka_classpath()
    record_broker()
    other_spark()
    if spark is not None and spark.wait():
        raise HarnessError("`twinlog warm-up` failed; see above")


if __name__ == "__main__":
    try:
        main()
    except HarnessError as error:
        sys.exit(f"problem: {error}")
