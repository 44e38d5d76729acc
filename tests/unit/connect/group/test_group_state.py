"""The records of a topic count in their order, whichever threads of a worker read them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from twinlog.connect.group.state import GroupState
from twinlog.connect.storage import config_records, offset_records, status_records
from twinlog.connect.storage.config_records import StoredRecord, UnreadableRecord
from twinlog.connect.storage.record_log import MemoryLog
from twinlog.connect.storage.status_records import ConnectorStatusRecord
from twinlog.worker.connectors.model import ConnectorName, ConnectorState, Status, StoredOffset

C = ConnectorName("c")
OFFSET = StoredOffset({"cluster": "a", "partition": 0, "topic": "t"}, {"offset": 41})
OVERTAKES_S = 0.5
"""The time in which another thread could overtake the thread that has read and still has to apply its records."""


class OvertakenLog(MemoryLog[Any]):
    """A topic; once a thread has read records of it, `other` runs on a second thread before the first continues."""

    def __init__(
        self, decode: Callable[[bytes | None, bytes | None], Any | UnreadableRecord | None], other: Callable[[], None]
    ) -> None:
        super().__init__(decode)
        self.appended: list[StoredRecord] = []
        self.second = threading.Thread(target=other, daemon=True)

    def read(self) -> list[Any]:
        appended, self.appended = self.appended, []
        if appended and self.second.ident is None:
            self.second.start()
            self.second.join(OVERTAKES_S)
        return self.append_and_read(appended)


def test_a_thread_that_finds_no_further_offset_has_the_offsets_that_another_thread_read() -> None:
    """Otherwise a connector would begin without the positions that Kafka's worker left."""
    seen: list[list[StoredOffset]] = []
    offsets = OvertakenLog(offset_records.decode, lambda: seen.append(state.offsets(C)))
    state = GroupState(MemoryLog(config_records.decode), MemoryLog(status_records.decode), offsets, lambda _: None)
    offsets.appended.append(offset_records.encode(C, OFFSET))
    assert state.offsets(C) == [OFFSET]
    offsets.second.join(60)
    assert seen == [[OFFSET]]


@pytest.mark.parametrize("reported", [True, False])
def test_a_later_state_stays_though_the_thread_with_the_earlier_state_is_late(*, reported: bool) -> None:
    def record(state: ConnectorState) -> ConnectorStatusRecord:
        return ConnectorStatusRecord(C, Status(state, "w:1", 1))

    def fail() -> None:
        if reported:
            state.report([record(ConnectorState.FAILED)])
        else:
            statuses.appended.append(status_records.encode(record(ConnectorState.FAILED)))
            state.read_statuses()

    statuses = OvertakenLog(status_records.decode, fail)
    state = GroupState(MemoryLog(config_records.decode), statuses, MemoryLog(offset_records.decode), lambda _: None)
    statuses.appended.append(status_records.encode(record(ConnectorState.RUNNING)))
    state.read_statuses()
    statuses.second.join(60)
    known = state.query_state(lambda _, found: found.connector(C))
    assert known is not None
    assert known.state is ConnectorState.FAILED
