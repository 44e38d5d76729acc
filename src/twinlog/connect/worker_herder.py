"""The herder of one worker: answers the REST API, and keeps what runs here in step with what the group agreed on."""

from __future__ import annotations

import logging
import secrets
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from twinlog.clock import Clock, wall_ms
from twinlog.config.connector import ConnectorFlow, build_connector, connector_kind
from twinlog.config.worker import WorkerConfig
from twinlog.connect.group.member import Assignment, Worker
from twinlog.connect.group.membership import WorkerGroup
from twinlog.connect.group.state import GroupState
from twinlog.connect.model import (
    Config,
    ConnectorInfo,
    ConnectorName,
    ConnectorStatus,
    Created,
    Health,
    HealthStatus,
    KeyDefinition,
    Plugin,
    Restart,
    ServerInfo,
    State,
    Status,
    StoredOffset,
    TargetState,
    TaskId,
    Validation,
)
from twinlog.connect.plugins import listing
from twinlog.connect.plugins.validation import refused, validate
from twinlog.connect.running import RunningConnectors
from twinlog.connect.storage.cluster_state import Changes
from twinlog.connect.storage.config_records import SessionKey
from twinlog.connect.storage.status_records import (
    ActiveTopicRecord,
    ConnectorStatusRecord,
    StatusRecord,
    TaskStatusRecord,
)
from twinlog.driver.spark_flows import SparkOptions
from twinlog.errors import ClusterError, ConfigError, NotOwnerError, RefusedError, RequestError
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect
from twinlog.log_once import AGAIN_S, LogOnce
from twinlog.settings.flow import FlowSettings
from twinlog.settings.worker import GroupSettings

T = TypeVar("T")

log = logging.getLogger(__name__)

VERSION = "4.3.0"
COMMIT = "twinlog"
TICK_S = 0.2
READ_S = 1.0
RETRY_S = 1.0
SETTLE_S = 10.0
"""How long a change waits for the group to know who leads."""

KEY_BYTES = 32


