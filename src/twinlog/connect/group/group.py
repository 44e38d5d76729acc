"""The group of workers that share connectors, for the herder and its thread; a standalone worker is alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from twinlog.connect.group.member import Assignment, WorkerState
from twinlog.connectors.model import ConnectorName
from twinlog.metrics.window import RecentTimes
from twinlog.worker.placement.processes import ConnectorWeight


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
