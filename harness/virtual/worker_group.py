"""The group of workers in virtual time: a coordinator that forgets who was silent for a session, and its members.

A rebalance ends when all members have joined again, as with a broker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from twinlog.connect.group.member import Assignment, WorkerState, decode_assignment, encode_assignment
from twinlog.connect.group.spreading import assign
from twinlog.kafka.coordinator.leadership_lease import LeadershipLease
from twinlog.metrics.window import RecentTimes

if TYPE_CHECKING:
    from harness.virtual.workers import VirtualWorker, World

SESSION_S = 6.0


class Coordinator:
    """The broker that knows the group's members; a rebalance ends when all of them have joined again."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.seen: dict[Member, float] = {}
        """The members in the order in which they came, and when each was heard of last; the first one leads."""
        self.generation = 0
        self.rebalances = False
        self._planned: Mapping[Any, str] = {}

    def leave(self, member: Member) -> None:
        """Also as an administrator removes it."""
        if self.seen.pop(member, None) is not None:
            self.rebalances = True

    def tick(self) -> None:
        now = self.world.clock.now
        for member in [member for member, seen in self.seen.items() if now - seen > SESSION_S]:
            self.leave(member)
        for worker in self.world.workers:
            worker.member.look()
        here = [worker for worker in self.world.workers if not worker.frozen]
        if self.rebalances and self.seen and all(member.worker in here for member in self.seen):
            self._rebalance()

    def _rebalance(self) -> None:
        self.rebalances = False
        self.generation += 1
        members = {member.worker.name: member for member in self.seen}
        leader = next(iter(members.values()))
        joined = {name: WorkerState.decode(member.join()) for name, member in members.items()}
        spread = assign({name: one.owned for name, one in joined.items()}, leader.connectors(), self._planned)
        given, self._planned = spread.given, spread.planned
        owners = {name: joined[worker].url for worker, names in given.items() for name in names}
        for name, member in members.items():
            encoded = encode_assignment(joined[leader.worker.name], given[name], owners)
            member.take(decode_assignment(encoded, self.generation, leads=member is leader))


class Member:
    """In the place of a WorkerGroup."""

    def __init__(self, worker: VirtualWorker, connectors: Any, owned: Any, _changed: Any, _crashed: Any) -> None:
        self.worker = worker
        self.assignment: Assignment | None = None
        self.revoked: frozenset[Any] = frozenset()
        self.reason: str | None = None
        self.joined = False
        self.term = 0
        self.rebalances = 0
        self.synced_at: float | None = None
        self.rebalance_times = RecentTimes()
        self.myself = WorkerState("", "")
        self.ready: Callable[[], bool] = lambda: True
        self.connectors = connectors
        self._owned = owned
        self._group = self.worker.world.group
        self._lease = LeadershipLease()
        self._starts = self._again = False
        self._declared: frozenset[Any] = frozenset()

    def start(self) -> None:
        self._starts = self._again = True

    def rejoin(self) -> None:
        self._again = True

    def stop(self, *, leave: bool = True) -> None:
        self._group.leave(self)
        self.assignment = None

    def leads_for_s(self, term: int | None = None) -> float:
        left = self._lease.until - self.worker.world.clock.monotonic()
        return max(0.0, left) if self.assignment is not None and term in (None, self.term) else 0.0

    def confirm_membership(self, term: int) -> bool:
        return self.term == term and self in self._group.seen

    def beat(self) -> None:
        now = self.worker.world.clock.now
        if self in self._group.seen:
            self._group.seen[self] = now
            self._lease.extend_lease(now, SESSION_S, stable=True)
        elif self.assignment is not None:
            self.assignment, self._again = None, True
            self.term += 1
            self._lease.expire_lease()

    def look(self) -> None:
        """Join, or ask to join again."""
        if self._starts and self._again and not self.worker.frozen:
            self._again = False
            if self not in self._group.seen:
                if self.assignment is not None:
                    return
                self._group.seen[self] = self.worker.world.clock.now
            self._group.rebalances = True

    def join(self) -> bytes:
        self._declared = frozenset(self._owned())
        return WorkerState(self.myself.url, self.myself.worker_id, self._declared).encode()

    def take(self, assignment: Assignment) -> None:
        self._lease.extend_lease(self.worker.world.clock.now, SESSION_S, stable=True)
        self.assignment, self.joined = assignment, True
        self.revoked = self._declared - assignment.connectors
