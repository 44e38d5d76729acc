"""The leases of a flow: the plan, the copier of each share, and the copier that holds each partition."""

from __future__ import annotations

import threading
from collections.abc import Collection, Set
from dataclasses import dataclass, field

from twinlog.clock import SYSTEM, Clock
from twinlog.lease.channel import Channel
from twinlog.lease.messages import ToCopier
from twinlog.model.types import TopicPartition

Assignment = tuple[frozenset[TopicPartition], ...]
"""The shares of a lease: for each task a set of source partitions."""


@dataclass(frozen=True, slots=True, order=True)
class CopierPlace:
    """A connected copier: its name, Spark's number of its last task (-1 for the bridge), and its held partitions."""

    name: str
    task: int
    bridge: bool
    partitions: int

    @property
    def host(self) -> str:
        """The host of the copier's process, which is a part of its name."""
        return self.name.removeprefix("bridge-").rsplit("-", 2)[0]


class CopierSession:
    """The driver's knowledge of a copier.

    `held` are the partitions that the copier may copy, `leaving` the held partitions that it was asked to release. A
    thread that decides to grant or to release holds `order` until the message is sent, so that messages go in the order
    of the decisions. `order` is taken before the lock of the leases, never after it.
    """

    def __init__(self, line: Channel, name: str, clock: Clock = SYSTEM) -> None:
        self.name = name
        self.task = -1
        """Spark's number of the copier's last task that claimed a share."""
        self.bridge = False
        """Whether the copier runs in the bridge in place of a task of Spark."""
        self.held: set[TopicPartition] = set()
        self.leaving: set[TopicPartition] = set()
        self.last_beat = clock.monotonic()
        self.closed = False
        self.order = threading.RLock()
        self._line = line

    def send(self, message: ToCopier) -> None:
        """Send a message; the thread that reads the line notices a broken line."""
        try:
            with self.order:
                self._line.send(message)
        except (OSError, EOFError):
            self.closed = True

    def close(self) -> None:
        """Disconnect the copier; the thread that reads its line then sees the end."""
        self.closed = True
        self._line.shut_down()


class Claims:
    """The shares of the current lease, `assignment`, and their copiers. Used under the lock of the leases."""

    def __init__(self) -> None:
        self.assignment: Assignment = ()
        self._by: dict[int, CopierSession] = {}
        self._lost: dict[int, float] = {}
        """The time since which a share waits for a copier after its copier was lost."""

    def clear(self) -> None:
        """Another lease begins: all its shares wait for a copier."""
        self._by, self._lost = {}, {}

    def claim_share(self, session: CopierSession) -> bool:
        """Give a copier the free share with most of its held partitions; False when all shares are taken.

        If all shares are taken, a task may take a share of the bridge.
        """
        if session in self._by.values():
            return True
        free = [number for number in range(len(self.assignment)) if number not in self._by]
        if not free and not session.bridge:
            free = [number for number, holder in self._by.items() if holder.bridge]
        if not free:
            return False
        number = max(free, key=lambda one: (len(self.assignment[one] & session.held), bool(self.assignment[one]), -one))
        self._by[number] = session
        self._lost.pop(number, None)
        return True

    def release_share(self, session: CopierSession) -> None:
        """The share of a copier waits for another copier, or for the same copier again."""
        self._by = {number: holder for number, holder in self._by.items() if holder is not session}

    def lose_copier(self, session: CopierSession, now: float) -> None:
        """A copier is gone with its process."""
        self._lost |= {number: now for number, holder in self._by.items() if holder is session}
        self.release_share(session)

    def vacant(self, since: float) -> frozenset[int]:
        """The shares whose copier was lost by `since`, and that are still unclaimed."""
        return frozenset(number for number, at in self._lost.items() if at <= since)

    def of_tasks(self, tasks: Set[int]) -> frozenset[int]:
        """The shares whose copiers run in these tasks of Spark."""
        return frozenset(number for number, holder in self._by.items() if holder.task in tasks)

    def holders(self, shares: Set[int]) -> list[CopierSession]:
        """The copiers that work on these shares."""
        return [holder for number, holder in self._by.items() if number in shares]

    def get_partitions(self, session: CopierSession) -> frozenset[TopicPartition] | None:
        """The partitions of a copier's share, or None."""
        return next((self.assignment[number] for number, holder in self._by.items() if holder is session), None)

    @property
    def lacking(self) -> list[CopierSession]:
        """Copiers that lack partitions of their share, or are about to release some of them."""
        return [
            session
            for number, session in self._by.items()
            if self.assignment[number] - (session.held - session.leaving)
        ]

    @property
    def unclaimed(self) -> bool:
        """Whether a share with partitions waits for a copier in a task."""
        return any(
            share and (number not in self._by or self._by[number].bridge)
            for number, share in enumerate(self.assignment)
        )

    @property
    def orphaned(self) -> list[int]:
        """The shares with partitions that wait for their first copier, or for another copier."""
        return [number for number, share in enumerate(self.assignment) if share and number not in self._by]

    def displaced(self, sessions: Collection[CopierSession]) -> list[CopierSession]:
        """The copiers of the bridge among `sessions` that lost their shares."""
        return [session for session in sessions if session.bridge and session not in self._by.values()]


