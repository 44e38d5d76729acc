"""The group of workers that share connectors, as the herder and its thread use it; a standalone worker is alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from twinlog.connect.group.member import Assignment, WorkerState
from twinlog.connect.group.spreading import ConnectorWeight
from twinlog.connectors.model import ConnectorName
from twinlog.metrics.window import RecentTimes


class ConnectGroup(Protocol):
    """The group of a worker; everything may be called by any thread."""

    myself: WorkerState
    """How the others know this worker; to be set before `start`."""

    ready: Callable[[], bool]
    """Whether this worker could copy at once."""

    @property
    def assignment(self) -> Assignment | None:
        """What this worker is to run; None before it is a member, and while it is none."""

    @property
    def reason(self) -> str | None:
        """Why this worker is no member."""

    @property
    def joined(self) -> bool:
        """Whether this worker has ever been a member."""

    @property
    def term(self) -> int:
        """Counts how often this worker ended to be a member: while it is the same, the leader among them stays it."""

    rebalances: int
    """How often this worker was given something to run, or nothing."""
    synced_at: float | None
    """When it was last, in monotonic seconds."""
    rebalance_times: RecentTimes
    revoked: frozenset[ConnectorName]
    """What it had when it joined and was not given again: nobody gets that before it joins without it (KIP-415)."""

    def start(self) -> None:
        """Begin to join."""

    def leads_for_s(self, term: int | None = None) -> float:
        """For how many seconds no other worker can be given what this one runs; 0 when another one may be.

        With `term` only what it was given in that one: what it ran before it ended to be a member may be another's.
        """

    def confirm_membership(self, term: int) -> bool:
        """Ask whether this worker has been a member all the time since `term` was read. Raises ClusterError."""

    def rejoin(self) -> None:
        """Have the connectors assigned anew: some came or went, or this worker has ended some."""

    def stop(self, *, leave: bool = True) -> None:
        """Leave, so that others run what this worker ran; that must have ended before."""


Names = Callable[[], Iterable[ConnectorName]]
Weights = Callable[[], Mapping[ConnectorName, ConnectorWeight]]

JoinGroup = Callable[[Weights, Names, Callable[[], None], Callable[[Exception], None]], ConnectGroup]
"""Makes the group of a worker. Arguments: all connectors with their weights; the names of those that the worker still
runs; a function that is called after `assignment` changed; one that is called with an unexpected error."""


class StandaloneGroup:
    """The group of a standalone worker, which runs every connector by itself (Kafka class StandaloneHerder)."""

    reason: str | None = None
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
        """A standalone worker has no group to ask."""
        self.joined = True

    def leads_for_s(self, term: int | None = None) -> float:
        """For ever."""
        return float("inf")

    def confirm_membership(self, term: int) -> bool:
        """There are no other workers."""
        return True

    def rejoin(self) -> None:
        """What came is run here, too."""
        self._changed()

    def stop(self, *, leave: bool = True) -> None:
        """There is no other member."""
