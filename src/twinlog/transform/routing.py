"""Makes appends for other partitions of rows that a transform routed there."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twinlog.errors import NoPartitionError, TransformError
from twinlog.model.types import TopicPartition
from twinlog.transform.contract import offsets_of
from twinlog.transform.partitions import partitions_by_key
from twinlog.transform.road import batches_of
from twinlog.transform.route_names import check_name
from twinlog.write.appends import ADDED, Append, CopyRules, RoutedRows


def check_topic(name: str, source: str, *, same_cluster: bool) -> None:
    """Raise TransformError where records of topic `source` cannot be routed to topic `name`."""
    check_name(name)
    if same_cluster and name == source:
        raise TransformError(f"it routes records to {name}, where they were read: they would go round for ever")


def place(routed: RoutedRows, source: TopicPartition, partitions: int, rules: CopyRules) -> dict[int, list[Append]]:
    """The appends of routed rows by the partition of their topic, which has so many. Raises NoPartitionError.

    Rows without partition and key go to that of the source's number, and so stay in order.
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
