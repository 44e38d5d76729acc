"""Hands out leases: which copier holds which partitions, and when a lease is over.

One instance per flow, on the driver. Spark decides where a task runs; the copier that a task finds there claims a share
of the current lease here, and gets its partitions after their former holders have released them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from twinlog.clock import SYSTEM, Clock
from twinlog.driver.copier_session import CopierSession
from twinlog.driver.fencing import TransactionalIds
from twinlog.errors import MessageError, TwinlogError
from twinlog.lease.channel import DEAD_S, VALID_S, Channel
from twinlog.lease.grant import Grant
from twinlog.lease.messages import (
    Beat,
    BeatResponse,
    Bye,
    Claim,
    Drop,
    End,
    Event,
    Failed,
    Grants,
    IdRequest,
    Left,
    Message,
    Release,
    Released,
    ReportMessage,
    Stop,
)
from twinlog.lease.progress import Report
from twinlog.model.types import TopicPartition
from twinlog.plan.assignment import Assignment

log = logging.getLogger(__name__)

RELEASE_S = 4.0
"""The driver closes the connection of a copier that does not release within this time; by then it may no longer
append, see `VALID_S`."""

DROP_S = 1.0
"""The driver closes the connection of a copier this long after it sent `Drop`."""


DEALS_AT_ONCE = 16
"""How many copiers get their grants at the same time; one may have to wait for another that does not release."""


class Leases:
    """The leases of one flow.

    `grants(partitions)` looks up what a copier needs to begin; it may read the cluster. `failed(kind, text)` and
    `event(kind, text)` pass on what copiers report. `ids` are lent to the copiers of a flow that copies exactly once.
    `leads_for_s()` is for how many seconds no other process can run the flow: no copier may append for longer.
    `reported(report)` is called with each report, `gone(name)` when a copier has ended, `mismatch(text)` when a copier
    of another version was refused, and `mismatch(None)` once every share has a copier.
    """

    def __init__(
        self,
        flow: str,
        grants: Callable[[Sequence[TopicPartition]], list[Grant]],
        failed: Callable[[str, str], None],
        event: Callable[[str, str], None],
        ids: TransactionalIds | None = None,
        leads_for_s: Callable[[], float] = lambda: VALID_S,
        reported: Callable[[Report], None] = lambda report: None,
        gone: Callable[[str], None] = lambda copier: None,
        mismatch: Callable[[str | None], None] = lambda text: None,
        clock: Clock = SYSTEM,
    ) -> None:
        self._clock = clock
        self.flow = flow
        self._reported = reported
        self._gone = gone
        self._mismatch = mismatch
        self._refused = False
        self._leads_for_s = leads_for_s
        self._ids = ids
        self._grants = grants
        self._failed = failed
        self._event = event
        self.unclaimed_again: Callable[[], None] = lambda: None
        """Called whenever a share may wait for a copier."""
        self._changed = threading.Condition()
        self._sessions: set[CopierSession] = set()
        self._assignment: Assignment = ()
        self._claimed: dict[int, CopierSession] = {}
        """Who works on each share of the assignment, by its number."""
        self._holder: dict[TopicPartition, CopierSession] = {}
        """Who holds each partition; one copier at most."""
        self._drained: set[TopicPartition] = set()
        self._lease = 0
        self._version = 0
        """Counts plans and leases: work begun for an earlier one is dropped."""
        self._stopping = False
        self._claims = ThreadPoolExecutor(DEALS_AT_ONCE, thread_name_prefix=f"claims {flow}")

    # The plan.

    @property
    def lease(self) -> int:
        """Number of the current lease; 0 before the first."""
        return self._lease

    def plan(self, assignment: Assignment) -> int:
        """Copy by this plan from now on; returns the number of the lease.

        While the number of shares stays, so does the lease: only partitions that move are released and granted
        anew. Otherwise Spark needs another number of tasks, and so another lease.
        """
        with self._changed:
            same = bool(self._lease) and len(assignment) == len(self._assignment)
            if same:
                self._assignment = assignment
                self._version += 1
                version, gone = self._version, self._unplanned()
                lacking = [
                    session
                    for number, session in self._claimed.items()
                    if assignment[number] - (session.held - session.leaving)
                ]
        if not same:
            return self.renew(assignment)
        for session, parts in gone.items():
            self._ask_release(session, parts, version)
        for session in lacking:
            self._submit(session)
        return self._lease

    def renew(self, assignment: Assignment | None = None) -> int:
        """End the current lease and begin the next, over `assignment` if given; returns its number."""
        with self._changed:
            over = self._lease
            if assignment is not None:
                self._assignment = assignment
            self._lease += 1
            self._version += 1
            self._claimed = {}
            lease, version, gone = self._lease, self._version, self._unplanned()
            self._changed.notify_all()
        for session, parts in gone.items():
            self._ask_release(session, parts, version)
            session.send(End(over))
        self.unclaimed_again()
        return lease

    def _unplanned(self) -> dict[CopierSession, Set[TopicPartition]]:
        """What each copier holds that is no longer in the plan."""
        planned = frozenset[TopicPartition]().union(*self._assignment)
        return {session: session.held - planned for session in self._sessions}

    def current(self) -> tuple[int, int]:
        """The number of the current lease, and how many shares it has for tasks; none once the flow stops."""
        with self._changed:
            return self._lease, 0 if self._stopping else len(self._assignment)

    def assignment(self) -> Assignment:
        """The current lease's shares: the partitions of each task."""
        with self._changed:
            return self._assignment

    # Copiers.

    def serve(self, line: Channel, name: str) -> None:
        """Talk to one copier until its line ends; called on a thread of its own."""
        session = CopierSession(line, name, self._clock)
        line.break_after(DEAD_S)
        in_order = False
        with self._changed:
            self._sessions.add(session)
        try:
            while True:
                while not line.poll(0.5):
                    if session.closed:
                        return
                    if self._clock.monotonic() - session.last_beat > DEAD_S:
                        log.warning("%s: copier %s is silent, its partitions are given to another", self.flow, name)
                        return
                if not self._take(session, line.receive()):
                    in_order = True
                    return
        except (OSError, EOFError):
            return
        finally:
            session.close()
            with session.order:
                line.close()
            self._gone(name)
            # Before its partitions can be granted to another copier.
            if self._ids is not None:
                self._ids.give_back(name) if in_order else self._ids.lose(name)
            with self._changed:
                self._sessions.discard(session)
                self._claimed = {number: holder for number, holder in self._claimed.items() if holder is not session}
                self._drained -= session.held
                self._forget(session, set(session.held))
                self._changed.notify_all()
            self.unclaimed_again()

    def refuse(self, text: str) -> None:
        """A copier of another version was refused; `text` names both versions."""
        self._refused = True
        self._mismatch(text)

    def _take(self, session: CopierSession, message: Message) -> bool:
        """Do what a copier asks for; False when it ends. Raises MessageError when no copier sends that."""
        session.last_beat = self._clock.monotonic()
        match message:
            case Beat(at):
                session.send(BeatResponse(at, min(VALID_S, self._leads_for_s())))
            case ReportMessage(report):
                self._reported(report)
            case Claim(lease):
                self._claim(session, lease)
            case Left(lease):
                self._leave(session, lease)
            case IdRequest():
                lend = threading.Thread(target=self._lend, args=(session,), name=f"id {session.name}", daemon=True)
                try:
                    lend.start()
                except RuntimeError:
                    # No more threads: it waits here, and the copier waits for answers to its heartbeats.
                    self._lend(session)
            case Released(partitions, undrained):
                with self._changed:
                    released = session.held.intersection(partitions)
                    self._forget(session, released)
                    self._drained |= released.difference(undrained)
                    self._changed.notify_all()
            case Failed(_, kind, text):
                self._failed(kind, text)
            case Event(kind, text):
                self._event(kind, text)
            case Bye():
                return False
            case _:
                raise MessageError(f"copier {session.name} sent {type(message).__name__}, which only others send")
        return True

    def _forget(self, session: CopierSession, parts: Set[TopicPartition]) -> None:
        """A copier no longer holds these."""
        session.held -= parts
        session.leaving -= parts
        for part in parts:
            if self._holder.get(part) is session:
                del self._holder[part]

    def _lend(self, session: CopierSession) -> None:
        assert self._ids is not None
        try:
            lent = self._ids.lend(session.name)
        except TwinlogError as error:
            self._failed(type(error).__name__, str(error))
            return
        with self._changed:
            gone = session not in self._sessions
        if gone:
            self._ids.lose(session.name)
        elif lent is not None:
            session.send(lent)

    def _claim(self, session: CopierSession, lease: int) -> None:
        if self._take_share(session, lease):
            self._submit(session)
            if self._refused and not self.unclaimed:
                self._refused = False
                self._mismatch(None)
        else:
            session.send(Stop() if self._stopping else End(lease))

    def _submit(self, session: CopierSession) -> None:
        """Grant on another thread, because that may take as long as clusters take to answer."""

        def deal() -> None:
            try:
                self._deal(session)
            except TwinlogError as error:
                self._failed(type(error).__name__, str(error))
            except Exception as error:
                log.exception("%s: partitions of copier %s", self.flow, session.name)
                self._failed(type(error).__name__, str(error))

        try:
            self._claims.submit(deal)
        except RuntimeError:
            # Stopped meanwhile.
            session.send(Stop())

    def _deal(self, session: CopierSession) -> None:
        """Grant a copier what its share has and it does not hold, once others have released it.

        It goes on copying what its share does not have until another copier needs that.
        """
        with self._changed:
            version = self._version
            claimed = next((number for number, holder in self._claimed.items() if holder is session), None)
            if claimed is None:
                return
            wanted = self._assignment[claimed]
            others = self._holders(wanted) - {session}
        for other in others:
            self._ask_release(other, wanted, version)
        self._wait_for_release(session, wanted)
        with self._changed:
            if version != self._version or session.closed or session not in self._sessions:
                return
            missing = sorted(wanted - session.held)
            session.held |= set(missing)
            self._holder.update(dict.fromkeys(missing, session))
            drained = self._drained & set(missing)
            self._drained -= drained
            lease = self._lease
        if not missing:
            return
        grants = [replace(grant, drained=grant.source in drained) for grant in self._grants(missing)]
        with session.order:
            with self._changed:
                # Meanwhile a later plan may have asked for some of them back.
                still = session.held - session.leaving
            granted = [grant for grant in grants if grant.source in still]
            session.send(Grants(lease, tuple(granted)))

    def _take_share(self, session: CopierSession, lease: int) -> bool:
        """Give a copier a share of the current lease; False when it gets none."""
        with self._changed:
            if lease != self._lease or self._stopping or session not in self._sessions:
                return False
            if session in self._claimed.values():
                return True
            free = [number for number in range(len(self._assignment)) if number not in self._claimed]
            if not free:
                return False
            number = max(free, key=lambda one: (len(self._assignment[one] & session.held), -one))
            self._claimed[number] = session
            return True

    def _leave(self, session: CopierSession, lease: int) -> None:
        """The task of a copier ended before its lease: the share is claimed again, by the same copier as a rule."""
        with self._changed:
            if lease != self._lease:
                return
            self._claimed = {number: holder for number, holder in self._claimed.items() if holder is not session}
            self._changed.notify_all()
        self.unclaimed_again()

    def _holders(self, parts: Set[TopicPartition]) -> set[CopierSession]:
        return {self._holder[part] for part in parts if part in self._holder}

    def _wait_for_release(self, session: CopierSession, wanted: frozenset[TopicPartition]) -> None:
        """Wait until nobody copies `wanted`; close the connections of copiers that do not release it."""

        def holders() -> set[CopierSession]:
            others = self._holders(wanted) - {session}
            return others | {session} if session.leaving & wanted else others

        with self._changed:
            if self._clock.wait_for(self._changed, lambda: not holders(), RELEASE_S):
                return
            slow = holders()
            for other in slow:
                log.warning(
                    "%s: copier %s does not release its partitions, its connection is closed", self.flow, other.name
                )
                other.close()
                if self._ids is not None:
                    self._ids.lose(other.name)
            # A copier ends with its line. One that does not notice stops appending when its last beat is too old.
            until = max(other.last_beat for other in slow) + VALID_S
            self._clock.wait_for(self._changed, lambda: session.closed, max(0.0, until - self._clock.monotonic()))

    def _ask_release(self, session: CopierSession, parts: Set[TopicPartition], version: int) -> None:
        """Ask a copier to release partitions, unless there is a newer plan: that asks by itself."""
        with session.order:
            with self._changed:
                if version != self._version:
                    return
                asked = (session.held & parts) - session.leaving
                session.leaving |= asked
            if asked:
                session.send(Release(tuple(sorted(asked))))

    def stop(self, timeout_s: float) -> bool:
        """Ask every copier to release its partitions and end; True when all did in time."""
        with self._changed:
            self._stopping = True
            sessions = list(self._sessions)
            self._changed.notify_all()
        for session in sessions:
            session.send(Stop())
        with self._changed:
            done = self._clock.wait_for(self._changed, lambda: not self._sessions, timeout_s)
        self._claims.shutdown(wait=False)
        return done

    def abandon(self) -> None:
        """End every copier at once: another process may run the flow, so nothing may be stored at the end."""
        with self._changed:
            self._stopping = True
            sessions = list(self._sessions)
            self._changed.notify_all()
        for session in sessions:
            session.send(Drop())
        with self._changed:
            self._clock.wait_for(self._changed, lambda: not self._sessions, DROP_S)
            sessions = list(self._sessions)
        for session in sessions:
            session.close()
        self._claims.shutdown(wait=False)

    @property
    def unclaimed(self) -> bool:
        """Whether a share of the current lease waits for a copier."""
        with self._changed:
            return not self._stopping and len(self._claimed) < len(self._assignment)

    def disband(self) -> None:
        """Ask every copier to release its partitions: their query is about to be stopped."""
        with self._changed:
            sessions = list(self._sessions)
        for session in sessions:
            session.send(Stop())
        with self._changed:
            self._clock.wait_for(self._changed, lambda: not self._sessions, RELEASE_S)

    @property
    def copiers(self) -> int:
        with self._changed:
            return len(self._sessions)
