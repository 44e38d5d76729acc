"""The group of workers that share connectors, for the herder and its thread; a standalone worker is alone."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import NoReturn, Protocol

from twinlog.connect.group.member import Assignment, WorkerState, decode_assignment, encode_assignment
from twinlog.errors import ClusterError, GroupTakenError, RefusedError
from twinlog.errors.message_ids import told, with_id
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.coordinator.membership import Generation, HeartbeatResult
from twinlog.kafka.retry import GROUP_MEMBER, REFUSED
from twinlog.process.log_once import DOUBLING_S, LogOnce
from twinlog.settings.worker import GroupSettings
from twinlog.worker.connectors.model import ConnectorName
from twinlog.worker.group_membership import GroupMembership
from twinlog.worker.metrics.meters import RecentTimes
from twinlog.worker.placement.processes import ConnectorWeight, WorkerId, assign_connectors

log = logging.getLogger(__name__)

CONFIRM_S = 5.0
APART_S = 60.0
LEAVE_S = 6.0
LOOK_S = 1.0
SILENT = (
    "its coordinator has been silent for a session; this worker waits with its writes, and other workers may run its "
    "connectors now"
)
LOG_AFTER_S = 2.0
_OUTAGE = object()


class ConnectGroup(Protocol):
    """The group of a worker; everything may be called by any thread."""

    myself: WorkerState
    """How the other workers know this worker; set before `start`."""

    ready: Callable[[], bool]
    """Whether this worker could copy at once."""

    @property
    def assignment(self) -> Assignment | None:
        """The connectors that this worker runs; None outside a membership."""

    @property
    def reason(self) -> str | None:
        """Why this worker is outside its group."""

    @property
    def joined(self) -> bool:
        """Whether this worker has ever been a member."""

    @property
    def taken(self) -> bool:
        """Whether workers of another kind, for example Kafka's, keep this worker out of the group."""

    @property
    def term(self) -> int:
        """Grows when this worker's membership ends; while the term is equal, a leader remains the leader."""

    rebalances: int
    """How many assignments this worker received, including empty assignments."""
    synced_at: float | None
    """When this worker received the last assignment, in monotonic seconds."""
    rebalance_times: RecentTimes
    revoked: frozenset[ConnectorName]
    """The connectors that this worker had when it joined, and that its assignment lacks.

    Another worker gets these connectors only after this worker has joined again without them (KIP-415).
    """

    def start(self) -> None:
        """Begin to join."""

    def leads_for_s(self, term: int | None = None) -> float:
        """The seconds in which this worker's connectors stay its own; 0 when another worker may get them.

        With `term`, the answer is 0 after the end of that term: another worker may have the connectors of an ended
        term.
        """

    def confirm_membership(self, term: int) -> bool:
        """Ask whether this worker has been a member since `term` was read. Raises ClusterError."""

    def rejoin(self) -> None:
        """Have the connectors assigned again: the set of connectors changed, or this worker has ended some."""

    def stop(self, *, leave: bool = True) -> None:
        """Leave, so that other workers run this worker's connectors, which must have ended before."""


Names = Callable[[], Iterable[ConnectorName]]
Weights = Callable[[], Mapping[ConnectorName, ConnectorWeight]]

JoinGroup = Callable[[Weights, Names, Callable[[], None], Callable[[Exception], None]], ConnectGroup]
"""Makes the group of a worker.

Arguments: all connectors with their weights; the names of the connectors that the worker still runs; a function that is
called after `assignment` changed; a function that is called with an unexpected error.
"""


