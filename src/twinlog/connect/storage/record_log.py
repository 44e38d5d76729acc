"""The store of the state of a worker: records that are appended, and read in their order.

A group of workers has topics, which are created when they are missing, read to their end and appended to.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Generic, Protocol, TypeVar

from twinlog.connect.storage.config_records import StoredRecord, UnreadableRecord
from twinlog.errors import ClusterError, FencedError, RefusedError, TooFewBrokersError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.topics import alter_command, describe_configs
from twinlog.kafka.consumer.topic_reader import TopicReader
from twinlog.kafka.producer.claimed_topic import ClaimedTopic
from twinlog.kafka.producer.topic_writer import TopicWriter
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.last_records import KeptRecord, LastRecords, taken
from twinlog.kafka.record.records import Record
from twinlog.mirror.topics.create import create_topics
from twinlog.model.amounts import counted
from twinlog.model.topics import NewTopic, value_of
from twinlog.model.types import TopicName
from twinlog.settings.worker import StorageTopic

R = TypeVar("R")

log = logging.getLogger(__name__)
TIMEOUT_S = 15.0
LEADER_S = 5.0
TRANSACTION_MS = 60_000
"""The longest transaction, in milliseconds; each transaction lasts for an append."""


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


class StateTopic(Generic[R]):
    """A topic whose records `decode` decodes; may be used from several threads."""

    def __init__(
        self,
        admin: ClusterAdmin,
        topic: StorageTopic,
        key: str,
        decode: Callable[[bytes | None, bytes | None], R | UnreadableRecord | None],
        *,
        factor_key: str | None = None,
        transactional_id: str | None = None,
        last_only: bool = False,
    ) -> None:
        """`key` is the worker's key that names the topic, for messages.

        `factor_key` is the worker's key of the replication factor: the topic is created only with this factor, as in
        Connect. When `factor_key` is missing, too few brokers lead to the brokers' default. With a `transactional_id`
        only the worker with the last claim of the topic may write to it. With `last_only` a reading has only the last
        record of each key: a topic of positions has millions of overwritten records, which stay undecoded.
        """
        self.name = TopicName(topic.name)
        self._admin = admin
        self._topic = topic
        self._key = key
        self._factor_key = factor_key
        self._decode = decode
        self._lock = threading.Lock()
        self._found: list[R] = []
        """The records that were read before an error, which a further read omits."""
        self._last: LastRecords | None = {} if last_only else None
        """The same with `last_only`: the last record of each key."""
        self._reader = TopicReader(admin, self.name, committed=True)
        # The config topic has a single partition; in the other topics a record's key chooses the partition, as in
        # Kafka's producer.
        self._writer = self._new_writer()
        self._claim = (
            None
            if transactional_id is None
            else ClaimedTopic(self._new_writer(), admin.client, transactional_id, transaction_ms=TRANSACTION_MS)
        )
        self._open = False
        """Whether this worker lacks the permission to claim the topic, and writes unclaimed."""

    def _new_writer(self) -> TopicWriter:
        purpose = f"keeping the worker's state ({self._key})"
        return TopicWriter(self._admin.client, self.name, TIMEOUT_S, purpose, by_key=True, wait_s=LEADER_S)

    def ensure(self) -> None:
        """Create the topic when it is missing.

        Raises RefusedError when the creation fails, or the topic lacks compaction, or is a config topic of several
        partitions. Raises TooFewBrokersError for a factor with `factor_key`, and ClusterError when the cluster is
        unreachable.
        """
        found = self._admin.call(self._admin.client.refresh, [self.name])[self.name]
        if error_codes.refused(found.error):
            raise self._admin.client.lacks(
                "DESCRIBE", f"topic {self.name}", f"keeping the worker's state ({self._key})"
            )
        if found.error == Code.UNKNOWN_TOPIC_OR_PARTITION:
            self._create()
            return
        if self._topic.partitions == 1 and found.partitions > 1:
            raise RefusedError(
                f"cluster {self._admin.alias}: topic {self.name} ({self._key}) has "
                f"{counted(found.partitions, 'partition')} and must have a single partition, so that its records "
                "keep their order; name another topic, or recreate it",
                message_id="TW-WORKER-21",
            )
        self._check_compaction()

    def _create(self) -> None:
        configs = {**dict(self._topic.settings), "cleanup.policy": "compact"}
        new = NewTopic(self.name, self._topic.partitions, self._topic.replication_factor, configs)
        refused = self._admin.create_topics([new]) if self._factor_key else create_topics("worker", self._admin, [new])
        for name, refusal in refused.items():
            text = f"cluster {self._admin.alias}: topic {name} ({self._key}) could not be created: {refusal.text}"
            if self._factor_key is None or refusal.code != Code.INVALID_REPLICATION_FACTOR:
                raise RefusedError(text, message_id="TW-WORKER-04")
            brokers, factor = len(self._admin.identity().brokers), self._topic.replication_factor
            # Brokers never report the number of replicas of their default.
            wanted, instead = (
                ("as many replicas as the brokers' default.replication.factor", "")
                if factor == -1
                else (counted(factor, "replica"), ", or -1 for the brokers' default")
            )
            raise TooFewBrokersError(
                f"{text}; it is to have {wanted}, and the cluster has {counted(brokers, 'broker')}: "
                f"write {self._factor_key} = {brokers}{instead}, or start the other brokers",
                message_id="TW-WORKER-04",
            )

    def _check_compaction(self) -> None:
        found, _ = self._admin.call(describe_configs, self._admin.client, [self.name])
        policy = value_of(found.get(self.name, ()), "cleanup.policy")
        if policy not in (None, "compact"):
            raise RefusedError(
                f"cluster {self._admin.alias}: topic {self.name} ({self._key}) has cleanup.policy={policy} and must "
                "have compact, or the state of the connectors is lost; the topic stays as it is until you repair it "
                "with: " + alter_command(self._admin.client, self.name, {"cleanup.policy": "compact"}),
                message_id="TW-INTERNAL-01",
            )

    @property
    def topic_id(self) -> object:
        """The topic that was read; changes when the topic was recreated."""
        return self._reader.topic_id

    def read(self) -> list[R]:
        """The records since the last call, in the order of each partition. Raises ClusterError, RefusedError.

        After an error, the next call also returns the records that were read before the error.
        """
        with self._lock:
            return self._read()

    @property
    def claimed(self) -> bool:
        """Whether this worker may append, as far as it knows."""
        return self._claim is None or self._open or self._claim.claimed

    def claim_log(self) -> None:
        """Become the topic's only writer, if the topic has a transactional id.

        Raises ClusterError, and RefusedError when the permission is missing; from then on appends need no claim.
        """
        if self._claim is None:
            return
        with self._lock:
            self._open = False
            try:
                self._admin.call(self._claim.claim_topic)
            except RefusedError:
                self._open = True
                raise

    def append(self, records: Iterable[StoredRecord]) -> None:
        """Append records in their order; returns once all in-sync replicas have them.

        Raises ClusterError, RefusedError.
        """
        with self._lock:
            self._append(records)

    def append_and_read(self, records: Iterable[StoredRecord]) -> list[R]:
        """Append records, and read up to the end after them."""
        with self._lock:
            self._append(records)
            return self._read()

    def _append(self, records: Iterable[StoredRecord]) -> None:
        append = self._writer.append if self._claim is None or self._open else self._claim.append
        try:
            self._admin.call(partial(append, list(records)))
        except FencedError as error:
            raise ClusterError(f"{error}; nothing was changed") from error

    def _read(self) -> list[R]:
        for record in self._new_records():
            decoded = self._decode(record.key, record.value)
            if isinstance(decoded, UnreadableRecord):
                log.error(
                    "TW-WORKER-16: topic %s: the record %s is passed over: %s", self.name, decoded.key, decoded.reason
                )
            elif decoded is not None:
                self._found.append(decoded)
        found, self._found = self._found, []
        return found

    def _new_records(self) -> Iterator[Record]:
        if self._last is None:
            for _, record in self._reader.read():
                yield record
            return
        self._reader.read_last(self._last)
        # Two keys may name a partition with its fields in another order: the record that was written last counts.
        self._last = dict(sorted(self._last.items(), key=lambda kept: kept[1].offset))
        for _, record in taken(self._last, KeptRecord.decode):
            yield record
