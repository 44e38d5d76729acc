"""From the options `kafka.*` of a DataFrame's writer to the settings of its producer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

from twinlog.config.flow.clients import compression_level
from twinlog.config.keys.table import PRODUCER
from twinlog.config.text.reading import plain_fields
from twinlog.dataframes.reader_options import of_cluster, read_client, read_kafka_options, require_right
from twinlog.settings.flow import Codec, ProducerSettings

DELIVERY_TIMEOUT_MS = 120_000
"""Kafka's own default; a flow tries for ever."""

TRANSACTION_TIMEOUT_MS = 900_000
"""As long as brokers allow by default: transactions are open until the last task of a micro-batch is done."""


def read_producer(options: Mapping[str, str]) -> tuple[ProducerSettings, list[str]]:
    """The producer that options such as `kafka.bootstrap.servers` describe, and warnings of unknown keys.

    Keys and values are those of a Java producer. Raises ConfigError with every problem found. Reads only the key stores
    that are named; no cluster is contacted.
    """
    warnings: list[str] = []
    reading = read_kafka_options(options, PRODUCER, warnings)
    reading.text("acks")
    codec = reading.text("compression.type")
    settings = ProducerSettings(
        **plain_fields(ProducerSettings, reading),
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
    """How the flows of the file at `path` write to the cluster `alias`, or connect to it where none writes to it.

    Raises ConfigError where the file is wrong, and OptionError where it has no such cluster.
    """
    producer = of_cluster(
        path,
        alias,
        lambda flow: flow.producer if flow.target == alias and flow.enabled else None,
        lambda flow: ProducerSettings(flow.target_admin.client) if flow.target == alias else None,
        lambda flow: ProducerSettings(flow.consumer.client) if flow.source == alias else None,
    )
    # The limits of a writer in the place of a flow's own defaults.
    own = ProducerSettings(producer.client)
    if producer.delivery_timeout_ms == own.delivery_timeout_ms:
        producer = replace(producer, delivery_timeout_ms=DELIVERY_TIMEOUT_MS)
    if producer.transaction_timeout_ms == own.transaction_timeout_ms:
        producer = replace(producer, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS)
    return _within_limit(producer)


def _within_limit(producer: ProducerSettings) -> ProducerSettings:
    """No question lasts longer than rows may wait to be taken; Kafka's producer refuses such settings."""
    limit_ms, client = max(producer.delivery_timeout_ms, 1), producer.client
    client = replace(
        client,
        request_timeout_ms=min(client.request_timeout_ms, limit_ms),
        default_api_timeout_ms=min(client.default_api_timeout_ms, limit_ms),
    )
    return replace(producer, client=client)