class WorkerHerder:
    """The connectors of a group, as one of its workers knows and runs them; a `Herder` for its REST API.

    `start` begins to read the group's topics on a thread of its own; until that is done, requests are answered with 503
    or 409.
    """

    def __init__(
        self,
        config: WorkerConfig,
        group: GroupSettings,
        admin: ClusterAdmin,
        options: SparkOptions,
        set_level: Callable[[str, str], object] = lambda logger, level: None,
        connect: Connect = ClusterAdmin,
    ) -> None:
        """`set_level(logger, level)` is called for what somebody asked of every worker of the group."""
        self._config = config
        self._settings = group
        self._admin = admin
        self._clock: Clock = admin.clock
        self._worker_id = ""
        self._set_level = set_level
        self._state = GroupState(admin, group, self._on_changes)
        self._group = WorkerGroup(admin, group.group_id, self._names, self._owned, self._wake_up)
        self._running = RunningConnectors(options, self._group.leads_for_s, self._flows, self._clock, connect)
        self._wake = self._running.wake
        self._thread = threading.Thread(target=self._run, name="herder", daemon=True)
        self._stopping = threading.Event()
        self._started = threading.Event()
        self._stage = "The worker has not begun to read its topics yet."
        self._changing = threading.Lock()
        """Held while the leader changes something, so that one change sees what the one before did."""
        self._restarts: deque[Restart] = deque()
        self._reported: dict[object, Status] = {}
        self._built: dict[ConnectorName, tuple[Config, ConnectorFlow | None, str | None]] = {}
        self._owned_now: frozenset[ConnectorName] = frozenset()
        self._read_at = 0.0
        self._cluster_id = ""
        self._logged = LogOnce(self._clock)

    def start(self, url: str, worker_id: str) -> None:
        """Begin to read the topics, and to join the group; `url` and `worker_id` (host:port) are how others know it."""
        self._worker_id = worker_id
        self._group.myself = Worker(url, worker_id)
        self._thread.start()

    def stop(self, timeout_s: float = 15.0) -> None:
        """End what runs here, and leave the group."""
        self._stopping.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    # The REST API: reading.

    def server_info(self) -> ServerInfo:
        return ServerInfo(VERSION, COMMIT, self._cluster_id)

    def health(self) -> HealthStatus:
        if not self._started.is_set():
            return HealthStatus(Health.STARTING, f"Worker is still starting up. {self._stage}")
        if self._group.assignment is None:
            return HealthStatus(
                Health.UNHEALTHY, f"Worker is not a member of its group. {self._group.reason or ''}".strip()
            )
        return HealthStatus(Health.HEALTHY, "Worker has completed startup and is ready to handle requests.")

    def stage(self) -> str:
        return self._stage

    def session_key(self) -> bytes | None:
        key = self._state.look(lambda cluster, _: cluster.session_key)
        return None if key is None else key.key

    def connectors(self) -> Sequence[ConnectorName]:
        self._require_started()
        return self._state.look(lambda cluster, _: list(cluster.connectors))

    def info(self, name: ConnectorName) -> ConnectorInfo:
        self._require_started()
        found = self._state.look(
            lambda cluster, _: (
                (cluster.connectors[name].config, cluster.tasks(name)) if name in cluster.connectors else None
            )
        )
        if found is None:
            raise RequestError(404, f"Connector {name} not found")
        config, tasks = found
        kind = "source" if connector_kind(config.get("connector.class", "")) else "unknown"
        return ConnectorInfo(name, config, tuple(tasks), kind)

    def status(self, name: ConnectorName) -> ConnectorStatus:
        self._require_started()
        found = self._state.look(
            lambda cluster, statuses: (statuses.connector(name), statuses.tasks(name), cluster.connectors.get(name))
        )
        connector, tasks, known = found
        if connector is None or known is None:
            raise RequestError(404, f"No status found for connector {name}")
        kind = "source" if connector_kind(known.config.get("connector.class", "")) else "unknown"
        return ConnectorStatus(name, connector, tasks, kind)

    def task_status(self, task: TaskId) -> Status:
        self._require_started()
        found = self._state.look(lambda _, statuses: statuses.task(task))
        if found is None:
            raise RequestError(404, f"No status found for task {task}")
        return found

    def task_configs(self, name: ConnectorName) -> Mapping[TaskId, Config]:
        self._require_started()
        self._require_known(name)
        return self._state.look(
            lambda cluster, _: dict(zip(cluster.tasks(name), cluster.connectors[name].tasks, strict=False))
        )

    def offsets(self, name: ConnectorName) -> Sequence[StoredOffset]:
        self._require_started()
        self._require_known(name)
        return self._asked(lambda: self._state.offsets(name))

    def active_topics(self, name: ConnectorName) -> Sequence[str]:
        self._require_started()
        return self._state.look(lambda _, statuses: sorted(statuses.active_topics(name)))

    def plugins(self, *, connectors_only: bool = True) -> Sequence[Plugin]:
        return listing.plugins(VERSION, connectors_only=connectors_only)

    def plugin_keys(self, plugin: str, version: str | None = None) -> Sequence[KeyDefinition]:
        return listing.plugin_keys(plugin, VERSION, version)

    def validate(self, plugin: str, config: Mapping[str, str | None]) -> Validation:
        others = [flow for name in self._names() if (flow := self._build(name)[0]) is not None]
        return validate(plugin, config, self._config, VERSION, others)

    # The REST API: changing. Only the leader of the group writes.

    def put(
        self,
        name: ConnectorName,
        config: Mapping[str, str | None],
        *,
        initial: TargetState | None = None,
        replace: bool = True,
    ) -> Created:
        with self._leading():
            wanted = self._checked(name, config)
            created = not self._known(name)
            if not created and not replace:
                raise RequestError(409, f"Connector {name} already exists")
            self._asked(lambda: self._state.put(name, wanted, initial if created else None))
        return Created(created, self.info(name))

    def patch(self, name: ConnectorName, changes: Mapping[str, str | None]) -> Created:
        with self._leading():
            self._require_known(name)
            before = self._state.look(lambda cluster, _: cluster.connectors[name].config)
            merged = {**before, **changes}
            wanted = self._checked(name, {key: value for key, value in merged.items() if value is not None})
            self._asked(lambda: self._state.put(name, wanted))
        return Created(False, self.info(name))

    def delete(self, name: ConnectorName) -> None:
        with self._leading():
            self._require_known(name)
            self._asked(lambda: self._state.remove(name))

    def restart(self, restart: Restart) -> ConnectorStatus:
        name = restart.connector
        with self._leading():
            self._require_known(name, f"Unknown connector: {name}")
            before = self.status(name)
            self._asked(lambda: self._state.restart(restart))
        restarts = _restarts(restart, before)
        connector = _restarting(before.connector) if restarts.connector else before.connector
        tasks = {number: _restarting(one) if number in restarts.tasks else one for number, one in before.tasks.items()}
        return ConnectorStatus(name, connector, tasks, before.kind)

    def restart_task(self, task: TaskId) -> None:
        with self._leading():
            self._require_known(task.connector, f"Unknown connector: {task.connector}")
            if task not in self._state.look(lambda cluster, _: cluster.tasks(task.connector)):
                raise RequestError(404, f"Unknown task: {task}")
            self._asked(lambda: self._state.restart(Restart(task.connector, include_tasks=True)))

    def set_target_state(self, name: ConnectorName, state: TargetState) -> None:
        with self._leading():
            self._require_known(name, f"Unknown connector {name}")
            self._asked(lambda: self._state.set_target_state(name, state))
            if state is TargetState.STOPPED:
                self._asked(lambda: self._state.put_tasks(name, ()))

    def alter_offsets(self, name: ConnectorName, offsets: Sequence[StoredOffset]) -> str:
        with self._leading():
            self._require_stopped(name, "altered")
            self._asked(lambda: self._state.put_offsets(name, offsets))
        return "The offsets for this connector have been altered successfully"

    def reset_offsets(self, name: ConnectorName) -> str:
        with self._leading():
            self._require_stopped(name, "reset")
            stored = self._asked(lambda: self._state.offsets(name))
            self._asked(lambda: self._state.put_offsets(name, [StoredOffset(one.partition, None) for one in stored]))
        return "The offsets for this connector have been reset successfully"

    def reset_active_topics(self, name: ConnectorName) -> None:
        self._require_started()
        topics = self._state.look(lambda _, statuses: list(statuses.active_topics(name)))
        self._asked(lambda: self._state.report([ActiveTopicRecord(name, topic, None) for topic in topics]))

    def set_cluster_logger_level(self, logger: str, level: str) -> None:
        with self._leading():
            self._asked(lambda: self._state.set_logger_level(logger, level))

    def put_task_configs(self, name: ConnectorName, configs: Sequence[Config]) -> None:
        with self._leading():
            self._require_known(name)
            self._asked(lambda: self._state.put_tasks(name, configs))

    def fence_tasks(self, name: ConnectorName) -> None:
        with self._leading():
            self._require_known(name)

    # What these have in common.

    def _require_started(self) -> None:
        if not self._started.is_set():
            raise RequestError(503, f"Worker is still starting up. {self._stage}")

    def _leading(self) -> threading.Lock:
        """The lock under which the leader changes something.

        Raises NotOwnerError where another worker leads, RequestError while nobody does.
        """
        self._require_started()
        assignment = self._group.assignment
        # Another leader may write once this worker is perhaps no member any more.
        if assignment is None or self._group.leads_for_s() <= 0:
            raise RequestError(
                409,
                "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was "
                "underway.",
            )
        if not assignment.leads:
            raise NotOwnerError("Cannot complete request because this worker is not the leader.", assignment.leader_url)
        return self._changing

    def _known(self, name: ConnectorName) -> bool:
        return self._state.look(lambda cluster, _: name in cluster.connectors)

    def _require_known(self, name: ConnectorName, text: str | None = None) -> None:
        if not self._known(name):
            raise RequestError(404, text or f"Connector {name} not found")

    def _require_stopped(self, name: ConnectorName, what: str) -> None:
        self._require_known(name)
        stopped, tasks = self._state.look(
            lambda cluster, _: (cluster.target_state(name) is TargetState.STOPPED, cluster.tasks(name))
        )
        if not stopped or tasks:
            raise RequestError(
                400,
                f"Connectors must be in the STOPPED state before their offsets can be {what}. "
                "This can be done for the specified connector by issuing a 'PUT' request to the "
                f"'/connectors/{name}/stop' endpoint",
            )

    def _asked(self, step: Callable[[], T]) -> T:
        """Do something with the group's topics for a request."""
        try:
            return step()
        except ClusterError as error:
            raise RequestError(500, str(error)) from error

    def _checked(self, name: ConnectorName, config: Mapping[str, str | None]) -> Config:
        """The configuration as it is kept. Raises RequestError with every problem found."""
        wanted = {**config, "name": name}
        found = validate(wanted.get("connector.class") or "", wanted, self._config, VERSION)
        if found.error_count:
            raise RequestError(400, refused(found))
        return {key: value for key, value in wanted.items() if value is not None}

    # For the group.

    def _names(self) -> Sequence[ConnectorName]:
        return self._state.look(lambda cluster, _: list(cluster.connectors))

    def _owned(self) -> frozenset[ConnectorName]:
        """What this worker runs, or may begin to run in this moment."""
        assignment = self._group.assignment
        return self._owned_now if assignment is None else self._owned_now | assignment.connectors

    def _wake_up(self) -> None:
        self._wake.set()

    def _on_changes(self, changes: Changes) -> None:
        """Connectors came, went or changed: whoever read that."""
        self._restarts.extend(changes.restarts)
        # What was set before this worker started counts no more, as in Connect.
        if self._started.is_set():
            for logger, level in changes.loggers.items():
                self._set_level(logger, level)
        assignment = self._group.assignment
        if changes.connectors and assignment is not None and assignment.leads:
            self._group.rejoin()
        self._wake.set()

    def _flows(self) -> list[FlowSettings]:
        """The settings of all connectors of the group that can be used."""
        return [flow.settings for name in self._names() if (flow := self._build(name)[0]) is not None]

    def _build(self, name: ConnectorName) -> tuple[ConnectorFlow | None, str | None]:
        """The flow of a connector, or why there is none."""
        config = self._state.look(
            lambda cluster, _: cluster.connectors[name].config if name in cluster.connectors else None
        )
        if config is None:
            return None, "it was removed"
        found = self._built.get(name)
        if found is None or found[0] != config:
            flow, why = None, None
            try:
                flow = build_connector(name, config, self._config)
            except ConfigError as error:
                why = str(error)
            found = self._built[name] = (config, flow, why)
        return found[1], found[2]

    # The thread.

    def _run(self) -> None:
        try:
            if self._read_topics():
                self._group.start()
                self._started.set()
                while not self._stopping.is_set():
                    self._turn()
                    self._clock.wait(self._wake, TICK_S)
                    self._wake.clear()
        except Exception as error:
            log.exception("the worker's herder ended")
            self._stage = f"The worker's herder has ended: {type(error).__name__}; its log has more"
        finally:
            self._running.stop()
            self._group.stop()

    def _read_topics(self) -> bool:
        """Create and read the topics of the group, however long that takes."""
        while not self._stopping.is_set():
            try:
                self._stage = "The worker is connecting to its cluster."
                self._admin.connect()
                self._cluster_id = self._admin.identity().cluster_id or ""
                self._stage = "The worker is reading its topics."
                self._state.ensure()
                self._state.read_all()
            except ClusterError as error:
                self._stage = f"The worker cannot read its topics yet, and tries again: {error}"
                if self._logged.is_new(str(error), AGAIN_S):
                    level = logging.ERROR if isinstance(error, RefusedError) else logging.WARNING
                    log.log(level, "the worker's topics cannot be read yet, trying again: %s", error)
                self._clock.wait(self._stopping, RETRY_S)
            else:
                self._stage = ""
                return True
        return False

    def _turn(self) -> None:
        now = self._clock.monotonic()
        try:
            if now >= self._read_at:
                self._read_at = now + READ_S
                self._state.read()
                self._keep_session_key()
            self._follow(self._group.assignment)
            self._running.attend()
            self._note_ended()
            self._report(self._group.assignment)
        except ClusterError as error:
            if self._logged.is_new("turn", AGAIN_S):
                log.warning("the worker's topics do not answer, trying again: %s", error)
        else:
            self._logged.anew("turn")

    def _keep_session_key(self) -> None:
        assignment = self._group.assignment
        if assignment is None or not assignment.leads or self._settings.protocol != "sessioned":
            return
        key = self._state.look(lambda cluster, _: cluster.session_key)
        now_ms = wall_ms(self._clock)
        if key is None or now_ms - key.created_ms >= self._settings.key_ttl_ms:
            with self._changing:
                self._state.put_session_key(
                    SessionKey(secrets.token_bytes(KEY_BYTES), self._settings.key_algorithm, now_ms)
                )

    def _follow(self, assignment: Assignment | None) -> None:
        """Have run here what is assigned, and end what is not."""
        names: frozenset[ConnectorName] = frozenset() if assignment is None else assignment.connectors
        known = set(self._names())
        for name in names & known:
            flow, why = self._build(name)
            self._running.set(name, flow, self._target_state(name), why)
        for name in self._running.connectors.keys() - (names & known):
            self._running.remove(name)
        while self._restarts:
            self._running.restart(self._restarts.popleft().connector)

    def _target_state(self, name: ConnectorName) -> TargetState:
        return self._state.look(lambda cluster, _: cluster.target_state(name))

    def _note_ended(self) -> None:
        """Others may run now what has ended here."""
        owned = frozenset(self._running.connectors)
        if self._owned_now - owned:
            self._owned_now = owned
            self._group.rejoin()
        self._owned_now = owned

    def _report(self, assignment: Assignment | None) -> None:
        """Write the states of what runs here that changed."""
        if assignment is None:
            return
        records: list[StatusRecord] = []
        seen: set[object] = set()
        for name, running in self._running.connectors.items():
            if running.ending:
                continue
            status = running.connector_state(self._worker_id, assignment.generation)
            tasks = running.task_states(self._worker_id, assignment.generation)
            seen |= {name, *(TaskId(name, number) for number in tasks)}
            if _differs(self._reported.get(name), status):
                self._reported[name] = status
                records.append(ConnectorStatusRecord(name, status))
            for number, one in tasks.items():
                task = TaskId(name, number)
                if _differs(self._reported.get(task), one):
                    self._reported[task] = one
                    records.append(TaskStatusRecord(task, one))
        records += self._gone(seen, assignment)
        self._state.report(records)
        if assignment.leads:
            for name in self._names():
                self._keep_tasks(name)

    def _gone(self, seen: set[object], assignment: Assignment) -> list[StatusRecord]:
        """States to be deleted or given up: of connectors that were removed, and of those that run elsewhere now."""
        known = set(self._names())
        records: list[StatusRecord] = []
        for key in [key for key in self._reported if key not in seen]:
            del self._reported[key]
            if isinstance(key, TaskId):
                if key.connector not in known or key.connector in assignment.connectors:
                    records.append(TaskStatusRecord(key, None))
            elif key not in known:
                records.append(ConnectorStatusRecord(ConnectorName(str(key)), None))
        if assignment.leads:
            # Of connectors that were removed while nobody ran them.
            left = self._state.look(lambda _, statuses: {name: list(statuses.tasks(name)) for name in statuses.known()})
            for name in left.keys() - known - self._running.connectors.keys():
                records += [TaskStatusRecord(TaskId(name, number), None) for number in left[name]]
                records.append(ConnectorStatusRecord(name, None))
        return records

    def _keep_tasks(self, name: ConnectorName) -> None:
        """Have the configurations of a connector's tasks agree with the tasks that it has, wherever it runs."""
        connector, state, tasks = self._state.look(
            lambda cluster, statuses: (
                cluster.connectors.get(name),
                cluster.target_state(name),
                len(statuses.tasks(name)),
            )
        )
        if connector is None or state is not TargetState.STARTED:
            return
        wanted = tuple({**connector.config, "task.index": str(number)} for number in range(tasks))
        if tuple(dict(one) for one in connector.tasks) != wanted:
            with self._changing:
                self._state.put_tasks(name, wanted)


class _Restarts:
    """Which parts of a connector a request restarts."""

    def __init__(self, connector: bool, tasks: set[int]) -> None:
        self.connector = connector
        self.tasks = tasks


def _restarts(restart: Restart, before: ConnectorStatus) -> _Restarts:
    def meant(status: Status) -> bool:
        return not restart.only_failed or status.state is State.FAILED

    tasks = {number for number, status in before.tasks.items() if restart.include_tasks and meant(status)}
    return _Restarts(meant(before.connector), tasks)


def _restarting(status: Status) -> Status:
    return Status(State.RESTARTING, status.worker_id, status.generation)


def _differs(before: Status | None, now: Status) -> bool:
    """Whether a state is news; another generation alone is none."""
    if before is None:
        return True
    return (before.state, before.trace, before.worker_id) != (now.state, now.trace, now.worker_id)
