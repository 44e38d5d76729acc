"""What a Connect worker keeps and answers: connectors, tasks, their states and their offsets.

Names and shapes are those of Connect's REST API (KIP-26 and later; Kafka classes of `connect.runtime.rest.entities`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

ConnectorName = NewType("ConnectorName", str)

VERSION = "4.3.0"
"""The release of Kafka whose API a worker serves and whose connectors it runs."""

BLANKS = "".join(map(chr, range(33)))
"""What Java takes off the ends of a text; other blanks of Unicode are characters as any in a name."""

Config = Mapping[str, str]
"""A connector's configuration as it was submitted: references to secrets are not resolved in it."""

OffsetPart = Mapping[str, object]
"""The JSON object that names a source partition, or the one that holds its offset."""


@dataclass(frozen=True, slots=True)
class TopicControlRequest:
    """What is asked of topics of a source connector, which Connect has nothing for: `topics` are patterns, `partitions`
    some of each topic, all where there is none. `to` is a place in the source where the verb needs one.

    With `dry_run` nothing is asked, and without `confirm` nothing that loses or repeats records. What was asked by `id`
    once is not done again.
    """

    verb: str
    topics: tuple[str, ...]
    partitions: tuple[int, ...] = ()
    to: tuple[str, str] | None = None
    id: str | None = None
    confirm: bool = False
    dry_run: bool = False


class TargetState(StrEnum):
    """What a connector is to be; kept in the config topic (Kafka class TargetState)."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


INITIAL_STATES: Mapping[str, TargetState] = {
    "RUNNING": TargetState.STARTED,
    "PAUSED": TargetState.PAUSED,
    "STOPPED": TargetState.STOPPED,
}
"""What a connector is to be, by the words for it at its creation (Kafka class CreateConnectorRequest)."""


class ConnectorState(StrEnum):
    """What a connector or a task is (Kafka class AbstractStatus.State). Tasks are never STOPPED."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"
    DESTROYED = "DESTROYED"
    """Never shown: a connector that is destroyed has no status."""


@dataclass(frozen=True, slots=True, order=True)
class TaskId:
    """A task of a connector, counted from 0."""

    connector: ConnectorName
    task: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a connector or of a task, and the worker (host:port) that has it.

    `trace` is why it failed, `generation` that of the worker's group, `version` the plugin's, None where it has none.
    """

    state: ConnectorState
    worker_id: str
    generation: int = 0
    trace: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class ConnectorInfo:
    """A connector as submitted; `tasks` are those known now, none right after its creation."""

    name: ConnectorName
    config: Config
    tasks: tuple[TaskId, ...]
    kind: str = "source"
    """`source`, or `unknown` for a class that this worker does not run."""


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    """The states of a connector and of its tasks, in their order."""

    name: ConnectorName
    connector: Status
    tasks: Mapping[int, Status]
    kind: str = "source"


@dataclass(frozen=True, slots=True)
class Created:
    """What became of a submitted configuration: a new connector, or a replaced configuration."""

    created: bool
    info: ConnectorInfo


@dataclass(frozen=True, slots=True)
class RestartRequest:
    """Which parts of a connector are to be restarted (KIP-745)."""

    connector: ConnectorName
    include_tasks: bool = False
    only_failed: bool = False

    @property
    def whole(self) -> bool:
        """Whether more than the connector's own instance is meant."""
        return self.include_tasks or self.only_failed


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """A source partition of a connector and its stored offset; in a request None deletes the offset (KIP-875)."""

    partition: OffsetPart
    offset: OffsetPart | None


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What `GET /` answers: Kafka's version whose API this is, a commit, and the worker's cluster."""

    version: str
    commit: str
    kafka_cluster_id: str


class Health(StrEnum):
    """How a worker is (KIP-1017)."""

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
    """One key of a plugin's configuration (Kafka class ConfigKeyInfo), each field as in JSON."""

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
    """A key's value in a configuration, and what is wrong with it (Kafka class ConfigValueInfo)."""

    name: str
    value: str | None
    errors: tuple[str, ...] = ()
    recommended_values: tuple[str, ...] = ()
    visible: bool = True


@dataclass(frozen=True, slots=True)
class Validation:
    """What the keys of a configuration mean and what is wrong with it (Kafka class ConfigInfos).

    An unknown key has no definition.
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
