"""How much the target still has of what a producer committed there, while a transaction of it may be open."""

from __future__ import annotations

from collections.abc import Collection

from twinlog.errors import ClusterError
from twinlog.kafka.client import LATEST, ClusterClient
from twinlog.kafka.faults import Code
from twinlog.kafka.open_transactions import open_transactions
from twinlog.task.partition import PartitionCopy


async def committed_ends(
    target: ClusterClient, parts: Collection[PartitionCopy], producer_id: int
) -> dict[PartitionCopy, int]:
    """Up to which offset the target has what a producer appended to remote partitions in transactions that ended.

    A partition whose topic is gone has nothing to lose, and is missing. Raises ClusterError when one does not tell.
    """
    known = await target.refresh({part.remote.topic for part in parts})
    there = [part for part in parts if known[part.remote.topic].error != Code.UNKNOWN_TOPIC_OR_PARTITION]
    ends = await target.list_offsets([part.remote for part in there], LATEST)
    if len(ends) < len(there):
        raise ClusterError(f"cluster {target.alias}: not every remote partition tells its offsets")
    opened = await open_transactions(target, ends)
    return {
        part: min(
            [ends[part.remote], *(one.first_offset for one in opened[part.remote] if one.producer_id == producer_id)]
        )
        for part in there
    }
