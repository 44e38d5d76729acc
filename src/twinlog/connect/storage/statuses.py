"""The states of connectors and tasks, and the topics they have used, built from the records of the status topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from twinlog.connect.storage.status_records import (
    ActiveTopic,
    ActiveTopicRecord,
    ConnectorStatusRecord,
    StatusRecord,
    TaskStatusRecord,
)
from twinlog.connectors.model import ConnectorName, ConnectorState, Status, TaskId


class Statuses:
    """The states of all connectors of a group, for every worker; for use under a lock."""

    def __init__(self) -> None:
        self._connectors: dict[ConnectorName, Status] = {}
        self._tasks: dict[ConnectorName, dict[int, Status]] = {}
        self._topics: dict[ConnectorName, dict[str, ActiveTopic]] = {}

    def connector(self, name: ConnectorName) -> Status | None:
        """The state of a connector; None before the first report of a worker."""
        return self._connectors.get(name)

    def task(self, task: TaskId) -> Status | None:
        """The state of a task; None before the first report of a worker."""
        return self._tasks.get(task.connector, {}).get(task.task)

    def tasks(self, name: ConnectorName) -> dict[int, Status]:
        """The states of a connector's tasks, by number and in that order."""
        return dict(sorted(self._tasks.get(name, {}).items()))

    def active_topics(self, name: ConnectorName) -> Mapping[str, ActiveTopic]:
        """The topics that a connector has used since its last reset."""
        return dict(self._topics.get(name, {}))

    def tracked(self) -> set[ConnectorName]:
        """The connectors with active topics; removed connectors may be among them."""
        return set(self._topics)

    def known(self) -> set[ConnectorName]:
        """The connectors with a state, or with a state of a task; removed connectors may be among them."""
        return self._connectors.keys() | self._tasks.keys()

    def apply_records(self, records: Iterable[StatusRecord]) -> None:
        """Apply records in the order in which they were written."""
        for record in records:
            match record:
                case ConnectorStatusRecord(name, None):
                    # The tasks have records of their own, in other partitions. For a connector that was deleted and
                    # created again, the records of new tasks may come before this record.
                    self._connectors.pop(name, None)
                case ConnectorStatusRecord(name, status) if status is not None:
                    self._connectors[name] = status
                case TaskStatusRecord(task, status):
                    self._take_task(task, status)
                case ActiveTopicRecord(name, topic, used):
                    self._take_topic(name, topic, used)

    def _take_task(self, task: TaskId, status: Status | None) -> None:
        tasks = self._tasks.setdefault(task.connector, {})
        known = tasks.get(task.task)
        if status is None:
            tasks.pop(task.task, None)
        elif not (
            # The worker that lost a task may report the loss after the report of the task's new worker.
            status.state is ConnectorState.UNASSIGNED
            and known is not None
            and known.state is ConnectorState.RUNNING
            and known.generation >= status.generation
        ):
            tasks[task.task] = status
        if not tasks:
            del self._tasks[task.connector]

    def _take_topic(self, name: ConnectorName, topic: str, used: ActiveTopic | None) -> None:
        topics = self._topics.setdefault(name, {})
        if used is None:
            topics.pop(topic, None)
        else:
            topics[topic] = used
        if not topics:
            del self._topics[name]
