"""Counts records of other producers in remote topics.

The first records are reported at once, later records as a sum each minute.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from twinlog.clock import LONG_AGO
from twinlog.copier.partition.context import CopierContext
from twinlog.lease.grant import Grant
from twinlog.model.types import TargetOffset, TopicName, TopicPartition

SUM_S = 60.0
"""How often a sum is reported."""

LOOK_S = 5.0
"""How often the copier looks whether a sum is due."""

NAMED = 3
"""How many partitions a sum names."""


@dataclass(slots=True)
class _Seen:
    """Offsets of a remote partition with records of other producers: their number, places and bounds."""

    offsets: int
    places: int
    first: TargetOffset
    end: TargetOffset


class ForeignOffsets:
    """The foreign offsets of a copier.

    The first offsets are reported at once; `report_sum` reports the offsets of the following minute as a single sum.
    """

    def __init__(self, context: CopierContext, routed: Collection[TopicName]) -> None:
        """`routed` are the topics to which a transform routes records, read again each time."""
        self._context = context
        self._routed = routed
        self._seen: dict[TopicPartition, _Seen] = {}
        self._quiet_until = LONG_AGO

    def note_offsets(self, grant: Grant, first: TargetOffset, end: TargetOffset) -> None:
        """Target offsets from `first` up to `end`, which is excluded, lie between two appends of this copier.

        A transform that routes records writes to any partition, from other copiers as well. Also, several connectors
        between two clusters all copy heartbeats. So these topics are left out.
        """
        remote = grant.remote
        if grant.heartbeats or remote.topic in self._routed:
            return
        seen = self._seen.get(remote)
        if seen is None:
            self._seen[remote] = _Seen(end - first, 1, first, end)
        else:
            seen.offsets += end - first
            seen.places += 1
            seen.end = end
        self.report_sum()

    async def keep_counting(self) -> None:
        """Report each sum when it is due, until the copier stops."""
        while not self._context.stopped:
            await self._context.loop.sleep(LOOK_S)
            self.report_sum()

    def report_sum(self) -> None:
        """Report the sum if it is due."""
        if self._context.loop.clock.monotonic() >= self._quiet_until:
            self.report()

    def report(self) -> None:
        """Report the sum."""
        if not self._seen:
            return
        self._quiet_until = self._context.loop.clock.monotonic() + SUM_S
        seen, self._seen = self._seen, {}
        if len(seen) == 1:
            ((remote, one),) = seen.items()
            text = f"{remote}: {_described(one)} are not ours; somebody else writes to this remote topic"
        else:
            most = sorted(seen, key=lambda remote: -seen[remote].offsets)
            where = "; ".join(f"{remote}: {_described(seen[remote])}" for remote in most[:NAMED])
            others = "" if len(most) <= NAMED else f"; and {len(most) - NAMED} more"
            total = sum(one.offsets for one in seen.values())
            text = (
                f"{total} target offsets in {len(seen)} partitions are not ours; somebody else writes to these remote "
                f"topics: {where}{others}"
            )
        self._context.report_event("foreign", text)


def _described(seen: _Seen) -> str:
    if seen.places == 1:
        return f"{seen.offsets} target offsets from {seen.first} on"
    return f"{seen.offsets} target offsets in {seen.places} places from {seen.first} to {seen.end - 1}"
