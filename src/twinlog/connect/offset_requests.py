"""Requests for a connector's stored offsets (KIP-875): they are changed only when nothing of it runs."""

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
"""How long a request waits until what runs of a stopped connector has ended."""


class OffsetRequests:
    """Answers them for one worker; may be used from several threads. All raise RequestError and NotOwnerError."""

    def __init__(
        self, state: GroupState, offsets: ConnectorOffsets, thread: WorkerThread, permission: RequestGuard
    ) -> None:
        self._state = state
        self._offsets = offsets
        self._thread = thread
        self._may = permission

    def read(self, name: ConnectorName) -> Sequence[StoredOffset]:
        """What is stored."""
        self._may.require_started()
        self._may.require_known(name)
        stored = self._may.call_step(lambda: self._offsets.read_offsets(name))
        # A partition of which nothing was copied yet is none to a client, which could not give -1 back either.
        return [
            one
            for one in stored
            if not is_start(one.partition) and (one.offset is None or one.offset.get("offset") != -1)
        ]

    def alter(self, name: ConnectorName, offsets: Sequence[StoredOffset]) -> None:
        """Replace some, or delete them (None)."""
        with self._stopped(name):
            self._check(name, offsets)
            self._may.call_step(lambda: self._offsets.replace_offsets(name, offsets))

    def reset(self, name: ConnectorName) -> None:
        """Delete all."""
        with self._stopped(name):
            stored = self._may.call_step(lambda: self._offsets.read_offsets(name))
            self._may.call_step(
                lambda: self._offsets.replace_offsets(name, [StoredOffset(one.partition, None) for one in stored])
            )

    @contextmanager
    def _stopped(self, name: ConnectorName) -> Iterator[None]:
        """The worker that has a stopped connector writes its offsets: it alone knows that nothing of it runs."""
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
