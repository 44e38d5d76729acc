"""Topics as DataFrames: the examples of Spark's Kafka guide but for the format, record by record beside librdkafka."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from harness.cluster import KafkaCluster
from harness.consume import Record, consume
from harness.produce import NewRecord, numbered, produce
from harness.topics import create_topic, delete_records

DEADLINE_S = 600
TYPES = {-1: "none", 0: "create", 1: "append"}
NOW = 1_700_000_000_000


@pytest.fixture
def source(clusters: tuple[KafkaCluster, KafkaCluster]) -> KafkaCluster:
    return clusters[0]


def records(frame: DataFrame) -> list[Record]:
    """The rows as a consumer's records, by partition and offset."""
    found = [
        Record(
            row["topic"],
            row["partition"],
            row["offset"],
            None if row["key"] is None else bytes(row["key"]),
            None if row["value"] is None else bytes(row["value"]),
            tuple((one["key"], one["value"] and bytes(one["value"])) for one in row["headers"] or ())
            if "headers" in row
            else (),
            round(row["ms"]),
            TYPES[row["timestampType"]],
        )
        for row in frame.selectExpr("*", "unix_millis(timestamp) AS ms").collect()
    ]
    return sorted(found, key=lambda one: (one.topic, one.partition, one.offset))


def batch(spark: SparkSession, cluster: KafkaCluster, **options: Any) -> DataFrame:
    reader = spark.read.format("twinlog-kafka").option("kafka.bootstrap.servers", cluster.bootstrap)
    return reader.options(**options).load()


def test_the_guides_batch_examples_have_what_a_consumer_sees(
    spark: SparkSession, source: KafkaCluster, new_name: Callable[[str], str]
) -> None:
    topic1 = create_topic(source, new_name("topic1"), 2)
    topic2 = create_topic(source, new_name("topic2"), config={"message.timestamp.type": "LogAppendTime"})
    dated = [one for number, one in enumerate(numbered(300, keys=7, headers=True))]
    dated = [NewRecord(one.value, one.key, one.headers, NOW + number) for number, one in enumerate(dated)]
    produce(source, topic1, dated[:200], codec="zstd", per_batch=30)
    produce(source, topic1, [*dated[200:], NewRecord(None, b"tombstone", (), NOW)], partition=1, per_batch=1)
    produce(source, topic2, numbered(40, size=1_000), codec="gzip")
    expected = consume(source, topic1) + consume(source, topic2)

    # Subscribe to multiple topics, specifying explicit Kafka offsets
    df = (
        spark.read.format("twinlog-kafka")
        .option("kafka.bootstrap.servers", source.bootstrap)
        .option("subscribe", f"{topic1},{topic2}")
        .option("startingOffsets", json.dumps({topic1: {"0": 23, "1": -2}, topic2: {"0": -2}}))
        .option("endingOffsets", json.dumps({topic1: {"0": 50, "1": -1}, topic2: {"0": -1}}))
        .option("includeHeaders", "true")
        .load()
    )
    inside = [one for one in expected if one.topic != topic1 or one.partition or 23 <= one.offset < 50]
    assert records(df) == inside
    assert {one.timestamp_type for one in inside} == {"create", "append"}

    # Subscribe to a pattern, at the earliest and latest offsets
    df = (
        spark.read.format("twinlog-kafka")
        .option("kafka.bootstrap.servers", source.bootstrap)
        .option("subscribePattern", f"^{topic1}$|^{topic2}$")
        .option("startingOffsets", "earliest")
        .option("endingOffsets", "latest")
        .load()
    )
    strings = df.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)").collect()
    assert sorted((row["key"] or "", row["value"] or "") for row in strings) == sorted(
        ((one.key or b"").decode(), (one.value or b"").decode()) for one in expected
    )
    # By timestamp, over tasks that share a partition, and by what filters leave.
    late = batch(spark, source, assign=json.dumps({topic1: [0]}), startingTimestamp=NOW + 150, minPartitions=5)
    assert late.rdd.getNumPartitions() == 5
    assert [one.offset for one in records(late)] == list(range(150, 200))
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        some = batch(spark, source, subscribe=topic1).where("partition = 1 AND offset >= 90")
        assert [one.offset for one in records(some)] == list(range(90, 101))
        assert some.rdd.getNumPartitions() == 1
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_read_committed_leaves_out_what_was_aborted(spark: SparkSession, source: KafkaCluster, topic_name: str) -> None:
    create_topic(source, topic_name)
    for number in range(3):
        produce(source, topic_name, numbered(5), transactional_id=f"{topic_name}-x", abort=number == 1)
    assert len(records(batch(spark, source, subscribe=topic_name))) == 15
    committed = batch(spark, source, subscribe=topic_name, **{"kafka.isolation.level": "read_committed"})
    plain = [one.offset for one in consume(source, topic_name)]
    assert [one.offset for one in records(committed)] == plain
    assert len(plain) == 10


