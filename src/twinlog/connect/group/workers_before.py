"""Whether the previous worker of a connector may still run it."""

from __future__ import annotations

from collections.abc import Set

from twinlog.clock import Clock
from twinlog.connect.group.state import GroupState
from twinlog.connectors.model import ConnectorName, ConnectorState

UNHEARD_S = 1.5
"""Longer than a worker needs to hear of the end of its membership: three heartbeats, in seconds."""


class PreviousWorkers:
    """The previous workers of the connectors that this worker was given.

    A killed worker has been silent for a session before other workers get its connectors. A worker that an
    administrator removed from the group keeps writing until its next heartbeat.
    """

    def __init__(self, state: GroupState, clock: Clock) -> None:
        self._state = state
        self._now = clock.monotonic
        self._came: dict[ConnectorName, float] = {}
        """When connectors came here that another worker has still to give up."""

    def retain_connectors(self, names: Set[ConnectorName]) -> None:
        """Forget connectors that have left this worker."""
        self._came = {name: at for name, at in self._came.items() if name in names}

    def has_ended(self, name: ConnectorName, worker_id: str) -> bool:
        """Whether a connector has ended on workers other than this worker, `worker_id`.

        After `UNHEARD_S` the connector counts as ended.
        """
        status = self._state.query_state(lambda _, statuses: statuses.connector(name))
        if status is None or status.state is ConnectorState.UNASSIGNED or status.worker_id == worker_id:
            return True
        now = self._now()
        return now - self._came.setdefault(name, now) >= UNHEARD_S