class StandaloneGroup:
    """The group of a standalone worker, which runs every connector by itself (Kafka class StandaloneHerder)."""

    reason: str | None = None
    taken = False
    term = 0
    rebalances = 0
    synced_at: float | None = None
    rebalance_times = RecentTimes()

    def __init__(
        self,
        connectors: Weights,
        _owned: Names,
        changed: Callable[[], None],
        _crashed: Callable[[Exception], None] = lambda error: None,
    ) -> None:
        self.joined = False
        self.revoked: frozenset[ConnectorName] = frozenset()
        self.myself = WorkerState("", "")
        self.ready: Callable[[], bool] = lambda: True
        self._connectors = connectors
        self._changed = changed

    @property
    def assignment(self) -> Assignment:
        """All connectors, as a group of generation 0."""
        names = frozenset(self._connectors())
        return Assignment(0, self.myself.url, True, names, dict.fromkeys(names, self.myself.url))

    def start(self) -> None:
        """Count as a member; a standalone worker is alone."""
        self.joined = True

    def leads_for_s(self, term: int | None = None) -> float:
        """For ever."""
        return float("inf")

    def confirm_membership(self, term: int) -> bool:
        """A standalone worker is always a member."""
        return True

    def rejoin(self) -> None:
        """Report the changed set of connectors: this worker runs all of them."""
        self._changed()

    def stop(self, *, leave: bool = True) -> None:
        """Do nothing: a standalone worker has all connectors for itself."""


class _OtherTopicsError(RefusedError):
    """The workers of the group have the state of their connectors in other topics than this worker."""


