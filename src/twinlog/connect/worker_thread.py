"""The work of a worker between requests: it reads its group's topics, and runs the connectors of its assignment."""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from twinlog.clock import LONG_AGO, Clock
from twinlog.config.connector import ConnectorFlow
from twinlog.connect.connector_flows import ConnectorFlows
from twinlog.connect.connector_offsets import TaskOffsets
from twinlog.connect.group.earlier_workers import PreviousWorkers
from twinlog.connect.group.group import JoinGroup
from twinlog.connect.group.member import Assignment, RebalanceLogger
from twinlog.connect.group.state import GroupState
from twinlog.connect.leader_duties import LeaderDuties
from twinlog.connect.reports import AskLeader, StatusReports, TaskReports
from twinlog.connect.running import RunningConnectors
from twinlog.connect.stage import JOINS, READS_TOPICS, Stages
from twinlog.connect.storage.cluster_state import StateChanges
from twinlog.errors import (
    ClusterError,
    RefusedError,
    RequestError,
    TooFewBrokersError,
    TopicGoneError,
    TwinlogError,
    UnavailableError,
)
from twinlog.errors.message_ids import told, with_id
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect
from twinlog.kafka.retry import WORKER_TOPICS, retry_until_stopped
from twinlog.process.log_once import AGAIN_S, DOUBLING_S, LogOnce
from twinlog.settings.worker import GroupSettings
from twinlog.worker.connectors.model import ConnectorName, RestartRequest, TargetState, TaskId
from twinlog.worker.spark_flows import SparkOptions

log = logging.getLogger(__name__)

TICK_S = 0.2
IDLE_TICK_S = 0.5
"""The seconds between two turns without Spark, once nothing has woken the worker for `CALM_S` seconds."""

CALM_S = 30.0
READ_S = 1.0
LOOK_S = 0.05
LOG_AFTER_S = 3.0
UNKNOWN_AFTER_S = 10.0
_OUTAGE, _UNKNOWN = object(), object()


