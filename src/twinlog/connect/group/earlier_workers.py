"""Keeps earlier workers from writing: earlier leaders of the group, and earlier workers of a connector."""

from __future__ import annotations

import logging
import threading
from collections.abc import Set

from twinlog.clock import LONG_AGO, Clock
from twinlog.connect.group.member import Assignment
from twinlog.connect.group.state import GroupState
from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.retry import LEADER_FENCING
from twinlog.process.log_once import LogOnce
from twinlog.worker.connectors.model import ConnectorName, ConnectorState

log = logging.getLogger(__name__)


UNHEARD_S = 1.5
"""Longer than a worker needs to hear of the end of its membership: three heartbeats, in seconds."""


class EarlierLeaders:
    """Fences earlier leaders, Kafka's and twinlog's, by a claim of the config topic.

    After the claim a suspended leader that wakes up is unable to write, and readers pass the transaction that it left
    open. A topic that refuses the claim counts as claimed: the missing permission is logged, and the worker continues.
    `changing` is held while the leader changes something.
    """

    def __init__(self, state: GroupState, changing: threading.Lock, clock: Clock) -> None:
        self._state = state
        self._changing = changing
        self._clock = clock
        self._done_in: int | None = None
        self._again_at = LONG_AGO
        self._logged = LogOnce(clock)

    def fence_when_due(self, assignment: Assignment | None) -> None:
        """Fence earlier leaders soon after this worker began to lead; a failed attempt is repeated."""
        if assignment is None or not self._due(assignment) or self._clock.monotonic() < self._again_at:
            return
        try:
            with self._changing:
                self.fence_leaders(assignment)
        except ClusterError as error:
            log.debug("earlier leaders are fenced later: %s", error)
            self._again_at = self._clock.monotonic() + LEADER_FENCING.first_s

    def fence_leaders(self, assignment: Assignment) -> None:
        """Fence earlier leaders, with `changing` held. Raises ClusterError.

        This happens once for each generation of the group in which this worker leads, and after each unanswered write.
        """
        if not self._due(assignment):
            return
        try:
            self._state.claim_config_topic()
        except RefusedError as error:
            if self._logged.is_new("claim"):
                log.warning(
                    "TW-WORKER-10: an earlier leader of the group may still write to the config topic: %s", error
                )
        self._done_in = assignment.generation

    def _due(self, assignment: Assignment) -> bool:
        return assignment.leads and (assignment.generation != self._done_in or not self._state.claimed)


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