class WorkerGroup(GroupMembership):
    """This worker in its group.

    `connectors()` are all connectors with their weights, `owned()` are the connectors that this worker still runs.
    `changed()` is called after `assignment` changed, and `crashed(error)` when the membership fails unexpectedly.
    """

    def __init__(
        self,
        admin: ClusterAdmin,
        settings: GroupSettings,
        connectors: Weights,
        owned: Names,
        changed: Callable[[], None],
        crashed: Callable[[Exception], None],
    ) -> None:
        rebalance_s = settings.rebalance_timeout_ms / 1000
        super().__init__(admin, settings.group_id, settings.session_timeout_ms / 1000, rebalance_s)
        self.assignment: Assignment | None = None
        self.revoked: frozenset[ConnectorName] = frozenset()
        self.reason: str | None = None
        self.joined = False
        self.taken = False
        self.term = 0
        self.myself = WorkerState("", "")
        self.ready: Callable[[], bool] = lambda: True
        self._topics = tuple(
            topic.name for topic in (settings.config_storage, settings.offset_storage, settings.status_storage)
        )
        self._connectors = connectors
        self._owned = owned
        self._changed = changed
        self._crashed = crashed
        self._sent = self.myself
        """The state of this worker that its last join sent to the leader."""
        self._planned: Mapping[ConnectorName, WorkerId] = {}
        """For the leader: the next worker of each connector that another worker has to end first."""
        self._assigned: Mapping[ConnectorName, ConnectorWeight] = {}
        """For the leader: the connectors of its last assignments."""
        self._lock = threading.Lock()
        self._logged = LogOnce(self._clock)

    def leads_for_s(self, term: int | None = None) -> float:
        left_s = self.lease_s if self.assignment is not None else 0.0
        return left_s if term is None or term == self.term else 0.0

    def confirm_membership(self, term: int) -> bool:
        """Ask the coordinator whether this worker has been a member since `term` was read.

        An administrator may remove a leader, and another worker leads before the removed leader hears of it. Raises
        ClusterError.
        """
        until = self._clock.monotonic() + CONFIRM_S
        while self.term == term:
            if self._membership.generation is None:
                return False
            late = self._clock.monotonic() >= until
            try:
                result = self._admin.call(self._membership.send_heartbeat)
            except ClusterError as error:
                if late or not error.retriable:
                    raise
            else:
                if result is HeartbeatResult.UNKNOWN_MEMBER:
                    return False
                if result is not HeartbeatResult.OTHER_GENERATION:
                    return self.term == term
                # This worker is about to join a new generation that has just begun, or its next heartbeat ends the
                # term.
                if late:
                    return False
            self._clock.sleep(GROUP_MEMBER.first_s / 5)
        return False

    def stop(self, timeout_s: float = LEAVE_S, *, leave: bool = True) -> None:
        super().stop(timeout_s, leave=leave)
        self._lose_membership()

    # Everything below runs on the loop's thread.

    def _crash(self, error: Exception) -> None:
        # An exception of a closing loop is expected.
        if not self._stopping:
            self._crashed(error)

    async def _wait_out(self, error: ClusterError) -> None:
        self.taken = isinstance(error, GroupTakenError)
        if self.taken:
            await self._trouble(
                "its members are of another kind, such as Kafka Connect's workers, or consumers; stop those, and "
                "wait for the session.timeout.ms of a killed member, or choose another group.id"
            )
        elif isinstance(error, _OtherTopicsError):
            # An administrator has to fix the worker's file and to restart the worker. The long pause keeps its tries to
            # join rare, as each try disturbs the other workers.
            await self._trouble(told(error), wait_s=APART_S)
        elif isinstance(error, RefusedError):
            await self._trouble(told(error), wait_s=REFUSED.first_s)
        else:
            await self._trouble(told(error))

    async def _remain(self) -> None:
        self.reason = None
        self.taken = False
        self._note_recovered()
        while not (self._stopping or self._session.again):
            await self._wake.wait(LOOK_S)
            self._watch()

    def _watch(self) -> None:
        """Notice a coordinator that is silent for a session, and its next answer.

        During the silence, requests to the coordinator still wait, and all writes wait too.
        """
        if self.assignment is None or self.leads_for_s() > 0:
            self._note_recovered()
        elif self._logged.is_due(_OUTAGE, 0.0, *DOUBLING_S):
            log.warning("TW-WORKER-02: cannot take part in group %s, trying again: %s", self._membership.group, SILENT)

    async def _trouble(self, reason: str, wait_s: float = GROUP_MEMBER.first_s) -> None:
        self.reason = with_id(reason, "TW-WORKER-02")
        if self._membership.generation is None:
            self._lose_membership()
        if not self._stopping:
            # The reason may change during an outage. A reason with a long pause before the next try lasts until an
            # administrator acts, and is logged at once.
            if self._logged.is_due(_OUTAGE, LOG_AFTER_S if wait_s <= GROUP_MEMBER.first_s else 0.0, *DOUBLING_S):
                log.warning(
                    "%s",
                    with_id(
                        f"cannot take part in group {self._membership.group}, trying again: {reason}", "TW-WORKER-02"
                    ),
                )
            until = self._clock.monotonic() + wait_s
            while not self._stopping and (left_s := until - self._clock.monotonic()) > 0:
                await self._wake.wait(left_s)

    def _note_recovered(self) -> None:
        if self._logged.end_condition(_OUTAGE):
            log.info("takes part in group %s again", self._membership.group)

    def _metadata(self) -> bytes:
        known = self.myself
        self._sent = WorkerState(known.url, known.worker_id, frozenset(self._owned()), self._topics, self.ready())
        return self._sent.encode()

    async def _accept(self, generation: Generation, given: bytes) -> None:
        assignment = decode_assignment(given, generation.number, leads=generation.leads)
        if not self._sent.shares_topics(assignment.topics):
            await self._leave_those(assignment)
        with self._lock:
            if self._stopping:
                return
            self.assignment = assignment
            self.revoked = self._sent.owned - assignment.connectors
            self.joined = True
        if assignment.leads and self._assigned != self._connectors():
            # Connectors came since the assignments were made, when this worker did not yet lead.
            self._session.rejoin()
        self._changed()

    async def _leave_those(self, others: Assignment) -> NoReturn:
        """Leave the group, and raise the error about workers with other connectors than this worker."""
        await self._membership.leave_group()
        self._lose_membership()
        raise _OtherTopicsError(
            f"TW-WORKER-01: the worker at {others.leader_url}, which leads it, has its state in "
            f"{', '.join(others.topics)}, and this worker in {', '.join(self._topics)}; all workers of a group need "
            "the same config.storage.topic, "
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
        self._assigned = self._connectors()
        spread = assign_connectors(owned, self._assigned, self._planned, unready)
        self._planned = spread.planned
        given |= spread.given
        owners = {name: workers[member].url for member, names in given.items() for name in names}
        return {member: encode_assignment(leader, names, owners) for member, names in given.items()}

    def _lose_membership(self) -> None:
        """End the membership: another worker may run this worker's connectors and tasks."""
        with self._lock:
            had, self.assignment = self.assignment, None
            self.term += 1
            self._lease.expire_lease()
        if had is not None:
            self._changed()
