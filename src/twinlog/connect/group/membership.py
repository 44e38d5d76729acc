"""A worker's place in its group: it joins, sends heartbeats, and gets what it is to run from the group's leader.

The group is the one that Connect's workers use (`group.id`), with another protocol: neither can join while the other
has members, so that both never run the same connectors at one time.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import NoReturn

from twinlog.connect.group.member import Assignment, Worker, decode_assignment, encode_assignment
from twinlog.connect.group.spreading import assign
from twinlog.connect.model import ConnectorName
from twinlog.driver.election.leadership_lease import LeadershipLease
from twinlog.errors import ClusterError, GroupTakenError, RefusedError, TwinlogError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.coordinator.membership import Generation, HeartbeatResult, Membership
from twinlog.log_once import DOUBLING_S, LogOnce
from twinlog.model.groups import TWINLOG_PROTOCOL
from twinlog.settings.worker import GroupSettings

log = logging.getLogger(__name__)

BEAT_S = 0.5
JOINING_S = 5.0
RETRY_S = 0.5
REFUSED_S = 10.0
APART_S = 60.0
LEAVE_S = 2.0
LOOK_S = 1.0
SILENT = "its coordinator has not answered for a session; this worker writes nothing, and others may run what it ran"
LOG_AFTER_S = 2.0
_OUTAGE = object()


class _OtherTopicsError(RefusedError):
    """The workers of the group have the state of their connectors in other topics than this one."""


class WorkerGroup:
    """This worker in its group, on two threads; everything else may be called by any.

    `connectors()` are the names of all connectors, `owned()` of those that this worker still runs, `changed()` is
    called after `assignment` changed, and `crashed(error)` when a thread ends that must not. `admin` is for the group
    alone: a heartbeat waits behind nothing else.
    """

    def __init__(
        self,
        admin: ClusterAdmin,
        settings: GroupSettings,
        connectors: Callable[[], Iterable[ConnectorName]],
        owned: Callable[[], Iterable[ConnectorName]],
        changed: Callable[[], None],
        crashed: Callable[[Exception], None],
    ) -> None:
        self.assignment: Assignment | None = None
        """What this worker is to run; None before it is a member, and while it is none."""
        self.revoked: frozenset[ConnectorName] = frozenset()
        """What it had when it joined and was not given again: nobody gets that before it joins without it (KIP-415)."""
        self.reason: str | None = None
        """Why this worker is no member."""
        self.joined = False
        """Whether it has ever been one."""
        self.term = 0
        """Counts how often this worker ended to be a member: while it is the same, the leader among them stays it."""
        self._admin = admin
        self._clock = admin.clock
        self._membership = Membership(
            admin.client,
            settings.group_id,
            TWINLOG_PROTOCOL,
            settings.session_timeout_ms / 1000,
            settings.rebalance_timeout_ms / 1000,
        )
        self.myself = Worker("", "")
        """How the others know this worker; to be set before `start`."""
        self._topics = tuple(
            topic.name for topic in (settings.config_storage, settings.offset_storage, settings.status_storage)
        )
        self._connectors = connectors
        self._owned = owned
        self._changed = changed
        self._crashed = crashed
        self._lease = LeadershipLease(settings.rebalance_timeout_ms / 1000)
        self._joining = False
        self._synced = -1
        """The generation whose assignment this worker has."""
        self._rejoin = threading.Event()
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._logged = LogOnce(self._clock)
        self._threads = [
            threading.Thread(target=self._guarded, args=(step,), name=f"worker {name}", daemon=True)
            for name, step in (("group", self._take_part), ("heartbeat", self._keep_beating))
        ]

    def start(self) -> None:
        """Begin to join."""
        for thread in self._threads:
            thread.start()

    def leads_for_s(self, term: int | None = None) -> float:
        """For how many seconds no other worker can be given what this one runs; 0 when another one may be.

        With `term` only what it was given in that one: what it ran before it ended to be a member may be another's.
        """
        left_s = max(0.0, self._lease.until - self._clock.monotonic()) if self.assignment is not None else 0.0
        return left_s if term is None or term == self.term else 0.0

    def confirm(self, term: int) -> bool:
        """Ask the coordinator whether this worker has been a member all the time since `term` was read.

        An administrator may remove a leader, and another one leads before this one hears of it. Raises ClusterError.
        """
        until = self._clock.monotonic() + JOINING_S
        while self.term == term:
            generation = self._membership.generation
            if generation is None:
                return False
            if self._admin.call(self._membership.beat) is not HeartbeatResult.UNKNOWN_MEMBER:
                return self.term == term
            # Another generation may just have begun, and this worker enters it.
            if self._clock.monotonic() >= until or (not self._joining and self._membership.generation is generation):
                return False
            self._clock.sleep(RETRY_S / 5)
        return False

    def rejoin(self) -> None:
        """Have the group's leader assign anew: connectors came or went, or this worker has ended some."""
        self._rejoin.set()

    def watch(self) -> None:
        """Tell when the coordinator has been silent for a session, and when it answers again: whoever asks it then
        still waits, and so does all that writes."""
        if self.assignment is None or self.leads_for_s() > 0:
            self._note_recovered()
        elif self._logged.lasts(_OUTAGE, 0.0, *DOUBLING_S):
            log.warning("cannot take part in group %s, trying again: %s", self._membership.group, SILENT)

    def stop(self, *, leave: bool = True) -> None:
        """Leave, so that others run what this worker ran; that must have ended before."""
        self._stopping.set()
        self._rejoin.set()
        if leave:
            try:
                self._admin.call(self._membership.leave)
            except TwinlogError as error:
                log.debug("the group was not left: %s", error)
        self._lost()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(LEAVE_S)
        self._admin.close()

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as error:
            if not self._stopping.is_set():
                self._crashed(error)

    def _take_part(self) -> None:
        connected = False
        while not self._stopping.is_set():
            try:
                if not connected:
                    self._admin.connect()
                    connected = True
                self._rejoin.clear()
                if self._join():
                    self.reason = None
                    self._note_recovered()
                    while not self._clock.wait(self._rejoin, LOOK_S):
                        self.watch()
            except GroupTakenError:
                self._trouble(
                    "its members are of another kind, such as Kafka Connect's workers, or consumers; stop those, and "
                    "wait for the session.timeout.ms of one that was killed, or choose another group.id"
                )
            except _OtherTopicsError as error:
                # Somebody has to mend its file and start it anew; until then it disturbs the others seldom.
                self._trouble(str(error), wait_s=APART_S)
            except RefusedError as error:
                self._trouble(str(error), wait_s=REFUSED_S)
            except ClusterError as error:
                self._trouble(str(error))

    def _trouble(self, reason: str, wait_s: float = RETRY_S) -> None:
        self.reason = reason
        if self._membership.generation is None:
            self._lost()
        if not self._stopping.is_set():
            # Their reasons change while it lasts. What is tried again late only does not pass by itself.
            if self._logged.lasts(_OUTAGE, LOG_AFTER_S if wait_s <= RETRY_S else 0.0, *DOUBLING_S):
                log.warning("cannot take part in group %s, trying again: %s", self._membership.group, reason)
            self._clock.wait(self._stopping, wait_s)

    def _note_recovered(self) -> None:
        if self._logged.over(_OUTAGE):
            log.info("takes part in group %s again", self._membership.group)

    def _join(self) -> bool:
        """Take part in the next rebalance; False when another one began meanwhile."""
        sent_at = self._clock.monotonic()
        known = self._membership.generation
        myself = Worker(self.myself.url, self.myself.worker_id, frozenset(self._owned()), self._topics)
        self._joining = True
        try:
            generation = self._admin.call(self._membership.join, myself.encode())
            if known is None or known.member_id != generation.member_id:
                self._lost()
            self._membership.enter(generation)
            self._lease.confirmed(sent_at, self._membership.session_s, stable=False)
            sent_at = self._clock.monotonic()
            given = self._admin.call(self._membership.sync, self._assignments(generation))
        finally:
            self._joining = False
        if given is None:
            return False
        assignment = decode_assignment(given, generation.number, leads=generation.leads)
        if not myself.shares_topics(assignment.topics):
            self._leave_those(assignment)
        with self._lock:
            self._synced = generation.number
            self._lease.confirmed(sent_at, self._membership.session_s, stable=True)
            self.assignment = assignment
            self.revoked = myself.owned - self.assignment.connectors
            self.joined = True
        self._changed()
        return True

    def _leave_those(self, others: Assignment) -> NoReturn:
        """Raises the error about workers that know other connectors than this one."""
        self._admin.call(self._membership.leave)
        self._lost()
        raise _OtherTopicsError(
            f"the worker at {others.leader_url}, which leads it, has its state in {', '.join(others.topics)}, and this "
            f"one in {', '.join(self._topics)}; all workers of a group need the same config.storage.topic, "
            "offset.storage.topic and status.storage.topic, and another set of connectors another group.id"
        )

    def _assignments(self, generation: Generation) -> dict[str, bytes]:
        if not generation.leads:
            return {}
        workers = {member: Worker.decode(data) for member, data in generation.members.items()}
        leader = workers[generation.member_id]
        # Who reads other topics knows other connectors: it is told whose they are, and given none.
        able = {member: worker for member, worker in workers.items() if worker.shares_topics(leader.topics)}
        given = dict.fromkeys(workers, frozenset[ConnectorName]())
        given |= assign({member: worker.owned for member, worker in able.items()}, self._connectors())
        owners = {name: workers[member].url for member, names in given.items() for name in names}
        return {member: encode_assignment(leader, names, owners) for member, names in given.items()}

    def _keep_beating(self) -> None:
        while not self._clock.wait(self._stopping, BEAT_S):
            generation = self._membership.generation
            if generation is None:
                continue
            sent_at = self._clock.monotonic()
            try:
                result = self._admin.call(self._membership.beat)
            except TwinlogError as error:
                log.debug("heartbeat: %s", error)
                self._membership.search()
                continue
            if self._membership.generation is generation:
                self._take(result, generation, sent_at)

    def _take(self, result: HeartbeatResult, generation: Generation, sent_at: float) -> None:
        """Take the answer to a heartbeat; while a join is under way, that decides what comes next."""
        if result is not HeartbeatResult.UNKNOWN_MEMBER:
            stable = result is HeartbeatResult.STABLE and self._synced == generation.number
            self._lease.confirmed(sent_at, self._membership.session_s, stable=stable)
            if result is HeartbeatResult.REBALANCE and not self._joining:
                self._rejoin.set()
        elif not self._joining:
            self._membership.forget()
            self._lost()
            self._rejoin.set()

    def _lost(self) -> None:
        """This worker is no member: another one may run what it ran."""
        with self._lock:
            had, self.assignment = self.assignment, None
            self.term += 1
            self._lease.lose()
        if had is not None:
            self._changed()
