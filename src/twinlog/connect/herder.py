"""The requests of the REST API to a worker, as in Connect's class Herder."""

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

    Reading methods answer from this worker's copy of the group's topics, after the first read. Changing methods return
    when the change is stored; the change has an effect on the status a moment later. All raise RequestError with the
    HTTP status of the answer: 404 for an unknown connector or task, 409 while the group rebalances or for an existing
    connector, 400 for a wrong configuration, 500 for a failure or a timeout here, 503 once the worker stops. All raise
    NotOwnerError when another worker must answer.
    """

    @property
    def started(self) -> bool:
        """Whether this worker has read the state of the connectors. Never waits."""

    def server_info(self) -> ServerInfo:
        """The versions of this worker, and the id of its cluster."""

    def health(self) -> HealthStatus:
        """Whether this worker has read its topics and is a member of its group."""

    def stage(self) -> str:
        """The present work of this worker in a sentence, for the answer to a request that timed out. Never waits.

        The sentence is empty while the worker can fulfil all requests.
        """

    def session_key(self) -> bytes | None:
        """The key with which the workers of the group sign requests to each other (KIP-507); None until it was read.

        Never waits.
        """

    def revision(self) -> int | None:
        """A number that changes once `connectors`, `info` or `status` may have a new answer. Never waits.

        None while these methods are unable to answer.
        """

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
        """Create a connector, or with `replace` replace the configuration of an existing connector.

        The configuration is validated first; a value of None is an error.
        """

    def patch(self, name: ConnectorName, changes: Mapping[str, str | None]) -> Created:
        """Change some keys of a connector's configuration; None removes a key (KIP-477)."""

    def delete(self, name: ConnectorName) -> None:
        """Remove a connector. Its stored offsets stay."""

    def restart(self, restart: RestartRequest) -> ConnectorStatus:
        """Restart a connector, or parts of it; returns the states, with RESTARTING for the parts that will restart."""

    def restart_task(self, task: TaskId) -> None:
        """Restart a task."""

    def set_target_state(self, name: ConnectorName, state: TargetState) -> None:
        """Pause, stop or resume a connector."""

    def offsets(self, name: ConnectorName) -> Sequence[StoredOffset]:
        """The stored offsets of a connector."""

    def alter_offsets(self, name: ConnectorName, offsets: Sequence[StoredOffset]) -> str:
        """Replace stored offsets of a stopped connector; returns the message of the answer."""

    def reset_offsets(self, name: ConnectorName) -> str:
        """Delete all stored offsets of a stopped connector; returns the message of the answer."""

    def active_topics(self, name: ConnectorName) -> Sequence[str]:
        """The topics that a connector has used since its last reset (KIP-558); empty for an unknown connector."""

    def reset_active_topics(self, name: ConnectorName) -> None:
        """Forget the topics that a connector has used."""

    def topic_states(self, name: ConnectorName) -> Mapping[str, object]:
        """The state of each topic of a source connector, and the pending requests, in the form of the answer."""

    def ask_of_topics(self, name: ConnectorName, asked: TopicControlRequest) -> Mapping[str, object]:
        """Submit a request for topics of a source connector.

        Returns its outcome after some seconds, in the form of the answer.
        """

    def plugins(self, *, connectors_only: bool = True) -> Sequence[PluginInfo]:
        """The classes that a configuration may name."""

    def plugin_keys(self, plugin: str, version: str | None = None) -> Sequence[KeyDefinition]:
        """The keys of a plugin's configuration."""

    def validate(self, plugin: str, config: Mapping[str, str | None]) -> Validation:
        """Check a connector's configuration, and leave it as it is."""

    def set_cluster_logger_level(self, logger: str, level: str) -> None:
        """Have every worker of the group set the level of a logger (KIP-976)."""

    def put_task_configs(self, name: ConnectorName, configs: Sequence[Config]) -> None:
        """Store the configurations of a connector's tasks (KIP-507).

        The worker that runs the connector sends this request to the leader.
        """

    def fence_tasks(self, name: ConnectorName) -> None:
        """Fence the producers of earlier tasks of a connector (KIP-618); another worker asks the leader."""
