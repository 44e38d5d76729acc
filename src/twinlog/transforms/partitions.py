"""The partitions of records by their keys; some records have a null key."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.compute as pc

from twinlog.arrow.arrays import Longs
from twinlog.arrow.partitioning import key_partitions


def partitions_by_key(keys: Any, partitions: int, without: int) -> Longs:
    """The partition of each key of a binary column (Kafka class BuiltInPartitioner.partitionForKey).

    A record with a null key goes to partition `without` modulo the number of partitions.
    """
    if not keys.null_count:
        return key_partitions(keys, partitions)
    chosen = key_partitions(pc.fill_null(keys, b""), partitions)
    chosen[np.asarray(pc.is_null(keys).cast("uint8")).astype(np.bool_)] = without % partitions
    return chosen
