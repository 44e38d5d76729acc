"""Keeps a process a member of its flow's group: heartbeats, and what their answers mean for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from twinlog.driver.election.leadership_lease import LeadershipLease
from twinlog.driver.election.role import Role
from twinlog.errors import TwinlogError
from twinlog.kafka.coordinator.membership import Generation, HeartbeatResult, Membership
from twinlog.kafka.net.loop import Loop

BEAT_S = 0.5
"""How often a member sends a heartbeat; also how late it may notice that another one joined or left."""


class GroupSession:
    """The heartbeats of one membership, on the election's loop. Those that are answered extend the lease.

    `rejoin()` is called when this process must join again, `lost()` when it is no member any more, and `wake()` once
    the join under way is void.
    """

    def __init__(
        self,
        loop: Loop,
        membership: Membership,
        lease: LeadershipLease,
        role: Role,
        *,
        rejoin: Callable[[], None],
        lost: Callable[[], None],
        wake: Callable[[], None],
    ) -> None:
        self.void = False
        """Whether the answer to the join under way never comes."""
        self._loop = loop
        self._now = loop.clock.monotonic
        self._membership = membership
        self._lease = lease
        self._role = role
        self._rejoin = rejoin
        self._lost = lost
        self._wake = wake
        self._joining = False
        self._synced = -1
        self._stopped = False

    @contextmanager
    def joining(self) -> Iterator[None]:
        """While a join is under way its answer shows the next generation; heartbeats still go with the one before."""
        self._joining, self.void = True, False
        try:
            yield
        finally:
            self._joining = self.void = False

    def synced(self, generation: Generation) -> None:
        """This process has its assignment of a generation."""
        self._synced = generation.number

    async def run(self) -> None:
        """Send heartbeats until `stop`."""
        while not self._stopped:
            await self._loop.sleep(BEAT_S)
            generation = self._membership.generation
            if generation is None:
                continue
            sent_at = self._now()
            try:
                result = await self._membership.beat()
            except TwinlogError as error:
                self._role.unanswered(error, self._lease.until)
                continue
            self._role.answered()
            if self._membership.generation is generation:
                self._take(result, generation, sent_at)

    def stop(self) -> None:
        """Send no more."""
        self._stopped = True

    def _take(self, result: HeartbeatResult, generation: Generation, sent_at: float) -> None:
        if result is HeartbeatResult.UNKNOWN_MEMBER:
            # While a join is under way the new generation may have begun; the answer to the join shows it.
            if not self._joining:
                self._membership.forget()
                self._lost()
                self._rejoin()
            return
        stable = result is HeartbeatResult.STABLE and self._synced == generation.number
        self._lease.confirmed(sent_at, self._membership.session_s, stable=stable)
        if result is HeartbeatResult.REBALANCE and not self._joining:
            self._rejoin()
        elif self._joining and stable:
            # Another broker has taken the group over without the rebalance: the answer to the join never comes.
            self.void = True
            self._wake()
