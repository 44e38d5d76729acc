"""The herder of a worker: it answers the REST API, and keeps the connectors here in step with the group's decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from twinlog.clock import Clock
from twinlog.config.connector import ConnectorFlow, connector_kind
from twinlog.config.worker import WorkerConfig
from twinlog.connect.config_requests import ConfigRequests
from twinlog.connect.connector_flows import ConnectorFlows
from twinlog.connect.connector_offsets import ConnectorOffsets
from twinlog.connect.group.group import SILENT, JoinGroup
from twinlog.connect.group.member import WorkerState
from twinlog.connect.group.state import Changed, GroupState
from twinlog.connect.leader_duties import Zombies
from twinlog.connect.reports import AskLeader
from twinlog.connect.requests import OffsetRequests, RequestGuard, TopicRequests
from twinlog.connect.storage.cluster_state import ClusterState
from twinlog.connect.storage.status_records import ActiveTopicRecord, Statuses
from twinlog.connect.worker_metrics import WorkerMetrics
from twinlog.connect.worker_thread import WorkerThread
from twinlog.errors import RequestError
from twinlog.errors.message_ids import id_first, with_id
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect
from twinlog.worker.connectors import definitions
from twinlog.worker.connectors.model import (
    VERSION,
    Config,
    ConnectorInfo,
    ConnectorName,
    ConnectorStatus,
    Created,
    Health,
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
from twinlog.worker.connectors.validation import validate
from twinlog.worker.spark_flows import SparkOptions

COMMIT = "twinlog"


class Herder:
    """The connectors of a group, as a worker of the group knows and runs them (Kafka class Herder).

    `start` begins to read the group's topics on a thread of its own; until that is done, requests wait. Every method
    may be called from any thread, and may wait.

    Reading methods answer from this worker's copy of the group's topics, after the first read. `offsets`,
    `topic_states` and `ask_of_topics` ask clusters, which may take seconds. Changing methods return when the change is
    stored; the change has an effect on the status a moment later.

    All raise RequestError with the HTTP status of the answer: 404 for an unknown connector or task, 409 while the group
    rebalances or for an existing connector, 400 for a wrong configuration, 500 for a failure or a timeout here, 503
    once the worker stops. All raise NotOwnerError when another worker must answer.
    """

    def __init__(
        self,
        config: WorkerConfig,
        state: Callable[[Changed], GroupState],
        join: JoinGroup,
        admin: ClusterAdmin,
        options: SparkOptions,
        set_level: Callable[[str, str], object] = lambda logger, level: None,
        connect: Connect = ClusterAdmin,
        may_begin: Callable[[ConnectorFlow], bool] = lambda flow: True,
        crashed: Callable[[], None] = lambda: None,
        ask_leader: AskLeader = lambda url, name, configs: None,
    ) -> None:
        """`crashed()` is called when this worker ended by itself.

        `set_level(logger, level)` is called for each level that a request sets on all workers of the group.
        """
        self._config = config
        self._state = state(lambda changes: self._thread.take_changes(changes))  # noqa: PLW0108 - made below
        self._flows = ConnectorFlows(config, self._state)
        session = config.settings.group

        def both_may_begin(flow: ConnectorFlow) -> bool:
            return may_begin(flow) and self._offsets.may_begin(flow)

        self._thread = WorkerThread(
            self._state,
            self._flows,
            session,
            join,
            admin,
            options,
            set_level,
            connect,
            both_may_begin,
            crashed,
            ask_leader,
            topics=config.settings.topic_tracking,
        )
        self._group = self._thread.group
        self._may = RequestGuard(self._state, self._thread, admin.clock, session)
        self._zombies = Zombies(self._state, self._flows, self._may.call_step, connect)
        self._offsets = ConnectorOffsets(
            config, self._state, self._flows, admin.clock, lambda: self._group.leads_for_s() > 0, connect
        )
        self._configs = ConfigRequests(config, self._state, self._may, self.info)
        self._offset_requests = OffsetRequests(self._state, self._offsets, self._thread, self._may)
        self._topic_requests = TopicRequests(config.settings, self._flows, self._may, connect)

    def start(self, url: str, worker_id: str) -> None:
        """Begin to read the topics, and to join the group.

        Other workers know this worker by `url` and `worker_id` (host:port).
        """
        self._thread.worker_id = worker_id
        self._group.myself = WorkerState(url, worker_id)
        self._thread.start()

    def stop(self, timeout_s: float = 45.0) -> None:
        """End the connectors here, and leave the group."""
        self._thread.stop(timeout_s)

    def flows(self) -> Sequence[ConnectorFlow]:
        """The connectors with a usable configuration."""
        return self._flows.usable()

    def metrics(self, clock: Clock) -> WorkerMetrics:
        """The metrics of the connectors here."""
        settings = self._config.settings
        return WorkerMetrics(
            settings.client.client_id,
            "standalone" if settings.group is None else settings.group.protocol,
            self._group,
            self._thread.running,
            clock,
            partitions=settings.metrics.partitions,
        )

    @property
    def started(self) -> bool:
        """Whether this worker has read the state of the connectors. Returns at once."""
        return self._thread.started.is_set()

    @property
    def left(self) -> bool:
        """Whether this worker has left its group, because it stops. Returns at once."""
        return self._thread.left

    @property
    def failure(self) -> str | None:
        """Why the worker ended by itself."""
        return self._thread.failure

    @property
    def leads(self) -> bool:
        """Whether this worker leads its group, and may change something; returns at once."""
        assignment = self._group.assignment
        return self.started and assignment is not None and assignment.leads and self._group.leads_for_s() > 0

    def target_state(self, name: ConnectorName) -> TargetState:
        """The target state of a connector."""
        self._may.require_started()
        self._may.require_known(name)
        return self._state.query_state(lambda cluster, _: cluster.target_state(name))

    # The REST API: reading.

    def server_info(self) -> ServerInfo:
        """The versions of this worker, and the id of its cluster."""
        return ServerInfo(VERSION, COMMIT, self._thread.cluster_id)

    def health(self) -> HealthStatus:
        """Whether this worker has read its topics and is a member of its group."""
        if self._thread.failure is not None:
            return HealthStatus(Health.UNHEALTHY, with_id(self._thread.stage, "TW-FLOW-07"))
        if self._group.taken and self._config.settings.healthy_before_group:
            text = f"Worker waits for its group: {self._group.reason or ''}".strip()
            return HealthStatus(Health.HEALTHY, id_first(text))
        if not self._group.joined:
            text = f"Worker is still starting up. {self._thread.stage}".strip()
            return HealthStatus(Health.STARTING, id_first(text))
        if self._group.assignment is None:
            text = f"Worker is not a member of its group. {self._group.reason or ''}".strip()
            return HealthStatus(Health.UNHEALTHY, with_id(text, "TW-WORKER-02"))
        if self._group.leads_for_s() <= 0:
            return HealthStatus(Health.UNHEALTHY, f"TW-WORKER-02: Worker waits for its group: {SILENT}.")
        return HealthStatus(Health.HEALTHY, "Worker has completed startup and is ready to handle requests.")

    def stage(self) -> str:
        """The present work of this worker in a sentence, for the answer to a request that timed out. Returns at once.

        The sentence is empty while the worker can fulfil all requests.
        """
        return self._thread.stage

    def session_key(self) -> bytes | None:
        """The key with which the workers of the group sign requests to each other (KIP-507); None until it was read.

        Returns at once.
        """
        key = self._state.query_state(lambda cluster, _: cluster.session_key)
        return None if key is None else key.key

    def revision(self) -> int | None:
        """A number that changes once `connectors`, `info` or `status` may have a new answer. Returns at once.

        None while these methods are unable to answer.
        """
        return self._state.revision if self.started else None

    def connectors(self) -> Sequence[ConnectorName]:
        """The names of all connectors."""
        self._may.require_started()
        return self._state.query_state(lambda cluster, _: list(cluster.connectors))

    def info(self, name: ConnectorName) -> ConnectorInfo:
        """A connector as submitted."""
        self._may.require_started()
        found = self._state.query_state(
            lambda cluster, statuses: (
                (cluster.connectors[name].config, _tasks(name, cluster, statuses))
                if name in cluster.connectors
                else None
            )
        )
        if found is None:
            raise RequestError(404, f"Connector {name} not found")
        config, tasks = found
        return ConnectorInfo(name, config, tuple(tasks), _kind(config))

    def status(self, name: ConnectorName) -> ConnectorStatus:
        """The states of a connector and its tasks."""
        self._may.require_started()
        found = self._state.query_state(
            lambda cluster, statuses: (statuses.connector(name), statuses.tasks(name), cluster.connectors.get(name))
        )
        connector, tasks, known = found
        if connector is None or known is None:
            raise RequestError(404, f"No status found for connector {name}")
        return ConnectorStatus(name, connector, tasks, _kind(known.config))

    def task_status(self, task: TaskId) -> Status:
        """The state of a task."""
        self._may.require_started()
        found = self._state.query_state(lambda _, statuses: statuses.task(task))
        if found is None:
            raise RequestError(404, f"No status found for task {task}")
        return found

    def task_configs(self, name: ConnectorName) -> Mapping[TaskId, Config]:
        """The configurations of a connector's tasks, as the group agreed on them."""
        self._may.require_started()
        self._may.require_known(name)
        return self._state.query_state(
            lambda cluster, _: dict(zip(cluster.tasks(name), cluster.connectors[name].tasks, strict=False))
        )

    def offsets(self, name: ConnectorName) -> Sequence[StoredOffset]:
        """The stored offsets of a connector."""
        return self._offset_requests.read(name)

    def active_topics(self, name: ConnectorName) -> Sequence[str]:
        """The topics that a connector has used since its last reset (KIP-558); empty for an unknown connector."""
        self._may.require_started()
        return self._state.query_state(lambda _, statuses: sorted(statuses.active_topics(name)))

    def topic_states(self, name: ConnectorName) -> Mapping[str, object]:
        """The state of each topic of a source connector, and the pending requests, in the form of the answer."""
        return self._topic_requests.read(name)

    def ask_of_topics(self, name: ConnectorName, asked: TopicControlRequest) -> Mapping[str, object]:
        """Submit a request for topics of a source connector.

        Returns its outcome after some seconds, in the form of the answer.
        """
        return self._topic_requests.submit_request(name, asked)

    def plugins(self, *, connectors_only: bool = True) -> Sequence[PluginInfo]:
        """The classes that a configuration may name."""
        return definitions.plugins(VERSION, connectors_only=connectors_only)

    def plugin_keys(self, plugin: str, version: str | None = None) -> Sequence[KeyDefinition]:
        """The keys of a plugin's configuration."""
        return definitions.plugin_keys(plugin, VERSION, version)

    def validate(self, plugin: str, config: Mapping[str, str | None]) -> Validation:
        """Check a connector's configuration, and leave it as it is."""
        return validate(plugin, config, self._config, VERSION, self._flows.usable())

    # The REST API: changing. Only the leader of the group writes.

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
        return self._configs.put(name, config, initial=initial, replace=replace)

    def patch(self, name: ConnectorName, changes: Mapping[str, str | None]) -> Created:
        """Change some keys of a connector's configuration; None removes a key (KIP-477)."""
        return self._configs.patch(name, changes)

    def delete(self, name: ConnectorName) -> None:
        """Remove a connector. Its stored offsets stay."""
        self._configs.delete(name)

    def restart(self, restart: RestartRequest) -> ConnectorStatus | None:
        """Restart a connector, or parts of it.

        Returns the states, with RESTARTING for the parts that will restart; None for a connector's own instance.
        """
        name = restart.connector
        with self._may.as_leader():
            self._may.require_known(name, f"Unknown connector: {name}")
            # The states of a new connector are still missing, and its own instance restarts all the same.
            before = self.status(name) if restart.whole else None
            self._may.call_step(lambda: self._state.restart(restart))
        return None if before is None else before.during(restart)

    def restart_task(self, task: TaskId) -> None:
        """Restart a task."""
        self._may.require_started()
        self._may.call_step(self._state.read)
        self._may.require_known(task.connector, f"Unknown connector: {task.connector}")
        if task not in self._state.query_state(lambda cluster, statuses: _tasks(task.connector, cluster, statuses)):
            raise RequestError(404, f"Unknown task: {task}")
        self._may.require_own(task.connector)
        self._thread.restart_task(task)

    def set_target_state(self, name: ConnectorName, state: TargetState) -> None:
        """Pause, stop or resume a connector."""
        self._configs.set_target_state(name, state)

    def alter_offsets(self, name: ConnectorName, offsets: Sequence[StoredOffset]) -> str:
        """Replace stored offsets of a stopped connector; returns the message of the answer."""
        self._offset_requests.alter(name, offsets)
        return "The offsets for this connector have been altered successfully"

    def reset_offsets(self, name: ConnectorName) -> str:
        """Delete all stored offsets of a stopped connector; returns the message of the answer."""
        self._offset_requests.reset(name)
        return "The offsets for this connector have been reset successfully"

    def reset_active_topics(self, name: ConnectorName) -> None:
        """Forget the topics that a connector has used."""
        self._may.wait_assignment()
        topics = self._state.query_state(lambda _, statuses: list(statuses.active_topics(name)))
        self._may.call_step(lambda: self._state.report([ActiveTopicRecord(name, topic, None) for topic in topics]))

    def set_cluster_logger_level(self, logger: str, level: str) -> None:
        """Have every worker of the group set the level of a logger (KIP-976)."""
        with self._may.as_leader():
            self._may.call_step(lambda: self._state.set_logger_level(logger, level))

    def put_task_configs(self, name: ConnectorName, configs: Sequence[Config]) -> None:
        """Store the configurations of a connector's tasks (KIP-507).

        The worker that runs the connector sends this request to the leader.
        """
        self._require_group("externally setting task configurations")
        self._configs.put_tasks(name, configs)

    def fence_tasks(self, name: ConnectorName) -> None:
        """Fence the producers of earlier tasks of a connector (KIP-618); another worker asks the leader."""
        self._require_group("exactly-once source connectors")
        with self._may.as_leader():
            self._may.call_step(self._state.read_configs)
            self._may.require_known(name)
            self._zombies.fence(name)

    def _require_group(self, what: str) -> None:
        """Refuse a request of another worker to a standalone worker, which is alone (Kafka class StandaloneHerder)."""
        if not self._config.settings.distributed:
            raise RequestError(500, f"Kafka Connect in standalone mode does not support {what}.")


def _kind(config: Config) -> str:
    """The kind in `ConnectorInfo` and `ConnectorStatus`."""
    return "source" if connector_kind(config.get("connector.class", "")) else "unknown"


def _tasks(name: ConnectorName, cluster: ClusterState, statuses: Statuses) -> list[TaskId]:
    """The ids of a connector's tasks, including running tasks whose configurations are still to be stored."""
    kept = cluster.tasks(name)
    if cluster.target_state(name) is TargetState.STOPPED:
        return kept
    return sorted({*kept, *(TaskId(name, number) for number in statuses.tasks(name))})
