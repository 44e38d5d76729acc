"""Options of `twinlog-kafka` are read as Spark's own source reads them, and refused in its words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from twinlog.errors import ConfigError, OptionError
from twinlog.model.types import TopicPartition
from twinlog.spark.dataframes.options import TopicOptions, read_options
from twinlog.spark.dataframes.ranges import (
    EARLIEST,
    LATEST,
    EarliestOrLatestRangeLimit,
    GlobalTimestampRangeLimit,
    SpecificOffsetRangeLimit,
    SpecificTimestampRangeLimit,
    from_json,
    to_json,
)

SERVERS = {"kafka.bootstrap.servers": "b:9092"}
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def batch(**options: str) -> TopicOptions:
    return read_options({**SERVERS, "subscribe": "t", **options}, "batch")


def stream(**options: str) -> TopicOptions:
    return read_options({**SERVERS, "subscribe": "t", **options}, "stream")


def test_defaults_of_batch_and_stream() -> None:
    assert (batch().starting, batch().ending) == (
        EarliestOrLatestRangeLimit(EARLIEST),
        EarliestOrLatestRangeLimit(LATEST),
    )
    assert stream().starting == EarliestOrLatestRangeLimit(LATEST)
    found = stream()
    assert (found.topics, found.headers, found.fail_on_data_loss) == (("t",), False, True)
    assert (found.max_trigger_delay_ms, found.offset_tries, found.offset_retry_ms) == (900_000, 3, 1_000)
    assert not found.read_committed


def test_names_are_found_in_any_case_and_values_as_spark_finds_them() -> None:
    found = read_options(
        {
            **SERVERS,
            "SubscribePattern": "topic.*",
            "STARTINGOFFSETS": " Latest ",
            "includeHeaders": "TRUE",
            "failOnDataLoss": "false",
            "maxTriggerDelay": "2min",
            "minOffsetsPerTrigger": "5",
            "maxOffsetsPerTrigger": "7",
            "kafka.isolation.level": "read_committed",
        },
        "stream",
    )
    assert found.pattern is not None
    assert found.pattern.find("my-topic1")
    assert (found.headers, found.fail_on_data_loss, found.read_committed) == (True, False, True)
    assert (found.max_trigger_delay_ms, found.min_offsets_per_trigger, found.max_offsets_per_trigger) == (120_000, 5, 7)
    assert read_options({**SERVERS, "subscribe": " a, b ,a,"}, "batch").topics == ("a", "b")
    assert read_options({**SERVERS, "assign": '{"t":[0,1]}'}, "batch").partitions == {T0, T1}


def test_a_timestamp_counts_before_timestamps_by_partition_and_those_before_offsets() -> None:
    by_partition = '{"t":{"0":1000,"1":2000}}'
    offsets = '{"t":{"0":23,"1":-2}}'
    assert batch(startingOffsets=offsets).starting == SpecificOffsetRangeLimit({T0: 23, T1: EARLIEST})
    assert batch(
        startingOffsets=offsets, startingOffsetsByTimestamp=by_partition
    ).starting == SpecificTimestampRangeLimit({T0: 1000, T1: 2000}, or_latest=False)
    everything = batch(startingOffsets=offsets, startingOffsetsByTimestamp=by_partition, startingTimestamp="7")
    assert everything.starting == GlobalTimestampRangeLimit(7, or_latest=False)
    assert batch(
        startingTimestamp="7", startingOffsetsByTimestampStrategy="latest"
    ).starting == GlobalTimestampRangeLimit(7, True)
    # After the last record is where an end is meant to be.
    assert batch(endingTimestamp="7").ending == GlobalTimestampRangeLimit(7, or_latest=True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {},
            "One of the following options must be specified for Kafka source: Set(subscribe, subscribepattern, assign)",
        ),
        ({"subscribe": "t", "assign": "{}"}, "Only one of the following options can be specified for Kafka source"),
        ({"subscribe": " , "}, "No topics to subscribe to as specified value for option 'subscribe' is ' , '"),
        ({"subscribePattern": " "}, "Pattern to subscribe is empty as specified value for option 'subscribePattern'"),
        ({"subscribePattern": "("}, "option 'subscribePattern' is an invalid regular expression"),
        ({"assign": "t"}, "No topicpartitions to assign as specified value for option 'assign' is 't'"),
        ({"assign": '{"t":0}'}, 'Expected e.g. {"topicA":[0,1],"topicB":[0,1]}, got {"t":0}'),
        ({"subscribe": "t", "minPartitions": "0"}, "minPartitions must be positive"),
        ({"subscribe": "t", "maxRecordsPerPartition": "-1"}, "maxrecordsperpartition must be positive"),
        ({"subscribe": "t", "minPartitions": "x"}, 'For input string: "x"'),
        ({"subscribe": "t", "includeHeaders": "yes"}, 'For input string: "yes"'),
        ({"subscribe": "t", "startingOffsets": '{"t":0}'}, 'Expected e.g. {"topicA":{"0":23,"1":-1}'),
        (
            {"subscribe": "t", "startingOffsets": '{"t":{"0":-3}}'},
            "startingOffsets: t-0 has -3; an offset is 0 or more, -1 the latest, -2 the earliest",
        ),
        ({"subscribe": "t", "startingTimestamp": "now"}, "Expected a single long value, got now"),
        ({"subscribe": "t", "startingOffsetsByTimestamp": "5"}, 'Expected e.g. {"topicA": {"0": 123456789'),
        ({"subscribe": "t", "startingOffsetsByTimestampStrategy": "x"}, "unknown value for 'X'"),
        ({"subscribe": "t", "maxTriggerDelay": "soon"}, "Failed to parse time string: soon"),
        ({"subscribe": "t", "kafka.auto.offset.reset": "latest"}, "Kafka option 'auto.offset.reset' is not supported."),
        ({"subscribe": "t", "kafka.key.deserializer": "x"}, "Kafka option 'key.deserializer' is not supported as keys"),
        ({"subscribe": "t", "kafka.value.deserializer": "x"}, "'value.deserializer' is not supported as values are"),
        ({"subscribe": "t", "kafka.enable.auto.commit": "true"}, "Kafka option 'enable.auto.commit' is not supported"),
        ({"subscribe": "t", "kafka.interceptor.classes": "x"}, "Kafka option 'interceptor.classes' is not supported"),
        (
            {"subscribe": "t", "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"},
            "The value of minOffsetPerTrigger(9) is higher than the maxOffsetsPerTrigger(8).",
        ),
    ],
)
@pytest.mark.parametrize("use", ["batch", "stream", "either"])
def test_what_spark_refuses_is_refused(options: dict[str, str], words: str, use: Any) -> None:
    with pytest.raises(OptionError) as refused:
        read_options({**SERVERS, **options}, use)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"startingOffsets": "latest"}, "starting offset can't be latest for batch queries on Kafka"),
        ({"endingOffsets": "earliest"}, "ending offset can't be earliest for batch queries on Kafka"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "startingOffsets for t-0 can't be latest for batch queries on Kafka"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "ending offset for t-0 can't be earliest for batch queries on Kafka"),
        (
            {"startingOffsets": '{"t":{"0":5}}', "endingOffsets": '{"t":{"1":5}}'},
            "Topic-partitions for start offset: Set(t-0), topic-partitions for end offset: Set(t-1).",
        ),
        (
            {"startingOffsets": '{"t":{"0":6}}', "endingOffsets": '{"t":{"0":5}}'},
            "The specified start offset 6 is greater than the end offset 5 for topic t partition 0.",
        ),
    ],
)
def test_what_a_batch_query_may_not_have(options: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError) as refused:
        batch(**options)
    assert words in str(refused.value)


def test_a_stream_has_no_end() -> None:
    with pytest.raises(OptionError, match="ending offset not valid in streaming queries"):
        stream(endingOffsets="latest")
    with pytest.raises(OptionError, match="ending timestamp not valid in streaming queries"):
        stream(endingOffsetsByTimestamp='{"t":{"0":1}}')


def test_logins_are_those_of_a_java_client() -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    found = batch(
        **{
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.jaas.config": f'{module} required username="u" password="p";',
        }
    ).consumer.client
    assert (found.bootstrap_servers, found.security_protocol) == (("b:9092",), "SASL_PLAINTEXT")
    assert (found.sasl_username, found.sasl_password) == ("u", "p")
    with pytest.raises(ConfigError, match=r"option: kafka.security.protocol: 'TLS' is invalid; write"):
        batch(**{"kafka.security.protocol": "TLS"})
    with pytest.raises(OptionError, match=r"'kafka.bootstrap.servers' must be specified"):
        read_options({"subscribe": "t"}, "batch")


def test_a_file_of_flows_has_the_connection(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(
        "clusters = east, west\neast.bootstrap.servers = e:1\nwest.bootstrap.servers = w:2\n"
        "east->west.enabled = true\neast.consumer.isolation.level = read_committed\n"
    )
    ours = {"subscribe": "t", "twinlog.config": str(file)}
    east = read_options({**ours, "cluster": "east"}, "batch")
    assert (east.consumer.client.bootstrap_servers, east.read_committed) == (("e:1",), True)
    assert read_options({**ours, "cluster": "west"}, "stream").consumer.client.bootstrap_servers == ("w:2",)
    with pytest.raises(OptionError, match=r"'cluster' must be specified with 'twinlog.config': any of east, west"):
        read_options(ours, "batch")
    with pytest.raises(OptionError, match="has flows of these clusters only: east, west"):
        read_options({**ours, "cluster": "north"}, "batch")
    with pytest.raises(OptionError, match=r"'kafka.bootstrap.servers' cannot be specified with 'twinlog.config'"):
        read_options({**ours, **SERVERS, "cluster": "east"}, "batch")


def test_offsets_go_through_sparks_json_and_back() -> None:
    offsets = {T1: 7, T0: LATEST, TopicPartition("a", 10): 0}
    assert to_json(offsets) == {"a": {"10": 0}, "t": {"0": -1, "1": 7}}
    assert from_json(to_json(offsets)) == offsets
