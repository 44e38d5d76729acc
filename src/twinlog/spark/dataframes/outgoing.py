"""The rows that a DataFrame writes: they get the columns of records, and are divided by their partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twinlog.batches.arrow.arrays import HEADERS_COLUMN, TIMESTAMP, numbers, vector
from twinlog.batches.arrow.partitioning import key_partitions
from twinlog.batches.vectors import Longs
from twinlog.errors import CopyError
from twinlog.model.types import TopicName, TopicPartition

NO_TIMESTAMP_US = -1000
"""The microseconds of a row for a record whose timestamp is -1 (Kafka class RecordBatch, NO_TIMESTAMP)."""

_FEW_RUNS = 4
"""Up to this many runs of rows for each partition are taken as slices, which share bytes."""


@dataclass(slots=True)
class RowPartitioner:
    """Divides rows by their partitions.

    `partitions_of` returns a topic's number of partitions, and raises an error for a missing topic. With `topic` None a
    column names the topic. A row that lacks a partition gets a partition by its key's hash. A keyless row goes to the
    sticky partition; with `ignore_keys` every row does. This partition changes every `sticky_bytes`, and begins with
    number `first`.
    """

    topic: TopicName | None
    partitions_of: Callable[[TopicName], int]
    sticky_bytes: int
    ignore_keys: bool = False
    first: int = 0
    _stuck_bytes: int = 0

    def split(self, rows: Any, now_ms: int) -> Iterator[tuple[TopicPartition, Any]]:
        """Yield a partition and its rows, in their order, as columns that `encode` takes.

        A row that lacks a timestamp gets `now_ms`. A timestamp of -1 ms comes from an undated record, and the row
        becomes an undated record again. Raises CopyError for a row that is invalid as a record.
        """
        if not rows.num_rows:
            return
        records = _records(rows, now_ms)
        for name, chosen in self._by_topic(rows):
            mine = records if chosen is None else records.take(chosen)
            wanted = _column(rows, "partition")
            if wanted is not None and chosen is not None:
                wanted = wanted.take(chosen)
            targets = self._targets(name, mine, wanted)
            for partition, some in _split(mine, targets):
                yield TopicPartition(name, partition), some

    def _by_topic(self, rows: Any) -> Iterator[tuple[TopicName, Any]]:
        """Each topic with the numbers of its rows, None for all."""
        if self.topic is not None:
            yield self.topic, None
            return
        topics = rows.column("topic")
        if topics.null_count:
            raise CopyError("null topic present in the data. Use the topic option for setting a default topic.")
        coded = topics.dictionary_encode()
        names = coded.dictionary.to_pylist()
        if len(names) == 1:
            yield TopicName(names[0]), None
            return
        codes = vector(coded.indices)
        for number, name in enumerate(names):
            yield TopicName(name), _places(np.flatnonzero(codes == number))

    def _targets(self, topic: TopicName, records: Any, wanted: Any | None) -> Longs:
        count = self.partitions_of(topic)
        targets = np.full(records.num_rows, -1, dtype=np.int64)
        if wanted is not None:
            given = vector(wanted.is_valid()) == 1
            targets = np.where(given, vector(wanted), -1)
            wrong = np.flatnonzero(given & ((targets < 0) | (targets >= count)))
            if wrong.size:
                raise CopyError(
                    f"a row has partition {targets[wrong[0]]}, and topic {topic} has partitions 0 to {count - 1}"
                )
        keys = records.column("key")
        if not self.ignore_keys and keys.null_count < len(keys):
            keyed = np.flatnonzero((targets < 0) & (vector(keys.is_valid()) == 1))
            if keyed.size:
                some = keys if keyed.size == len(keys) else keys.take(_places(keyed))
                targets[keyed] = key_partitions(some, count)
        sticky = np.flatnonzero(targets < 0)
        if sticky.size:
            sizes = vector(pc.fill_null(pc.binary_length(records.column("value")), 0))
            ends = self._stuck_bytes + np.cumsum(sizes[sticky])
            targets[sticky] = (self.first + ends // self.sticky_bytes) % count
            self.first += int(ends[-1] // self.sticky_bytes)
            self._stuck_bytes = int(ends[-1] % self.sticky_bytes)
        return targets


def joined(some: list[Any]) -> Any:
    """The rows of a partition that were divided consecutively."""
    return some[0] if len(some) == 1 else pa.concat_batches(some)


def copied(some: list[Any]) -> Any:
    """As `joined`, in memory of their own."""
    return some[0].take(_places(np.arange(some[0].num_rows))) if len(some) == 1 else pa.concat_batches(some)


def _records(rows: Any, now_ms: int) -> Any:
    """The rows in the columns of records."""
    count = rows.num_rows
    key, value = _column(rows, "key"), rows.column("value")
    columns = {
        "key": pa.nulls(count, pa.binary()) if key is None else _binary(key),
        "value": _binary(value),
        "timestamp": _timestamps(_column(rows, "timestamp"), count, now_ms),
    }
    headers = _column(rows, "headers")
    if headers is not None:
        # The column is kept even when all rows lack headers: the rows may be joined with rows that have headers.
        columns["headers"] = _headers(headers)
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _column(rows: Any, name: str) -> Any | None:
    place = rows.schema.get_field_index(name)
    return None if place < 0 else rows.column(place)


def _binary(column: Any) -> Any:
    return column if pa.types.is_binary(column.type) else column.cast(pa.binary())


def _timestamps(column: Any | None, count: int, now_ms: int) -> Any:
    now = pa.scalar(now_ms * 1000, pa.int64()).cast(TIMESTAMP)
    if column is None:
        return pa.repeat(now, count)
    times = column.cast(TIMESTAMP)
    if times.null_count:
        times = pc.fill_null(times, now)
    if pc.min(times.cast(pa.int64())).as_py() < 0:
        whole = vector(times)
        wrong = np.flatnonzero((whole < 0) & (whole != NO_TIMESTAMP_US))
        if wrong.size:
            raise CopyError(
                f"Invalid timestamp: {whole[wrong[0]] // 1000}. Timestamp should always be non-negative or null; or "
                "-1 (1969-12-31 23:59:59.999 UTC), which means a record without a timestamp."
            )
    return times


def _headers(column: Any) -> Any:
    headers = column.cast(HEADERS_COLUMN.type)
    entries = headers.flatten()
    if entries.null_count or entries.field("key").null_count:
        raise CopyError("a row has a keyless header; each header needs a key")
    return headers


def _places(of_rows: Longs) -> Any:
    return numbers(pa.int64(), of_rows)


def _split(records: Any, targets: Longs) -> Iterator[tuple[int, Any]]:
    begins = np.concatenate(([0], np.flatnonzero(np.diff(targets)) + 1))
    if len(begins) <= _FEW_RUNS * len(set(targets[begins].tolist())):
        for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(targets)], strict=True):
            yield int(targets[begin]), records.slice(begin, end - begin)
        return
    order = np.argsort(targets, kind="stable")
    ordered = targets[order]
    records = records.take(_places(order))
    begins = np.concatenate(([0], np.flatnonzero(np.diff(ordered)) + 1))
    for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(ordered)], strict=True):
        yield int(ordered[begin]), records.slice(begin, end - begin)
