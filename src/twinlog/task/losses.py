"""How much the target still has of what a producer committed there, while a transaction of it may be open."""

from __future__ import annotations

from collections.abc import Collection

from twinlog.errors import ClusterError
from twinlog.kafka.admin.producer_states import open_transactions
from twinlog.kafka.client import LATEST, ClusterClient
from twinlog.kafka.protocol.error_codes import Code
from twinlog.model.types import TargetOffset
from twinlog.task.doubtful_tail import doubtful
from twinlog.task.partition import PartitionCopy

MARKER_S = 5.0
"""The marker of a transaction that was committed is not longer on its way to a partition."""

RETRY_S = 0.1


async def committed_ends(
    target: ClusterClient, parts: Collection[PartitionCopy], producer_id: int
) -> dict[PartitionCopy, TargetOffset]:
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
    """Tell partitions what the target lost of committed transactions, or may have lost. Raises ClusterError.

    The marker of the last transaction may be on its way still, which is waited for.
    """
    deadline = target.loop.clock.monotonic() + MARKER_S
    while True:
        ends = await committed_ends(target, parts, producer_id)
        lost = {part: end for part, end in ends.items() if end < (part.committed.next_target or 0)}
        if all(part.astray is not None for part in lost) or target.loop.clock.monotonic() > deadline:
            break
        await target.loop.sleep(RETRY_S)
    whole = {part.remote: part for part in ends if part not in lost}
    doubts, errors = await doubtful(target, {remote: part.committed for remote, part in whole.items()}, {})
    for remote, why in errors.items():
        raise ClusterError(f"cluster {target.alias}: {remote} does not tell the end of what was committed: {why}")
    # Whether something is missing there shows when it is compared.
    lost |= {part: part.committed.next_target or TargetOffset(0) for remote, part in whole.items() if doubts[remote]}
    for part in ends:
        part.truncated(lost.get(part))
