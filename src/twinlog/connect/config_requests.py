"""Requests to a worker that write the config topic: configurations of connectors and tasks, and target states."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from twinlog.config.worker import WorkerConfig
from twinlog.connect.group.state import GroupState
from twinlog.connect.requests import RequestGuard
from twinlog.errors import RequestError
from twinlog.worker.connectors.model import VERSION, Config, ConnectorInfo, ConnectorName, Created, TargetState
from twinlog.worker.connectors.validation import QUERY, refused, validate


class ConfigRequests:
    """Answers these requests; may be used from several threads. All raise RequestError and NotOwnerError."""

    def __init__(
        self,
        worker: WorkerConfig,
        state: GroupState,
        permission: RequestGuard,
        info: Callable[[ConnectorName], ConnectorInfo],
    ) -> None:
        self._worker = worker
        self._state = state
        self._may = permission
        self._info = info

    def put(
        self, name: ConnectorName, config: Mapping[str, str | None], *, initial: TargetState | None, replace: bool
    ) -> Created:
        """Create a connector, or with `replace` replace the configuration of an existing connector.

        A new connector begins in the state `initial`, if given.
        """
        self._ask_spark(name, config)
        with self._may.as_leader():
            wanted = self._checked(name, config, ask=False)
            created = not self._state.has_connector(name)
            if not created and not replace:
                raise RequestError(409, f"Connector {name} already exists")
            self._may.call_step(lambda: self._state.put(name, wanted, initial if created else None))
            # The next change may remove the connector.
            info = self._info(name)
        return Created(created, info)

    def patch(self, name: ConnectorName, changes: Mapping[str, str | None]) -> Created:
        """Change some keys of a configuration; None removes a key (KIP-477)."""
        if self._state.has_connector(name):
            self._ask_spark(name, self._merged(name, changes))
        with self._may.as_leader():
            wanted = self._checked(name, self._merged(name, changes), ask=False)
            self._may.call_step(lambda: self._state.put(name, wanted))
            info = self._info(name)
        return Created(False, info)

    def delete(self, name: ConnectorName) -> None:
        """Remove a connector."""
        with self._may.as_leader():
            self._may.require_known(name)
            self._may.call_step(lambda: self._state.remove(name))

    def set_target_state(self, name: ConnectorName, state: TargetState) -> None:
        """Pause, stop or resume a connector; a stopped connector has no tasks."""
        with self._may.as_leader():
            self._may.require_known(name, f"Unknown connector {name}")
            self._may.call_step(lambda: self._state.set_target_state(name, state))
            if state is TargetState.STOPPED:
                self._may.call_step(lambda: self._state.put_tasks(name, ()))

    def put_tasks(self, name: ConnectorName, configs: Sequence[Config]) -> None:
        """Store the configurations of a connector's tasks, unless the connector is stopped meanwhile."""
        with self._may.as_leader():
            self._may.require_known(name)
            if self._state.query_state(lambda cluster, _: cluster.target_state(name)) is not TargetState.STOPPED:
                self._may.call_step(lambda: self._state.put_tasks(name, configs))

    def _merged(self, name: ConnectorName, changes: Mapping[str, str | None]) -> Config:
        """A connector's configuration with some changes. Raises RequestError 404 for an unknown connector."""
        before = self._state.query_state(lambda cluster, _: cluster.connectors.get(name))
        if before is None:
            raise RequestError(404, f"Connector {name} not found")
        return {key: value for key, value in {**before.config, **changes}.items() if value is not None}

    def _ask_spark(self, name: ConnectorName, config: Mapping[str, str | None]) -> None:
        """Have the query of a configuration analysed, if it has a query, before other changes have to wait.

        The analysis takes seconds, and `_checked` finds its result afterwards.
        """
        if config.get(QUERY) and self._may.wait_assignment().leads:
            with suppress(RequestError):
                self._checked(name, config)

    def _checked(self, name: ConnectorName, config: Mapping[str, str | None], *, ask: bool = True) -> Config:
        """The configuration in its stored form. Raises RequestError with every problem found."""
        wanted = {**config, "name": name}
        found = validate(wanted.get("connector.class") or "", wanted, self._worker, VERSION, ask=ask)
        if found.error_count:
            raise RequestError(400, refused(found))
        return {key: value for key, value in wanted.items() if value is not None}
