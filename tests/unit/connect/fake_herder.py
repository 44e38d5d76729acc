"""A herder that keeps everything in memory: what the REST API asks, without topics and without a group."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from twinlog.connect.herder import Herder
from twinlog.errors import RequestError
from twinlog.worker.connectors.model import (
    Config,
    ConnectorInfo,
    ConnectorName,
    ConnectorState,
    ConnectorStatus,
    Created,
    Health,
    HealthStatus,
    KeyDefinition,
    KeyValue,
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

WORKER = "worker:8083"
SOURCE = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
HEALTHY = HealthStatus(Health.HEALTHY, "Worker has completed startup.")
_STATES = {
    TargetState.STARTED: ConnectorState.RUNNING,
    TargetState.PAUSED: ConnectorState.PAUSED,
    TargetState.STOPPED: ConnectorState.STOPPED,
}
_KEY = KeyDefinition("topics", "LIST", False, ".*", "HIGH", "Topics.", "Common", 1, "LONG", "topics", ("groups",))


@dataclass
class FakeHerder(Herder):
    """Every connector has one task. `before` is called at the begin of each method, with its name."""

    before: Callable[[str], None] = lambda method: None
    key: bytes | None = b"session key"
    states: HealthStatus = HEALTHY
    calls: list[str] = field(default_factory=list)
    kept: dict[str, Config] = field(default_factory=dict)
    targets: dict[str, TargetState] = field(default_factory=dict)
    stored: dict[str, list[StoredOffset]] = field(default_factory=dict)
    tasks: dict[str, Sequence[Config]] = field(default_factory=dict)
    levels: dict[str, str] = field(default_factory=dict)
    failed: str | None = None
    started: bool = True
    left: bool = False
    asked: list[TopicControlRequest] = field(default_factory=list)
    result: str = "applied"
    revised: int | None = None
    """None where nothing is remembered: each request asks anew."""
    lock: threading.RLock = field(default_factory=threading.RLock)

    def _begin(self, method: str, name: ConnectorName | None = None) -> None:
        with self.lock:
            self.calls.append(method)
        self.before(method)
        if name is not None and name not in self.kept:
            raise RequestError(404, f"Connector {name} not found")

    def server_info(self) -> ServerInfo:
        self._begin("server_info")
        return ServerInfo("4.3.0", "0123456789abcdef", "cluster-id")

    def health(self) -> HealthStatus:
        self._begin("health")
        return self.states

    def stage(self) -> str:
        return "The worker is reading the config topic."

    def session_key(self) -> bytes | None:
        return self.key

    def revision(self) -> int | None:
        return self.revised

    def connectors(self) -> Sequence[ConnectorName]:
        self._begin("connectors")
        with self.lock:
            return [ConnectorName(name) for name in self.kept]

    def info(self, name: ConnectorName) -> ConnectorInfo:
        self._begin("info", name)
        return self._info(name)

    def _info(self, name: ConnectorName) -> ConnectorInfo:
        with self.lock:
            return ConnectorInfo(name, self.kept[name], (TaskId(name, 0),))

    def status(self, name: ConnectorName) -> ConnectorStatus:
        self._begin("status", name)
        state = Status(_STATES[self.targets.get(name, TargetState.STARTED)], WORKER)
        task = Status(ConnectorState.FAILED, WORKER, trace=self.failed) if self.failed else state
        return ConnectorStatus(name, state, {0: task})

    def task_status(self, task: TaskId) -> Status:
        self._begin("task_status", task.connector)
        if task.task:
            raise RequestError(404, f"No status found for task {task}")
        return self.status(task.connector).tasks[0]

    def task_configs(self, name: ConnectorName) -> Mapping[TaskId, Config]:
        self._begin("task_configs", name)
        return {TaskId(name, number): config for number, config in enumerate(self.tasks.get(name, [self.kept[name]]))}

    def put(
        self,
        name: ConnectorName,
        config: Mapping[str, str | None],
        *,
        initial: TargetState | None = None,
        replace: bool = True,
    ) -> Created:
        self._begin("put")
        good = {key: value for key, value in config.items() if value is not None}
        if len(good) != len(config) or not name:
            raise RequestError(400, "Connector configuration is invalid and contains the following 1 error(s): ...")
        with self.lock:
            created = name not in self.kept
            if not created and not replace:
                raise RequestError(409, f"Connector {name} already exists")
            self.kept[name] = good
            if created:
                self.targets[name] = initial or TargetState.STARTED
        return Created(created, self._info(name))

    def patch(self, name: ConnectorName, changes: Mapping[str, str | None]) -> Created:
        self._begin("patch", name)
        with self.lock:
            merged = {**self.kept[name], **changes}
            self.kept[name] = {key: value for key, value in merged.items() if value is not None}
        return Created(False, self._info(name))

    def delete(self, name: ConnectorName) -> None:
        self._begin("delete", name)
        with self.lock:
            self.kept.pop(name, None)

    def restart(self, restart: RestartRequest) -> ConnectorStatus | None:
        self._begin("restart", restart.connector)
        if not restart.whole:
            return None
        return ConnectorStatus(
            restart.connector, Status(ConnectorState.RESTARTING, WORKER), {0: Status(ConnectorState.RUNNING, WORKER)}
        )

    def restart_task(self, task: TaskId) -> None:
        self._begin("restart_task", task.connector)
        if task.task:
            raise RequestError(404, f"Unknown task: {task}")

    def set_target_state(self, name: ConnectorName, state: TargetState) -> None:
        self._begin("set_target_state", name)
        self.targets[name] = state

    def offsets(self, name: ConnectorName) -> Sequence[StoredOffset]:
        self._begin("offsets", name)
        return self.stored.get(name, [])

    def alter_offsets(self, name: ConnectorName, offsets: Sequence[StoredOffset]) -> str:
        self._begin("alter_offsets", name)
        self.stored[name] = list(offsets)
        return "The offsets for this connector have been altered successfully"

    def reset_offsets(self, name: ConnectorName) -> str:
        self._begin("reset_offsets", name)
        self.stored.pop(name, None)
        return "The offsets for this connector have been reset successfully"

    def active_topics(self, name: ConnectorName) -> Sequence[str]:
        self._begin("active_topics")
        return ["a.t", "heartbeats"] if name in self.kept else []

    def reset_active_topics(self, name: ConnectorName) -> None:
        self._begin("reset_active_topics")

    def topic_states(self, name: ConnectorName) -> Mapping[str, object]:
        self._begin("topic_states", name)
        return {"flow": name, "topics": []}

    def ask_of_topics(self, name: ConnectorName, asked: TopicControlRequest) -> Mapping[str, object]:
        self._begin("ask_of_topics", name)
        self.asked.append(asked)
        return {"verb": asked.verb, "result": self.result}

    def plugins(self, *, connectors_only: bool = True) -> Sequence[PluginInfo]:
        self._begin("plugins")
        converters = [PluginInfo("org.apache.kafka.connect.converters.ByteArrayConverter", "converter", None)]
        return [PluginInfo(SOURCE, "source", "4.3.0"), *([] if connectors_only else converters)]

    def plugin_keys(self, plugin: str, version: str | None = None) -> Sequence[KeyDefinition]:
        self._begin("plugin_keys")
        if plugin not in SOURCE:
            raise RequestError(404, f"Unknown plugin {plugin}.")
        return [_KEY]

    def validate(self, plugin: str, config: Mapping[str, str | None]) -> Validation:
        self._begin("validate")
        if not config.get("connector.class"):
            raise RequestError(400, "Connector config contains no connector type")
        value = KeyValue("topics", config.get("topics"), ("Missing.",) if "topics" not in config else ())
        return Validation(config["connector.class"] or "", ("Common",), ((_KEY, value), (None, KeyValue("x", "1"))))

    def set_cluster_logger_level(self, logger: str, level: str) -> None:
        self._begin("set_cluster_logger_level")
        self.levels[logger] = level

    def put_task_configs(self, name: ConnectorName, configs: Sequence[Config]) -> None:
        self._begin("put_task_configs", name)
        self.tasks[name] = configs

    def fence_tasks(self, name: ConnectorName) -> None:
        self._begin("fence_tasks", name)
