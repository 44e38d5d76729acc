"""Which worker of a group may change what, and what it has to know before: rules of Connect's herder."""

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
"""How long a request waits until the worker has started, and a change until the worker is a member of its group: as
long as the API waits for either, and as Connect's."""
FENCE_S = 60.0
"""How long a change waits until earlier leaders are fenced: less than the API waits, so that the answer has the
reason."""
OWNER_S = 15.0
"""How long a request waits for a worker that has the connector: longer than a session and a rebalance."""
POLL_S = 0.05


class RequestGuard:
    """What this worker may change in the present moment; may be used from several threads."""

    def __init__(self, state: GroupState, thread: WorkerThread, clock: Clock) -> None:
        self._state = state
        self._thread = thread
        self._clock = clock

    def require_started(self) -> None:
        """Wait until the worker has read the state of the connectors.

        Raises UnavailableError once this worker has left the group, RequestError 500 when that takes too long.
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
        """Raises RequestError 404 where there is none, with these words or the usual ones."""
        if not self._state.has_connector(name):
            raise RequestError(404, text or f"Connector {name} not found")

    def wait_assignment(self) -> Assignment:
        """What the group has agreed on.

        A change that comes while the worker starts or the group rebalances is held up, as in Connect's herder: scripts
        send theirs as soon as the port is open, and curl does not try again what was answered with 409. Raises
        UnavailableError once this worker has left the group, RequestError 500 when it takes too long.
        """
        until = self._clock.monotonic() + GROUP_S
        while True:
            assignment = self._thread.group.assignment
            # When this worker may have lost its membership, another leader may write.
            if self._thread.started.is_set() and assignment is not None and self._thread.group.leads_for_s() > 0:
                return assignment
            self._go_on_waiting(until)

    @contextmanager
    def as_leader(self) -> Iterator[None]:
        """The leader changes something, knowing all that was changed before, also by the last leader.

        Raises NotOwnerError where another worker leads, RequestError while nobody does.
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
                    # It has left the group while this waited.
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
        """Raises NotOwnerError where another worker has a connector; where none has it yet, it waits for one."""
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
        """Do something with the group's topics for a request."""
        try:
            return step()
        except ClusterError as error:
            raise RequestError(500, str(error)) from error
