"""Narrows ranges by a query's filters: drops partitions, offsets, and records older than a timestamp."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from twinlog.dataframes.limits import Offsets
from twinlog.dataframes.offset_range import OffsetRange
from twinlog.model.types import TopicPartition


@dataclass(frozen=True, slots=True)
class ColumnFilter:
    """A filter of Spark on a column: `kind` is its class's name, `value` is compared with the column."""

    column: str
    kind: str
    value: Any


_HOLDS: dict[str, Callable[[Any, Any], bool]] = {
    "EqualTo": lambda found, value: found == value,
    "EqualNullSafe": lambda found, value: found == value,
    "In": lambda found, value: found in value,
    "GreaterThan": lambda found, value: found > value,
    "GreaterThanOrEqual": lambda found, value: found >= value,
    "LessThan": lambda found, value: found < value,
    "LessThanOrEqual": lambda found, value: found <= value,
}


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
