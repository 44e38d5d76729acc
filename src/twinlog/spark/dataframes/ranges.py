"""The offsets that a DataFrame reads: first and last offsets, filters of a query, and their division among tasks.

The first and last offsets are read as in Spark's class KafkaOffsetRangeLimit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from twinlog.errors import OptionError
from twinlog.model.types import TopicName, TopicPartition
from twinlog.spark.dataframes.offset_range import OffsetRange

LATEST, EARLIEST = -1, -2
"""Values in the place of an offset, as in Spark's JSON."""

Offsets = dict[TopicPartition, int]

JsonOffsets = dict[str, dict[str, int]]
"""Spark's own form: {"topic": {"0": 23}}."""

_HOLDS: dict[str, Callable[[Any, Any], bool]] = {
    "EqualTo": lambda found, value: found == value,
    "EqualNullSafe": lambda found, value: found == value,
    "In": lambda found, value: found in value,
    "GreaterThan": lambda found, value: found > value,
    "GreaterThanOrEqual": lambda found, value: found >= value,
    "LessThan": lambda found, value: found < value,
    "LessThanOrEqual": lambda found, value: found <= value,
}


def split(ranges: Sequence[OffsetRange], min_partitions: int | None, max_records: int | None) -> list[OffsetRange]:
    """Split ranges for tasks: a range for each partition with records, or several ranges of a large partition.

    With `max_records` each range has at most this length; with `min_partitions` there are about this many ranges.
    """
    wanted = [one for one in ranges if one.size > 0]
    if max_records is not None:
        wanted = [piece for one in wanted for piece in _pieces(one, -(-one.size // max_records))]
    if min_partitions is None or len(wanted) >= min_partitions or not wanted:
        return wanted
    total = sum(one.size for one in wanted)
    whole = {one for one in wanted if _share(one.size, total, min_partitions) == 1}
    rest = total - sum(one.size for one in whole)
    places = max(min_partitions - len(whole), 1)
    return [piece for one in wanted for piece in _pieces(one, 1 if one in whole else _share(one.size, rest, places))]


def limit_rate(most: int, start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]) -> Offsets:
    """The ends of a micro-batch of about `most` offsets.

    Each partition has a share by its remaining offsets, at least 1 offset. A partition for which `start` has `LATEST`
    has zero remaining offsets.
    """
    sizes = {part: end - start[part] for part, end in latest.items() if start[part] != LATEST and end > start[part]}
    total = sum(sizes.values())
    found = dict(latest)
    for part, size in sizes.items():
        share = most * (size / total)
        step = math.ceil(share) if share < 1 else math.floor(share)
        found[part] = min(latest[part], start[part] + step)
    return found


def _share(size: int, total: int, places: int) -> int:
    # Java rounds a half up, Python to the even number.
    return max(math.floor(size / total * places + 0.5), 1)


def _pieces(one: OffsetRange, count: int) -> list[OffsetRange]:
    """Divide a range into pieces of nearly equal length; the later pieces have the remaining offsets."""
    found = []
    start = one.start
    for number in range(count):
        end = start + (one.end - start) // (count - number)
        found.append(replace(one, start=start, end=end, from_earliest=one.from_earliest and start == one.start))
        start = end
    return [piece for piece in found if piece.size > 0]


@dataclass(frozen=True, slots=True)
class EarliestOrLatestRangeLimit:
    """The same limit for each partition: `EARLIEST` or `LATEST`."""

    at: int


@dataclass(frozen=True, slots=True)
class SpecificOffsetRangeLimit:
    """An offset for each partition, or `EARLIEST`, or `LATEST`."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class GlobalTimestampRangeLimit:
    """The first record with this timestamp in ms or a later timestamp.

    A missing record is an error; with `or_latest` it means the partition's end.
    """

    timestamp: int
    or_latest: bool


@dataclass(frozen=True, slots=True)
class SpecificTimestampRangeLimit:
    """As `GlobalTimestampRangeLimit`, with a timestamp for each partition."""

    timestamps: Mapping[TopicPartition, int]
    or_latest: bool


Limit = EarliestOrLatestRangeLimit | SpecificOffsetRangeLimit | GlobalTimestampRangeLimit | SpecificTimestampRangeLimit


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
    """Partitions in the form of Spark's messages."""
    return f"Set({', '.join(map(str, sorted(partitions)))})"


def _whole(number: object) -> int:
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError
    return number


@dataclass(frozen=True, slots=True)
class ColumnFilter:
    """A filter of Spark on a column: `kind` is its class's name, `value` is compared with the column."""

    column: str
    kind: str
    value: Any


def narrow(
    ranges: Sequence[OffsetRange],
    conditions: Iterable[ColumnFilter],
    at_timestamp: Callable[[Iterable[TopicPartition], int], Offsets],
) -> list[OffsetRange]:
    """The ranges after removal of offsets at which a condition is false; Spark still tests each record.

    `at_timestamp` finds the first offset with a timestamp, as brokers keep timestamps in order of offsets.
    """
    left = list(ranges)
    oldest_ms: int | None = None
    for condition in conditions:
        holds = _HOLDS.get(condition.kind)
        if holds is None or condition.value is None:
            continue
        if condition.column == "topic":
            left = [one for one in left if holds(one.partition.topic, condition.value)]
        elif condition.column == "partition":
            left = [one for one in left if holds(one.partition.partition, condition.value)]
        elif condition.column == "offset":
            first, past = _bounds(condition)
            left = [replace(one, start=max(one.start, first), end=min(one.end, past)) for one in left]
        elif condition.column == "timestamp":
            since = _since_ms(condition)
            oldest_ms = since if oldest_ms is None else max(oldest_ms, since or oldest_ms)
    left = [one for one in left if one.size > 0]
    if oldest_ms is not None and oldest_ms > 0 and left:
        # All records before the first record that is new enough are older; later records may be older, too.
        found = at_timestamp([one.partition for one in left], oldest_ms)
        left = [
            replace(one, start=one.end if found[one.partition] < 0 else max(one.start, found[one.partition]))
            for one in left
        ]
    return [one for one in left if one.size > 0]


def _bounds(condition: ColumnFilter) -> tuple[int, int]:
    """The first offset at which the condition may hold, and the first offset from which on it is false."""
    value = condition.value
    first, past = 0, 2**63 - 1
    if condition.kind in {"EqualTo", "EqualNullSafe"}:
        first, past = value, value + 1
    elif condition.kind == "In":
        known = [one for one in value if one is not None]
        first, past = (min(known), max(known) + 1) if known else (0, 0)
    elif condition.kind in {"GreaterThan", "GreaterThanOrEqual"}:
        first = value + (condition.kind == "GreaterThan")
    else:
        past = value + (condition.kind == "LessThanOrEqual")
    return first, past


def _since_ms(condition: ColumnFilter) -> int | None:
    """The timestamp in ms before which the condition is false; None for a condition of another kind."""
    value = condition.value
    since = condition.kind in {"EqualTo", "EqualNullSafe", "GreaterThan", "GreaterThanOrEqual"}
    # The moment of a value is unknown when its zone is missing.
    if since and isinstance(value, datetime) and value.tzinfo is not None:
        return math.floor(value.timestamp() * 1000) - 1
    return None
