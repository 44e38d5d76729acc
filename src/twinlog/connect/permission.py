"""The permission of a group's worker to change something, and its condition: rules of Connect's herder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from twinlog.clock import Clock
from twinlog.connect.group.member import Assignment
from twinlog.connect.group.state import GroupState
from twinlog.connect.stage import timed_out
from twinlog.connect.worker_thread import WorkerThread
from twinlog.connectors.model import ConnectorName
from twinlog.errors import ClusterError, NotOwnerError, RequestError, UnavailableError

T = TypeVar("T")

GROUP_S = 90.0
"""How long a request waits for the worker's start, and a change for the worker's membership in its group, in seconds.

The API waits equally long for both, as Connect's API does.
"""
FENCE_S = 60.0
"""How long a change waits until earlier leaders are fenced, in seconds.

The API waits longer, so that the answer has the reason.
"""
OWNER_S = 15.0
"""How long a request waits for a worker that has the connector: longer than a session and a rebalance."""
POLL_S = 0.05


class RequestGuard:
    """The changes that this worker may make at present; may be used from several threads."""

    def __init__(self, state: GroupState, thread: WorkerThread, clock: Clock) -> None:
        self._state = state
        self._thread = thread
        self._clock = clock

    def require_started(self) -> None:
        """Wait until the worker has read the state of the connectors.

        Raises UnavailableError once this worker has left the group, RequestError 500 after `GROUP_S`.
        """
        until = self._clock.monotonic() + GROUP_S
        while not self._thread.started.is_set():
            self._go_on_waiting(until)

    def _go_on_waiting(self, until: float) -> None:
        if self._thread.left:
            raise UnavailableError("This worker is stopping.")
        if self._clock.monotonic() >= until:
            raise RequestError(500, timed_out(self._thread.stage))
        self._clock.sleep(POLL_S)

    def require_known(self, name: ConnectorName, text: str | None = None) -> None:
        """Raises RequestError 404 for an unknown connector, with `text` or the usual message."""
        if not self._state.has_connector(name):
            raise RequestError(404, text or f"Connector {name} not found")

    def wait_assignment(self) -> Assignment:
        """Wait for the assignment that the group has agreed on.

        A change waits while the worker starts or the group rebalances, as in Connect's herder: scripts send changes as
        soon as the port is open, and curl gives up after an answer with 409. Raises UnavailableError once this worker
        has left the group, RequestError 500 after `GROUP_S`.
        """
        until = self._clock.monotonic() + GROUP_S
        while True:
            assignment = self._thread.group.assignment
            # After a possible loss of this worker's membership, another leader may write.
            if self._thread.started.is_set() and assignment is not None and self._thread.group.leads_for_s() > 0:
                return assignment
            self._go_on_waiting(until)

    @contextmanager
    def as_leader(self) -> Iterator[None]:
        """Let the leader change something, with knowledge of all earlier changes, including changes of earlier leaders.

        Raises NotOwnerError while another worker leads, RequestError while the group lacks a leader.
        """
        until: float | None = None
        while True:
            term = self._thread.group.term
            assignment = self.wait_assignment()
            if until is None:
                until = self._clock.monotonic() + FENCE_S
            if not assignment.leads:
                raise NotOwnerError(
                    "Cannot complete request because this worker is not the leader.", assignment.leader_url
                )
            with self._thread.changing:
                if self._thread.group.term != term:
                    # The worker has left the group during the wait for the lock.
                    continue
                claimed = self._try_to_fence(assignment, until)
                if claimed:
                    self.call_step(self._state.read_configs)
                    yield
                    if self.call_step(partial(self._thread.group.confirm_membership, term)):
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
        """Fence earlier leaders; return False when the fencing has to be repeated. Raises RequestError after `until`.

        A cluster that sees its first transaction answers after seconds, for example.
        """
        try:
            self._thread.duties.fence_earlier_leaders(assignment)
        except ClusterError as error:
            if not error.retriable or self._clock.monotonic() >= until:
                raise RequestError(500, str(error)) from error
            return False
        return True

    def require_own(self, name: ConnectorName) -> None:
        """Raises NotOwnerError when another worker has a connector; waits while the connector lacks a worker."""
        until = self._clock.monotonic() + OWNER_S
        while True:
            assignment = self.wait_assignment()
            if name in assignment.connectors:
                return
            owner = assignment.url_of(name)
            if owner is not None or not self._state.has_connector(name) or self._clock.monotonic() >= until:
                raise NotOwnerError(
                    "Cannot complete request because this worker does not have the connector.", owner or ""
                )
            self._clock.sleep(POLL_S)

    def call_step(self, step: Callable[[], T]) -> T:
        """Run a step with the group's topics for a request; a ClusterError becomes a RequestError 500."""
        try:
            return step()
        except ClusterError as error:
            raise RequestError(500, str(error)) from error
