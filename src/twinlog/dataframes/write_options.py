"""The options and columns of a DataFrame's writer, checked as Spark's Kafka sink does (class KafkaWriter)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Literal

from twinlog.dataframes.flags import flag
from twinlog.dataframes.options import config_file
from twinlog.dataframes.write_task import WriteTask
from twinlog.dataframes.writer_options import producer_of_cluster, read_producer
from twinlog.errors import OptionError
from twinlog.model.types import TopicName
from twinlog.settings.flow import ProducerSettings

log = logging.getLogger(__name__)

WriteUse = Literal["batch", "stream"]

DEFAULT_NAME = "twinlog-sink"
"""What transactional ids begin with where `kafka.transactional.id` names nothing else."""

_TYPES: dict[str, tuple[str, ...]] = {
    "topic": ("string",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
}
"""The columns that are written, and the types that they may have; others are left out."""

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
            "Option 'exactlyOnce' is for streams, whose micro-batches have a number by which the target knows what it "
            "has; leave it out in a batch query"
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
                f"The DataFrame has {names.count(name)} columns named '{name}', as after a join; select the one that "
                "is to be written"
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
        log.warning("%s", warning)
    return producer
