"""Options, columns and producer settings of a DataFrame's writer, checked as in Spark's class KafkaWriter."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, cast

from twinlog.config.flow.clients import compression_level
from twinlog.config.keys.table import PRODUCER
from twinlog.config.text.config_reader import read_fields
from twinlog.errors import OptionError
from twinlog.errors.mistakes import ConfigWarning
from twinlog.model.types import TopicName
from twinlog.settings.client import Codec, ProducerSettings
from twinlog.spark.dataframes.options import (
    config_file,
    flag,
    of_cluster,
    read_client,
    read_kafka_options,
    require_right,
)
from twinlog.spark.dataframes.write_task import WriteTask

log = logging.getLogger(__name__)


DELIVERY_TIMEOUT_MS = 120_000
"""Kafka's own default, in milliseconds; a flow tries for ever."""

TRANSACTION_TIMEOUT_MS = 900_000
"""The longest timeout that brokers allow by default, in milliseconds.

Transactions are open until the last task of a micro-batch is done.
"""


def read_producer(options: Mapping[str, str]) -> tuple[ProducerSettings, list[ConfigWarning]]:
    """The producer that options like `kafka.bootstrap.servers` describe, and warnings of unknown keys.

    Keys and values are those of a Java producer. Raises ConfigError with every problem found. Reads only the named key
    stores, and avoids any contact with a cluster.
    """
    warnings: list[ConfigWarning] = []
    reading = read_kafka_options(options, PRODUCER, warnings)
    reading.text("acks")
    codec = reading.text("compression.type")
    settings = ProducerSettings(
        **read_fields(ProducerSettings, reading),
        client=read_client(reading, warnings),
        compression_type=None if codec == "producer" else cast(Codec, codec),
        compression_level=compression_level(reading, codec),
        delivery_timeout_ms=reading.number("delivery.timeout.ms")
        if "delivery.timeout.ms" in reading.layer
        else DELIVERY_TIMEOUT_MS,
    )
    if "transaction.timeout.ms" not in reading.layer:
        settings = replace(settings, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS)
    require_right(reading, warnings)
    return _within_limit(settings), warnings


def producer_of_cluster(path: str | Path, alias: str | None) -> ProducerSettings:
    """The producer of the flows in the file at `path` that write to the cluster `alias`.

    When all flows that write to the cluster are disabled, the connection settings of any flow with the cluster count.
    Raises ConfigError for a wrong file, and OptionError for an unknown cluster.
    """
    producer = of_cluster(
        path,
        alias,
        lambda flow: flow.producer if flow.target == alias and flow.enabled else None,
        lambda flow: ProducerSettings(flow.target_admin.client) if flow.target == alias else None,
        lambda flow: ProducerSettings(flow.consumer.client) if flow.source == alias else None,
    )
    # The limits of a writer replace a flow's own defaults.
    own = ProducerSettings(producer.client)
    if producer.delivery_timeout_ms == own.delivery_timeout_ms:
        producer = replace(producer, delivery_timeout_ms=DELIVERY_TIMEOUT_MS)
    if producer.transaction_timeout_ms == own.transaction_timeout_ms:
        producer = replace(producer, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS)
    return _within_limit(producer)


def _within_limit(producer: ProducerSettings) -> ProducerSettings:
    """Shorten the timeouts of requests to the time that rows may wait; Kafka's producer refuses longer timeouts."""
    limit_ms, client = max(producer.delivery_timeout_ms, 1), producer.client
    client = replace(
        client,
        request_timeout_ms=min(client.request_timeout_ms, limit_ms),
        default_api_timeout_ms=min(client.default_api_timeout_ms, limit_ms),
    )
    return replace(producer, client=client)


WriteUse = Literal["batch", "stream"]

DEFAULT_NAME = "twinlog-sink"
"""The prefix of transactional ids when `kafka.transactional.id` is missing."""

_TYPES: dict[str, tuple[str, ...]] = {
    "topic": ("string",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
}
"""The written columns with their allowed types; other columns are left out."""

_SERIALIZERS = {
    f"{what}.serializer": f"Kafka option '{what}.serializer' is not supported as {what}s are serialized with "
    "ByteArraySerializer."
    for what in ("key", "value")
}


def read_write_options(given: Mapping[str, str], use: WriteUse) -> WriteTask:
    """Read and check all options; names are found in any case. Raises OptionError and ConfigError."""
    options = {key.lower(): value for key, value in given.items()}
    exactly_once = flag(options, "exactlyonce", use == "stream")
    if exactly_once and use == "batch":
        raise OptionError(
            "Option 'exactlyOnce' is for streams, whose micro-batches have a number by which the target knows its "
            "rows; leave it out in a batch query"
        )
    return WriteTask(
        producer=_producer(options),
        topic=TopicName(options["topic"].strip()) if "topic" in options else None,
        exactly_once=exactly_once,
        ignore_keys=flag(options, "kafka.partitioner.ignore.keys"),
        name=options.get("kafka.transactional.id", DEFAULT_NAME),
    )


def check_columns(fields: Sequence[tuple[str, str]], topic: TopicName | None) -> None:
    """Check the names and types of a DataFrame's columns. Raises OptionError."""
    names = [name for name, _ in fields]
    for name in _TYPES:
        if names.count(name) > 1 and not (name == "topic" and topic is not None):
            raise OptionError(
                f"The DataFrame has {names.count(name)} columns named '{name}', as after a join; select the column to "
                "write"
            )
    columns = dict(fields)
    if topic is None and "topic" not in columns:
        raise OptionError(
            "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic."
        )
    if "value" not in columns:
        raise OptionError("Required attribute 'value' not found")
    for name, types in _TYPES.items():
        if name == "topic" and topic is not None:
            continue
        found = columns.get(name)
        if found is not None and found not in types:
            raise OptionError(f"{name} attribute unsupported type {found}. {name} must be a(n) {' or '.join(types)}")


def _producer(options: Mapping[str, str]) -> ProducerSettings:
    kafka = {name: value for name, value in options.items() if name.startswith("kafka.")}
    for name, refusal in _SERIALIZERS.items():
        if f"kafka.{name}" in kafka:
            raise OptionError(refusal)
    kafka.pop("kafka.transactional.id", None)
    kafka.pop("kafka.partitioner.ignore.keys", None)
    path = config_file(options, kafka)
    if path is not None:
        return producer_of_cluster(path, options.get("cluster"))
    if "kafka.bootstrap.servers" not in kafka:
        raise OptionError("Option 'kafka.bootstrap.servers' must be specified for configuring Kafka producer")
    producer, warnings = read_producer(kafka)
    for warning in warnings:
        log.warning("TW-DATA-03: %s", warning)
    return producer
