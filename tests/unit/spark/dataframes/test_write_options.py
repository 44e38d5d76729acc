"""The options and columns of a writer, and what is refused in the words of Spark's own sink."""

from __future__ import annotations

from pathlib import Path

import pytest

from twinlog.errors import ConfigError, OptionError
from twinlog.model.types import TopicName
from twinlog.spark.dataframes.write_options import check_columns, read_write_options

BROKERS = {"kafka.bootstrap.servers": "east:9092"}


def test_options_are_those_of_a_java_producer() -> None:
    options = read_write_options(
        {
            "Kafka.Bootstrap.Servers": "a:1,b:2",
            "topic": "orders",
            "kafka.compression.type": "zstd",
            "kafka.compression.zstd.level": "7",
            "kafka.batch.size": "1000",
            "kafka.acks": "all",
            "kafka.transactional.id": "billing",
            "kafka.partitioner.ignore.keys": "TRUE",
        },
        "stream",
    )
    producer = options.producer
    assert producer.client.bootstrap_servers == ("a:1", "b:2")
    assert (producer.compression_type, producer.compression_level, producer.merge_batch_bytes) == ("zstd", 7, 1000)
    assert (producer.delivery_timeout_ms, producer.transaction_timeout_ms) == (120_000, 900_000)
    assert (options.topic, options.name, options.exactly_once, options.ignore_keys) == ("orders", "billing", True, True)
    assert not read_write_options(BROKERS, "batch").exactly_once
    assert not read_write_options({**BROKERS, "exactlyOnce": "false"}, "stream").exactly_once
    shorter = read_write_options({**BROKERS, "kafka.transaction.timeout.ms": "5"}, "stream").producer
    assert shorter.transaction_timeout_ms == 5


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "Option 'kafka.bootstrap.servers' must be specified for configuring Kafka producer"),
        (
            {**BROKERS, "kafka.key.serializer": "x"},
            "Kafka option 'key.serializer' is not supported as keys are serialized",
        ),
        ({**BROKERS, "kafka.value.serializer": "x"}, "Kafka option 'value.serializer' is not supported"),
        ({**BROKERS, "exactlyOnce": "true"}, "'exactlyOnce' is for streams"),
        ({**BROKERS, "exactlyOnce": "yes"}, "exactlyonce is true or false"),
        ({**BROKERS, "twinlog.config": "x", "cluster": "east"}, "cannot be specified with 'twinlog.config'"),
    ],
)
def test_wrong_options_are_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        read_write_options(given, "batch")


def test_what_a_producer_would_not_take_names_its_option() -> None:
    with pytest.raises(ConfigError, match=r"option: kafka.acks: '2' is invalid; write .*all"):
        read_write_options({**BROKERS, "kafka.acks": "2"}, "batch")


@pytest.mark.parametrize(
    ("option", "value", "taken"),
    [
        ("kafka.acks", "1", "all"),
        ("kafka.acks", "0", "all"),
        ("kafka.max.in.flight.requests.per.connection", "10", "5"),
        ("kafka.enable.idempotence", "false", "true"),
    ],
)
def test_a_looser_value_of_a_java_producer_is_read_as_the_stricter_one(
    option: str, value: str, taken: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = read_write_options({**BROKERS, option: value}, "batch")
    assert options.producer == read_write_options(BROKERS, "batch").producer
    assert [f"option: {option}: '{value}' is read as {taken}: " in text for text in caplog.messages] == [True]


def test_a_flows_file_says_how_to_write_to_its_clusters(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(
        "clusters = east, west\neast.bootstrap.servers = e:1\nwest.bootstrap.servers = w:1\n"
        "east->west.enabled = true\nwest.producer.compression.type = lz4\n"
    )
    options = {"twinlog.config": str(file), "cluster": "west", "topic": "t"}
    producer = read_write_options(options, "batch").producer
    assert producer.client.bootstrap_servers == ("w:1",)
    assert (producer.compression_type, producer.delivery_timeout_ms) == ("lz4", 120_000)
    east = read_write_options({**options, "cluster": "east"}, "batch").producer
    assert east.client.bootstrap_servers == ("e:1",)
    with pytest.raises(OptionError, match=r"'north'.*east, west"):
        read_write_options({**options, "cluster": "north"}, "batch")


def test_columns_are_checked_as_by_sparks_own_sink() -> None:
    good = {
        "key": "binary",
        "value": "string",
        "headers": "array<struct<key:string,value:binary>>",
        "topic": "string",
        "partition": "int",
        "timestamp": "timestamp",
        "another": "date",
    }
    check_columns(list(good.items()), None)
    check_columns([("value", "binary"), ("topic", "int"), ("topic", "int")], TopicName("t"))
    for name, kind, words in (
        ("value", "bigint", "value attribute unsupported type bigint. value must be a(n) string or binary"),
        ("key", "int", "key attribute unsupported type int. key must be a(n) string or binary"),
        ("partition", "bigint", "partition attribute unsupported type bigint. partition must be a(n) int"),
        ("timestamp", "bigint", "timestamp attribute unsupported type bigint. timestamp must be a(n) timestamp"),
        ("topic", "binary", "topic attribute unsupported type binary. topic must be a(n) string"),
        (
            "headers",
            "map<string,binary>",
            "headers attribute unsupported type map<string,binary>. headers must be a(n) arr",
        ),
    ):
        with pytest.raises(OptionError) as refused:
            check_columns(list({**good, name: kind}.items()), None)
        assert str(refused.value).startswith(words)
    with pytest.raises(OptionError, match="topic option required when no 'topic' attribute is present"):
        check_columns([("value", "string")], None)
    with pytest.raises(OptionError, match="Required attribute 'value' not found"):
        check_columns([("topic", "string")], None)


def test_a_column_that_is_there_twice_is_refused() -> None:
    """As after a join. Arrow finds none of the two, and records would have no key."""
    with pytest.raises(OptionError, match="2 columns named 'key', as after a join; select the column"):
        check_columns([("key", "string"), ("value", "string"), ("key", "string")], TopicName("t"))
    # Those that are not written do not matter.
    check_columns([("value", "string"), ("id", "int"), ("id", "int")], TopicName("t"))
