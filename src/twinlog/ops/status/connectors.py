"""The reports of a group of Connect workers about its connectors: by its members, and by its status topic.

Kafka's own workers and MirrorMaker 2 report only these states.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field

from twinlog.errors import RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.groups import GroupAdmin
from twinlog.kafka.consumer.topic_reader import TopicReader
from twinlog.kafka.record.last_records import KeptRecord, LastRecords, taken
from twinlog.model.types import GroupId, TopicName

_CONNECTOR, _TASK = b"status-connector-", b"status-task-"


@dataclass(frozen=True, slots=True)
class ReportedState:
    """The last status of a connector or of a task, written `at_ms` (Unix), by the worker that has it, host:port."""

    state: str
    worker: str
    at_ms: int
    trace: str | None = None


@dataclass(frozen=True, slots=True)
class ConnectorSnapshot:
    """A connector as its workers see it; `reported` is None if their status topic lacks a connector of this name.

    `members` is the number of workers in the group, None if the right to ask is missing.
    """

    group: str
    name: str
    members: int | None
    reported: ReportedState | None = None
    tasks: tuple[ReportedState, ...] = field(default=())

    @property
    def at_ms(self) -> int:
        """When the last of all was written (Unix time)."""
        return max((one.at_ms for one in (self.reported, *self.tasks) if one is not None), default=0)

    @property
    def failure(self) -> str | None:
        """The reason why the connector or a task of it failed, in a line; None while all run."""
        if self.reported is not None and self.reported.state == "FAILED":
            return _first_line(self.reported)
        failed = [one for one in self.tasks if one.state == "FAILED"]
        return f"{len(failed)} of {len(self.tasks)} tasks: {_first_line(failed[0])}" if failed else None


class ConnectorsReader:
    """The connectors of a group of workers, over borrowed connections; each `read` reads the new records."""

    def __init__(self, cluster: ClusterAdmin, group: str, status_topic: str) -> None:
        self._cluster = cluster
        self._group = group
        self._reader = TopicReader(cluster, TopicName(status_topic), optional=True)
        self._news: LastRecords = {}
        self._connectors: dict[str, ReportedState | None] = {}
        self._tasks: dict[str, dict[int, ReportedState | None]] = defaultdict(dict)
        self._members: int | None = None
        self._hidden = False

    def read(self) -> None:
        """Look at the group and its topic. Raises ClusterError; if a right on the group or on the topic is missing,
        that part stays unknown."""
        self._members, self._hidden = None, False
        try:
            described = self._cluster.call(GroupAdmin(self._cluster.client).described, GroupId(self._group))
            self._members = len(described.members)
        except RefusedError:
            pass
        try:
            self._reader.read_last(self._news)
        except RefusedError:
            self._hidden = True
            return
        for key, (value, at_ms) in taken(self._news, _value_and_time):
            reported = _reported(value, at_ms)
            if key.startswith(_CONNECTOR):
                self._connectors[key.removeprefix(_CONNECTOR).decode(errors="replace")] = reported
            elif key.startswith(_TASK):
                name, _, number = key.removeprefix(_TASK).decode(errors="replace").rpartition("-")
                if number.isdecimal():
                    self._tasks[name][int(number)] = reported

    def connector(self, name: str) -> ConnectorSnapshot | None:
        """A connector by its last read status; None if the topic is unreadable and all connectors are therefore
        unknown."""
        if self._hidden:
            return None
        tasks = [reported for _, reported in sorted(self._tasks.get(name, {}).items()) if reported is not None]
        return ConnectorSnapshot(self._group, name, self._members, self._connectors.get(name), tuple(tasks))


def _value_and_time(kept: KeptRecord) -> tuple[bytes | None, int]:
    return kept.value(), kept.timestamp


def _reported(value: bytes | None, at_ms: int) -> ReportedState | None:
    """A status as Kafka class KafkaStatusBackingStore writes it; None if it was deleted or is malformed."""
    try:
        found = json.loads(value or b"null")
        return ReportedState(str(found["state"]), str(found["worker_id"]), at_ms, found.get("trace"))
    except (ValueError, TypeError, KeyError):
        return None


def _first_line(reported: ReportedState) -> str:
    return (reported.trace or "").strip().partition("\n")[0] or f"worker {reported.worker} gives no reason"
