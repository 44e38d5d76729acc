"""Where a DataFrame begins and ends, as its reader wrote it (Spark class KafkaOffsetRangeLimit); offsets as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from twinlog.errors import OptionError
from twinlog.model.types import TopicName, TopicPartition

LATEST, EARLIEST = -1, -2
"""In the place of an offset: those of Spark's JSON."""

Offsets = dict[TopicPartition, int]
JsonOffsets = dict[str, dict[str, int]]
"""Spark's own form: {"topic": {"0": 23}}."""


@dataclass(frozen=True, slots=True)
class Everywhere:
    """The same for each partition: `EARLIEST` or `LATEST`."""

    at: int


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """An offset for each partition, or `EARLIEST`, or `LATEST`."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """The first record with this timestamp in ms or a later one; without one an error, or the end with `or_latest`."""

    timestamp: int
    or_latest: bool


@dataclass(frozen=True, slots=True)
class AtTimestamps:
    """As `AtTimestamp`, with another timestamp for each partition."""

    timestamps: Mapping[TopicPartition, int]
    or_latest: bool


Limit = Everywhere | AtOffsets | AtTimestamp | AtTimestamps


def read_partitions(text: str) -> frozenset[TopicPartition]:
    """Partitions out of {"topicA":[0,1]}. Raises OptionError."""
    try:
        found = json.loads(text)
        return frozenset(
            TopicPartition(TopicName(topic), _whole(number)) for topic, numbers in found.items() for number in numbers
        )
    except (ValueError, TypeError, AttributeError):
        raise OptionError(f'Expected e.g. {{"topicA":[0,1],"topicB":[0,1]}}, got {text}') from None


def read_offsets(text: str) -> Offsets:
    """Offsets out of {"topicA":{"0":23,"1":-1}}. Raises OptionError."""
    try:
        return from_json(json.loads(text))
    except (ValueError, TypeError, AttributeError):
        example = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
        raise OptionError(f"Expected e.g. {example}, got {text}") from None


def read_timestamps(text: str) -> Offsets:
    """Timestamps in ms out of {"topicA":{"0":123456789}}. Raises OptionError."""
    try:
        return from_json(json.loads(text))
    except (ValueError, TypeError, AttributeError):
        example = '{"topicA": {"0": 123456789, "1": 123456789},\n"topicB": {"0": 123456789, "1": 123456789}}'
        raise OptionError(f"Expected e.g. {example}, got {text}") from None


def from_json(found: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Offsets by partition. Raises ValueError, TypeError or AttributeError for another form."""
    return {
        TopicPartition(TopicName(topic), int(number)): _whole(offset)
        for topic, offsets in found.items()
        for number, offset in offsets.items()
    }


def to_json(offsets: Mapping[TopicPartition, int]) -> JsonOffsets:
    """Offsets in Spark's form, in the order of partitions."""
    found: JsonOffsets = {}
    for (topic, number), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(number)] = offset
    return found


def as_set(partitions: Iterable[TopicPartition]) -> str:
    """Partitions as Spark's messages have them."""
    return f"Set({', '.join(map(str, sorted(partitions)))})"


def _whole(number: object) -> int:
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError
    return number
