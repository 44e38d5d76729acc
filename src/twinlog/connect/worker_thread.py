"""What a worker does between requests: it reads its group's topics, and runs what the group's leader gave it."""

from __future__ import annotations

import logging
import secrets
import threading
from collections import deque
from collections.abc import Callable

from twinlog.clock import Clock, wall_ms
from twinlog.config.connector import ConnectorFlow
from twinlog.connect.connector_flows import ConnectorFlows
from twinlog.connect.group.member import Assignment
from twinlog.connect.group.place import JoinGroup
from twinlog.connect.group.state import GroupState
from twinlog.connect.model import ConnectorName, Restart, TargetState
from twinlog.connect.running import RunningConnectors
from twinlog.connect.status_reports import StatusReports
from twinlog.connect.storage.cluster_state import Changes
from twinlog.connect.storage.config_records import SessionKey
from twinlog.driver.spark_flows import SparkOptions
from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect
from twinlog.log_once import AGAIN_S, LogOnce
from twinlog.settings.worker import GroupSettings

log = logging.getLogger(__name__)

TICK_S = 0.2
READ_S = 1.0
RETRY_S = 1.0
KEY_BYTES = 32


class WorkerThread:
    """Keeps what runs here in step with what the group agreed on; everything public may be called by any thread."""

    def __init__(
        self,
        state: GroupState,
        flows: ConnectorFlows,
        group: GroupSettings | None,
        join: JoinGroup,
        admin: ClusterAdmin,
        options: SparkOptions,
        set_level: Callable[[str, str], object],
        connect: Connect,
        may_begin: Callable[[ConnectorFlow], bool],
    ) -> None:
        """`group` is None for a worker that has nobody to sign requests for."""
        self.changing = threading.Lock()
        """Held while the leader changes something, so that one change sees what the one before did."""
        self.started = threading.Event()
        """Set once the group's topics have been read."""
        self.stage = "The worker has not begun to read its topics yet."
        """What the worker does before it has started, or why it has ended."""
        self.cluster_id = ""
        self.worker_id = ""
        """How statuses name this worker: host:port."""
        self.group = join(flows.names, self._owned, self._wake_up)
        self._state = state
        self._flows = flows
        self._settings = group
        self._admin = admin
        self._clock: Clock = admin.clock
        self._set_level = set_level
        self._running = RunningConnectors(
            options, self.group.leads_for_s, flows.settings, self._clock, connect, may_begin
        )
        self._reports = StatusReports(state, self._running)
        self._wake = self._running.wake
        self._thread = threading.Thread(target=self._run, name="herder", daemon=True)
        self._stopping = threading.Event()
        self._restarts: deque[Restart] = deque()
        self._owned_now: frozenset[ConnectorName] = frozenset()
        self._read_at = 0.0
        self._logged = LogOnce(self._clock)

    def start(self) -> None:
        """Begin to read the topics, and to join the group."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """End what runs here, and leave the group."""
        self._stopping.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def take_changes(self, changes: Changes) -> None:
        """Connectors came, went or changed: whoever read that."""
        self._restarts.extend(changes.restarts)
        # What was set before this worker started counts no more, as in Connect.
        if self.started.is_set():
            for logger, level in changes.loggers.items():
                self._set_level(logger, level)
        assignment = self.group.assignment
        if changes.connectors and assignment is not None and assignment.leads:
            self.group.rejoin()
        self._wake.set()

    def _run(self) -> None:
        try:
            if self._read_topics():
                self.group.start()
                self.started.set()
                while not self._stopping.is_set():
                    self._turn()
                    self._clock.wait(self._wake, TICK_S)
                    self._wake.clear()
        except Exception as error:
            log.exception("the worker's herder ended")
            self.stage = f"The worker's herder has ended: {type(error).__name__}; its log has more"
        finally:
            self._running.stop()
            self.group.stop()

    def _read_topics(self) -> bool:
        """Create and read the topics of the group, however long that takes."""
        while not self._stopping.is_set():
            try:
                self.stage = "The worker is connecting to its cluster."
                self._admin.connect()
                self.cluster_id = self._admin.identity().cluster_id or ""
                self.stage = "The worker is reading its topics."
                self._state.ensure()
                self._state.read_all()
            except ClusterError as error:
                self.stage = f"The worker cannot read its topics yet, and tries again: {error}"
                if self._logged.is_new(str(error), AGAIN_S):
                    level = logging.ERROR if isinstance(error, RefusedError) else logging.WARNING
                    log.log(level, "the worker's topics cannot be read yet, trying again: %s", error)
                self._clock.wait(self._stopping, RETRY_S)
            else:
                self.stage = ""
                return True
        return False

    def _turn(self) -> None:
        now = self._clock.monotonic()
        try:
            if now >= self._read_at:
                self._read_at = now + READ_S
                self._state.read()
                self._keep_session_key()
            self._follow(self.group.assignment)
            self._running.attend()
            self._note_ended()
            self._report(self.group.assignment)
        except ClusterError as error:
            if self._logged.is_new("turn", AGAIN_S):
                log.warning("the worker's topics do not answer, trying again: %s", error)
        else:
            self._logged.anew("turn")

    def _keep_session_key(self) -> None:
        settings, assignment = self._settings, self.group.assignment
        if settings is None or assignment is None or not assignment.leads or settings.protocol != "sessioned":
            return
        key = self._state.look(lambda cluster, _: cluster.session_key)
        now_ms = wall_ms(self._clock)
        if key is None or now_ms - key.created_ms >= settings.key_ttl_ms:
            with self.changing:
                self._state.put_session_key(SessionKey(secrets.token_bytes(KEY_BYTES), settings.key_algorithm, now_ms))

    def _follow(self, assignment: Assignment | None) -> None:
        """Have run here what is assigned, and end what is not."""
        names: frozenset[ConnectorName] = frozenset() if assignment is None else assignment.connectors
        known = set(self._flows.names())
        for name in names & known:
            flow, why = self._flows.build(name)
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
            self.group.rejoin()
        self._owned_now = owned

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
            with self.changing:
                self._state.put_tasks(name, wanted)

    def _report(self, assignment: Assignment | None) -> None:
        if assignment is None:
            return
        self._reports.write(self.worker_id, assignment)
        if assignment.leads:
            for name in self._flows.names():
                self._keep_tasks(name)

    def _owned(self) -> frozenset[ConnectorName]:
        """What this worker runs, or may begin to run in this moment."""
        assignment = self.group.assignment
        return self._owned_now if assignment is None else self._owned_now | assignment.connectors

    def _wake_up(self) -> None:
        self._wake.set()
