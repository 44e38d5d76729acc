"""The topics that workers in virtual time keep their state in: lists of real records."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

from twinlog.connect.group.state import Changed, GroupState
from twinlog.connect.storage import config_records, offset_records, status_records
from twinlog.connect.storage.config_records import StoredRecord, UnreadableRecord
from twinlog.errors import ClusterError, TopicGoneError
from twinlog.settings.worker import GroupSettings

if TYPE_CHECKING:
    from harness.virtual.workers import VirtualWorker


class Log(list[StoredRecord]):
    """A topic's records; `number` is its id."""

    _numbers = count()

    def __init__(self) -> None:
        super().__init__()
        self.number = next(self._numbers)


class Topic:
    """In the place of a StateTopic; one that was deleted is not among the topics of the world."""

    def __init__(self, worker: VirtualWorker, name: str, decode: Callable[..., Any]) -> None:
        self._worker = worker
        self._name = name
        self._decode = decode
        self._read = 0
        self.ensure()
        self.topic_id: object = self._log.number

    @property
    def _log(self) -> Log:
        try:
            return self._worker.world.topics[self._name]
        except KeyError:
            raise TopicGoneError(f"cluster worker: topic {self._name} does not exist") from None

    claimed = True

    def claim_log(self) -> None: ...

    def ensure(self) -> None:
        self._worker.world.topics.setdefault(self._name, Log())

    def read(self) -> list[Any]:
        if self.topic_id != self._log.number:
            self.topic_id, self._read = self._log.number, 0
        records, self._read = self._log[self._read :], len(self._log)
        decoded = [self._decode(*record) for record in records]
        assert not any(isinstance(one, UnreadableRecord) for one in decoded)
        return [one for one in decoded if one is not None]

    def append(self, records: Any) -> None:
        worker = self._worker
        stall_s, worker.stall_s = worker.stall_s, 0.0
        fault, worker.fault = worker.fault, None
        if stall_s:
            worker.world.advance(stall_s)
        if fault == "before" or not worker.allowed() or worker.frozen or worker not in worker.world.workers:
            raise ClusterError("it was not appended")
        self._log.extend(records)
        if fault == "after":
            raise ClusterError("no answer came")

    def append_and_read(self, records: Any) -> list[Any]:
        self.append(records)
        return self.read()


def group_state(worker: VirtualWorker, group: GroupSettings, changed: Changed) -> GroupState:
    config, status, offset = (
        Topic(worker, topic.name, decode)
        for topic, decode in (
            (group.config_storage, config_records.decode),
            (group.status_storage, status_records.decode),
            (group.offset_storage, offset_records.decode),
        )
    )
    return GroupState(config, status, offset, changed)
