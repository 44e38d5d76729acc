"""What a group of workers says of its connectors, also to who may not ask for all of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from twinlog.errors import RefusedError
from twinlog.kafka.record.last_records import KeptRecord, LastRecords
from twinlog.model.groups import GroupMember, GroupMembers
from twinlog.ops.status import readers
from twinlog.ops.status.readers import ConnectorSnapshot, ConnectorsReader, ReportedState

ONE = GroupMembers("connect", "Stable", (GroupMember("m", "c", "h", b"", b""),))


def record(key: str, value: bytes | None, at_ms: int = 7) -> tuple[bytes, KeptRecord]:
    """With lengths below 64, as a byte tells them."""
    size = bytes([1]) if value is None else bytes([len(value) * 2 & 127 | 128, len(value) * 2 >> 7]) + value
    return key.encode(), KeptRecord(0, at_ms, bytes([len(key) * 2]) + key.encode() + size + b"\0")


def status(state: str, trace: str = "null") -> bytes:
    return f'{{"state":"{state}","trace":{trace},"worker_id":"w:1","generation":3}}'.encode()


class Topic:
    """Stands in for the status topic, which may be hidden."""

    records: ClassVar[list[tuple[bytes, KeptRecord]]] = []
    refuses = False

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def read_last(self, last: LastRecords) -> None:
        if self.refuses:
            raise RefusedError("READ on the topic is missing")
        last.update(self.records)


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> type[Topic]:
    class Own(Topic):
        records: ClassVar = [
            record("status-connector-a-b", status("RUNNING")),
            record("status-task-a-b-1", status("FAILED", '"java.lang.Oops: x\\n\\tat y"'), 9),
            record("status-task-a-b-0", status("RUNNING")),
            record("status-task-a-b-2", None),
            record("status-connector-gone", None),
            record("status-connector-odd", b"no JSON"),
            record("status-topic-t:connector-a-b", b"{}"),
        ]

    monkeypatch.setattr(readers, "TopicReader", Own)
    return Own


def seen(name: str, group: GroupMembers | RefusedError = ONE) -> ConnectorSnapshot | None:
    def call(*_: Any) -> GroupMembers:
        if isinstance(group, RefusedError):
            raise group
        return group

    reader = ConnectorsReader(SimpleNamespace(client=None, call=call), "w", "w-status")  # type: ignore[arg-type]
    reader.read()
    return reader.connector(name)


def test_a_connector_has_its_last_status_and_those_of_its_tasks(topic: type[Topic]) -> None:
    found = seen("a-b")
    assert found is not None
    assert (found.members, found.reported, found.at_ms) == (1, ReportedState("RUNNING", "w:1", 7), 9)
    assert [one.state for one in found.tasks] == ["RUNNING", "FAILED"]
    assert found.failure == "1 of 2 tasks: java.lang.Oops: x"


@pytest.mark.parametrize("name", ["gone", "odd", "never"])
def test_of_others_nothing_was_reported(topic: type[Topic], name: str) -> None:
    found = seen(name)
    assert found is not None
    assert (found.reported, found.tasks) == (None, ())


def test_who_may_not_ask_for_the_group_does_not_take_it_for_empty(topic: type[Topic]) -> None:
    found = seen("a-b", RefusedError("DESCRIBE on the group is missing"))
    assert found is not None
    assert found.members is None


def test_who_may_not_read_the_topic_does_not_take_a_connector_for_unknown(topic: type[Topic]) -> None:
    topic.refuses = True
    assert seen("a-b") is None
