"""Which copier has claimed which share of a lease: each works on one at most."""

from __future__ import annotations

from collections.abc import Set

from twinlog.lease.assignment import Assignment
from twinlog.lease.copier_session import CopierSession
from twinlog.model.types import TopicPartition


class Claims:
    """The shares of the current lease, `assignment`, and who works on them. Used under the lock of the leases."""

    def __init__(self) -> None:
        self.assignment: Assignment = ()
        self._by: dict[int, CopierSession] = {}
        self._lost: dict[int, float] = {}
        """Since when nobody works on a share whose copier was lost."""

    def clear(self) -> None:
        """Another lease begins: every share of it waits for a copier."""
        self._by, self._lost = {}, {}

    def take(self, session: CopierSession) -> bool:
        """Give a copier the share of which it holds most already; False when none is free."""
        if session in self._by.values():
            return True
        free = [number for number in range(len(self.assignment)) if number not in self._by]
        if not free:
            return False
        number = max(free, key=lambda one: (len(self.assignment[one] & session.held), bool(self.assignment[one]), -one))
        self._by[number] = session
        self._lost.pop(number, None)
        return True

    def leave(self, session: CopierSession) -> None:
        """What a copier claimed waits for another one, or for the same again."""
        self._by = {number: holder for number, holder in self._by.items() if holder is not session}

    def lose(self, session: CopierSession, now: float) -> None:
        """A copier is gone with the process that it was in."""
        self._lost |= {number: now for number, holder in self._by.items() if holder is session}
        self.leave(session)

    def vacant(self, since: float) -> frozenset[int]:
        """The shares whose copier was lost by then, and that nobody has claimed again."""
        return frozenset(number for number, at in self._lost.items() if at <= since)

    def of_tasks(self, tasks: Set[int]) -> frozenset[int]:
        """The shares that copiers in these tasks of Spark's work on."""
        return frozenset(number for number, holder in self._by.items() if holder.task in tasks)

    def holders(self, shares: Set[int]) -> list[CopierSession]:
        """The copiers that work on these shares."""
        return [holder for number, holder in self._by.items() if number in shares]

    def of(self, session: CopierSession) -> frozenset[TopicPartition] | None:
        """The partitions of a copier's share, None when it has none."""
        return next((self.assignment[number] for number, holder in self._by.items() if holder is session), None)

    @property
    def lacking(self) -> list[CopierSession]:
        """Copiers that do not hold all of their share, or are about to release some of it."""
        return [
            session
            for number, session in self._by.items()
            if self.assignment[number] - (session.held - session.leaving)
        ]

    @property
    def unclaimed(self) -> bool:
        """Whether a share waits for a copier; one without partitions does not."""
        return any(share and number not in self._by for number, share in enumerate(self.assignment))
