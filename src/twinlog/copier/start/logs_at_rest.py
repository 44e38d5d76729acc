"""Waits until remote logs hold every append that an earlier copier sent; until then the target offset is unknown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from twinlog.kafka.client import ClusterClient
from twinlog.kafka.protocol.list_offsets import LATEST
from twinlog.model.types import TargetOffset, TopicPartition

STILL_S = 0.25
"""A log is at rest when its last growth is older than this."""

AT_MOST_S = 5.0
"""A log that grows for longer has another writer, which the comparison finds. A marker is awaited for the same time."""


class LogsAtRest:
    """The logs of a copier's remote partitions that it waits for, each with the begin of the wait."""

    def __init__(self, target: ClusterClient) -> None:
        self._target = target
        self._moving: dict[TopicPartition, float] = {}
        """The time since which a log grows that should be at rest (monotonic seconds); in `_unmarked` the time since
        which a log lacks a marker."""
        self._unmarked: dict[TopicPartition, float] = {}

    @property
    def awaited(self) -> Set[TopicPartition]:
        """The logs that the copier waits for."""
        return self._moving.keys() | self._unmarked.keys()

    def forget_logs(self, remotes: Iterable[TopicPartition]) -> None:
        """Start the wait again for logs whose partitions are released or taken."""
        for remote in remotes:
            self._moving.pop(remote, None)
            self._unmarked.pop(remote, None)

    async def find_ends(self, remotes: Sequence[TopicPartition]) -> dict[TopicPartition, TargetOffset]:
        """Ends of those remote logs that hold every append of a lost copier.

        The caller asks again for the remaining logs. The leader may have the copier's last appends before the followers
        have them, and handles its remaining requests only after that. So a log counts once its high watermark is at its
        end and both are still.
        """
        before = await self._target.list_offsets(remotes, LATEST, log_end=True)
        await self._target.loop.sleep(STILL_S)
        after = await self._target.list_offsets(remotes, LATEST, log_end=True)
        seen = await self._target.list_offsets(remotes, LATEST)
        now = self._target.loop.clock.monotonic()
        final: dict[TopicPartition, TargetOffset] = {}
        for remote, end in seen.items():
            moving_since = self._moving.setdefault(remote, now)
            whole = end >= before.get(remote, end + 1)
            if whole and (end == before[remote] == after.get(remote) or now - moving_since > AT_MOST_S):
                final[remote] = TargetOffset(end)
                del self._moving[remote]
        return final

    def lacks_marker(self, remote: TopicPartition, counted: TargetOffset | None, end: TargetOffset) -> bool:
        """Whether the marker of the last transaction is still on its way to a log.

        The position counts the offsets before `counted`, the marker's offset included, and the end offset of the log is
        the marker's offset.
        """
        if counted != end + 1:
            self._unmarked.pop(remote, None)
            return False
        now = self._target.loop.clock.monotonic()
        return now - self._unmarked.setdefault(remote, now) < AT_MOST_S
