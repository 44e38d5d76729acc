"""A worker's membership in its group: it joins, sends heartbeats, and gets its connectors from the group's leader.

The group is the group of Connect's workers (`group.id`), with another protocol. A worker with either protocol joins
only while all members of the group have the same protocol. So each connector runs in a single kind of worker at a time.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from typing import Any, NoReturn

from twinlog.connect.group.group import Weights
from twinlog.connect.group.member import Assignment, WorkerState, decode_assignment, encode_assignment
from twinlog.connectors.model import ConnectorName
from twinlog.errors import ClusterError, GroupTakenError, RefusedError, TwinlogError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.coordinator.group_session import GroupSession
from twinlog.kafka.coordinator.leadership_lease import LeadershipLease
from twinlog.kafka.coordinator.membership import Generation, HeartbeatResult, Membership
from twinlog.log_once import DOUBLING_S, LogOnce
from twinlog.metrics.window import RecentTimes
from twinlog.model.groups import TWINLOG_PROTOCOL
from twinlog.settings.worker import GroupSettings
from twinlog.worker.placement.processes import WorkerId, assign_connectors

log = logging.getLogger(__name__)

CONNECT_S = 5.0
CONFIRM_S = 5.0
RETRY_S = 0.5
REFUSED_S = 10.0
APART_S = 60.0
LEAVE_S = 6.0
LOOK_S = 1.0
SILENT = (
    "its coordinator has not answered for a session; this worker writes nothing, and others may run its connectors now"
)
LOG_AFTER_S = 2.0
_OUTAGE = object()


class _OtherTopicsError(RefusedError):
    """The workers of the group have the state of their connectors in other topics than this worker."""


class WorkerGroup:
    """This worker in its group, on the event loop of `admin`; everything public may be called by any thread.

    `connectors()` are all connectors with their weights, `owned()` are the connectors that this worker still runs.
    `changed()` is called after `assignment` changed, and `crashed(error)` when the membership fails unexpectedly.
    `admin` serves the group alone, so that a heartbeat never waits behind another request.
    """

    def __init__(
        self,
        admin: ClusterAdmin,
        settings: GroupSettings,
        connectors: Weights,
        owned: Callable[[], Iterable[ConnectorName]],
        changed: Callable[[], None],
        crashed: Callable[[Exception], None],
    ) -> None:
        self.assignment: Assignment | None = None
        """The connectors that this worker runs; None outside a membership."""
        self.revoked: frozenset[ConnectorName] = frozenset()
        """The connectors that this worker had when it joined, and that its assignment lacks.

        Another worker gets these connectors only after this worker has joined again without them (KIP-415).
        """
        self.reason: str | None = None
        """Why this worker is outside its group."""
        self.joined = False
        """Whether this worker has ever been a member."""
        self.term = 0
        """Grows when this worker's membership ends; while the term is equal, a leader remains the leader."""
        self.rebalances = 0
        """How many assignments this worker received, including empty assignments."""
        self.synced_at: float | None = None
        """When this worker received the last assignment, in monotonic seconds."""
        self.rebalance_times = RecentTimes()
        """The times from the start of a join to the assignment."""
        self._admin = admin
        self._clock = admin.clock
        self._membership = Membership(
            admin.client,
            settings.group_id,
            TWINLOG_PROTOCOL,
            settings.session_timeout_ms / 1000,
            settings.rebalance_timeout_ms / 1000,
        )
        self.myself = WorkerState("", "")
        """How the other workers know this worker; set before `start`."""
        self.ready: Callable[[], bool] = lambda: True
        self._topics = tuple(
            topic.name for topic in (settings.config_storage, settings.offset_storage, settings.status_storage)
        )
        self._connectors = connectors
        self._owned = owned
        self._changed = changed
        self._crashed = crashed
        self._lease = LeadershipLease(settings.rebalance_timeout_ms / 1000)
        self._loop = admin.client.loop
        self._session = GroupSession(self._loop, self._membership, self._lease, lost=self._lost)
        self._planned: Mapping[ConnectorName, WorkerId] = {}
        """For the leader: the next worker of each connector that another worker has to end first."""
        self._lock = threading.Lock()
        self._logged = LogOnce(self._clock)
        self._started = self._stopping = False
        self._leaves = True
        self._ended = threading.Event()

    def start(self) -> None:
        """Begin to join."""
        self._started = True
        self._loop.call_threadsafe(lambda: self._begin(self._run))

    def leads_for_s(self, term: int | None = None) -> float:
        """The seconds in which this worker's connectors stay its own; 0 when another worker may get them.

        With `term`, the answer is 0 after the end of that term: another worker may have the connectors of an ended
        term.
        """
        left_s = max(0.0, self._lease.until - self._clock.monotonic()) if self.assignment is not None else 0.0
        return left_s if term is None or term == self.term else 0.0

    def confirm_membership(self, term: int) -> bool:
        """Ask the coordinator whether this worker has been a member since `term` was read.

        An administrator may remove a leader, and another worker leads before the removed leader hears of it. Raises
        ClusterError.
        """
        until = self._clock.monotonic() + CONFIRM_S
        while self.term == term:
            generation = self._membership.generation
            if generation is None:
                return False
            result = self._admin.call(self._membership.send_heartbeat)
            if result is HeartbeatResult.UNKNOWN_MEMBER:
                return False
            if result is not HeartbeatResult.OTHER_GENERATION:
                return self.term == term
            # A new generation may just have begun, which this worker is about to join.
            enters = self._session.joining or self._membership.generation is not generation
            if self._clock.monotonic() >= until or not enters:
                return False
            self._clock.sleep(RETRY_S / 5)
        return False

    def rejoin(self) -> None:
        """Have the group's leader assign the connectors again: their set changed, or this worker has ended some."""
        # The loop is closed after this worker has left the group.
        with suppress(RuntimeError):
            self._loop.call_threadsafe(self._session.rejoin)

    def stop(self, *, leave: bool = True) -> None:
        """Leave, so that other workers run this worker's connectors, which must have ended before."""
        if self._started and not self._stopping:
            self._leaves = leave
            self._loop.call_threadsafe(self._ask_to_stop)
            self._clock.wait(self._ended, LEAVE_S)
        self._stopping = True
        self._lost()
        self._admin.close()

    # Everything below runs on the loop's thread.

    def _ask_to_stop(self) -> None:
        self._stopping = True
        self._session.stop()

    def _begin(self, coroutine: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._loop.spawn(coroutine).add_errback(self._crash)

    def _crash(self, error: BaseException) -> None:
        # An exception of a closing loop is expected.
        if isinstance(error, Exception) and not self._stopping:
            self._crashed(error)

    async def _run(self) -> None:
        self._begin(self._session.send_heartbeats)
        try:
            while not self._stopping:
                await self._try_to_take_part()
            if self._leaves:
                await self._membership.leave_group()
        except TwinlogError as error:
            log.debug("the group was not left: %s", error)
        finally:
            self._ended.set()

    async def _try_to_take_part(self) -> None:
        try:
            await self._take_part()
        except GroupTakenError:
            await self._trouble(
                "its members are of another kind, such as Kafka Connect's workers, or consumers; stop those, and "
                "wait for the session.timeout.ms of one that was killed, or choose another group.id"
            )
        except _OtherTopicsError as error:
            # An administrator has to fix the worker's file and to restart the worker. The long pause keeps its tries to
            # join rare, as each try disturbs the other workers.
            await self._trouble(str(error), wait_s=APART_S)
        except RefusedError as error:
            await self._trouble(str(error), wait_s=REFUSED_S)
        except ClusterError as error:
            await self._trouble(str(error))

    async def _take_part(self) -> None:
        """Join, send or get the assignment, and wait until the next rebalance."""
        if not self._admin.client.connected:
            await self._admin.client.connect(CONNECT_S)
        self._session.again = False
        if not await self._join():
            return
        self.reason = None
        self._note_recovered()
        while not (self._stopping or self._session.again):
            await self._session.wake.wait(LOOK_S)
            self._watch()

    def _watch(self) -> None:
        """Notice a coordinator that is silent for a session, and its next answer.

        During the silence, requests to the coordinator still wait, and all writes wait too.
        """
        if self.assignment is None or self.leads_for_s() > 0:
            self._note_recovered()
        elif self._logged.is_due(_OUTAGE, 0.0, *DOUBLING_S):
            log.warning("cannot take part in group %s, trying again: %s", self._membership.group, SILENT)

    async def _trouble(self, reason: str, wait_s: float = RETRY_S) -> None:
        self.reason = reason
        if self._membership.generation is None:
            self._lost()
        if not self._stopping:
            # The reason may change during an outage. A reason with a long pause before the next try lasts until an
            # administrator acts, and is logged at once.
            if self._logged.is_due(_OUTAGE, LOG_AFTER_S if wait_s <= RETRY_S else 0.0, *DOUBLING_S):
                log.warning("cannot take part in group %s, trying again: %s", self._membership.group, reason)
            until = self._clock.monotonic() + wait_s
            while not self._stopping and (left_s := until - self._clock.monotonic()) > 0:
                await self._session.wake.wait(left_s)

    def _note_recovered(self) -> None:
        if self._logged.end_condition(_OUTAGE):
            log.info("takes part in group %s again", self._membership.group)

    async def _join(self) -> bool:
        """Take part in the next rebalance; return False when a further rebalance began meanwhile."""
        myself = WorkerState(
            self.myself.url, self.myself.worker_id, frozenset(self._owned()), self._topics, self.ready()
        )
        begun = self._clock.monotonic()
        generation = await self._session.join(myself.encode())
        if generation is None:
            return False
        given = await self._session.sync(generation, self._assignments(generation))
        if given is None:
            return False
        assignment = decode_assignment(given, generation.number, leads=generation.leads)
        if not myself.shares_topics(assignment.topics):
            await self._leave_those(assignment)
        with self._lock:
            if self._stopping:
                return False
            self.assignment = assignment
            self.rebalances, self.synced_at = self.rebalances + 1, self._clock.monotonic()
            self.rebalance_times.add(begun, self.synced_at)
            self.revoked = myself.owned - self.assignment.connectors
            self.joined = True
        self._changed()
        return True

    async def _leave_those(self, others: Assignment) -> NoReturn:
        """Leave the group, and raise the error about workers with other connectors than this worker."""
        await self._membership.leave_group()
        self._lost()
        raise _OtherTopicsError(
            f"the worker at {others.leader_url}, which leads it, has its state in {', '.join(others.topics)}, and this "
            f"worker in {', '.join(self._topics)}; all workers of a group need the same config.storage.topic, "
            "offset.storage.topic and status.storage.topic, and another set of connectors another group.id"
        )

    def _assignments(self, generation: Generation) -> dict[str, bytes]:
        if not generation.leads:
            return {}
        workers = {member: WorkerState.decode(data) for member, data in generation.members.items()}
        leader = workers[generation.member_id]
        # A worker with other topics knows other connectors: it gets an empty assignment.
        able = {member: worker for member, worker in workers.items() if worker.shares_topics(leader.topics)}
        given = dict.fromkeys(workers, frozenset[ConnectorName]())
        owned = {member: one.owned for member, one in able.items()}
        unready = {member for member, one in able.items() if not one.ready}
        spread = assign_connectors(owned, self._connectors(), self._planned, unready)
        self._planned = spread.planned
        given |= spread.given
        owners = {name: workers[member].url for member, names in given.items() for name in names}
        return {member: encode_assignment(leader, names, owners) for member, names in given.items()}

    def _lost(self) -> None:
        """End the membership: another worker may run this worker's connectors and tasks."""
        with self._lock:
            had, self.assignment = self.assignment, None
            self.term += 1
            self._lease.expire_lease()
        if had is not None:
            self._changed()
