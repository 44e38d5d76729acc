"""Records of the status topic, and what they add up to."""

from __future__ import annotations

import pytest

from twinlog.connect.storage.config_records import UnreadableRecord
from twinlog.connect.storage.status_records import (
    ActiveTopic,
    ActiveTopicRecord,
    ConnectorStatusRecord,
    Statuses,
    StatusRecord,
    TaskStatusRecord,
    decode,
    encode,
)
from twinlog.worker.connectors.model import ConnectorName, ConnectorState, Status, TaskId

C = ConnectorName("a-1")
HERE, THERE = "one:8083", "two:8083"
RUNNING = Status(ConnectorState.RUNNING, HERE, 4)


@pytest.mark.parametrize(
    ("record", "key", "value"),
    [
        (
            ConnectorStatusRecord(C, RUNNING),
            b"status-connector-a-1",
            b'{"state":"RUNNING","trace":null,"worker_id":"one:8083","generation":4}',
        ),
        (
            TaskStatusRecord(TaskId(C, 3), Status(ConnectorState.FAILED, HERE, 4, "why", "4.3.0")),
            b"status-task-a-1-3",
            b'{"state":"FAILED","trace":"why","worker_id":"one:8083","generation":4,"version":"4.3.0"}',
        ),
        (TaskStatusRecord(TaskId(C, 3), None), b"status-task-a-1-3", None),
        (
            ActiveTopicRecord(C, "t-1", ActiveTopic(2, 1_700_000_000_000)),
            b"status-topic-t-1:connector-a-1",
            b'{"topic":{"name":"t-1","connector":"a-1","task":2,"discoverTimestamp":1700000000000}}',
        ),
        (ActiveTopicRecord(C, "t-1", None), b"status-topic-t-1:connector-a-1", None),
    ],
)
def test_a_record_has_the_bytes_of_connect(record: StatusRecord, key: bytes, value: bytes | None) -> None:
    assert encode(record) == (key, value)
    assert decode(key, value) == record


def test_what_is_destroyed_is_deleted() -> None:
    assert encode(ConnectorStatusRecord(C, Status(ConnectorState.DESTROYED, HERE))) == (b"status-connector-a-1", None)


OTHERS = [b"status-connector-", b"status-task-a-x", b"status-task-0", b"status-topic-:connector-a", b"status-topic-t"]


@pytest.mark.parametrize("key", [*OTHERS, b"else", b"\xff", None])
def test_other_keys_are_passed_over(key: bytes | None) -> None:
    assert decode(key, b'{"state":"RUNNING","worker_id":"w","generation":1}') is None


@pytest.mark.parametrize("value", [b"{", b'{"state":"ASLEEP","worker_id":"w","generation":1}', b'{"state":"RUNNING"}'])
def test_an_unreadable_status_is_named(value: bytes) -> None:
    assert isinstance(decode(b"status-connector-c", value), UnreadableRecord)


def test_the_last_state_counts() -> None:
    statuses = Statuses()
    statuses.apply_records([ConnectorStatusRecord(C, RUNNING), TaskStatusRecord(TaskId(C, 10), RUNNING),
                   TaskStatusRecord(TaskId(C, 9), RUNNING)])  # fmt: skip
    assert statuses.connector(C) == RUNNING
    assert list(statuses.tasks(C)) == [9, 10]
    statuses.apply_records([TaskStatusRecord(TaskId(C, 9), None)])
    assert list(statuses.tasks(C)) == [10]
    statuses.apply_records([ConnectorStatusRecord(C, None)])
    # Its tasks have records of their own, and of one that was recreated those may be read before.
    assert (statuses.connector(C), list(statuses.tasks(C)), statuses.known()) == (None, [10], {C})
    statuses.apply_records([TaskStatusRecord(TaskId(C, 10), None)])
    assert (statuses.tasks(C), statuses.known()) == ({}, set())


def test_the_worker_that_lost_a_task_does_not_hide_the_one_that_has_it() -> None:
    statuses, task = Statuses(), TaskId(C, 0)
    statuses.apply_records([TaskStatusRecord(task, Status(ConnectorState.RUNNING, THERE, 5))])
    statuses.apply_records([TaskStatusRecord(task, Status(ConnectorState.UNASSIGNED, HERE, 4))])
    assert statuses.task(task) == Status(ConnectorState.RUNNING, THERE, 5)
    statuses.apply_records([TaskStatusRecord(task, Status(ConnectorState.UNASSIGNED, THERE, 6))])
    assert statuses.task(task) == Status(ConnectorState.UNASSIGNED, THERE, 6)


def test_active_topics_are_forgotten_when_they_are_reset() -> None:
    statuses, used = Statuses(), ActiveTopic(0, 7)
    statuses.apply_records([ActiveTopicRecord(C, "t", used), ActiveTopicRecord(C, "u", used)])
    assert statuses.active_topics(C) == {"t": used, "u": used}
    statuses.apply_records([ActiveTopicRecord(C, "t", None)])
    assert statuses.active_topics(C) == {"u": used}
