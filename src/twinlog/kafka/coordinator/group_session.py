"""Takes part in a group: joins the group, gets an assignment, sends heartbeats, and interprets the answers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from twinlog.clock import LONG_AGO
from twinlog.errors import TwinlogError
from twinlog.kafka.coordinator.membership import REBALANCE_S, Generation, HeartbeatResult, Membership
from twinlog.kafka.net.loop import Loop

T = TypeVar("T")

BEAT_S = 0.5
"""The seconds between heartbeats of a member.

A member notices up to so many seconds late that another member joined or left.
"""

VOID_S = 3 * BEAT_S
"""The least seconds between a join and a heartbeat whose answer may end the join.

On its own connection a later join may arrive after the heartbeat.
"""

MARGIN_S = 1.0
"""The seconds before the end of its session from which on a leader counts as replaced."""


class LeadershipLease:
    """The time until which this process is certainly the leader, by the answers of the coordinator.

    The coordinator starts a session when a heartbeat arrives, which is after its sending. So another leader comes at
    the earliest a session timeout after the sending. The coordinator also replaces a leader that fails to join again,
    or fails to confirm its join, within the time for a rebalance. This rebalance begins at the earliest with the last
    heartbeat of a stable generation.
    """

    def __init__(self, rebalance_s: float = REBALANCE_S) -> None:
        """`rebalance_s` is the time for a rebalance, in seconds, with which this process joins."""
        self._rebalance_s = rebalance_s
        self._member_until = self._stable_until = LONG_AGO

    def extend_lease(self, sent_at: float, session_s: float, *, stable: bool) -> None:
        """Extend the lease by an accepted request that was sent at `sent_at`; `stable` outside of a rebalance."""
        self._member_until = max(self._member_until, sent_at + session_s)
        if stable:
            self._stable_until = max(self._stable_until, sent_at + self._rebalance_s)

    def expire_lease(self) -> None:
        """End the lease: another process may lead now."""
        self._member_until = self._stable_until = LONG_AGO

    @property
    def until(self) -> float:
        """The end of the lease in monotonic seconds."""
        return min(self._member_until, self._stable_until) - MARGIN_S


class GroupSession:
    """A membership with its heartbeats, on the loop of its client. Each positive answer extends the lease.

    `lost()` is called when the coordinator has dropped this member. After that, and at each rebalance, the member must
    join `again`. `heard(None)` is called for an answered heartbeat, `heard(error)` for an unanswered heartbeat.
    """

    def __init__(
        self,
        loop: Loop,
        membership: Membership,
        lease: LeadershipLease,
        lost: Callable[[], None],
        heard: Callable[[TwinlogError | None], None],
    ) -> None:
        self.again = False
        """Whether to join again; the caller clears this flag before `join`."""
        self.stopped = False
        self.wake = loop.signal()
        """Set after each change of this object; a single coroutine may wait for it."""
        self._loop = loop
        self._now = loop.clock.monotonic
        self._membership = membership
        self._lease = lease
        self._lost = lost
        self._heard = heard
        self._joining_since: float | None = None
        self._void = False
        """Whether the expected answer is lost."""
        self._synced = -1
        """The generation whose assignment this client has."""

    @property
    def joining(self) -> bool:
        """Whether a join is under way.

        The answer to the join shows the next generation; heartbeats meanwhile have the previous generation.
        """
        return self._joining_since is not None

    async def join(self, metadata: bytes) -> Generation | None:
        """Join the next generation; None when the answer has become unnecessary. `sync` must follow."""
        known = self._membership.generation
        sent_at = self._joining_since = self._now()
        try:
            generation = await self._patiently(self._membership.join, metadata)
        finally:
            self._joining_since = None
        if generation is None:
            return None
        if known is None or known.member_id != generation.member_id:
            # The earlier partitions belonged to another member id.
            self._lost()
        self._membership.enter_generation(generation)
        self._lease.extend_lease(sent_at, self._membership.session_s, stable=False)
        return generation

    async def sync(self, generation: Generation, assignments: Mapping[str, bytes]) -> bytes | None:
        """Give the other members their assignments if this member leads, and return the assignment of this member.

        None when the next rebalance began meanwhile, or when the answer has become unnecessary.
        """
        sent_at = self._now()
        given = await self._patiently(self._membership.sync, assignments)
        if given is not None:
            self._synced = generation.number
            self._lease.extend_lease(sent_at, self._membership.session_s, stable=True)
        return given

    def rejoin(self) -> None:
        """Have the member join again."""
        self.again = True
        self.wake.set()

    async def send_heartbeats(self) -> None:
        """Send heartbeats until `stop`."""
        while not self.stopped:
            await self._loop.sleep(BEAT_S)
            generation = self._membership.generation
            if generation is None:
                continue
            sent_at = self._now()
            try:
                result = await self._membership.send_heartbeat()
            except TwinlogError as error:
                self._heard(error)
                continue
            self._heard(None)
            if self._membership.generation is generation:
                self._take(result, generation, sent_at)

    def stop(self) -> None:
        """Stop the heartbeats and the waits for answers."""
        self.stopped = True
        self.wake.set()

    def _take(self, result: HeartbeatResult, generation: Generation, sent_at: float) -> None:
        if result is HeartbeatResult.OTHER_GENERATION and self.joining:
            # The next generation may have begun; the response to the join shows it.
            return
        if result in (HeartbeatResult.UNKNOWN_MEMBER, HeartbeatResult.OTHER_GENERATION):
            self._membership.reset_member()
            self._lost()
            self._void = True
            self.rejoin()
            return
        stable = result is HeartbeatResult.STABLE and self._synced == generation.number
        self._lease.extend_lease(sent_at, self._membership.session_s, stable=stable)
        if self._joining_since is None:
            if result is HeartbeatResult.REBALANCE:
                self.rejoin()
        elif stable and sent_at - self._joining_since >= VOID_S:
            # Another broker has taken the group over and dropped the rebalance: the answer to the join never comes.
            self._void = True
            self.rejoin()

    async def _patiently(self, step: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T | None:
        """Run a step that may wait for other members; None when the answer has become unnecessary."""
        self._void = False
        outcome = self._loop.spawn(step, *args)
        outcome.add_both(lambda _: self.wake.set())
        while not outcome.is_done:
            await self.wake.wait()
            if self.stopped or self._void:
                return None
        result: T = await outcome
        return result
