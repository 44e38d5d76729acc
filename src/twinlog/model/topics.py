"""Topics and disks of brokers as values: the report of a cluster, and the request for a new topic."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from twinlog.model.types import TopicName


@dataclass(frozen=True, slots=True)
class Disk:
    """A log directory of a broker; bytes of the volume that it is on, None before Kafka 3.3."""

    broker: int
    path: str
    total: int | None = None
    usable: int | None = None


MAX_MESSAGE_BYTES = "max.message.bytes"
DEFAULT_MAX_MESSAGE_BYTES = 1_048_588
"""The default of brokers: a megabyte and the head of a batch."""

_NAMED = 5
_LEGAL = re.compile(r"[a-zA-Z0-9._-]{1,249}")


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of a cluster; `topic_id` is None before Kafka 2.8."""

    name: TopicName
    partitions: int
    topic_id: uuid.UUID | None = None
    internal: bool = False

    def recreated(self, known_id: str | None) -> bool:
        """Whether the topic was recreated since an earlier topic of its name had `known_id`; False for a missing id."""
        return None not in (known_id, self.topic_id) and known_id != str(self.topic_id)


@dataclass(frozen=True, slots=True)
class DescribedTopic:
    """A topic with its replicas: the most replicas of any partition, and the number of leaderless partitions.

    `operations` are the numbers of the operations that the principal may use on it (`model.acls.AclOperation`), None
    when unknown.
    """

    topic: Topic
    replicas: int
    leaderless: int = 0
    operations: frozenset[int] | None = None


class ConfigSource(IntEnum):
    """The origin of a topic's setting (Kafka class DescribeConfigsResponse.ConfigSource)."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A setting of a topic in its cluster's report; `source` is a ConfigSource, or a newer number."""

    name: str
    value: str | None
    source: int
    read_only: bool = False
    sensitive: bool = False


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """A setting to change on a topic; `value` None removes the topic's own setting, and the default counts again."""

    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; `replication_factor` -1 means the broker's default.

    The default also counts on a cluster that refuses the factor. Settings of `configs` that `optional` names are left
    out if the cluster refuses them.
    """

    name: TopicName
    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)
    optional: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why a cluster refused to create or change a topic; `code` is the protocol's error code."""

    code: int
    text: str


def own_settings(entries: Iterable[ConfigEntry]) -> dict[str, str | None]:
    """The settings that were made on a topic itself; None for a sensitive setting, whose value clusters hide."""
    return {entry.name: entry.value for entry in entries if entry.source == ConfigSource.TOPIC}


def value_of(entries: Iterable[ConfigEntry], setting: str) -> str | None:
    """The value of a setting, whatever its source."""
    return next((entry.value for entry in entries if entry.name == setting), None)


def is_compacted(entries: Iterable[ConfigEntry]) -> bool:
    """Whether a topic with these settings has compaction in its `cleanup.policy`."""
    return "compact" in (value_of(entries, "cleanup.policy") or "")


def largest_batch(entries: Iterable[ConfigEntry]) -> int | None:
    """The most bytes of a batch that a topic takes; None if its settings lack the limit."""
    value = value_of(entries, MAX_MESSAGE_BYTES)
    return int(value) if value else None


def is_legal_topic(name: str) -> bool:
    """Whether a cluster accepts `name` for a topic (Kafka class Topic)."""
    return _LEGAL.fullmatch(name) is not None and name not in {".", ".."}


def listed(names: Iterable[str], count: int | None = None) -> str:
    """Some topics for a message: the first few in order, and the number of all further topics.

    `names` may be the first of `count`.
    """
    ordered = sorted(names)
    more = (len(ordered) if count is None else count) - len(ordered[:_NAMED])
    return ", ".join(ordered[:_NAMED]) + (f" and {more} more" if more > 0 else "")