class PartitionHolders:
    """The partitions that the copiers of a flow hold.

    For each released partition the class knows whether its last copier drained the partition. Used under the lock of
    the leases.
    """

    def __init__(self) -> None:
        self._holder: dict[TopicPartition, CopierSession] = {}
        self._drained: set[TopicPartition] = set()

    def assign_partitions(
        self, session: CopierSession, wanted: Set[TopicPartition]
    ) -> tuple[list[TopicPartition], set[TopicPartition]]:
        """A copier holds `wanted` from now on.

        Returns the partitions that are new to the copier, and the drained partitions of them.
        """
        missing = sorted(wanted - session.held)
        session.held |= set(missing)
        self._holder.update(dict.fromkeys(missing, session))
        drained = self._drained & set(missing)
        self._drained -= drained
        return missing, drained

    def record_release(
        self, session: CopierSession, partitions: Collection[TopicPartition], undrained: Collection[TopicPartition]
    ) -> None:
        """A copier has released partitions; appends to `undrained` may yet arrive."""
        released = session.held.intersection(partitions)
        self._forget(session, released)
        self._drained |= released.difference(undrained)

    def lose_copier(self, session: CopierSession) -> None:
        """A copier is gone; the partitions that it still held may get late appends."""
        self._drained -= session.held
        self._forget(session, set(session.held))

    def holders(self, parts: Set[TopicPartition]) -> set[CopierSession]:
        """The copiers that hold any of these partitions."""
        return {self._holder[part] for part in parts if part in self._holder}

    def in_the_way(self, session: CopierSession, wanted: Set[TopicPartition]) -> set[CopierSession]:
        """The copiers whose release a copier awaits before it gets `wanted`.

        The copier itself is included if it was asked to release some of `wanted`.
        """
        others = self.holders(wanted) - {session}
        return others | {session} if session.leaving & wanted else others

    def _forget(self, session: CopierSession, parts: Set[TopicPartition]) -> None:
        session.held -= parts
        session.leaving -= parts
        for part in parts:
            if self._holder.get(part) is session:
                del self._holder[part]


@dataclass(slots=True)
class LeaseState:
    """The state of the leases, read and written only under the lock `changed`.

    The lock wakes the threads that wait for a change.
    """

    changed: threading.Condition = field(default_factory=threading.Condition)
    sessions: set[CopierSession] = field(default_factory=set)
    """All connected copiers."""
    shares: Claims = field(default_factory=Claims)
    holdings: PartitionHolders = field(default_factory=PartitionHolders)
    lease: int = 0
    """The number of the current lease; 0 before the first."""
    version: int = 0
    """Counts plans and leases: work begun for an earlier plan or lease is dropped."""
    stopping: bool = False
