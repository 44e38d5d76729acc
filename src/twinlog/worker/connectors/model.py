"""The objects that a Connect worker stores and answers: connectors, tasks, their states and their offsets.

Names and shapes follow Connect's REST API (KIP-26 and later; Kafka classes of `connect.runtime.rest.entities`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NewType

ConnectorName = NewType("ConnectorName", str)

VERSION = "4.3.0"
"""The release of Kafka whose API a worker serves and whose connectors it runs."""

BLANKS = "".join(map(chr, range(33)))
"""The characters that Java trims at the ends of a text; other blanks of Unicode are characters of a name."""

Config = Mapping[str, str]
"""A connector's configuration as it was submitted, with unresolved references to secrets."""

OffsetPart = Mapping[str, object]
"""The JSON object of a source partition, or of its offset."""


@dataclass(frozen=True, slots=True)
class TopicControlRequest:
    """A request of twinlog's own API for topics of a source connector.

    `topics` are patterns; `partitions` are partitions of each topic, an empty tuple means all. `to` is a place in the
    source, for verbs that need a place. A request with `dry_run` only reports. A request that loses or repeats records
    needs `confirm`. A request with a known `id` is done only once.
    """

    verb: str
    topics: tuple[str, ...]
    partitions: tuple[int, ...] = ()
    to: tuple[str, str] | None = None
    id: str | None = None
    confirm: bool = False
    dry_run: bool = False


class TargetState(StrEnum):
    """The target state of a connector, stored in the config topic (Kafka class TargetState)."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


INITIAL_STATES: Mapping[str, TargetState] = {
    "RUNNING": TargetState.STARTED,
    "PAUSED": TargetState.PAUSED,
    "STOPPED": TargetState.STOPPED,
}
"""The target state of a new connector, by the words of the request (Kafka class CreateConnectorRequest)."""


class ConnectorState(StrEnum):
    """The state of a connector or a task (Kafka class AbstractStatus.State). STOPPED is a state of connectors only."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"
    DESTROYED = "DESTROYED"
    """Never shown: the status of a destroyed connector is deleted."""


@dataclass(frozen=True, slots=True, order=True)
class TaskId:
    """A task of a connector, counted from 0."""

    connector: ConnectorName
    task: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a connector or of a task, and its worker (host:port).

    `trace` is the reason of a failure, `generation` the generation of the worker's group. `version` is the plugin's
    version, None for an unversioned plugin.
    """

    state: ConnectorState
    worker_id: str
    generation: int = 0
    trace: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class ConnectorInfo:
    """A connector as submitted; `tasks` are the known tasks, an empty tuple right after its creation."""

    name: ConnectorName
    config: Config
    tasks: tuple[TaskId, ...]
    kind: str = "source"
    """`source`, or `unknown` for a class that this worker refuses."""


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    """The states of a connector and of its tasks, in their order."""

    name: ConnectorName
    connector: Status
    tasks: Mapping[int, Status]
    kind: str = "source"

    def during(self, restart: RestartRequest) -> ConnectorStatus:
        """These states, with RESTARTING for each part that a request restarts."""

        def after(status: Status) -> Status:
            meant = not restart.only_failed or status.state is ConnectorState.FAILED
            return replace(status, state=ConnectorState.RESTARTING, trace=None) if meant else status

        tasks = self.tasks
        if restart.include_tasks:
            tasks = {number: after(status) for number, status in tasks.items()}
        return replace(self, connector=after(self.connector), tasks=tasks)


@dataclass(frozen=True, slots=True)
class Created:
    """The result of a submitted configuration: a new connector, or a replaced configuration."""

    created: bool
    info: ConnectorInfo


@dataclass(frozen=True, slots=True)
class RestartRequest:
    """The parts of a connector that a restart includes (KIP-745)."""

    connector: ConnectorName
    include_tasks: bool = False
    only_failed: bool = False

    @property
    def whole(self) -> bool:
        """Whether the restart may include more than the connector's own instance."""
        return self.include_tasks or self.only_failed


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """A source partition of a connector and its stored offset; in a request None deletes the offset (KIP-875)."""

    partition: OffsetPart
    offset: OffsetPart | None


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """The answer of `GET /`: the version of Kafka whose API the worker serves, a commit, and the worker's cluster."""

    version: str
    commit: str
    kafka_cluster_id: str


class Health(StrEnum):
    """The health of a worker (KIP-1017)."""

    HEALTHY = "healthy"
    STARTING = "starting"
    UNHEALTHY = "unhealthy"


@dataclass(frozen=True, slots=True)
class HealthStatus:
    """A worker's health with a sentence about it."""

    health: Health
    message: str


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """A class that a configuration may name; `kind` is `source`, `converter` or `header_converter`."""

    name: str
    kind: str
    version: str | None


@dataclass(frozen=True, slots=True)
class KeyDefinition:
    """A key of a plugin's configuration (Kafka class ConfigKeyInfo), each field as in JSON."""

    name: str
    type: str
    required: bool
    default_value: str | None
    importance: str
    documentation: str
    group: str | None
    order: int
    width: str
    display_name: str
    dependents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KeyValue:
    """A key's value in a configuration, and its errors (Kafka class ConfigValueInfo)."""

    name: str
    value: str | None
    errors: tuple[str, ...] = ()
    recommended_values: tuple[str, ...] = ()
    visible: bool = True


@dataclass(frozen=True, slots=True)
class Validation:
    """The meaning of a configuration's keys, and their errors (Kafka class ConfigInfos).

    The definition of an unknown key is None.
    """

    name: str
    groups: tuple[str, ...]
    configs: tuple[tuple[KeyDefinition | None, KeyValue], ...]

    @property
    def error_count(self) -> int:
        return sum(len(value.errors) for _, value in self.configs)

    @property
    def errors(self) -> Sequence[str]:
        """Every error, in the order of the keys."""
        return [error for _, value in self.configs for error in value.errors]
