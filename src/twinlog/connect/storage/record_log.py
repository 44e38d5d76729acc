"""Where a worker keeps its state: records that are appended, and read in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from twinlog.connect.storage.config_records import StoredRecord, UnreadableRecord

R = TypeVar("R")


class RecordLog(Protocol[R]):
    """One log of records; may be used from several threads. All raise ClusterError and RefusedError."""

    @property
    def topic_id(self) -> object:
        """Another one once the log was deleted and recreated, so that what was read of it counts no more."""

    def ensure(self) -> None:
        """Create what is missing."""

    def read(self) -> list[R]:
        """What was written since the last call, in its order. Raises TopicGoneError where it was deleted."""

    def append(self, records: Iterable[StoredRecord]) -> None:
        """Append records in their order; returns once they are stored."""

    def append_and_read(self, records: Iterable[StoredRecord]) -> list[R]:
        """Append records, and read up to the end after them."""


class ClaimedLog(RecordLog[R], Protocol[R]):
    """A log that may have only one writer at a time."""

    @property
    def claimed(self) -> bool:
        """Whether this process may append, as far as it knows."""

    def claim_log(self) -> None:
        """Become the only one that appends, where there may be only one. RefusedError is raised without the right to do
        so, and then appends need no claim."""


class MemoryLog(Generic[R]):
    """A log that lasts as long as its process: a standalone worker's (Kafka class MemoryConfigBackingStore)."""

    topic_id: object = None
    claimed = True

    def __init__(self, decode: Callable[[bytes | None, bytes | None], R | UnreadableRecord | None]) -> None:
        self._decode = decode

    def claim_log(self) -> None:
        """There is no other writer."""

    def ensure(self) -> None:
        """Nothing is to be created."""

    def read(self) -> list[R]:
        """There is no other writer."""
        return []

    def append(self, records: Iterable[StoredRecord]) -> None:
        """Nothing is kept but what `append_and_read` returns."""

    def append_and_read(self, records: Iterable[StoredRecord]) -> list[R]:
        """The records themselves."""
        found = (self._decode(key, value) for key, value in records)
        return [record for record in found if record is not None and not isinstance(record, UnreadableRecord)]
