"""The store of a worker's state: records that are appended, and read in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from twinlog.connect.storage.config_records import StoredRecord, UnreadableRecord

R = TypeVar("R")


class RecordLog(Protocol[R]):
    """A log of records; may be used from several threads. All methods raise ClusterError and RefusedError."""

    @property
    def topic_id(self) -> object:
        """Changes when the log was deleted and recreated: the records read before are obsolete."""

    def ensure(self) -> None:
        """Create the missing parts of the log."""

    def read(self) -> list[R]:
        """The records since the last call, in their order. Raises TopicGoneError for a deleted log."""

    def append(self, records: Iterable[StoredRecord]) -> None:
        """Append records in their order; returns once they are stored."""

    def append_and_read(self, records: Iterable[StoredRecord]) -> list[R]:
        """Append records, and read up to the end after them."""


class ClaimedLog(RecordLog[R], Protocol[R]):
    """A log that may have only a single writer at a time."""

    @property
    def claimed(self) -> bool:
        """Whether this process may append, as far as it knows."""

    def claim_log(self) -> None:
        """Become the only writer, for a log with a single writer.

        Raises RefusedError when the permission is missing; appends then need no claim.
        """


class MemoryLog(Generic[R]):
    """A log that lasts as long as its process: a standalone worker's (Kafka class MemoryConfigBackingStore)."""

    topic_id: object = None
    claimed = True

    def __init__(self, decode: Callable[[bytes | None, bytes | None], R | UnreadableRecord | None]) -> None:
        self._decode = decode

    def claim_log(self) -> None:
        """Do nothing: this process is the only writer."""

    def ensure(self) -> None:
        """Do nothing: the log needs no topic."""

    def read(self) -> list[R]:
        """Return an empty list: `append_and_read` has returned all records."""
        return []

    def append(self, records: Iterable[StoredRecord]) -> None:
        """Do nothing: only `append_and_read` returns records."""

    def append_and_read(self, records: Iterable[StoredRecord]) -> list[R]:
        """The given records, decoded."""
        found = (self._decode(key, value) for key, value in records)
        return [record for record in found if record is not None and not isinstance(record, UnreadableRecord)]
