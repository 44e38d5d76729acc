"""Keeps this process in a Kafka group: it joins, gets an assignment from the group's leader, and sends heartbeats.

The processes of `twinlog run` elect the process of a flow in such a group, and the workers of Connect share connectors.
Both groups have the name of the group of Connect's workers, with another protocol. While a program is a member, the
other program is unable to join. So MirrorMaker 2 and twinlog never run a flow, or a connector, at the same time.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any

from twinlog.errors import ClusterError, TwinlogError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.coordinator.group_session import GroupSession, LeadershipLease
from twinlog.kafka.coordinator.membership import REBALANCE_S, SESSION_S, Generation, Membership
from twinlog.kafka.retry import MEMBER_CONNECT_S
from twinlog.model.groups import TWINLOG_PROTOCOL
from twinlog.worker.metrics.meters import RecentTimes

log = logging.getLogger(__name__)


class GroupMembership(ABC):
    """This process as a member of a group, from `start` to `stop`, on the event loop of `admin`.

    `admin` serves the group alone, so that a heartbeat never waits behind another request. A subclass has the metadata
    of the member, the assignments of a leader, and the effects of an assignment, of a trouble and of a lost membership.
    Any thread may call the public methods; the other methods run on the loop's thread.
    """

    def __init__(
        self, admin: ClusterAdmin, group_id: str, session_s: float = SESSION_S, rebalance_s: float = REBALANCE_S
    ) -> None:
        self.epoch = 0
        """The number of the group's present generation."""
        self.rebalances = 0
        """How many assignments this member received, including empty assignments."""
        self.synced_at: float | None = None
        """When this member received the last assignment, in monotonic seconds."""
        self.rebalance_times = RecentTimes()
        """The times from the start of a join to the assignment."""
        self._admin = admin
        self._clock = admin.clock
        self._loop = admin.client.loop
        self._membership = Membership(admin.client, group_id, TWINLOG_PROTOCOL, session_s, rebalance_s)
        self._lease = LeadershipLease(rebalance_s)
        self._session = GroupSession(
            self._loop, self._membership, self._lease, self._lose_membership, self._note_heartbeat
        )
        self._wake = self._session.wake
        self._started = self._stopping = self._closed = False
        self._leaves = True
        self._ended = threading.Event()

    def start(self) -> None:
        """Begin to join."""
        self._started = True
        self._loop.call_threadsafe(lambda: self._begin(self._run))

    @property
    def lease_s(self) -> float:
        """The seconds for which the group surely leaves the work of this member to it."""
        return max(0.0, self._lease.until - self._clock.monotonic())

    def rejoin(self) -> None:
        """Have the group's leader make the assignments again."""
        # The loop is closed after this member has left the group.
        with suppress(RuntimeError):
            self._loop.call_threadsafe(self._session.rejoin)

    def stop(self, timeout_s: float, *, leave: bool = True) -> None:
        """Leave, so that another member gets this member's work at once; the work must have ended here before.

        If that is uncertain, set `leave` to false: another member then gets the work once the session of this member
        has ended. The end waits for the coordinator's answer for `timeout_s` at most.
        """
        if self._closed:
            return
        self._closed, self._leaves = True, leave
        if self._started:
            self._loop.call_threadsafe(self._ask_to_stop)
            self._clock.wait(self._ended, timeout_s)
        self._stopping = True
        self._admin.close()

    # Everything below runs on the loop's thread.

    @abstractmethod
    def _metadata(self) -> bytes:
        """The metadata of this member for the group's leader."""

    @abstractmethod
    def _assignments(self, generation: Generation) -> Mapping[str, bytes]:
        """The assignment of each member; empty if another member leads the group."""

    @abstractmethod
    async def _accept(self, generation: Generation, given: bytes) -> None:
        """Take over the assignment of this member. Raises ClusterError to refuse it."""

    @abstractmethod
    async def _remain(self) -> None:
        """Wait until the stop, or until this member has to join again."""

    @abstractmethod
    async def _wait_out(self, error: ClusterError) -> None:
        """Show the reason that keeps this process out, and wait before the next try."""

    @abstractmethod
    def _lose_membership(self) -> None:
        """Another member may have the work of this member from now on."""

    @abstractmethod
    def _crash(self, error: Exception) -> None:
        """Show an unexpected error, which has ended the membership."""

    def _note_heartbeat(self, error: TwinlogError | None) -> None:
        """The coordinator has answered a heartbeat, or with `error` the heartbeat is unanswered."""
        if error is not None:
            log.debug("group %s: a heartbeat is unanswered: %s", self._membership.group, error)

    async def _connect(self) -> None:
        await self._admin.client.connect(MEMBER_CONNECT_S)

    def _ask_to_stop(self) -> None:
        self._stopping = True
        self._session.stop()

    def _begin(self, coroutine: Callable[[], Coroutine[Any, Any, None]]) -> None:
        # The loop ends the coroutine when it closes; this end is expected.
        self._loop.spawn(coroutine).add_errback(self._note_end)

    def _note_end(self, error: BaseException) -> None:
        if isinstance(error, Exception):
            self._crash(error)

    async def _run(self) -> None:
        try:
            self._begin(self._session.send_heartbeats)
            while not self._stopping:
                try:
                    await self._take_part()
                except ClusterError as error:
                    await self._wait_out(error)
            await self._leave()
        except TwinlogError as error:
            log.debug("group %s was not left: %s", self._membership.group, error)
        finally:
            self._ended.set()

    async def _leave(self) -> None:
        if self._leaves:
            await self._membership.leave_group()

    async def _take_part(self) -> None:
        """Join, send or get the assignments, and wait until the next rebalance."""
        if not self._admin.client.connected:
            await self._connect()
        self._session.again = False
        begun = self._clock.monotonic()
        generation = await self._session.join(self._metadata())
        if generation is None:
            return
        given = await self._session.sync(generation, self._assignments(generation))
        if given is None:
            return
        self.epoch = generation.number
        self.rebalances, self.synced_at = self.rebalances + 1, self._clock.monotonic()
        self.rebalance_times.add(begun, self.synced_at)
        await self._accept(generation, given)
        await self._remain()
