"""Which copier has claimed which share of a lease: each works on one at most."""

from __future__ import annotations

from twinlog.driver.copier_session import CopierSession
from twinlog.model.types import TopicPartition
from twinlog.plan.assignment import Assignment


class Claims:
    """The shares of the current lease, `assignment`, and who works on them. Used under the lock of the leases."""

    def __init__(self) -> None:
        self.assignment: Assignment = ()
        self._by: dict[int, CopierSession] = {}

    def clear(self) -> None:
        """Another lease begins: every share of it waits for a copier."""
        self._by = {}

    def take(self, session: CopierSession) -> bool:
        """Give a copier the share of which it holds most already; False when none is free."""
        if session in self._by.values():
            return True
        free = [number for number in range(len(self.assignment)) if number not in self._by]
        if not free:
            return False
        number = max(free, key=lambda one: (len(self.assignment[one] & session.held), -one))
        self._by[number] = session
        return True

    def leave(self, session: CopierSession) -> None:
        """What a copier claimed waits for another one, or for the same again."""
        self._by = {number: holder for number, holder in self._by.items() if holder is not session}

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
        """Whether a share waits for a copier."""
        return len(self._by) < len(self.assignment)
