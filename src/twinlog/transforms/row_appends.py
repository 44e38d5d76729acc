"""Makes appends of a transform's rows: the partitions that rows go to, and batches in the order of the rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twinlog.batches.arrow.encode import encode
from twinlog.batches.arrow.partitioning import key_partitions
from twinlog.batches.vectors import Flags, Longs
from twinlog.errors import NoPartitionError
from twinlog.kafka.producer.appends import ADDED, Append, CopyRules, RoutedRows
from twinlog.kafka.record.batch import MAX_TIMESTAMP, RECORD_COUNT
from twinlog.model.types import SourceOffset, TopicPartition
from twinlog.transforms.contract import offsets_of

LEAST_BATCH_BYTES = 16_384
"""The least limit of a batch, even if `batch.size` is smaller or 0: the records of a fetch are there anyway."""

_UNLIMITED = 2**62


def partitions_by_key(keys: Any, partitions: int, without: int) -> Longs:
    """The partition of each key of a binary column (Kafka class BuiltInPartitioner.partitionForKey).

    A record with a null key goes to partition `without` modulo the number of partitions.
    """
    if not keys.null_count:
        return key_partitions(keys, partitions)
    chosen = key_partitions(pc.fill_null(keys, b""), partitions)
    chosen[np.asarray(pc.is_null(keys).cast("uint8")).astype(np.bool_)] = without % partitions
    return chosen


def place(routed: RoutedRows, source: TopicPartition, partitions: int, rules: CopyRules) -> dict[int, list[Append]]:
    """The appends of routed rows by the partition of their topic; `partitions` is its number of partitions.

    Rows that lack partition and key go to the partition with the source's number, and so stay in order. Raises
    NoPartitionError.
    """
    rows = routed.rows
    numbers = rows.column("partition")
    there = np.asarray(pc.fill_null(numbers, -1)).astype(np.int64)
    by_key = np.flatnonzero(there < 0)
    if len(by_key):
        keys = rows.column("key").take(pa.array(by_key))
        there[by_key] = partitions_by_key(keys, partitions, source.partition)
    if there.max(initial=0) >= partitions:
        at = int(np.argmax(there))
        raise NoPartitionError(
            f"it routes the record at offset {offsets_of(rows)[at]} of {source} to partition {there[at]} of "
            f"{routed.topic}, which has {partitions}; add partitions, or have it leave the partition null"
        )
    found: dict[int, list[Append]] = {}
    for number in np.unique(there).tolist():
        chosen = np.flatnonzero(there == number)
        mine = rows if len(chosen) == rows.num_rows else rows.take(pa.array(chosen))
        appends = list(batches_of(mine, offsets_of(mine), rules, routed.codec))
        for append in appends:
            append.spans = ((ADDED, append.count),)
        found[number] = appends
    return found


def batches_of(rows: Any, offsets: Longs, rules: CopyRules, codec: int) -> Iterable[Append]:
    """Rows as appends, in order; a large record may make a batch above the limit of the topic."""
    most_bytes = min(max(rules.merge_batch_bytes, LEAST_BATCH_BYTES), max(rules.max_batch_bytes, 128))
    first = 0
    encoded = encode(
        rows, most_bytes=most_bytes, codec=codec, level=rules.codec_level, together=offsets, largest=_UNLIMITED
    )
    for data in encoded:
        count = int.from_bytes(data[RECORD_COUNT], "big")
        end = first + count
        mine = offsets[first:end]
        added = np.zeros(count, dtype=np.bool_)
        added[1:] = mine[1:] == mine[:-1]
        added[0] = first > 0 and offsets[first - 1] == mine[0]
        last = int(mine[-1])
        whole = end == len(offsets) or offsets[end] != last
        max_timestamp = int.from_bytes(data[MAX_TIMESTAMP], "big", signed=True)
        behind = SourceOffset(last + 1 if whole else last)
        yield Append(data, count, SourceOffset(int(mine[0])), behind, max_timestamp, _spans(mine, added))
        first = end


def _spans(offsets: Longs, added: Flags) -> tuple[tuple[SourceOffset, int], ...]:
    next_one = offsets[1:] == offsets[:-1] + 1
    if not added[0] and next_one.all():
        return ((SourceOffset(int(offsets[0])), len(offsets)),)
    begins = np.ones(len(offsets), dtype=np.bool_)
    in_step = ~added[:-1] & next_one
    begins[1:] = np.where(added[1:], ~added[:-1], ~in_step)
    starts = np.flatnonzero(begins)
    counts = np.diff(np.append(starts, len(offsets)))
    firsts = np.where(added[starts], ADDED, offsets[starts])
    return tuple(zip(map(SourceOffset, firsts.tolist()), counts.tolist(), strict=True))
