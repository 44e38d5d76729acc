"""The flows that a group's connectors configure, built again only after a configuration has changed."""

from __future__ import annotations

from collections.abc import Mapping

from twinlog.config.connector import ConnectorFlow, build_connector, connector_kind
from twinlog.config.worker import WorkerConfig
from twinlog.connect.group.state import GroupState
from twinlog.errors import ConfigError
from twinlog.settings.flow import FlowSettings
from twinlog.worker.connectors.disagreements import disagreements
from twinlog.worker.connectors.model import Config, ConnectorName, TargetState
from twinlog.worker.placement.processes import ConnectorWeight

MOST_TASKS = 32
"""The most tasks that count for a connector's weight: `tasks.max` is often far above the number of its partitions."""


class ConnectorFlows:
    """The connectors of a group as flows; may be used from several threads."""

    def __init__(self, worker: WorkerConfig, state: GroupState) -> None:
        self._worker = worker
        self._state = state
        self._compared: list[ConnectorFlow] = []
        self._remarks: Mapping[ConnectorName, str] = {}
        self._built: dict[ConnectorName, tuple[Config, ConnectorFlow | None, str | None]] = {}

    def names(self) -> list[ConnectorName]:
        """The connectors of the group, including connectors with an unusable configuration."""
        return self._state.query_state(lambda cluster, _: list(cluster.connectors))

    def weights(self) -> dict[ConnectorName, ConnectorWeight]:
        """The connectors of the group, each with its load on a worker."""
        return {name: _weight(config) for name, config in self._configs()}

    def _configs(self) -> list[tuple[ConnectorName, Config]]:
        return self._state.query_state(
            lambda cluster, _: [(name, one.config) for name, one in cluster.connectors.items()]
        )

    def build(self, name: ConnectorName) -> tuple[ConnectorFlow | None, str | None]:
        """The flow of a connector, or the reason for its absence."""
        config = self._state.query_state(
            lambda cluster, _: cluster.connectors[name].config if name in cluster.connectors else None
        )
        if config is None:
            self._built.pop(name, None)
            return None, "it was removed"
        found = self._built.get(name)
        if found is None or found[0] != config:
            flow, why = None, None
            try:
                flow = build_connector(name, config, self._worker)
            except ConfigError as error:
                why = str(error)
            found = self._built[name] = (config, flow, why)
        return found[1], found[2]

    def forget_connector(self, name: ConnectorName) -> None:
        """Have the next `build` build a connector again, as values that its configuration refers to may change."""
        self._built.pop(name, None)

    def usable(self) -> list[ConnectorFlow]:
        """The flows of all connectors with a usable configuration."""
        return [flow for name in self.names() if (flow := self.build(name)[0]) is not None]

    def to_copy(self) -> list[FlowSettings]:
        """The settings of the started connectors that copy, on any worker; other connectors are left out."""
        started = self._state.query_state(
            lambda cluster, _: [
                name for name in cluster.connectors if cluster.target_state(name) is TargetState.STARTED
            ]
        )
        flows = [flow for name in started if (flow := self.build(name)[0]) is not None and not flow.idle]
        return [flow.settings for flow in flows if flow.settings.copies]

    def remarks(self) -> Mapping[ConnectorName, str]:
        """The conflicts of each connector with the other connectors of the group, and the fix of each conflict."""
        connectors = self.usable()
        if connectors != self._compared:
            self._compared = connectors
            texts: dict[ConnectorName, list[str]] = {}
            for one in disagreements(connectors):
                texts.setdefault(ConnectorName(one.name), []).append(f"{one.message_id}: {one}")
            self._remarks = {name: " ".join(several) for name, several in texts.items()}
        return self._remarks

    def settings(self) -> list[FlowSettings]:
        """The settings of all connectors with a usable configuration."""
        return [flow.settings for flow in self.usable()]


def _weight(config: Config) -> ConnectorWeight:
    """The weight by class and `tasks.max`; an unresolved reference or an invalid number counts as 1 task."""
    try:
        tasks = int(config.get("tasks.max", "1"))
    except ValueError:
        tasks = 1
    kind = connector_kind(config.get("connector.class", "")) or ""
    return ConnectorWeight(kind, min(MOST_TASKS, tasks) if kind == "source" else 1)
