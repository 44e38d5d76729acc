"""Finds what the target lost of a producer's committed transactions, while one of them may be open."""

from __future__ import annotations

from collections.abc import Collection

from twinlog.copier.partition.partition import PartitionCopy
from twinlog.copier.start.unverified_tail import find_unverified
from twinlog.errors import ClusterError
from twinlog.kafka.admin.producer_states import open_transactions
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.list_offsets import LATEST
from twinlog.model.types import TargetOffset

MARKER_S = 5.0
"""A commit marker arrives in its partitions within this time."""

RETRY_S = 0.1


async def committed_ends(
    target: ClusterClient, parts: Collection[PartitionCopy], producer_id: int
) -> dict[PartitionCopy, TargetOffset]:
    """Up to which offset the target has what a producer appended to remote partitions in transactions that ended.

    Partitions of deleted topics are left out. Raises ClusterError when an offset is unknown.
    """
    known = await target.refresh({part.remote.topic for part in parts})
    there = [part for part in parts if known[part.remote.topic].error != Code.UNKNOWN_TOPIC_OR_PARTITION]
    ends = await target.list_offsets([part.remote for part in there], LATEST)
    if len(ends) < len(there):
        raise ClusterError(f"cluster {target.alias}: the end of a remote partition is unknown")
    opened = await open_transactions(target, ends)
    return {
        part: TargetOffset(
            min(
                [
                    ends[part.remote],
                    *(one.first_offset for one in opened[part.remote] if one.producer_id == producer_id),
                ]
            )
        )
        for part in there
    }


async def look_at_losses(target: ClusterClient, parts: Collection[PartitionCopy], producer_id: int) -> None:
    """Give partitions the offset from which the target lost, or may have lost, committed records. Raises ClusterError.

    Waits for the marker of the last transaction, which may still be on its way.
    """
    deadline = target.loop.clock.monotonic() + MARKER_S
    while True:
        ends = await committed_ends(target, parts, producer_id)
        lost = {part: end for part, end in ends.items() if end < (part.committed.next_target or 0)}
        if all(part.misplaced is not None for part in lost) or target.loop.clock.monotonic() > deadline:
            break
        await target.loop.sleep(RETRY_S)
    whole = {part.remote: part for part in ends if part not in lost}
    unverified, errors = await find_unverified(target, {remote: part.committed for remote, part in whole.items()}, {})
    for remote, why in errors.items():
        raise ClusterError(f"cluster {target.alias}: {remote} does not report where committed records end: {why}")
    # Recovery compares them with the source, and finds what is missing.
    lost |= {
        part: part.committed.next_target or TargetOffset(0) for remote, part in whole.items() if unverified[remote]
    }
    for part in ends:
        part.truncated(lost.get(part))
