"""Which worker of a group may change what, and what it has to know before: rules of Connect's herder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from twinlog.clock import Clock
from twinlog.connect.group.member import Assignment
from twinlog.connect.group.state import GroupState
from twinlog.connect.model import ConnectorName
from twinlog.connect.worker_thread import WorkerThread
from twinlog.errors import ClusterError, NotOwnerError, RequestError, UnavailableError

T = TypeVar("T")

GROUP_S = 60.0
"""How long a change waits until the worker is a member of its group; less than the API waits for the change."""
POLL_S = 0.05


class Permission:
    """What this worker may change in the present moment; may be used from several threads."""

    def __init__(self, state: GroupState, thread: WorkerThread, clock: Clock) -> None:
        self._state = state
        self._thread = thread
        self._clock = clock

    def require_started(self) -> None:
        """Raises RequestError 503 while the worker has not read the state of the connectors."""
        if not self._thread.started.is_set():
            raise RequestError(503, f"Worker is still starting up. {self._thread.stage}")

    def require_known(self, name: ConnectorName, text: str | None = None) -> None:
        """Raises RequestError 404 where there is none, with these words or the usual ones."""
        if not self._state.knows(name):
            raise RequestError(404, text or f"Connector {name} not found")

    def member(self) -> Assignment:
        """What the group has agreed on.

        A change that comes while the worker starts or the group rebalances is held up, as in Connect's herder: scripts
        send theirs as soon as the port is open, and curl does not try again what was answered with 409. Raises
        UnavailableError once this worker has left the group, RequestError while no worker is known to ask.
        """
        until = self._clock.monotonic() + GROUP_S
        while True:
            assignment = self._thread.group.assignment
            # When this worker may have lost its membership, another leader may write.
            if self._thread.started.is_set() and assignment is not None and self._thread.group.leads_for_s() > 0:
                return assignment
            if self._thread.left:
                raise UnavailableError("This worker is stopping.")
            if self._clock.monotonic() >= until:
                self.require_started()
                reason = self._thread.group.reason
                raise RequestError(
                    409,
                    "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was "
                    f"underway.{'' if reason is None else f' This worker cannot take part in its group: {reason}'}",
                )
            self._clock.sleep(POLL_S)

    @contextmanager
    def leading(self) -> Iterator[None]:
        """The leader changes something, knowing all that was changed before, also by the last leader.

        Raises NotOwnerError where another worker leads, RequestError while nobody does.
        """
        until = self._clock.monotonic() + GROUP_S
        while True:
            term = self._thread.group.term
            assignment = self.member()
            if not assignment.leads:
                raise NotOwnerError(
                    "Cannot complete request because this worker is not the leader.", assignment.leader_url
                )
            with self._thread.changing:
                if self._thread.group.term != term:
                    # It has left the group while this waited.
                    continue
                claimed = self._try_to_fence(assignment, until)
                if claimed:
                    self.asked(self._state.read_configs)
                    yield
                    if self.asked(partial(self._thread.group.confirm, term)):
                        return
            if not claimed:
                self._clock.sleep(POLL_S)
                continue
            raise RequestError(
                500,
                "The change was written, but this worker may not have led its group any more, and another one may have "
                "changed the same. It can be asked for again.",
            )

    def _try_to_fence(self, assignment: Assignment, until: float) -> bool:
        """Fence earlier leaders; False where that is to be tried again, as with a cluster that has never seen a
        transaction: it answers after seconds. Raises RequestError after `until`."""
        try:
            self._thread.duties.fence_earlier_leaders(assignment)
        except ClusterError as error:
            if not error.retriable or self._clock.monotonic() >= until:
                raise RequestError(500, str(error)) from error
            return False
        return True

    def require_own(self, name: ConnectorName) -> None:
        """Raises NotOwnerError where another worker has a connector, or nobody yet."""
        assignment = self.member()
        if name not in assignment.connectors:
            raise NotOwnerError(
                "Cannot complete request because this worker does not have the connector.",
                assignment.url_of(name) or "",
            )

    def asked(self, step: Callable[[], T]) -> T:
        """Do something with the group's topics for a request."""
        try:
            return step()
        except ClusterError as error:
            raise RequestError(500, str(error)) from error
