"""The states of connectors and the configurations of their tasks, as a worker and its leader write them for the group.

The worker of a connector writes its states into the status topic. The worker knows the tasks of its connectors, and the
leader writes these tasks.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from twinlog.clock import LONG_AGO, SYSTEM, Clock, wall_ms
from twinlog.connect.group.member import Assignment
from twinlog.connect.group.state import GroupState
from twinlog.connect.running import RunningConnectors
from twinlog.connect.storage.cluster_state import ClusterState
from twinlog.connect.storage.status_records import (
    ActiveTopic,
    ActiveTopicRecord,
    ConnectorStatusRecord,
    Statuses,
    StatusRecord,
    TaskStatusRecord,
)
from twinlog.errors import RequestError
from twinlog.kafka.retry import TASK_CONFIGS
from twinlog.process.log_once import AGAIN_S, LogOnce
from twinlog.worker.connectors.model import VERSION, Config, ConnectorName, ConnectorState, Status, TargetState, TaskId

Part = ConnectorName | TaskId

TOPICS_S = 1.0

log = logging.getLogger(__name__)
AskLeader = Callable[[str, ConnectorName, Sequence[Config]], object]
"""Has the leader at an address write the configurations of a connector's tasks, and waits. Raises RequestError."""


class StatusReports:
    """Compares the status topic with the present states, and writes the differences; used by a single thread."""

    def __init__(
        self, state: GroupState, running: RunningConnectors, clock: Clock = SYSTEM, *, topics: bool = True
    ) -> None:
        """With `topics` the topic also keeps the topics that connectors write to (KIP-558)."""
        self._state = state
        self._running = running
        self._clock = clock
        self._topics = topics
        self._written: dict[ConnectorName, set[str]] = {}
        self._topics_at = LONG_AGO

    def write(self, worker_id: str, assignment: Assignment) -> None:
        """Write the states of connectors and tasks that run here. Raises ClusterError.

        A connector that has left this worker becomes UNASSIGNED; states of removed connectors and tasks are deleted.
        """
        now: dict[Part, Status] = {}
        for name, running in self._running.connectors.items():
            if not running.ending:
                now[name] = running.connector_state(worker_id, assignment.generation)
                tasks = running.task_states(worker_id, assignment.generation)
                now |= {TaskId(name, number): status for number, status in tasks.items()}
        ending = {name for name, running in self._running.connectors.items() if running.ending}
        known, written = self._state.query_state(lambda cluster, statuses: (set(cluster.connectors), _all(statuses)))
        news: dict[Part, Status | None] = {
            part: status for part, status in now.items() if _differs(written.get(part), status)
        }
        for part, status in written.items():
            name = _connector(part)
            mine = status.worker_id == worker_id
            if part in now or name in ending:
                continue
            if name in now or (name not in known and (mine or assignment.leads)):
                news[part] = None
            elif mine and status.state is not ConnectorState.UNASSIGNED:
                news[part] = Status(ConnectorState.UNASSIGNED, worker_id, assignment.generation)
        topics = self._active_topics(known, leads=assignment.leads)
        self._state.report([*(_record(part, status) for part, status in news.items()), *topics])
        self._written.clear()
        for running in self._running.connectors.values():
            running.mark_reported()

    def _active_topics(self, known: set[ConnectorName], *, leads: bool) -> list[StatusRecord]:
        """Records of the topics that were written here since the last report, and deletions for removed connectors."""
        now = self._clock.monotonic()
        if self._topics:
            due = now >= self._topics_at
            self._topics_at = now + TOPICS_S if due else self._topics_at
            for name, one in self._running.connectors.items():
                # A stopped connector shows all its topics.
                if written := one.take_written(running=due):
                    self._written.setdefault(name, set()).update(written)
        noted = self._state.query_state(
            lambda _, statuses: {name: set(statuses.active_topics(name)) for name in statuses.tracked()}
        )
        used = ActiveTopic(0, wall_ms(self._clock))
        records: list[StatusRecord] = [
            ActiveTopicRecord(name, topic, used)
            for name, written in self._written.items()
            if name in known
            for topic in sorted(written - noted.get(name, set()))
        ]
        if leads:
            records += [
                ActiveTopicRecord(name, topic, None)
                for name in noted.keys() - known - self._running.connectors.keys()
                for topic in sorted(noted[name])
            ]
        return records


