"""Topics that tell others of a flow: one partition on the target, of whose records the last of each key stays."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from itertools import islice

from twinlog.clock import wall_ms
from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.mirror.bounds import JOURNALS
from twinlog.mirror.create import create_topics
from twinlog.model.topics import NewTopic
from twinlog.model.types import TopicName, TopicPartition
from twinlog.record.own_records import own_batch, record_body

log = logging.getLogger(__name__)

BATCH_RECORDS = 2_000
"""Records in one append: far below a broker's 1 MB, with the longest names too."""

TIMEOUT_S = 15.0


class Journal:
    """Appends to partition 0 of such a topic; used by one thread."""

    def __init__(self, flow: str, target: ClusterAdmin, topic: TopicName, replication_factor: int, what: str) -> None:
        """`what` names the records in messages."""
        self.topic = topic
        self._flow = flow
        self._target = target
        self._replication_factor = replication_factor
        self._what = what
        self._there = False

    def ensure(self, *, look: bool = False) -> bool:
        """Create the topic unless it is there, compacted and with one partition, as MirrorMaker 2 does.

        With `look` also if it was there before: somebody may have deleted it. Returns whether it was created. Raises
        RefusedError when it neither exists nor can be created, ClusterError when the target does not answer.
        """
        if self._there and not look:
            return False
        client = self._target.client
        found = self._target.call(client.refresh, [self.topic])[self.topic]
        if error_codes.refused(found.error):
            raise client.lacks("WRITE", f"topic {self.topic}", f"writing {self._what}")
        self._there = found.error != Code.UNKNOWN_TOPIC_OR_PARTITION
        if self._there:
            return False
        configs = {"cleanup.policy": "compact", **JOURNALS}
        new = NewTopic(self.topic, 1, self._replication_factor, configs, frozenset(JOURNALS))
        for name, refusal in create_topics(self._flow, self._target, [new]).items():
            raise RefusedError(f"cluster {self._target.alias}: topic {name} could not be created: {refusal.text}")
        self._there = True
        return True

    def append(self, records: Iterable[tuple[bytes, bytes]], timestamp_ms: int | None = None) -> None:
        """Append (key, value) pairs with one timestamp (None: now), acknowledged by all in-sync replicas.

        What was appended before an error stays. Raises ClusterError when it could not be appended now, RefusedError
        without WRITE on the topic.
        """
        now = wall_ms(self._target.clock) if timestamp_ms is None else timestamp_ms
        for part in _portions(records, BATCH_RECORDS):
            self._target.call(self._append, own_batch((now, record_body(key, value)) for key, value in part))

    async def _append(self, batch: bytearray) -> None:
        client = self._target.client
        partition = TopicPartition(self.topic, 0)
        leader = client.leader(partition) or (await client.refresh([self.topic]))[self.topic].leaders.get(0)
        if leader is None:
            raise ClusterError(f"cluster {client.alias}: {partition} has no leader")
        answers = await client.produce(leader.node, {self.topic: [(0, batch)]}, TIMEOUT_S, control=True)
        for code, _ in answers.values():
            if error_codes.refused(code):
                raise client.lacks("WRITE", f"topic {self.topic}", f"writing {self._what}")
            if code != Code.NONE:
                # Its leader moved, or somebody deleted it: it is looked for anew, and created with the next turn.
                self._there = code != Code.UNKNOWN_TOPIC_OR_PARTITION
                await client.refresh([self.topic])
                raise ClusterError(f"cluster {client.alias}: {partition}: {error_codes.explain(code)}")


def _portions(records: Iterable[tuple[bytes, bytes]], size: int) -> Iterator[list[tuple[bytes, bytes]]]:
    rest = iter(records)
    while part := list(islice(rest, size)):
        yield part
