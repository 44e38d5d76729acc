"""Reads one partition of a small topic as a whole: from its first record to its present end, within a given time."""

from __future__ import annotations

from collections.abc import Callable

from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka import faults
from twinlog.kafka.admin import ClusterAdmin
from twinlog.kafka.client import EARLIEST, LATEST, ClusterClient
from twinlog.kafka.faults import Code
from twinlog.kafka.fetch import FetchSession
from twinlog.kafka.fetch_request import FetchPosition
from twinlog.kafka.fetch_response import PartitionAnswer
from twinlog.read.batches import scan
from twinlog.read.records import Record, decode_records
from twinlog.types import TopicPartition

FETCH_BYTES = 4 << 20
RETRY_S = 0.1


def read_partition(
    admin: ClusterAdmin, partition: TopicPartition, take: Callable[[Record], None], timeout_s: float
) -> None:
    """Give every record of a partition to `take`, on the cluster's own thread; leaders may move meanwhile.

    Raises ClusterError when the end is not reached within `timeout_s` seconds, RefusedError without the permission.
    """
    admin.call(_Snapshot(admin.client, partition, take, timeout_s).run)


class _Snapshot:
    def __init__(
        self, client: ClusterClient, partition: TopicPartition, take: Callable[[Record], None], timeout_s: float
    ) -> None:
        self._client = client
        self._partition = partition
        self._take = take
        self._timeout_s = timeout_s
        self._next = -1
        self._end = -1
        self._trouble = "the cluster does not answer"
        self._over = False
        """The time is over: what is still read is not wanted any more."""

    async def run(self) -> None:
        loop = self._client.loop
        ended = loop.signal()
        reading = loop.spawn(self._read)
        reading.add_both(lambda _: ended.set())
        if await ended.wait(self._timeout_s):
            await reading
            return
        self._over = True
        reached = "" if self._end < 0 else f", offset {max(0, self._next)} of {self._end} was reached"
        raise ClusterError(
            f"cluster {self._client.alias}: {self._partition} was not read to its end in time{reached}: {self._trouble}"
        )

    async def _read(self) -> None:
        while not self._over:
            try:
                await self._read_from_leader()
                return
            except RefusedError:
                raise
            except ClusterError as error:
                self._trouble = str(error)
                await self._client.loop.sleep(RETRY_S)

    async def _read_from_leader(self) -> None:
        """Read on to the end; raises ClusterError when the leader changes or fails on the way."""
        client, partition = self._client, self._partition
        topic = (await client.refresh([partition.topic]))[partition.topic]
        leader = topic.leaders.get(partition.partition)
        if faults.refused(topic.error):
            raise client.lacks("READ", f"topic {partition.topic}", "reading it")
        if leader is None:
            raise ClusterError(f"{partition} has no leader")
        if self._end < 0:
            self._end = (await client.list_offsets([partition], LATEST)).get(partition, -1)
        if self._next < 0:
            self._next = (await client.list_offsets([partition], EARLIEST)).get(partition, -1)
        if self._end < 0 or self._next < 0:
            raise ClusterError(f"{partition} does not tell its offsets")
        session = FetchSession(client, leader.node, read_committed=False, kept=False)
        self._trouble = "there is more of it than could be read in that time"
        while self._next < self._end and not self._over:
            wanted = {partition: FetchPosition(self._next, FETCH_BYTES, topic_id=topic.topic_id)}
            for fetched in await session.fetch(wanted, max_wait_ms=100, min_bytes=1, max_bytes=FETCH_BYTES):
                self._deliver(fetched.answer)

    def _deliver(self, fetched: PartitionAnswer) -> None:
        if self._over:
            return
        if fetched.error == Code.OFFSET_OUT_OF_RANGE:
            self._next = -1
            raise ClusterError(f"{self._partition} was cut off while it was read")
        if faults.refused(fetched.error):
            raise self._client.lacks("READ", f"topic {self._partition.topic}", "reading it")
        if fetched.error:
            raise ClusterError(faults.explain(fetched.error))
        for batch in scan(fetched.records):
            if not batch.is_control:
                for record in decode_records(fetched.records, batch):
                    if record.offset >= self._next:
                        self._take(record)
            self._next = max(self._next, batch.last_offset + 1)
