"""Appends keyed records from a task to a compacted topic of one partition."""

from __future__ import annotations

from collections.abc import Sequence

from twinlog.clock import wall_ms
from twinlog.errors import ClusterError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.protocol import error_codes
from twinlog.model.types import TopicName, TopicPartition
from twinlog.record.own_records import own_batch, portions, record_body

_AFTER_APPEND = 20
"""NOT_ENOUGH_REPLICAS_AFTER_APPEND: it is in the leader's log."""


class KeyedTopic:
    """One such topic; `purpose` completes "... needs it" when a permission is missing. One append at a time."""

    def __init__(self, client: ClusterClient, topic: TopicName, timeout_s: float, purpose: str) -> None:
        self.partition = TopicPartition(topic, 0)
        self.appended = 0
        """How many records of the last `append` are acknowledged."""
        self.in_doubt = False
        """Whether others of them may be in the log, or will be yet."""
        self._moved = False
        """Whether the leader may be another one by now."""
        self._client = client
        self._timeout_s = timeout_s
        self._purpose = purpose

    async def append(self, records: Sequence[tuple[bytes, bytes | None]], *, at_once: bool = False) -> None:
        """Append (key, value) pairs in order, with `at_once` in one batch; returns once all in-sync replicas have them.

        Raises ClusterError when not all could be appended now, RefusedError without WRITE on the topic.
        """
        self.appended, self.in_doubt = 0, False
        now = wall_ms(self._client.loop.clock)
        bodies = [record_body(key, value) for key, value in records]
        for portion in [bodies] if at_once else portions(bodies):
            await self._append(own_batch((now, body) for body in portion))
            self.appended += len(portion)

    async def _append(self, batch: bytearray) -> None:
        client, partition = self._client, self.partition
        leader = None if self._moved else client.leader(partition)
        if leader is None:
            found = (await client.refresh([partition.topic]))[partition.topic]
            if error_codes.refused(found.error):
                raise self._lacks_write()
            leader = found.leaders.get(partition.partition)
        if leader is None:
            raise ClusterError(f"cluster {client.alias}: {partition} does not exist, or has no leader")
        self.in_doubt = self._moved = True
        answers = await client.produce(leader.node, {partition.topic: [(0, batch)]}, self._timeout_s, control=True)
        for code, _ in answers.values():
            self.in_doubt = code == _AFTER_APPEND
            if error_codes.refused(code):
                raise self._lacks_write()
            if code:
                raise ClusterError(f"cluster {client.alias}: {partition}: {error_codes.explain(code)}")
        self._moved = False

    def _lacks_write(self) -> ClusterError:
        return self._client.lacks("WRITE", f"topic {self.partition.topic}", self._purpose)
