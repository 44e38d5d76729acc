"""The messages of a group: the metadata of a worker that joins, and the assignment from the leader, with its log."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from twinlog.model.compact_json import ascii_json, object_of
from twinlog.model.topics import listed
from twinlog.worker.connectors.model import ConnectorName

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WorkerState:
    """A worker: its REST address, its id in statuses (host:port), its connectors, and the topics of their states."""

    url: str
    worker_id: str
    owned: frozenset[ConnectorName] = frozenset()
    topics: tuple[str, ...] = ()
    ready: bool = True
    """Whether this worker could copy at once."""

    def encode(self) -> bytes:
        """Encode the worker as metadata of a JoinGroup request: a JSON object."""
        return ascii_json(
            {
                "url": self.url,
                "worker": self.worker_id,
                "owned": sorted(self.owned),
                "topics": self.topics,
                "ready": self.ready,
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> WorkerState:
        """Decode metadata, perhaps of another version: missing fields count as empty."""
        fields = object_of(data)
        url, worker_id = str(fields.get("url", "")), str(fields.get("worker", "unknown"))
        return cls(
            url, worker_id, _names(fields.get("owned")), _texts(fields.get("topics")), fields.get("ready") is not False
        )

    def shares_topics(self, topics: tuple[str, ...]) -> bool:
        """Whether the worker reads the state of the connectors from `topics`.

        A version that omits its topics counts as equal.
        """
        return not self.topics or not topics or self.topics == topics


@dataclass(frozen=True, slots=True)
class Assignment:
    """The connectors that a worker runs, and the leader; `owners` has the address of each connector's worker."""

    generation: int
    leader_url: str
    leads: bool
    connectors: frozenset[ConnectorName]
    owners: Mapping[ConnectorName, str]
    topics: tuple[str, ...] = ()
    """The topics from which the leader reads the state of the connectors."""

    def url_of(self, name: ConnectorName) -> str | None:
        """The address of the worker that runs a connector; None while the connector lacks a worker."""
        return self.owners.get(name)


def encode_assignment(
    leader: WorkerState, connectors: frozenset[ConnectorName], owners: Mapping[ConnectorName, str]
) -> bytes:
    """Encode the assignment of a SyncGroup request: a JSON object."""
    return ascii_json(
        {"leader": leader.url, "connectors": sorted(connectors), "owners": dict(owners), "topics": leader.topics}
    )


def decode_assignment(data: bytes, generation: int, *, leads: bool) -> Assignment:
    """Decode an assignment, perhaps of another version."""
    fields = object_of(data)
    owners = fields.get("owners")
    return Assignment(
        generation,
        str(fields.get("leader", "")),
        leads,
        _names(fields.get("connectors")),
        {ConnectorName(str(name)): str(url) for name, url in owners.items()} if isinstance(owners, dict) else {},
        _texts(fields.get("topics")),
    )


def _names(value: object) -> frozenset[ConnectorName]:
    return frozenset(ConnectorName(str(name)) for name in value) if isinstance(value, list) else frozenset()


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()


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
