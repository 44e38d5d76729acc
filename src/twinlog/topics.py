"""Topics as values: what a cluster says of one, and what is asked of it for a new one."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from twinlog.types import TopicName


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of a cluster; `topic_id` is None before Kafka 2.8."""

    name: TopicName
    partitions: int
    topic_id: uuid.UUID | None = None
    internal: bool = False


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting of a topic as its cluster reports it.

    `source` is the number of Kafka's ConfigSource: 1 set on the topic, 2 dynamic broker, 3 dynamic default broker,
    4 static broker file, 5 default.
    """

    name: str
    value: str | None
    source: int
    read_only: bool = False
    sensitive: bool = False


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; `replication_factor` -1 leaves it to the broker."""

    name: TopicName
    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a cluster did not create or change a topic; `code` is the protocol's error code."""

    code: int
    text: str
