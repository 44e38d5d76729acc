"""Reads a small topic of our own on the driver: all of it, and then what is added."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

from twinlog.errors import ClusterError
from twinlog.kafka import faults
from twinlog.kafka.admin import ClusterAdmin
from twinlog.kafka.client import EARLIEST, LATEST
from twinlog.kafka.faults import Code
from twinlog.kafka.fetch import FetchSession
from twinlog.kafka.fetch_request import FetchPosition
from twinlog.read.aborted import AbortedFilter
from twinlog.read.batches import scan
from twinlog.read.records import Record, decode_records, is_abort_marker
from twinlog.types import TopicName, TopicPartition

FETCH_BYTES = 4 << 20
DECIDED_S = 5.0
"""How long one call waits for transactions to end."""

UNDECIDED_MS = 20
"""How long one answer waits for that."""


class TopicTail:
    """Where one reader stands in each partition of a topic. With `optional` a topic that does not exist is empty.

    With `committed` it sees no aborted records, and waits for transactions that are open below the end: one of them may
    hold the newest record of a key.
    """

    def __init__(
        self,
        admin: ClusterAdmin,
        topic: TopicName,
        *,
        from_end: bool = False,
        optional: bool = False,
        committed: bool = False,
    ) -> None:
        self._admin = admin
        self._topic = topic
        self._from_end = from_end
        self._optional = optional
        self._committed = committed
        self._next: dict[TopicPartition, int] = {}
        self._topic_id: uuid.UUID | None = None

    def read(self, *, wait_ms: int = 0) -> Iterator[tuple[TopicPartition, Record]]:
        """Records added since the last call, up to the end as it is now; waits up to `wait_ms` for the first ones.

        Raises ClusterError; what was not yielded comes with the next call.
        """
        before = dict(self._next)
        try:
            records = self._admin.call(self._read, wait_ms)
        except BaseException:
            # Records that were read already go with the error, so they are read again.
            self._next = before
            raise
        yield from records

    async def _read(self, wait_ms: int) -> list[tuple[TopicPartition, Record]]:
        client = self._admin.client
        topic = (await client.refresh([self._topic])).get(self._topic)
        if topic is not None and faults.refused(topic.error):
            raise client.lacks("READ", f"topic {self._topic}", "reading it")
        if self._optional and topic is not None and topic.error == Code.UNKNOWN_TOPIC_OR_PARTITION:
            self._next.clear()
            return []
        if topic is None or topic.error:
            raise ClusterError(f"cluster {client.alias}: topic {self._topic} does not exist")
        if topic.topic_id != self._topic_id:
            # Created anew, so it begins anew.
            self._topic_id = topic.topic_id
            self._next.clear()
        parts = [TopicPartition(self._topic, part) for part in topic.leaders]
        fresh = [part for part in parts if part not in self._next]
        if fresh:
            self._next.update(await client.list_offsets(fresh, LATEST if self._from_end else EARLIEST))
        ends = await client.list_offsets(parts, LATEST)
        missing = set(range(topic.partitions)) - {part.partition for part in parts if part in ends}
        if missing or any(part not in self._next for part in parts):
            raise ClusterError(f"cluster {client.alias}: topic {self._topic} cannot be read as a whole now")
        found: list[tuple[TopicPartition, Record]] = []
        waited = False
        give_up_at = time.monotonic() + DECIDED_S
        while True:
            behind = [part for part in parts if self._next[part] < ends[part]]
            if not behind:
                if found or waited or not wait_ms:
                    return found
                behind, waited = parts, True
            elif self._committed and time.monotonic() > give_up_at:
                raise ClusterError(f"cluster {client.alias}: {behind[0]} is held up by an open transaction")
            patience_ms = wait_ms if waited else UNDECIDED_MS if self._committed else 0
            for node in {topic.leaders[part.partition].node for part in behind}:
                mine = [part for part in behind if topic.leaders[part.partition].node == node]
                session = FetchSession(client, node, read_committed=self._committed, kept=False)
                wanted = {part: FetchPosition(self._next[part], FETCH_BYTES, topic_id=topic.topic_id) for part in mine}
                for found_part in await session.fetch(
                    wanted, max_wait_ms=patience_ms, min_bytes=1, max_bytes=FETCH_BYTES
                ):
                    part, fetched = found_part.partition, found_part.answer
                    if fetched.error == Code.OFFSET_OUT_OF_RANGE:
                        self._next.update(await client.list_offsets([part], EARLIEST))
                        continue
                    if faults.refused(fetched.error):
                        raise client.lacks("READ", f"topic {self._topic}", "reading it")
                    if fetched.error:
                        raise ClusterError(f"cluster {client.alias}: reading {part}: {faults.explain(fetched.error)}")
                    hidden = AbortedFilter(fetched.aborted if self._committed else ())
                    for batch in scan(fetched.records):
                        aborts = self._committed and is_abort_marker(fetched.records, batch)
                        if not hidden.hides(batch, abort_marker=aborts) and not batch.is_control:
                            found.extend(
                                (part, record)
                                for record in decode_records(fetched.records, batch)
                                if record.offset >= self._next[part]
                            )
                        self._next[part] = max(self._next[part], batch.last_offset + 1)
