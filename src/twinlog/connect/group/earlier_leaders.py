"""Ends what an earlier leader of a group has not finished writing to the config topic."""

from __future__ import annotations

import logging

from twinlog.connect.group.member import Assignment
from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.coordinator.transactions import TransactionCoordinator

log = logging.getLogger(__name__)

TIMEOUT_MS = 60_000
"""Of a transaction; none is begun here."""

RETRY_S = 5.0


class EarlierLeaders:
    """Fences leaders of Kafka's, which write to the config topic in transactions (KIP-618); used by one thread.

    One that stood still while this worker became the leader writes nothing when it wakes, and nobody waits for what it
    left open. Without the right to do so that is logged, and the worker goes on.
    """

    def __init__(self, admin: ClusterAdmin, group_id: str) -> None:
        self._admin = admin
        self._name = f"connect-cluster-{group_id}"
        self._done_in: int | None = None
        self._again_at = 0.0
        self._warned = False

    def fence(self, assignment: Assignment | None) -> None:
        """Fence them once for each generation of the group in which this worker leads."""
        if assignment is None or not assignment.leads or assignment.generation == self._done_in:
            return
        now = self._admin.clock.monotonic()
        if now < self._again_at:
            return
        try:
            self._admin.call(TransactionCoordinator(self._admin.client, self._name, TIMEOUT_MS).init)
        except RefusedError as error:
            self._done_in = assignment.generation
            if not self._warned:
                log.warning("an earlier leader of the group may still write to the config topic: %s", error)
            self._warned = True
        except ClusterError as error:
            log.debug("earlier leaders are fenced later: %s", error)
            self._again_at = now + RETRY_S
        else:
            self._done_in = assignment.generation
