"""The topics of a group of workers: made where they are missing, read to their end, appended to."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Generic, TypeVar

from twinlog.connect.storage.config_records import StoredRecord, Unreadable
from twinlog.errors import RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.configs import describe_configs
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.topic_reader import TopicReader
from twinlog.kafka.topic_writer import TopicWriter
from twinlog.mirror.create import create_topics
from twinlog.model.topics import NewTopic
from twinlog.model.types import TopicName
from twinlog.settings.worker import StorageTopic

R = TypeVar("R")

log = logging.getLogger(__name__)

TIMEOUT_S = 15.0
LEADER_S = 5.0


class StateTopic(Generic[R]):
    """One topic, whose records `decode` makes into what they mean; may be used from several threads."""

    def __init__(
        self,
        admin: ClusterAdmin,
        topic: StorageTopic,
        key: str,
        decode: Callable[[bytes | None, bytes | None], R | Unreadable | None],
    ) -> None:
        """`key` is the worker's key that names the topic, for messages."""
        self.name = TopicName(topic.name)
        self._admin = admin
        self._topic = topic
        self._key = key
        self._decode = decode
        self._lock = threading.Lock()
        self._found: list[R] = []
        """What was read before an error, and comes no second time."""
        self._reader = TopicReader(admin, self.name, committed=True)
        # The config topic has one partition; of the others a record's key chooses it, as Kafka's producer does.
        self._writer = TopicWriter(
            admin.client, self.name, TIMEOUT_S, f"keeping the worker's state ({key})", by_key=True, wait_s=LEADER_S
        )

    def ensure(self) -> None:
        """Create the topic unless it is there.

        Raises RefusedError when it cannot be created, is not compacted, or is a config topic of several partitions;
        ClusterError when the cluster does not answer.
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
                f"cluster {self._admin.alias}: topic {self.name} ({self._key}) has {found.partitions} partitions "
                "and must have one, so that its records keep their order; name another topic, or create it anew"
            )
        self._check_compaction()

    def _create(self) -> None:
        configs = {**dict(self._topic.settings), "cleanup.policy": "compact"}
        new = NewTopic(self.name, self._topic.partitions, self._topic.replication_factor, configs)
        for name, refusal in create_topics("worker", self._admin, [new]).items():
            raise RefusedError(
                f"cluster {self._admin.alias}: topic {name} ({self._key}) could not be created: {refusal.text}"
            )

    def _check_compaction(self) -> None:
        found, _ = self._admin.call(describe_configs, self._admin.client, [self.name])
        policy = next((entry.value for entry in found.get(self.name, ()) if entry.name == "cleanup.policy"), None)
        if policy not in (None, "compact"):
            raise RefusedError(
                f"cluster {self._admin.alias}: topic {self.name} ({self._key}) has cleanup.policy={policy} and must "
                "have compact, or the state of the connectors is lost; nothing was changed, repair it with: "
                f"kafka-configs.sh --bootstrap-server {','.join(self._admin.client.settings.bootstrap_servers)} "
                f"--alter --entity-type topics --entity-name {self.name} --add-config cleanup.policy=compact"
            )

    @property
    def topic_id(self) -> object:
        """The topic that was read: another one once it was made anew."""
        return self._reader.topic_id

    def read(self) -> list[R]:
        """What was written since the last call, in the order of each partition. Raises ClusterError, RefusedError; what
        was read until then comes with the next call."""
        with self._lock:
            return self._read()

    def append(self, records: Iterable[StoredRecord]) -> None:
        """Append records in their order; returns once all in-sync replicas have them. Raises ClusterError,
        RefusedError."""
        with self._lock:
            self._admin.call(partial(self._writer.append, list(records)))

    def append_and_read(self, records: Iterable[StoredRecord]) -> list[R]:
        """Append records, and read up to the end behind them."""
        with self._lock:
            self._admin.call(partial(self._writer.append, list(records)))
            return self._read()

    def _read(self) -> list[R]:
        for _, record in self._reader.read():
            decoded = self._decode(record.key, record.value)
            if isinstance(decoded, Unreadable):
                log.error("topic %s: the record %s is passed over: %s", self.name, decoded.key, decoded.reason)
            elif decoded is not None:
                self._found.append(decoded)
        found, self._found = self._found, []
        return found
