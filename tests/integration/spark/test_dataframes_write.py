"""Topics written by DataFrames: the examples of Spark's Kafka guide but for the format, read back with librdkafka."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from harness.cluster import KafkaCluster
from harness.consume import Record, consume
from harness.produce import NewRecord, numbered, produce
from harness.topics import create_topic
from twinlog.kafka.protocol.produce import partition_for

DEADLINE_S = 600
NOW = 1_700_000_000_000


@pytest.fixture
def target(clusters: tuple[KafkaCluster, KafkaCluster]) -> KafkaCluster:
    return clusters[1]


def contents(found: list[Record]) -> list[tuple[object, ...]]:
    return sorted(((one.key, one.value, one.headers, one.timestamp) for one in found), key=repr)


def read(spark: SparkSession, cluster: KafkaCluster, topic: str) -> DataFrame:
    reader = spark.read.format("twinlog-kafka").option("kafka.bootstrap.servers", cluster.bootstrap)
    return reader.option("subscribe", topic).option("includeHeaders", "true").load()


def filled(cluster: KafkaCluster, topic: str) -> list[Record]:
    """Records with keys and headers of all kinds, and with timestamps of their own."""
    some = [
        NewRecord(one.value, one.key, one.headers, NOW + number)
        for number, one in enumerate(numbered(300, keys=7, headers=True))
    ]
    produce(cluster, topic, [*some, NewRecord(None, b"tombstone", (), NOW), NewRecord(b"", None, (("h", None),), NOW)])
    return consume(cluster, topic)


def test_the_guides_batch_examples_write_what_a_consumer_sees(
    spark: SparkSession, target: KafkaCluster, new_name: Callable[[str], str]
) -> None:
    given = filled(target, create_topic(target, new_name("given")))
    topic1, topic2 = create_topic(target, new_name("topic1"), 3), create_topic(target, new_name("topic2"), 3)
    df = read(spark, target, given[0].topic)

    # Write key-value data from a DataFrame to a specific Kafka topic specified in an option
    (
        df.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)", "headers", "timestamp")
        .write.format("twinlog-kafka")
        .option("kafka.bootstrap.servers", target.bootstrap)
        .option("kafka.compression.type", "zstd")
        .option("topic", topic1)
        .mode("append")
        .save()
    )
    found = consume(target, topic1)
    assert contents(found) == contents(given)
    # Spread as Kafka's own producer spreads them.
    assert all(one.partition == partition_for(one.key, 3) for one in found if one.key is not None)
    assert len({one.partition for one in found}) == 3

    # Write key-value data from a DataFrame to Kafka using a topic specified in the data
    (
        df.selectExpr(
            f"IF(offset % 2 = 0, '{topic1}', '{topic2}') AS topic",
            "key",
            "value",
            "CAST(offset % 3 AS INT) AS partition",
        )
        .write.format("twinlog-kafka")
        .option("kafka.bootstrap.servers", target.bootstrap)
        .mode("append")
        .save()
    )
    behind = consume(target, topic1)
    new = [one for one in behind if one not in found]
    assert len(new) == sum(one.offset % 2 == 0 for one in given)
    by_offset = {one.value: one for one in given}
    assert all(by_offset[one.value].offset % 3 == one.partition for one in new)


def test_what_cannot_be_written_is_said(spark: SparkSession, target: KafkaCluster, topic_name: str) -> None:
    def write(df: DataFrame, **options: Any) -> None:
        writer = df.write.format("twinlog-kafka").option("kafka.bootstrap.servers", target.bootstrap)
        writer.options(**options).mode("append").save()

    rows = spark.range(3).selectExpr("CAST(id AS STRING) AS value")
    with pytest.raises(AnalysisException, match="topic option required when no 'topic' attribute is present"):
        write(rows)
    with pytest.raises(AnalysisException, match="Required attribute 'value' not found"):
        write(spark.range(3), topic=topic_name)
    with pytest.raises(
        AnalysisException, match=r"value attribute unsupported type bigint. value must be a\(n\) string"
    ):
        write(spark.range(3).selectExpr("id AS value"), topic=topic_name)
    create_topic(target, topic_name, config={"max.message.bytes": 10_000})
    with pytest.raises(PySparkException, match=f"{topic_name}-0: a record needs a batch of 200.. bytes"):
        write(rows.selectExpr("repeat(value, 20000) AS value"), topic=topic_name)
    sent = r"-0: a row needs a batch of up to 300\d\d bytes, and kafka.max.request.size is 20000; raise it"
    with pytest.raises(PySparkException, match=topic_name + sent):
        write(rows.selectExpr("repeat(value, 30000) AS value"), topic=topic_name, **{"kafka.max.request.size": 20_000})
    # Smaller ones together are not too large.
    write(spark.range(100).selectExpr("repeat('x', 1000) AS value"), topic=topic_name)
    assert len(consume(target, topic_name)) == 100


def recipe(title: str) -> list[str]:
    """The code below a heading of the page."""
    page = (Path(__file__).parents[3] / "docs/dataframes.md").read_text(encoding="utf-8")
    (section,) = [part for part in page.split("\n## ") if part.startswith(title)]
    return re.findall(r"```python\n(.*?)```", section, re.DOTALL)


def test_the_recipe_of_an_archive_brings_every_record_back(
    spark: SparkSession, target: KafkaCluster, new_name: Callable[[str], str], tmp_path: Path
) -> None:
    topic, restored = create_topic(target, new_name("orders"), 2), create_topic(target, new_name("restored"), 2)
    filled(target, topic)
    produce(target, topic, numbered(50, headers=True), partition=1)
    archive, restore = recipe("An archive in Parquet")

    def run(code: str) -> None:
        for written, here in (
            ("orders-restored", restored),
            ('"subscribe", "orders"', f'"subscribe", "{topic}"'),
            ("east-1:9092", target.bootstrap),
            ("west-1:9092", target.bootstrap),
            ("/archive/", f"{tmp_path}/"),
        ):
            code = code.replace(written, here)
        exec(code, {"spark": spark})

    run(archive)
    produce(target, topic, numbered(20, start=50), partition=1)
    run(archive)
    run(restore)
    found = consume(target, restored)
    given = consume(target, topic)
    assert [(one.partition, one.offset, *one.content) for one in found] == [
        (one.partition, one.offset, *one.content) for one in given
    ]
    assert {len(one.headers) for one in given} > {0}
    assert len({one.timestamp for one in given}) > 100


def test_records_without_a_timestamp_survive_an_archive(
    spark: SparkSession, target: KafkaCluster, new_name: Callable[[str], str], tmp_path: Path
) -> None:
    topic, restored = create_topic(target, new_name("old"), 2), create_topic(target, new_name("restored"), 2)
    for partition in range(2):
        old = [NewRecord(b"%d" % number, b"k", (), -1 if number % 3 else NOW + number) for number in range(90)]
        produce(target, topic, old, partition=partition, per_batch=30)
    given = consume(target, topic)
    assert [one.timestamp for one in given].count(-1) == 120
    read(spark, target, topic).write.parquet(str(tmp_path / "archive"))
    (
        spark.read.parquet(str(tmp_path / "archive"))
        .repartition("partition")
        .sortWithinPartitions("partition", "offset")
        .select("key", "value", "headers", "timestamp", "partition")
        .write.format("twinlog-kafka")
        .option("kafka.bootstrap.servers", target.bootstrap)
        .option("topic", restored)
        .mode("append")
        .save()
    )
    found = consume(target, restored)
    assert [(one.partition, one.offset, *one.content) for one in found] == [
        (one.partition, one.offset, *one.content) for one in given
    ]


def run_stream(spark: SparkSession, df: DataFrame, target: KafkaCluster, topic: str, checkpoint: Path) -> None:
    query = (
        df.writeStream.format("twinlog-kafka")
        .option("kafka.bootstrap.servers", target.bootstrap)
        .option("topic", topic)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(DEADLINE_S)


def test_a_micro_batch_that_runs_again_is_written_once(
    spark: SparkSession, target: KafkaCluster, new_name: Callable[[str], str], tmp_path: Path
) -> None:
    """The driver ends between the commit on the target and Spark's own: its file is taken away again."""
    source, topic = create_topic(target, new_name("from"), 2), create_topic(target, new_name("to"), 2)
    produce(target, source, numbered(100, headers=True, keys=5))
    produce(target, source, numbered(100, headers=True, keys=5, start=100), partition=1)
    given = consume(target, source)
    reader = spark.readStream.format("twinlog-kafka").option("kafka.bootstrap.servers", target.bootstrap)
    stream = reader.options(subscribe=source, startingOffsets="earliest", includeHeaders=True, maxOffsetsPerTrigger=150)
    columns = ["key", "value", "headers", "timestamp"]

    checkpoint = tmp_path / "c"
    run_stream(spark, stream.load().select(columns), target, topic, checkpoint)
    found = consume(target, topic)
    assert contents(found) == contents(given)
    for tasks in (5,):
        (last,) = sorted((path for path in (checkpoint / "commits").glob("[0-9]*")), key=lambda path: int(path.name))[
            -1:
        ]
        last.unlink()
        (checkpoint / "commits" / f".{last.name}.crc").unlink(missing_ok=True)
        run_stream(spark, stream.load().select(columns).repartition(tasks), target, topic, checkpoint)
        assert consume(target, topic) == found

    produce(target, source, numbered(5, start=200))
    run_stream(spark, stream.load().select(columns), target, topic, checkpoint)
    assert len(consume(target, topic)) == 205
    # A checkpoint that is older than the target is not believed.
    for path in [*(checkpoint / "commits").glob("*"), *(checkpoint / "offsets").glob("*")]:
        if path.name.strip(".").split(".")[0] != "0":
            path.unlink()
    with pytest.raises(PySparkException, match="the checkpoint is older than the written rows"):
        run_stream(spark, stream.load().select(columns), target, topic, checkpoint)
    assert len(consume(target, topic)) == 205