def _all(statuses: Statuses) -> Mapping[Part, Status]:
    found: dict[Part, Status] = {}
    for name in statuses.known():
        connector = statuses.connector(name)
        if connector is not None:
            found[name] = connector
        found |= {TaskId(name, number): status for number, status in statuses.tasks(name).items()}
    return found


def _connector(part: Part) -> ConnectorName:
    return part.connector if isinstance(part, TaskId) else part


def _record(part: Part, status: Status | None) -> StatusRecord:
    if status is not None:
        # Connect's workers have written the version of the plugin since 4.1 (KIP-891).
        status = replace(status, version=VERSION)
    return TaskStatusRecord(part, status) if isinstance(part, TaskId) else ConnectorStatusRecord(part, status)


def _differs(before: Status | None, now: Status) -> bool:
    """Whether a state has changed; the generation is ignored."""
    if before is None:
        return True
    return (before.state, before.trace, before.worker_id) != (now.state, now.trace, now.worker_id)


class TaskReports:
    """Compares the tasks of the connectors that run here with the config topic; used by a single thread.

    `changing` is held while the leader changes something.
    """

    def __init__(
        self,
        state: GroupState,
        running: RunningConnectors,
        changing: threading.Lock,
        ask_leader: AskLeader,
        clock: Clock,
    ) -> None:
        self._state = state
        self._running = running
        self._changing = changing
        self._ask_leader = ask_leader
        self._clock = clock
        self._asking: threading.Thread | None = None
        self._ask_at = LONG_AGO
        self._logged = LogOnce(clock)

    def write(self, assignment: Assignment) -> None:
        """Have the changed tasks written. Raises ClusterError when this worker leads."""
        changed = self._changed()
        if assignment.leads:
            for name in self._state.query_state(_stopped_with_tasks):
                # The leader ended between the two records that stop a connector.
                with self._changing:
                    if name in self._state.query_state(_stopped_with_tasks):
                        self._state.put_tasks(name, ())
            for name, configs in changed.items():
                with self._changing:
                    if self._wanted(name):
                        self._state.put_tasks(name, configs)
        elif changed and assignment.leader_url and self._may_ask():
            self._ask(assignment.leader_url, changed)

    def _changed(self) -> dict[ConnectorName, Sequence[Config]]:
        changed = {}
        known = self._state.query_state(
            lambda cluster, _: {name: cluster.connectors.get(name) for name in self._names()}
        )
        for name, connector in known.items():
            if connector is None or not self._wanted(name):
                continue
            configs = self._running.connectors[name].task_configs(connector.config)
            same = connector.consistent and connector.applied is not None and list(connector.tasks) == configs
            if configs is not None and not same:
                changed[name] = configs
        return changed

    def _names(self) -> Sequence[ConnectorName]:
        return list(self._running.connectors)

    def _wanted(self, name: ConnectorName) -> bool:
        """Whether a connector's tasks may be written.

        A stopped connector has no tasks, and a paused connector keeps its tasks.
        """
        return self._state.query_state(
            lambda cluster, _: name in cluster.connectors and cluster.target_state(name) is TargetState.STARTED
        )

    def _may_ask(self) -> bool:
        return (self._asking is None or not self._asking.is_alive()) and self._clock.monotonic() >= self._ask_at

    def _ask(self, leader_url: str, changed: dict[ConnectorName, Sequence[Config]]) -> None:
        """Ask the leader on a thread of its own, so that the connectors here continue."""

        def ask() -> None:
            for name, configs in changed.items():
                try:
                    self._ask_leader(leader_url, name, configs)
                except RequestError as error:
                    if self._logged.is_new(str(error), AGAIN_S):
                        log.info("the leader has not written the tasks of connector %s yet: %s", name, error)

        # The configurations that the leader writes arrive by the config topic.
        self._ask_at = self._clock.monotonic() + TASK_CONFIGS.first_s
        self._asking = threading.Thread(target=ask, name="asking the leader", daemon=True)
        self._asking.start()


def _stopped_with_tasks(cluster: ClusterState, _: Statuses) -> list[ConnectorName]:
    return [
        name
        for name, connector in cluster.connectors.items()
        if connector.tasks and cluster.target_state(name) is TargetState.STOPPED
    ]