def test_wrong_options_are_refused_in_sparks_words(spark: SparkSession, source: KafkaCluster, topic_name: str) -> None:
    with pytest.raises(AnalysisException, match="One of the following options must be specified for Kafka source"):
        batch(spark, source)
    with pytest.raises(AnalysisException, match=f"topic {topic_name} is missing"):
        batch(spark, source, subscribe=topic_name, **{"fetchOffset.retryIntervalMs": 10}).collect()


def stream(
    spark: SparkSession, cluster: KafkaCluster, checkpoint: Path, **options: Any
) -> tuple[list[Record], Sequence[dict[str, Any]]]:
    """What one query with Trigger.AvailableNow brings, and its progress."""
    reader = spark.readStream.format("twinlog-kafka").option("kafka.bootstrap.servers", cluster.bootstrap)
    out = checkpoint.with_name(f"{checkpoint.name}-out")
    known = set(out.glob("*.parquet"))
    query = (
        reader.options(includeHeaders=True, **options)
        .load()
        .writeStream.format("parquet")
        .option("path", str(out))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(DEADLINE_S)
    new = [str(path) for path in out.glob("*.parquet") if path not in known]
    return records(spark.read.parquet(*new)) if new else [], [dict(one) for one in query.recentProgress]


@pytest.mark.scenario
def test_a_stream_goes_on_where_its_checkpoint_ends(
    spark: SparkSession, source: KafkaCluster, topic_name: str, tmp_path: Path
) -> None:
    create_topic(source, topic_name, 2)
    produce(source, topic_name, numbered(100, headers=True))
    produce(source, topic_name, numbered(20), partition=1)
    read = {"subscribe": topic_name, "startingOffsets": "earliest", "maxOffsetsPerTrigger": 60}
    found, progress = stream(spark, source, tmp_path / "c", **read)
    assert found == consume(source, topic_name)
    assert [one["numInputRows"] for one in progress if one["numInputRows"]] == [60, 60]
    assert json.loads(progress[-1]["sources"][0]["endOffset"]) == {topic_name: {"0": 100, "1": 20}}

    produce(source, topic_name, numbered(5, start=100))
    found, _ = stream(spark, source, tmp_path / "c", **read)
    assert found == consume(source, topic_name, start={0: 100, 1: 20})

    delete_records(source, topic_name, 105)
    produce(source, topic_name, numbered(3))
    delete_records(source, topic_name, 107)
    with pytest.raises(StreamingQueryException, match="Could not read records in offset"):
        stream(spark, source, tmp_path / "c", **read)
    found, _ = stream(spark, source, tmp_path / "c", failOnDataLoss=False, **read)
    assert [one.offset for one in found] == [107]


def test_a_checkpoint_of_sparks_own_source_is_taken_over(
    spark: SparkSession, source: KafkaCluster, topic_name: str, tmp_path: Path
) -> None:
    """Files in the form that it leaves after its first micro-batch, written by hand: its jars are not there."""
    create_topic(source, topic_name)
    produce(source, topic_name, numbered(10))
    checkpoint = tmp_path / "c"
    offset = json.dumps({topic_name: {"0": 4}}, separators=(",", ":"))
    metadata = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": NOW, "conf": {}})
    for name, text in {
        "metadata": json.dumps({"id": "6f1ad9ba-5a9c-4b5c-8a1c-9b7e6a2f0c11"}),
        "offsets/0": f"v1\n{metadata}\n{offset}",
        "commits/0": 'v1\n{"nextBatchWatermarkMs":0}',
        "sources/0/0": f'0v1\n{{"{topic_name}":{{"0":0}}}}',
    }.items():
        (checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
        (checkpoint / name).write_text(text)
    found, _ = stream(spark, source, checkpoint, subscribe=topic_name, startingOffsets="earliest")
    assert [one.offset for one in found] == [4, 5, 6, 7, 8, 9]
