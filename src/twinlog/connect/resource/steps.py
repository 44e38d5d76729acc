"""The changes that a worker's connectors need to match a resource, as Strimzi's operator decides them.

The functions turn facts into decisions: steps, restarts of failed connectors, and levels of loggers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from twinlog.config.keys.connect import OWNER
from twinlog.config.keys.connector import IDENTITY_POLICIES
from twinlog.config.strimzi.resource import AutoRestart, PlannedConnector
from twinlog.connectors.model import INITIAL_STATES, Config, ConnectorName, RestartRequest, TargetState, TaskId

LONGEST_S = 3600.0


@dataclass(slots=True)
class _Restarts:
    count: int
    at: float


class AutoRestarts:
    """Counts the restarts of each connector. After n restarts, the next restart waits n²+n minutes, 60 at most."""

    def __init__(self) -> None:
        self._done: dict[str, _Restarts] = {}

    def is_due(self, name: str, rule: AutoRestart | None, *, failed: bool, now: float) -> bool:
        """Whether a connector has to be restarted now; true counts as a restart. `now` is in seconds."""
        done = self._done.get(name)
        if rule is None or not failed:
            if done is not None and (rule is None or now - done.at > _wait_s(done.count)):
                # The connector has run well for longer than the wait.
                del self._done[name]
            return False
        if done is None:
            done = self._done[name] = _Restarts(0, now)
        elif now - done.at < _wait_s(done.count):
            return False
        if rule.most is not None and done.count >= rule.most:
            return False
        done.count, done.at = done.count + 1, now
        return True

    def count(self, name: str) -> int:
        """How often a connector was restarted since it last ran well."""
        return self._done[name].count if name in self._done else 0


def _wait_s(count: int) -> float:
    return min(60.0 * (count * count + count), LONGEST_S)


ROOT = "root"
_ROOTS = ("connect.root.logger.level", "rootLogger.level", "log4j.rootLogger", "rootLogger")
_OLD = "log4j.logger."
_NEW = "logger."


def logger_levels(loggers: Mapping[str, str]) -> dict[str, str]:
    """The level of each logger by its name; appenders and other entries are ignored."""
    levels: dict[str, str] = {}
    for key, value in loggers.items():
        level = value.partition(",")[0].strip().upper()
        if key in _ROOTS:
            levels[ROOT] = level
        elif key.startswith(_OLD):
            levels[key.removeprefix(_OLD)] = level
        elif key.startswith(_NEW) and key.endswith(".level"):
            named = loggers.get(f"{key.removesuffix('.level')}.name")
            if named is not None:
                levels[named.strip()] = level
    # A level applies to all loggers below its logger, so the root comes first.
    return dict(sorted(levels.items(), key=lambda one: (one[0] != ROOT, one[0])))


PAUSE = "strimzi.io/pause-reconciliation"
_RESTART = "strimzi.io/restart-connector"
_RESTART_TASK = "strimzi.io/restart-connector-task"
_OPTIONS = {"includeTasks", "onlyFailed"}
_SERVERS = "source.cluster.bootstrap.servers"
_SUFFIXES = (".MirrorSourceConnector", ".MirrorCheckpointConnector", ".MirrorHeartbeatConnector")


@dataclass(frozen=True, slots=True)
class ExistingConnector:
    """A connector that the worker has."""

    config: Config
    target: TargetState


@dataclass(frozen=True, slots=True)
class PutConnector:
    """Create a connector, or replace its configuration."""

    name: ConnectorName
    config: Config = field(repr=False)
    initial: TargetState | None = None
    """The target state of a new connector; None for an existing connector."""


@dataclass(frozen=True, slots=True)
class ChangeTargetState:
    """Have a connector run, pause or stop."""

    name: ConnectorName
    target: TargetState


@dataclass(frozen=True, slots=True)
class DeleteConnector:
    """Remove a connector that has left the resource; its stored offsets stay."""

    name: ConnectorName


Step = PutConnector | ChangeTargetState | DeleteConnector


def of_others(owner: str, present: Mapping[ConnectorName, Config]) -> dict[ConnectorName, str]:
    """Connectors of the group that belong to another resource than `owner`, each with its resource.

    A connector that names no resource is left out: it may be Strimzi's own, or of an earlier version. A name that lacks
    a namespace matches every namespace.
    """
    found: dict[ConnectorName, str] = {}
    for name, config in present.items():
        other = config.get(OWNER, "")
        apart, there = (text.rpartition("/") for text in (owner, other))
        if other and (apart[2] != there[2] or (apart[0] and there[0] and apart[0] != there[0])):
            found[name] = other
    return found


def steps(
    wanted: Sequence[PlannedConnector], present: Mapping[ConnectorName, ExistingConnector], owner: str
) -> list[Step]:
    """The ordered steps from the present connectors to the wanted connectors of the resource `owner`."""
    found: list[Step] = []
    names = {ConnectorName(one.name) for one in wanted}
    found += [DeleteConnector(name) for name in present if name not in names and is_of_a_resource(name)]
    for one in wanted:
        name, target = ConnectorName(one.name), INITIAL_STATES[one.state]
        config = {**one.config, "name": one.name, OWNER: owner}
        there = present.get(name)
        if there is None:
            found.append(PutConnector(name, config, target))
            continue
        # A connector with the target to stop stops before its settings change; a connector that starts has the new
        # settings.
        late = target is TargetState.STARTED
        change = [] if dict(there.config) == config else [PutConnector(name, config)]
        become = [] if there.target is target else [ChangeTargetState(name, target)]
        found += [*change, *become] if late else [*become, *change]
    return found


def copies_again(
    wanted: Sequence[PlannedConnector], present: Mapping[ConnectorName, ExistingConnector]
) -> dict[ConnectorName, ConnectorName]:
    """New source connectors that would copy into the same topics again, each with the connector that copied before.

    The earlier connector has left the resource and reads from the same brokers: the alias has changed. The policy keeps
    names of topics, so both connectors write to the same topics, while positions are stored under the connector's name.
    A new connector with the state stopped is left out: its offsets can be altered before it runs.
    """
    names = {ConnectorName(one.name) for one in wanted}
    gone = {
        name: _servers(one.config.get(_SERVERS, ""))
        for name, one in present.items()
        if name not in names and name.endswith(_SUFFIXES[0]) and is_of_a_resource(name)
    }
    found: dict[ConnectorName, ConnectorName] = {}
    for one in wanted:
        policy = one.config.get("replication.policy.class", "").strip()
        if one.kind != "source" or one.state == "STOPPED" or ConnectorName(one.name) in present:
            continue
        same = [name for name, servers in gone.items() if servers & _servers(one.config.get(_SERVERS, ""))]
        if same and policy in IDENTITY_POLICIES:
            found[ConnectorName(one.name)] = same[0]
    return found


def _servers(text: str) -> set[str]:
    return {server.strip() for server in text.split(",") if server.strip()}


def is_of_a_resource(name: ConnectorName) -> bool:
    """Whether Strimzi gives this name to connectors of a resource; connectors with other names have another owner."""
    return "->" in name and name.endswith(_SUFFIXES)


@dataclass(frozen=True, slots=True)
class RestartAnnotations:
    """The restarts that annotations ask for, and the errors in the annotations."""

    restarts: tuple[RestartRequest, ...] = ()
    tasks: tuple[TaskId, ...] = ()
    wrong: tuple[str, ...] = ()


def asked(now: Mapping[str, str], before: Mapping[str, str], names: Sequence[str]) -> RestartAnnotations:
    """The requests of annotations that are new or changed since `before`; `names` are the connectors."""
    new = {key: value.strip() for key, value in now.items() if value != before.get(key)}
    restarts: list[RestartRequest] = []
    tasks: list[TaskId] = []
    wrong: list[str] = []
    restart, task = new.get(_RESTART), new.get(_RESTART_TASK)
    if restart:
        name, options = _name_in(restart, names)
        chosen = {one.strip() for one in options.split(",") if one.strip()}
        if name is None or chosen - _OPTIONS:
            wrong.append(f"{_RESTART}: {restart!r}; expected a connector, such as {names[0]}:includeTasks,onlyFailed")
        else:
            restarts.append(RestartRequest(ConnectorName(name), "includeTasks" in chosen, "onlyFailed" in chosen))
    if task:
        name, number = _name_in(task, names)
        if name is None or not number.isdigit():
            wrong.append(f"{_RESTART_TASK}: {task!r}; expected a connector and a task, such as {names[0]}:0")
        else:
            tasks.append(TaskId(ConnectorName(name), int(number)))
    return RestartAnnotations(tuple(restarts), tuple(tasks), tuple(wrong))


def _name_in(text: str, names: Sequence[str]) -> tuple[str | None, str]:
    name, _, rest = text.partition(":")
    return (name if name in names else None), rest
