"""Hands out leases: it decides which copier holds which partitions, and when a lease is over.

The driver has an instance per flow. Spark decides on which executor a task runs. The copier in the task's process
claims a share of the current lease here, and gets its partitions after their former holders have released them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence, Set

from twinlog.clock import LONG_AGO, SYSTEM, Clock
from twinlog.errors import MessageError, TwinlogError
from twinlog.errors.message_ids import told
from twinlog.lease.channel import DEAD_S, VALID_S, Channel
from twinlog.lease.fencing import TransactionalIds
from twinlog.lease.granting import RELEASE_S, PartitionGranter
from twinlog.lease.ledger import Assignment, CopierPlace, CopierSession, LeaseState
from twinlog.lease.messages import (
    Claim,
    CopierEnded,
    CopierHeartbeat,
    CopierHeartbeatResponse,
    CopierLogLine,
    Drop,
    Event,
    Failed,
    Grant,
    Hold,
    IdRequest,
    LeaseEnded,
    Message,
    Released,
    ReportMessage,
    SetLogLevel,
    Stop,
    TaskEnded,
)
from twinlog.lease.progress import Report
from twinlog.model.held import HeldPartition
from twinlog.model.types import TopicPartition

log = logging.getLogger(__name__)

DROP_S = 1.0
"""The driver closes the connection of a copier this long after the driver sent `Drop`."""


class Leases:
    """The leases of a flow.

    `grants(partitions)` returns the grants of partitions; it may read the cluster. `failed(kind, text)` and
    `event(kind, text)` pass on the messages of copiers. `ids` are lent to the copiers of a flow that copies exactly
    once. `leads_for_s()` is the time in seconds for which this process is the only process that runs the flow; copiers
    may append for at most this time. `reported(report)` is called with each report, and `gone(name)` when a copier has
    ended. `mismatch(text)` is called when a copier of another version was refused, and `mismatch(None)` once every
    share has a copier. `held(held)` is called when a copier holds a partition.
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
        held: Callable[[HeldPartition], None] = lambda held: None,
        clock: Clock = SYSTEM,
    ) -> None:
        self._clock = clock
        self.flow = flow
        self._reported = reported
        self._gone = gone
        self._mismatch = mismatch
        self._held = held
        self.refused: str | None = None
        """The refused copier of another version, until every share has a copier of this version."""
        self._leads_for_s = leads_for_s
        self._ids = ids
        self._failed = failed
        self._event = event
        self.unclaimed_again: Callable[[], None] = lambda: None
        """Called whenever a share may wait for a copier."""
        self._log_level, self._log_level_until = 0, LONG_AGO
        self._ledger = LeaseState()
        self._granting = PartitionGranter(flow, self._ledger, grants, failed, ids, clock)

    # The plan.

    @property
    def lease(self) -> int:
        """Number of the current lease; 0 before the first."""
        return self._ledger.lease

    def plan(self, assignment: Assignment) -> int:
        """Copy by this plan from now on; returns the number of the lease.

        While the number of shares stays, the lease stays, too: only partitions that move are released and granted
        again. With another number of shares Spark needs another number of tasks, and so another lease.
        """
        with self._ledger.changed:
            same = bool(self._ledger.lease) and len(assignment) == len(self._ledger.shares.assignment)
            if same:
                self._ledger.shares.assignment = assignment
                self._ledger.version += 1
                version, gone, lacking = self._ledger.version, self._unplanned(), self._ledger.shares.lacking
        if not same:
            return self.renew_lease(assignment)
        for session, parts in gone.items():
            self._granting.ask_release(session, parts, version)
        for session in lacking:
            self._granting.submit(session)
        return self._ledger.lease

    def renew_lease(self, assignment: Assignment | None = None) -> int:
        """End the current lease and begin the next lease, over `assignment` if given; returns its number."""
        with self._ledger.changed:
            over = self._ledger.lease
            if assignment is not None:
                self._ledger.shares.assignment = assignment
            self._ledger.lease += 1
            self._ledger.version += 1
            self._ledger.shares.clear()
            lease, version, gone = self._ledger.lease, self._ledger.version, self._unplanned()
            self._ledger.changed.notify_all()
        for session, parts in gone.items():
            self._granting.ask_release(session, parts, version)
            session.send(LeaseEnded(over))
        self.unclaimed_again()
        return lease

    def _unplanned(self) -> dict[CopierSession, Set[TopicPartition]]:
        """The held partitions of each copier that the plan has dropped."""
        planned = frozenset[TopicPartition]().union(*self._ledger.shares.assignment)
        return {session: session.held - planned for session in self._ledger.sessions}

    def current(self) -> tuple[int, int]:
        """The number of the current lease, and its number of shares for tasks; 0 shares once the flow stops."""
        with self._ledger.changed:
            return self._ledger.lease, 0 if self._ledger.stopping else len(self._ledger.shares.assignment)

    def shares_of(self, tasks: Set[int]) -> frozenset[int]:
        """The shares of the current lease whose copiers run in these tasks of Spark."""
        with self._ledger.changed:
            return self._ledger.shares.of_tasks(tasks)

    def vacant(self, for_s: float) -> frozenset[int]:
        """The shares whose copier was lost at least `for_s` seconds ago, and that are still unclaimed."""
        with self._ledger.changed:
            return self._ledger.shares.vacant(self._clock.monotonic() - for_s)

    def drained(self, shares: Set[int]) -> bool:
        """Whether the copiers of these shares have released all their partitions."""
        with self._ledger.changed:
            return not any(session.held for session in self._ledger.shares.holders(shares))

    @property
    def fully_granted(self) -> bool:
        """Whether each copier of a share has been granted all partitions of the share."""
        with self._ledger.changed:
            return not self._ledger.shares.lacking

    def retire_shares(self, shares: Set[int]) -> None:
        """Have the copiers of these shares release their partitions and end.

        No other copier can continue for these copiers.
        """
        with self._ledger.changed:
            sessions = self._ledger.shares.holders(shares)
        for session in sessions:
            session.send(Stop())

    def grant_again(self, partitions: Set[TopicPartition]) -> None:
        """Have partitions released by their copiers, and granted again by the same plan.

        The new grants have the positions stored by then.
        """
        with self._ledger.changed:
            version = self._ledger.version
            sessions = {session: session.held & partitions for session in self._ledger.sessions}
        for session, parts in sessions.items():
            if parts:
                self._granting.ask_release(session, parts, version)
                self._granting.submit(session)

    def holds_any(self, partitions: Set[TopicPartition]) -> bool:
        """Whether a copier holds any of these partitions, or the plan has any of these partitions."""
        with self._ledger.changed:
            planned = any(share & partitions for share in self._ledger.shares.assignment)
            return planned or bool(self._ledger.holdings.holders(partitions))

    def assignment(self) -> Assignment:
        """The current lease's shares: the partitions of each task."""
        with self._ledger.changed:
            return self._ledger.shares.assignment

    def places(self) -> list[CopierPlace]:
        """The connected copiers by name, each with its task and the number of its partitions."""
        with self._ledger.changed:
            found = [CopierPlace(one.name, one.task, one.bridge, len(one.held)) for one in self._ledger.sessions]
        return sorted(found)

    def set_log_level(self, number: int, for_s: float) -> None:
        """Have all copiers log from this level on, by Python's number, for `for_s` seconds, later copiers for the rest.

        The driver's log gets their lines. 0 seconds end the level.
        """
        self._log_level, self._log_level_until = number, self._clock.monotonic() + for_s
        with self._ledger.changed:
            sessions = list(self._ledger.sessions)
        for session in sessions:
            session.send(SetLogLevel(number, for_s))

    # Copiers.

    def serve_copier(self, line: Channel, name: str) -> None:
        """Talk to a copier until its line ends; called on a thread of its own."""
        session = CopierSession(line, name, self._clock)
        line.break_after(DEAD_S)
        in_order = False
        with self._ledger.changed:
            self._ledger.sessions.add(session)
        left_s = self._log_level_until - self._clock.monotonic()
        if left_s > 0:
            session.send(SetLogLevel(self._log_level, left_s))
        try:
            while True:
                while not line.poll(0.5):
                    if session.closed:
                        return
                    if self._clock.monotonic() - session.last_beat > DEAD_S:
                        log.warning(
                            "TW-LEASE-01: %s: copier %s is silent, its partitions are given to another", self.flow, name
                        )
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
            # This comes before another copier can get the partitions.
            if self._ids is not None:
                self._ids.give_back(name) if in_order else self._ids.mark_lost(name)
            with self._ledger.changed:
                self._ledger.sessions.discard(session)
                if in_order:
                    self._ledger.shares.release_share(session)
                else:
                    self._ledger.shares.lose_copier(session, self._clock.monotonic())
                self._ledger.holdings.lose_copier(session)
                self._ledger.changed.notify_all()
            self.unclaimed_again()

    def refuse(self, text: str) -> None:
        """A copier of another version was refused; `text` names both versions."""
        self.refused = text
        self._mismatch(text)

    def _take(self, session: CopierSession, message: Message) -> bool:
        """Do a copier's request; False when the copier ends. Raises MessageError for any other message."""
        session.last_beat = self._clock.monotonic()
        match message:
            case CopierHeartbeat(at):
                session.send(CopierHeartbeatResponse(at, min(VALID_S, self._leads_for_s())))
            case ReportMessage(report):
                self._reported(report)
            case Claim(lease, task, bridge):
                session.task, session.bridge = task, bridge
                self._claim(session, lease)
            case TaskEnded(lease):
                self._leave(session, lease)
            case IdRequest():
                lend = threading.Thread(target=self._lend, args=(session,), name=f"id {session.name}", daemon=True)
                try:
                    lend.start()
                except RuntimeError:
                    # The thread limit is reached: this thread lends the id, and the copier waits for answers to its
                    # heartbeats.
                    self._lend(session)
            case Released(partitions, undrained):
                with self._ledger.changed:
                    self._ledger.holdings.record_release(session, partitions, undrained)
                    self._ledger.changed.notify_all()
            case Failed(_, kind, text):
                self._failed(kind, text)
            case Event(kind, text):
                self._event(kind, text)
            case Hold(held):
                self._held(held)
            case CopierLogLine(level, text):
                write = log.info if level >= logging.INFO else log.debug
                write("%s: copier %s: %s", self.flow, session.name, text)
            case CopierEnded():
                return False
            case _:
                raise MessageError(f"copier {session.name} sent {type(message).__name__}, which it may not send")
        return True

    def _lend(self, session: CopierSession) -> None:
        assert self._ids is not None
        try:
            lent = self._ids.lend_id(session.name)
        except TwinlogError as error:
            self._failed(type(error).__name__, told(error, "TW-FLOW-01"))
            return
        with self._ledger.changed:
            gone = session not in self._ledger.sessions
        if gone:
            self._ids.mark_lost(session.name)
        elif lent is not None:
            session.send(lent)

    def _claim(self, session: CopierSession, lease: int) -> None:
        if self._take_share(session, lease):
            log.debug("%s: copier %s has a share of lease %d", self.flow, session.name, lease)
            self._granting.submit(session)
            if not session.bridge:
                self._end_bridge()
            if self.refused is not None and not self.unclaimed:
                self.refused = None
                self._mismatch(None)
        else:
            session.send(Stop() if self._ledger.stopping else LeaseEnded(lease))

    def _take_share(self, session: CopierSession, lease: int) -> bool:
        """Give a copier a share of the current lease; returns whether the copier has a share."""
        with self._ledger.changed:
            if lease != self._ledger.lease or self._ledger.stopping or session not in self._ledger.sessions:
                return False
            return self._ledger.shares.claim_share(session)

    def _end_bridge(self) -> None:
        """End the copiers of the bridge whose shares went to tasks; they release their partitions first."""
        with self._ledger.changed:
            displaced = self._ledger.shares.displaced(self._ledger.sessions)
        for session in displaced:
            session.send(Stop())

    def stop_bridge(self) -> None:
        """Ask the copiers of the bridge to release their partitions and end."""
        with self._ledger.changed:
            sessions = [session for session in self._ledger.sessions if session.bridge]
        for session in sessions:
            session.send(Stop())

    @property
    def bridged(self) -> bool:
        """Whether the bridge copies partitions of the flow."""
        with self._ledger.changed:
            return any(session.bridge and session.held for session in self._ledger.sessions)

    @property
    def copied_by_tasks(self) -> bool:
        """Whether tasks of Spark hold partitions of the flow."""
        with self._ledger.changed:
            return any(session.held and not session.bridge for session in self._ledger.sessions)

    @property
    def left_without_tasks(self) -> list[int]:
        """The shares that lack a copier, as long as all tasks of Spark lack a copier of the flow."""
        with self._ledger.changed:
            if self._ledger.stopping or any(not session.bridge for session in self._ledger.sessions):
                return []
            return self._ledger.shares.orphaned

    def _leave(self, session: CopierSession, lease: int) -> None:
        """The task of a copier ended before its lease: the share is claimed again, usually by the same copier."""
        with self._ledger.changed:
            if lease != self._ledger.lease:
                return
            self._ledger.shares.release_share(session)
            self._ledger.changed.notify_all()
        self.unclaimed_again()

    def stop(self, timeout_s: float) -> bool:
        """Ask every copier to release its partitions and end; True when all copiers ended in time."""
        self._send_all(Stop(), stopping=True)
        done = self._wait_until_gone(timeout_s)
        self._granting.stop()
        return done

    def drop_copiers(self) -> None:
        """End every copier at once: another process may run the flow, so copiers must stop all stores."""
        self._send_all(Drop(), stopping=True)
        self._wait_until_gone(DROP_S)
        with self._ledger.changed:
            sessions = list(self._ledger.sessions)
        for session in sessions:
            session.close()
        self._granting.stop()

    def stop_copiers(self, *, bridge: bool = True) -> None:
        """Ask every copier to release its partitions, because the query is about to be stopped.

        Without `bridge` the copiers of the bridge continue.
        """
        with self._ledger.changed:
            sessions = [session for session in self._ledger.sessions if bridge or not session.bridge]
        for session in sessions:
            session.send(Stop())
        with self._ledger.changed:
            self._clock.wait_for(self._ledger.changed, lambda: self._ledger.sessions.isdisjoint(sessions), RELEASE_S)

    def _send_all(self, message: Stop | Drop, *, stopping: bool) -> None:
        with self._ledger.changed:
            self._ledger.stopping = self._ledger.stopping or stopping
            sessions = list(self._ledger.sessions)
            self._ledger.changed.notify_all()
        for session in sessions:
            session.send(message)

    def _wait_until_gone(self, timeout_s: float) -> bool:
        """Whether every copier has ended in time."""
        with self._ledger.changed:
            return self._clock.wait_for(self._ledger.changed, lambda: not self._ledger.sessions, timeout_s)

    @property
    def unclaimed(self) -> bool:
        """Whether a share of the current lease waits for a copier."""
        with self._ledger.changed:
            return not self._ledger.stopping and self._ledger.shares.unclaimed
