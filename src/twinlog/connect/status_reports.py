"""Writes the states of a worker's connectors into the group's status topic, and the leader's records for the group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from twinlog.clock import LONG_AGO, SYSTEM, Clock, wall_ms
from twinlog.connect.group.member import Assignment
from twinlog.connect.group.state import GroupState
from twinlog.connect.running import RunningConnectors
from twinlog.connect.storage.status_records import (
    ActiveTopic,
    ActiveTopicRecord,
    ConnectorStatusRecord,
    StatusRecord,
    TaskStatusRecord,
)
from twinlog.connect.storage.statuses import Statuses
from twinlog.connectors.model import VERSION, ConnectorName, ConnectorState, Status, TaskId

Part = ConnectorName | TaskId

TOPICS_S = 1.0


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
