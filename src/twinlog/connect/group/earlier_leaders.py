"""Keeps earlier leaders of a group from writing to the config topic, when its workers copy exactly once (KIP-618)."""

from __future__ import annotations

import logging
import threading

from twinlog.clock import LONG_AGO, Clock
from twinlog.connect.group.member import Assignment
from twinlog.connect.group.state import GroupState
from twinlog.errors import ClusterError, RefusedError
from twinlog.log_once import LogOnce

log = logging.getLogger(__name__)

RETRY_S = 5.0


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
            self._again_at = self._clock.monotonic() + RETRY_S

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
                log.warning("an earlier leader of the group may still write to the config topic: %s", error)
        self._done_in = assignment.generation

    def _due(self, assignment: Assignment) -> bool:
        return assignment.leads and (assignment.generation != self._done_in or not self._state.claimed)
