"""The changes that connectors of a worker need to match a resource, as the operator of Strimzi decides them.

Functions turn facts into decisions: steps, restarts of failed connectors, and levels of loggers. Annotations of a
resource ask for a list, an alteration or a reset of stored offsets (class AbstractConnectOperator of Strimzi). A file
with the same names replaces the ConfigMap of Strimzi.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast

from twinlog.clock import LONG_AGO, Clock
from twinlog.config.keys.connect import OWNER
from twinlog.config.keys.connector import IDENTITY_POLICIES
from twinlog.config.strimzi.connection import Secrets
from twinlog.config.strimzi.resource import AutoRestart, PlannedConnector
from twinlog.config.text.values import MissingError
from twinlog.connect.herder import Herder
from twinlog.connect.rest import bodies, responses
from twinlog.errors import NotOwnerError, RequestError
from twinlog.kafka.retry import OFFSETS_ANNOTATION
from twinlog.process.log_once import AGAIN_S, LogOnce
from twinlog.worker.connectors.model import (
    INITIAL_STATES,
    Config,
    ConnectorName,
    RestartRequest,
    StoredOffset,
    TargetState,
    TaskId,
)

LONGEST_S = 3600.0

PAUSE = "strimzi.io/pause-reconciliation"
_RESTART = "strimzi.io/restart-connector"
_RESTART_TASK = "strimzi.io/restart-connector-task"
_OPTIONS = {"includeTasks", "onlyFailed"}
_SERVERS = "source.cluster.bootstrap.servers"
_SUFFIXES = (".MirrorSourceConnector", ".MirrorCheckpointConnector", ".MirrorHeartbeatConnector")
log = logging.getLogger(__name__)
OFFSETS = "strimzi.io/connector-offsets"
CONNECTOR = "strimzi.io/mirrormaker-connector"
Action = Literal["list", "alter", "reset"]
_ACTIONS = ("list", "alter", "reset")


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


@dataclass(frozen=True, slots=True)
class OffsetsAnnotation:
    """The action for the offsets of a connector; `config_map` names their destination or their origin."""

    action: Action
    connector: ConnectorName
    config_map: str | None = None

    @property
    def key(self) -> str:
        """The key of the ConfigMap; Kubernetes forbids `>` in a key."""
        return f"{self.connector.replace('->', '--')}.json"


def offsets_asked(annotations: Mapping[str, str], connectors: Sequence[PlannedConnector]) -> OffsetsAnnotation | None:
    """The action that the two annotations ask for; None when both are missing.

    Raises ValueError for a wrong annotation.
    """
    action, name = (annotations.get(key, "").strip() for key in (OFFSETS, CONNECTOR))
    if not action and not name:
        return None
    known = {one.name: one for one in connectors}
    if action not in _ACTIONS:
        raise ValueError(f"{OFFSETS}: {action!r}; expected list, alter or reset")
    if name not in known:
        raise ValueError(f"{CONNECTOR}: {name!r}; expected the connector whose offsets are meant: {', '.join(known)}")
    one = known[name]
    field = {"list": "listOffsets.toConfigMap", "alter": "alterOffsets.fromConfigMap"}.get(action)
    config_map = {"list": one.lists_to, "alter": one.alters_from}.get(action)
    if field is not None and config_map is None:
        raise ValueError(f"{OFFSETS}: {action}; expected {field}.name at the connector {name}")
    return OffsetsAnnotation(cast(Action, action), ConnectorName(name), config_map)


class OffsetsAnnotationHandler:
    """Applies annotations once; repeats a failed attempt while the annotations are present.

    Every process lists, into its own `folder`/NAME/KEY; the process that runs the connector changes the stored offsets.
    """

    def __init__(self, path: Path, folder: Path, worker: Herder, clock: Clock) -> None:
        self._path = path
        self._folder = folder
        self._worker = worker
        self._clock = clock
        self._asked: OffsetsAnnotation | None = None
        self._at = LONG_AGO
        self._logged = LogOnce(clock)

    def set_annotation(self, asked: OffsetsAnnotation | None) -> None:
        """Replace the action, after a change of the annotations."""
        self._asked, self._at = asked, self._clock.monotonic()

    def apply_annotation(self, secrets: Secrets) -> None:
        """Apply the annotation when it is due; `secrets` has the offsets to store."""
        asked = self._asked
        if asked is None or self._clock.monotonic() < self._at:
            return
        self._at = self._clock.monotonic() + OFFSETS_ANNOTATION.first_s
        try:
            if asked.action == "list":
                self._list(asked)
            else:
                self._change(asked, secrets)
        except NotOwnerError:
            log.info("connector %s: its offsets are left to the worker that has it", asked.connector)
        except (RequestError, MissingError, OSError) as error:
            if self._logged.is_new(str(error), AGAIN_S):
                log.warning("TW-STRIMZI-09: %s: %s: %s: tried again: %s", self._path, OFFSETS, asked.action, error)
            return
        self._asked = None

    def _list(self, asked: OffsetsAnnotation) -> None:
        assert asked.config_map is not None
        text = json.dumps(responses.offsets(self._worker.offsets(asked.connector)), indent=2)
        path = self._folder / Path(asked.config_map).name / asked.key
        path.parent.mkdir(parents=True, exist_ok=True)
        # Readers see either the complete file or the file before it.
        coming = path.with_name(f"..{asked.key}.{os.getpid()}")
        coming.write_text(f"{text}\n", "utf-8")
        coming.replace(path)
        log.info("connector %s: its offsets are in %s", asked.connector, path)

    def _change(self, asked: OffsetsAnnotation, secrets: Secrets) -> None:
        if self._worker.target_state(asked.connector) is not TargetState.STOPPED:
            raise RequestError(400, f"connector {asked.connector} must be stopped before; write state: stopped at it")
        if asked.action == "reset":
            answer = self._worker.reset_offsets(asked.connector)
        else:
            assert asked.config_map is not None
            offsets = _parsed(self._text(asked.config_map, asked.key, secrets), f"{asked.key} of {asked.config_map}")
            answer = self._worker.alter_offsets(asked.connector, offsets)
        log.warning("TW-STRIMZI-15: connector %s: an annotation asks for it: %s", asked.connector, answer)

    def _text(self, name: str, key: str, secrets: Secrets) -> str:
        """The offsets that an administrator prepared; otherwise the list of the same name, with later changes."""
        try:
            return secrets.read(name, key)
        except MissingError:
            if secrets.directory == self._folder:
                raise
            return Secrets(directory=self._folder, environment={}).read(name, key)


def _parsed(text: str, where: str) -> list[StoredOffset]:
    try:
        return bodies.offsets_request(bodies.parse(text.encode()))
    except RequestError as error:
        raise RequestError(error.status, f"{where}: {error}", message_id=error.message_id) from None