class WorkerThread:
    """Keeps the connectors here in step with the group's decisions; everything public may be called by any thread."""

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
        crashed: Callable[[], None],
        ask_leader: AskLeader,
        *,
        topics: bool,
    ) -> None:
        """`group` is None for a worker that sends unsigned requests.

        `crashed` is called once this worker has ended by itself; `failure` is the reason. With `topics` the worker
        keeps the topics that connectors write to.
        """
        self.changing = threading.Lock()
        """Held while the leader changes something, so that each change sees the result of the change before."""
        self.started = threading.Event()
        """Set once the group's topics have been read."""
        self._stages = Stages(admin.clock)
        self.cluster_id = ""
        self.worker_id = ""
        """The worker's name in statuses: host:port."""
        self.left = False
        """Whether this worker has left its group, or is just about to."""
        self.failure: str | None = None
        """Why the worker ended by itself."""
        self.group = join(flows.weights, self._owned, self._wake_up, self._crash)
        # When another worker may write, all appends stop, including requests that wait for a broker.
        admin.client.append_only_while(lambda: self.group.leads_for_s() > 0, reads=True)
        self._crashed = crashed
        self._state = state
        self._flows = flows
        self._admin = admin
        self._clock: Clock = admin.clock
        self._set_level = set_level
        self._running = RunningConnectors(
            options, self.group.leads_for_s, flows.settings, self._clock, connect, may_begin, flows.to_copy
        )
        self.group.ready = lambda: self._running.ready
        self._reports = StatusReports(state, self._running, self._clock, topics=topics)
        self.duties = LeaderDuties(state, flows, self.group, group, self.changing, self._clock)
        """The writes of this worker while it leads."""
        self._rebalances = None if group is None else RebalanceLogger(group.group_id)
        self._task_reports = TaskReports(state, self._running, self.changing, ask_leader, self._clock)
        self._task_offsets = TaskOffsets(state, self._running.connectors, self._clock)
        self._wake = self._running.wake
        self._thread = threading.Thread(target=self._run, name="herder", daemon=True)
        self._stopping = threading.Event()
        self._restarts: deque[RestartRequest | TaskId] = deque()
        self._following = threading.Lock()
        """Held while this thread begins and ends connectors."""
        self._still: Counter[ConnectorName] = Counter()
        """The connectors that are held: their instances have to wait."""
        self._owned_now: frozenset[ConnectorName] = frozenset()
        self._owned_in = 0
        """The term to which `_owned_now` belongs."""
        self._claimed: tuple[int, frozenset[ConnectorName]] = 0, frozenset()
        """A term, and the connectors that may begin in the turn under way, whose end notes them in `_owned_now`."""
        self._workers_before = PreviousWorkers(state, self._clock)
        self._read_at = LONG_AGO
        self._logged = LogOnce(self._clock)

    @property
    def stage(self) -> str:
        """The present work of the worker before it can make changes, or why it has ended; otherwise empty."""
        return str(self._stages) if self.failure is None else f"The worker has ended: {self.failure}"

    @property
    def running(self) -> RunningConnectors:
        """The connectors that run here."""
        return self._running

    def start(self) -> None:
        """Begin to read the topics, and to join the group."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """End the connectors here, and leave the group."""
        self._stopping.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def take_changes(self, changes: StateChanges) -> None:
        """Apply changes of connectors; called by any thread that reads."""
        self._restarts.extend(changes.restarts)
        # A connector that failed to begin is tried again with its new configuration, even with an equal configuration.
        self._restarts.extend(RestartRequest(name, only_failed=True) for name in changes.connectors)
        for name in changes.target_states:
            self._flows.forget_connector(name)
        # Levels that were set before this worker started are obsolete, as in Connect.
        if self.started.is_set():
            for logger, level in changes.loggers.items():
                self._set_level(logger, level)
        assignment = self.group.assignment
        if changes.connectors and assignment is not None and assignment.leads:
            self.group.rejoin()
        self._wake.set()

    def restart_task(self, task: TaskId) -> None:
        """Have a task restarted that this worker runs."""
        self._restarts.append(task)
        self._wake.set()

    @contextmanager
    def standing_still(self, name: ConnectorName, timeout_s: float) -> Iterator[None]:
        """Hold a connector of this worker: it has ended, and stays ended on all workers meanwhile.

        Raises RequestError 409 when the connector still runs after `timeout_s` seconds, and UnavailableError once this
        worker stops: another worker gets the connector.
        """
        until = self._clock.monotonic() + timeout_s
        with self._following:
            self._still[name] += 1
        self._wake.set()
        try:
            while not self._stands_still(name):
                if self._stopping.is_set():
                    raise UnavailableError("This worker is stopping.")
                if self._clock.monotonic() >= until:
                    raise RequestError(
                        409, f"Connector {name} is still being ended on worker {self.worker_id}: try it again."
                    )
                self._clock.sleep(LOOK_S)
            yield
        finally:
            with self._following:
                self._still -= Counter({name: 1})
            self._wake.set()

    def _holds_connectors(self) -> bool:
        with self._following:
            return any(self._still.values())

    def _stands_still(self, name: ConnectorName) -> bool:
        with self._following:
            running = self._running.connectors.get(name)
            return running is not None and running.instance is None and self._task_offsets.at_rest

    def _crash(self, error: Exception) -> None:
        log.error("TW-FAULT-03: the worker's herder ended", exc_info=error)
        self._fail(f"TW-FAULT-03: internal error: {type(error).__name__}")

    def _fail(self, why: str) -> None:
        self.failure = why
        self._crashed()

    def _run(self) -> None:
        try:
            if self.begin():
                woken_at = self._clock.monotonic()
                while not self._stopping.is_set():
                    self.process_assignment()
                    calm = self._clock.monotonic() - woken_at >= CALM_S and not self._running.has_spark
                    if self._clock.wait(self._wake, IDLE_TICK_S if calm else TICK_S):
                        woken_at = self._clock.monotonic()
                    self._wake.clear()
        except TooFewBrokersError as error:
            self._fail(told(error, "TW-WORKER-04"))
        except Exception as error:
            self._crash(error)
        finally:
            self.end()

    def end(self) -> None:
        """End the connectors here, report their end, and leave the group, so that another worker continues at once."""
        self._stopping.set()
        self._running.stop()
        # A change of offsets in progress is completed first: this worker may write only while it is a member.
        while self._holds_connectors():
            self._clock.sleep(LOOK_S)
        try:
            self._report_tasks(self.group.assignment)
            self._report(self.group.assignment)
        except TwinlogError as error:
            log.debug("at the end: %s", error)
        # A change in progress is completed first.
        with self.changing:
            self.left = True
            self.group.stop()

    def begin(self) -> bool:
        """Create and read the topics of the group, however long it takes, and begin to join the group.

        Returns False after a stop of the worker. Raises TooFewBrokersError when brokers that have just started are
        still missing after `default.api.timeout.ms`, as in Connect.
        """
        self._stages.enter_stage(READS_TOPICS)
        few_since: float | None = None

        def read_topics() -> None:
            self._admin.connect()
            self.cluster_id = self._admin.identity().cluster_id or ""
            self._state.ensure()
            self._state.read_all()

        def failed(error: TwinlogError) -> None:
            nonlocal few_since
            if isinstance(error, TooFewBrokersError):
                now = self._clock.monotonic()
                few_since = now if few_since is None else few_since
                if (now - few_since) * 1000 >= self._admin.client.settings.default_api_timeout_ms:
                    raise error
            self._stages.enter_stage(READS_TOPICS, f"It tries again: {told(error, 'TW-WORKER-03')}")
            if self._logged.is_new(str(error), AGAIN_S):
                level = logging.ERROR if isinstance(error, RefusedError) else logging.WARNING
                log.log(level, "TW-WORKER-03: the worker's topics cannot be read yet, trying again: %s", error)

        if not retry_until_stopped(self._clock, WORKER_TOPICS, read_topics, self._stopping, failed=failed):
            return False
        self._stages.enter_stage(JOINS)
        self.group.start()
        self.started.set()
        return True

    def process_assignment(self) -> None:
        """Take a turn: compare the group's decisions with the connectors here, and write the necessary records."""
        now = self._clock.monotonic()
        if self.group.leads_for_s() > 0:
            self._stages.end()
        else:
            reason = self.group.reason
            self._stages.enter_stage(JOINS, "" if reason is None else f"It cannot take part in its group: {reason}")
        reads = now >= self._read_at
        troubles: list[ClusterError] = []
        if reads:
            self._read_at = now + READ_S
            self._try(self._read, troubles)
        # Connectors run with the records that were read before: they are polled, and can stop, even during an outage of
        # the topics.
        with self._following:
            self._enter(self.group.term)
            self._follow(self._claim_assigned())
            self._running.poll_connectors()
        if self.group.leads_for_s() > 0:
            self._task_offsets.write()
        for report in (self._report_tasks, self._report):
            self._try(partial(report, self.group.assignment), troubles)
        self._note_ended()
        if troubles:
            if self._logged.is_due(_OUTAGE, LOG_AFTER_S, *DOUBLING_S):
                text = f"the worker's topics do not answer, trying again: {_shown(troubles[0])}"
                log.warning("%s", with_id(text, "TW-WORKER-05"))
        # Only a turn that reads shows whether the topics answer.
        elif reads and self._logged.end_condition(_OUTAGE):
            log.info("the worker's topics answer again")

    def _try(self, step: Callable[[], None], troubles: list[ClusterError]) -> None:
        try:
            step()
        except ClusterError as error:
            troubles.append(error)

    def _read(self) -> None:
        self.duties.read_state()
        self.duties.look_at_earlier_leaders()
        self.duties.keep_session_key()

    def _enter(self, term: int) -> None:
        """Enter a term of membership: in a new term all connectors here begin again."""
        if term != self._running.term:
            self._running.term = term
            for name in self._running.connectors:
                self._flows.forget_connector(name)

    def _claim_assigned(self) -> Assignment | None:
        """The present assignment, whose connectors this worker owns for the group before any of them begins.

        The turn may wait long for a broker after their begin. Rebalances in this time take a connector away, and would
        give it to another worker while it still runs here.
        """
        while True:
            assignment = self.group.assignment
            self._claimed = self._running.term, frozenset() if assignment is None else assignment.connectors
            # Connectors of an assignment that ended before the claim may belong to another worker already.
            if self.group.assignment == assignment:
                return assignment

    def _follow(self, assignment: Assignment | None) -> None:
        """Run the assigned connectors, and end other connectors."""
        if self._rebalances is not None:
            self._rebalances.report(assignment)
        names: frozenset[ConnectorName] = frozenset() if assignment is None else assignment.connectors
        known = set(self._flows.names())
        self._tell_unknown(names - known)
        remarks = self._flows.remarks()
        restarts = [self._restarts.popleft() for _ in range(len(self._restarts))]
        for restart in restarts:
            self._flows.forget_connector(restart.connector)
        self._workers_before.retain_connectors(names)
        for name in names & known:
            if name not in self._running.connectors:
                if not self._workers_before.has_ended(name, self.worker_id):
                    continue
                # The connector was built here while another worker ran it: values that its configuration refers to may
                # have changed since.
                self._flows.forget_connector(name)
            flow, why = self._flows.build(name)
            self._running.set_connector(name, flow, self._target_state(name), why, self._tasks(name))
            self._running.remark(name, remarks.get(name))
        for name in self._running.connectors.keys() - (names & known):
            # A held connector stays until the end of the hold.
            if not self._still[name]:
                self._running.remove(name)
        for restart in restarts:
            if isinstance(restart, RestartRequest):
                self._running.restart(restart)
            else:
                self._running.restart_task(restart)

    def _tell_unknown(self, names: frozenset[ConnectorName]) -> None:
        if not names:
            self._logged.end_condition(_UNKNOWN)
        elif self._logged.is_due(_UNKNOWN, UNKNOWN_AFTER_S, *DOUBLING_S):
            log.error(
                "TW-WORKER-09: nobody runs %s: the leader of the group gives this worker connectors that are missing "
                "in "
                "its config topic, as when config.storage.topic was deleted. Save the connectors of the leader with "
                "GET /connectors?expand=info, then start all workers again, and create what is missing",
                ", ".join(sorted(names)),
            )

    def _tasks(self, name: ConnectorName) -> int:
        return self._state.query_state(lambda cluster, _: len(cluster.tasks(name)))

    def _target_state(self, name: ConnectorName) -> TargetState:
        if self._still[name]:
            return TargetState.STOPPED
        return self._state.query_state(lambda cluster, _: cluster.target_state(name))

    def _note_ended(self) -> None:
        """Tell the group about connectors that have ended here, so that other workers may run them."""
        before, self._owned_now = self._owned_now, self._running.held()
        self._owned_in = self._running.term
        self._claimed = self._running.term, frozenset()
        revoked = self.group.revoked
        if before - self._owned_now or (revoked and not revoked & self._owned_now):
            self.group.revoked = frozenset()
            self.group.rejoin()

    def _report_tasks(self, assignment: Assignment | None) -> None:
        # Task configurations are written before the states, as in Connect: a reader of a running task's state finds its
        # configuration.
        if assignment is not None and self.group.leads_for_s() > 0:
            self._task_reports.write(assignment)

    def _report(self, assignment: Assignment | None) -> None:
        if assignment is None or self.group.leads_for_s() <= 0:
            return
        self._reports.write(self.worker_id, assignment)
        if assignment.leads:
            for name in self._flows.names():
                self.duties.have_fenced(name)

    def _owned(self) -> frozenset[ConnectorName]:
        """The connectors that this worker runs, or may begin to run at present."""
        # The claim is read first: at the end of a turn it becomes a part of `_owned_now`.
        (claimed_in, claimed), term = self._claimed, self.group.term
        owned = self._owned_now if self._owned_in == term else frozenset()
        owned |= claimed if claimed_in == term else frozenset()
        assignment = self.group.assignment
        return owned if assignment is None else owned | assignment.connectors

    def _wake_up(self) -> None:
        self._wake.set()


def _shown(error: ClusterError) -> str:
    """The text of an error, with its consequences."""
    if not isinstance(error, TopicGoneError):
        return str(error)
    return (
        f"TW-WORKER-07: {error} any more (config.storage.topic). Running connectors continue; the leader of the group "
        "recreates the topic, with all connectors that it knows"
    )
