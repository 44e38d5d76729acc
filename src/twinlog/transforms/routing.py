"""Makes appends for other partitions of rows that a transform routed there."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twinlog.errors import NoPartitionError, TransformError
from twinlog.kafka.producer.appends import ADDED, Append, CopyRules, RoutedRows
from twinlog.model.default_names import source_alias
from twinlog.model.heartbeat_names import HeartbeatNames
from twinlog.model.route_names import check_name
from twinlog.model.types import TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings
from twinlog.transforms.contract import offsets_of
from twinlog.transforms.partitions import partitions_by_key
from twinlog.transforms.road import batches_of


def check_topic(name: str, source: str, heartbeats: HeartbeatNames, *, same_cluster: bool) -> None:
    """Raise TransformError where records of topic `source` cannot be routed to topic `name`."""
    check_name(name)
    if heartbeats.hold(TopicName(name)):
        raise TransformError(f"it routes records to {name}, where heartbeats are mirrored to")
    if same_cluster and name == source:
        raise TransformError(f"it routes records to {name}, where they were read: they would go round for ever")


def check_within_cluster(name: str, flow: FlowSettings) -> None:
    """Raise TransformError where a flow within one cluster might read again what its transform routes to `name`.

    A flow never copies what its policy takes for its own copies. Where names of topics alone decide, the driver knows
    all routes and has looked at them.
    """
    known = flow.transform is None or flow.transform.routes_are_known
    if not known and source_alias(TopicName(name), flow.separator) != flow.source:
        raise TransformError(
            f"it routes records to {name}: within one cluster the flow may read them there again; names that begin "
            f"{flow.source}{flow.separator} are its own copies and never read"
        )


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
