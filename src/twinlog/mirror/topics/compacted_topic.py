"""Compacted topics of a flow for readers on the target: a single partition keeps the last record of each key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice

from twinlog.errors import NotAppendedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.producer.topic_writer import TopicWriter
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.mirror.topics.create import require_topics
from twinlog.mirror.topics.internal_topics import InternalTopic

BATCH_RECORDS = 2_000
"""Records that are encoded at a time, on a thread that serves further work, too."""

TIMEOUT_S = 15.0


class CompactedTopic:
    """Appends to partition 0 of a compacted topic; used by a single thread."""

    def __init__(self, flow: str, target: ClusterAdmin, topic: InternalTopic, what: str) -> None:
        """`what` names the records in messages."""
        self._topic = topic
        self._flow = flow
        self._target = target
        self._there = False
        self._writer = TopicWriter(target.client, topic.name, TIMEOUT_S, f"writing {what}")

    def ensure(self, *, look: bool = False) -> bool:
        """Create a missing topic, compacted and with a single partition, as MirrorMaker 2 does.

        With `look` a topic that existed at the last call is looked up again: it may be deleted since. Returns whether
        the topic was created. Raises RefusedError when its creation is refused, ClusterError when the target is silent.
        """
        if self._there and not look:
            return False
        client = self._target.client
        found = self._target.call(client.refresh, [self._topic.name])[self._topic.name]
        if error_codes.refused(found.error):
            raise self._writer.lacks_write()
        self._there = found.error != Code.UNKNOWN_TOPIC_OR_PARTITION
        if self._there:
            return False
        require_topics(self._flow, self._target, [self._topic.new()])
        self._there = True
        return True

    def append(self, records: Iterable[tuple[bytes, bytes]], timestamp_ms: int | None = None) -> None:
        """Append (key, value) pairs with a common timestamp (None: now), acknowledged by all in-sync replicas.

        The records appended before an error stay. Raises ClusterError for a failure that may pass, RefusedError if the
        login lacks WRITE on the topic.
        """
        for part in _portions(records, BATCH_RECORDS):
            try:
                self._target.call(partial(self._writer.append, part, timestamp_ms=timestamp_ms))
            except NotAppendedError as error:
                # The topic was deleted: the next turn creates it.
                self._there = error.code != Code.UNKNOWN_TOPIC_OR_PARTITION
                raise


def _portions(records: Iterable[tuple[bytes, bytes]], size: int) -> Iterator[list[tuple[bytes, bytes]]]:
    rest = iter(records)
    while part := list(islice(rest, size)):
        yield part
