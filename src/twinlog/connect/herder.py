"""What the REST API asks of a worker, as Connect's class Herder is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from twinlog.connectors.model import (
    Config,
    ConnectorInfo,
    ConnectorName,
    ConnectorStatus,
    Created,
    HealthStatus,
    KeyDefinition,
    PluginInfo,
    RestartRequest,
    ServerInfo,
    Status,
    StoredOffset,
    TargetState,
    TaskId,
    TopicControlRequest,
    Validation,
)


class Herder(Protocol):
    """Knows the connectors of a group of workers. Every method may be called from any thread, and may wait.

    Reading methods answer from what this worker has read of the group's topics, once it has. Changing ones return when
    the change is stored; what they cause shows in the status a moment later. All raise RequestError with the HTTP
    status of the answer: 404 for an unknown connector or task, 409 while the group rebalances or the connector exists
    already, 400 for a configuration that is wrong, 500 for what failed here or could not be done in time, 503 once the
    worker stops; and NotOwnerError where another worker must be asked.
    """

    @property
    def started(self) -> bool:
        """Whether this worker has read the state of the connectors. Never waits."""

    def server_info(self) -> ServerInfo:
        """Who this worker is."""

    def health(self) -> HealthStatus:
        """Whether this worker has read its topics and is a member of its group."""

    def stage(self) -> str:
        """What this worker does now, in a sentence for whoever waited in vain; empty where it does nothing. Never
        waits."""

    def session_key(self) -> bytes | None:
        """The key with which the workers of the group sign what they ask of each other (KIP-507); None until it was
        read. Never waits."""

    def revision(self) -> int | None:
        """A number that is another one once `connectors`, `info` or `status` may have another answer; None while they
        have none. Never waits."""

    def connectors(self) -> Sequence[ConnectorName]:
        """The names of all connectors."""

    def info(self, name: ConnectorName) -> ConnectorInfo:
        """A connector as submitted."""

    def status(self, name: ConnectorName) -> ConnectorStatus:
        """The states of a connector and its tasks."""

    def task_status(self, task: TaskId) -> Status:
        """The state of a task."""

    def task_configs(self, name: ConnectorName) -> Mapping[TaskId, Config]:
        """The configurations of a connector's tasks, as the group agreed on them."""

    def put(
        self,
        name: ConnectorName,
        config: Mapping[str, str | None],
        *,
        initial: TargetState | None = None,
        replace: bool = True,
    ) -> Created:
        """Create a connector, or with `replace` give one another configuration; it is validated first, where None is
        an error."""

    def patch(self, name: ConnectorName, changes: Mapping[str, str | None]) -> Created:
        """Change some keys of a connector's configuration; None removes a key (KIP-477)."""

    def delete(self, name: ConnectorName) -> None:
        """Remove a connector. Its stored offsets stay."""

    def restart(self, restart: RestartRequest) -> ConnectorStatus:
        """Restart a connector, or parts of it; returns the states with what will restart as RESTARTING."""

    def restart_task(self, task: TaskId) -> None:
        """Restart one task."""

    def set_target_state(self, name: ConnectorName, state: TargetState) -> None:
        """Pause, stop or resume a connector."""

    def offsets(self, name: ConnectorName) -> Sequence[StoredOffset]:
        """The stored offsets of a connector."""

    def alter_offsets(self, name: ConnectorName, offsets: Sequence[StoredOffset]) -> str:
        """Replace stored offsets of a stopped connector; returns the message of the answer."""

    def reset_offsets(self, name: ConnectorName) -> str:
        """Delete all stored offsets of a stopped connector; returns the message of the answer."""

    def active_topics(self, name: ConnectorName) -> Sequence[str]:
        """The topics that a connector has used since its last reset (KIP-558); none for an unknown connector."""

    def reset_active_topics(self, name: ConnectorName) -> None:
        """Forget the topics that a connector has used."""

    def topic_states(self, name: ConnectorName) -> Mapping[str, object]:
        """What becomes of each topic of a source connector, and what is asked of them, as it is answered."""

    def ask_of_topics(self, name: ConnectorName, asked: TopicControlRequest) -> Mapping[str, object]:
        """Ask something of topics of a source connector; what became of it after some seconds, as it is answered."""

    def plugins(self, *, connectors_only: bool = True) -> Sequence[PluginInfo]:
        """The classes that a configuration may name."""

    def plugin_keys(self, plugin: str, version: str | None = None) -> Sequence[KeyDefinition]:
        """The keys of a plugin's configuration."""

    def validate(self, plugin: str, config: Mapping[str, str | None]) -> Validation:
        """Check a connector's configuration and change nothing."""

    def set_cluster_logger_level(self, logger: str, level: str) -> None:
        """Have every worker of the group set the level of a logger (KIP-976)."""

    def put_task_configs(self, name: ConnectorName, configs: Sequence[Config]) -> None:
        """Store the configurations of a connector's tasks: asked of the leader by the worker that runs the connector
        (KIP-507)."""

    def fence_tasks(self, name: ConnectorName) -> None:
        """Fence the producers of earlier tasks of a connector (KIP-618): asked of the leader by another worker."""
