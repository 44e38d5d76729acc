"""Divides offsets among tasks and micro-batches (Spark classes KafkaOffsetRangeCalculator, KafkaMicroBatchStream)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from twinlog.dataframes.limits import LATEST, Offsets
from twinlog.dataframes.offset_range import OffsetRange
from twinlog.model.types import TopicPartition


def split(ranges: Sequence[OffsetRange], min_partitions: int | None, max_records: int | None) -> list[OffsetRange]:
    """The ranges that tasks read: one for each partition that has records, or several of a large one.

    With `max_records` none is longer; with `min_partitions` there are about so many.
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
    """Where a micro-batch of about `most` offsets ends: each partition has a share by what it has left, at least one.

    A partition that `start` has as `LATEST` has nothing left.
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
    """The last piece has what cannot be divided evenly."""
    found = []
    start = one.start
    for number in range(count):
        end = start + (one.end - start) // (count - number)
        found.append(replace(one, start=start, end=end, from_earliest=one.from_earliest and start == one.start))
        start = end
    return [piece for piece in found if piece.size > 0]
