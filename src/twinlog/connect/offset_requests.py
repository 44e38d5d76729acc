"""Requests for a connector's stored offsets (KIP-875); offsets change only after the connector has ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from twinlog.config.connector import connector_kind, refused_class
from twinlog.connect.connector_offsets import ConnectorOffsets
from twinlog.connect.group.state import GroupState
from twinlog.connect.permission import RequestGuard
from twinlog.connect.worker_thread import WorkerThread
from twinlog.connectors.model import ConnectorName, StoredOffset, TargetState
from twinlog.connectors.offset_rules import check_offsets
from twinlog.errors import RequestError
from twinlog.mirror.offsets.starts import is_start

END_S = 30.0
"""How long a request waits until all parts of a stopped connector have ended."""


class OffsetRequests:
    """Answers these requests; may be used from several threads. All raise RequestError and NotOwnerError."""

    def __init__(
        self, state: GroupState, offsets: ConnectorOffsets, thread: WorkerThread, permission: RequestGuard
    ) -> None:
        self._state = state
        self._offsets = offsets
        self._thread = thread
        self._may = permission

    def read(self, name: ConnectorName) -> Sequence[StoredOffset]:
        """The stored offsets."""
        self._may.require_started()
        self._may.require_known(name)
        stored = self._may.call_step(lambda: self._offsets.read_offsets(name))
        # A partition before its first copied record is hidden from clients, as a client is unable to give -1 back.
        return [
            one
            for one in stored
            if not is_start(one.partition) and (one.offset is None or one.offset.get("offset") != -1)
        ]

    def alter(self, name: ConnectorName, offsets: Sequence[StoredOffset]) -> None:
        """Replace some offsets, or delete them (None)."""
        with self._stopped(name):
            self._check(name, offsets)
            self._may.call_step(lambda: self._offsets.replace_offsets(name, offsets))

    def reset(self, name: ConnectorName) -> None:
        """Delete all offsets."""
        with self._stopped(name):
            stored = self._may.call_step(lambda: self._offsets.read_offsets(name))
            self._may.call_step(
                lambda: self._offsets.replace_offsets(name, [StoredOffset(one.partition, None) for one in stored])
            )

    @contextmanager
    def _stopped(self, name: ConnectorName) -> Iterator[None]:
        """Hold a stopped connector, for changes of its offsets.

        Only its worker writes its offsets, as this worker alone knows that the connector has ended.
        """
        self._may.require_started()
        self._may.call_step(self._state.read_configs)
        self._require_stopped(name)
        self._may.require_own(name)
        with self._thread.standing_still(name, END_S):
            yield

    def _require_stopped(self, name: ConnectorName) -> None:
        self._may.require_known(name)
        target, tasks = self._state.query_state(lambda cluster, _: (cluster.target_state(name), cluster.tasks(name)))
        if target is not TargetState.STOPPED or tasks:
            raise RequestError(
                400,
                "Connectors must be in the STOPPED state before their offsets can be modified. "
                "This can be done for the specified connector by issuing a 'PUT' request to the "
                f"'/connectors/{name}/stop' endpoint",
            )

    def _check(self, name: ConnectorName, offsets: Sequence[StoredOffset]) -> None:
        class_name = self._state.query_state(
            lambda cluster, _: cluster.connectors[name].config.get("connector.class", "")
        )
        kind = connector_kind(class_name)
        if kind is None:
            raise RequestError(400, refused_class(class_name))
        check_offsets(kind, offsets)
