"""Writes the states of what a worker runs into the group's status topic, and what the leader owes for the others."""

from __future__ import annotations

from dataclasses import replace

from twinlog.connect.group.member import Assignment
from twinlog.connect.group.state import GroupState
from twinlog.connect.model import VERSION, ConnectorName, Status, TaskId
from twinlog.connect.running import RunningConnectors
from twinlog.connect.storage.status_records import ConnectorStatusRecord, StatusRecord, TaskStatusRecord


class StatusReports:
    """What one worker has written about connectors and tasks; used by one thread."""

    def __init__(self, state: GroupState, running: RunningConnectors) -> None:
        self._state = state
        self._running = running
        self._reported: dict[object, Status] = {}

    def write(self, worker_id: str, assignment: Assignment) -> None:
        """Write the states of what runs here that changed, and delete those of what is gone. Raises ClusterError."""
        records: list[StatusRecord] = []
        seen: set[object] = set()
        for name, running in self._running.connectors.items():
            if running.ending:
                continue
            status = _of_this(running.connector_state(worker_id, assignment.generation))
            found = running.task_states(worker_id, assignment.generation)
            tasks = {number: _of_this(one) for number, one in found.items()}
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

    def _gone(self, seen: set[object], assignment: Assignment) -> list[StatusRecord]:
        """States to be deleted or given up: of connectors that were removed, and of those that run elsewhere now."""
        known = set(self._state.look(lambda cluster, _: list(cluster.connectors)))
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


def _of_this(status: Status) -> Status:
    """A state as Connect's workers have written it since 4.1, with the version of the plugin (KIP-891)."""
    return replace(status, version=VERSION)


def _differs(before: Status | None, now: Status) -> bool:
    """Whether a state is news; another generation alone is none."""
    if before is None:
        return True
    return (before.state, before.trace, before.worker_id) != (now.state, now.trace, now.worker_id)
