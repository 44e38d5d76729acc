"""The log of a worker about its group: the leader, and the connectors that the worker gets or gives up."""

from __future__ import annotations

import logging

from twinlog.connect.group.member import Assignment
from twinlog.connectors.model import ConnectorName
from twinlog.model.topics import listed

log = logging.getLogger(__name__)


class RebalanceLogger:
    """Logs each assignment that differs from the assignment before; used by a single thread."""

    def __init__(self, group_id: str) -> None:
        self._group = group_id
        self._logged: Assignment | None = None

    def report(self, assignment: Assignment | None) -> None:
        """Log the changes that a rebalance brings to this worker; called every moment.

        The membership itself logs its end and its return.
        """
        before = self._logged
        if assignment is None or assignment is before:
            return
        self._logged = assignment
        given = assignment.connectors
        had: frozenset[ConnectorName] = frozenset() if before is None else before.connectors
        if before is not None and (before.leader_url, before.leads, had) == (
            assignment.leader_url,
            assignment.leads,
            given,
        ):
            return
        leader = f"{assignment.leader_url}{' (this worker)' if assignment.leads else ''}"
        changes = (("new", given - had), ("revoked", had - given))
        log.info(
            "joined group %s at generation %d, leader %s; assigned connectors: %d%s",
            self._group,
            assignment.generation,
            leader,
            len(given),
            "".join(f"; {word}: {listed(names)}" for word, names in changes if names),
        )
