"""Reads a partition from an offset to its end: answer by answer, or batch by batch of a remote log."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable

from twinlog.errors import ClusterError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.fetch_session import FetchSession
from twinlog.kafka.protocol.error_codes import Code, explain
from twinlog.kafka.protocol.fetch_request import FetchPosition
from twinlog.kafka.protocol.fetch_response import PartitionResponse
from twinlog.kafka.protocol.list_offsets import EARLIEST
from twinlog.kafka.record.batch import Batch, scan
from twinlog.model.types import AnyOffset, TargetOffset, TopicPartition


class RemoteLogBatches:
    """The batches of a remote log from an offset up to its end."""

    def __init__(
        self,
        client: ClusterClient,
        partition: TopicPartition,
        start: TargetOffset,
        end: TargetOffset,
        first: PartitionResponse | None,
    ) -> None:
        self._chunks = chunks(client, partition, start, committed=False, known=True, first=first)
        self._batches: deque[tuple[memoryview, Batch]] = deque()
        self._end = end
        self.first: Batch | None = None
        self.position = start
        """The offset after the last batch read; after the end, if the log grew meanwhile."""

    async def read_batch(self) -> tuple[memoryview, Batch] | None:
        """Return a batch of records; None at the end."""
        while not self._batches and self.position < self._end:
            try:
                fetched, go_on = await anext(self._chunks)
            except StopAsyncIteration:
                return None
            for batch in scan(fetched.records):
                if batch.last_offset < self.position:
                    continue
                self.first = self.first or batch
                # The position counts the committed records of transactions; all other records of transactions were
                # aborted.
                if not batch.is_control and not batch.is_transactional:
                    self._batches.append((fetched.records[batch.start : batch.end], batch))
                self.position = TargetOffset(batch.last_offset + 1)
            go_on(self.position)
        return self._batches.popleft() if self._batches else None

    async def read_first_batch(self) -> None:
        """Read until the first batch is known."""
        batch = await self.read_batch()
        if batch is not None:
            self._batches.appendleft(batch)


CHUNK_BYTES = 4 << 20
SILENT_S = 60.0
"""A read that a broker throttles for this time ends with an error; the caller begins the read again."""

ASK_AGAIN_S = 0.1
PATIENCE_MS = 500
"""How long a broker may wait before it answers with records that must be there."""


async def chunks(
    client: ClusterClient,
    partition: TopicPartition,
    offset: AnyOffset,
    *,
    committed: bool,
    known: bool,
    begun: bool = False,
    first: PartitionResponse | None = None,
    most_bytes: int = CHUNK_BYTES,
) -> AsyncIterator[tuple[PartitionResponse, Callable[[AnyOffset], None]]]:
    """Yields answers from `offset` on, each with a function that takes the offset of the next answer.

    Ends at the log's end. `first` is the first answer, if the leader was asked already. With `known` the log had these
    offsets a moment ago; with `begun` the log began at `offset` or before it. In both cases a deleted offset is an
    error instead of the end. An answer has `most_bytes`, or a single larger batch.

    Over a quota a broker answers with an empty list of partitions (Kafka class KafkaApis, handleFetchRequest). The
    function then asks again. Raises ClusterError.
    """
    leader = client.leader(partition)
    if leader is None:
        raise ClusterError(f"cluster {client.alias}: {partition} has no leader")
    session = FetchSession(client, leader.node, read_committed=committed, kept=False)
    topic = client.topic(partition.topic)
    topic_id = None if topic is None else topic.topic_id
    place = [offset]

    def go_on(next_offset: AnyOffset) -> None:
        place[0] = next_offset

    if first is not None:
        yield first, go_on
        first = None
        if place[0] == offset:
            return
    silent_since: float | None = None
    while True:
        before = place[0]
        answers = await session.fetch(
            {partition: FetchPosition(before, most_bytes, topic_id=topic_id)},
            max_wait_ms=PATIENCE_MS,
            min_bytes=1,
            max_bytes=most_bytes,
        )
        given = [found.answer for found in answers if found.partition == partition]
        if not given:
            now = client.loop.clock.monotonic()
            silent_since = now if silent_since is None else silent_since
            if now - silent_since > SILENT_S:
                raise ClusterError(
                    f"cluster {client.alias}: {partition} could not be read for {SILENT_S:.0f} s, as when a quota "
                    "throttles it"
                )
            await client.loop.sleep(ASK_AGAIN_S)
            continue
        silent_since = None
        for fetched in given:
            if fetched.error == Code.OFFSET_OUT_OF_RANGE and not known:
                if begun:
                    await _require_start(client, partition, before)
                return
            if fetched.error:
                raise ClusterError(f"cluster {client.alias}: reading {partition}: {explain(fetched.error)}")
            yield fetched, go_on
        if place[0] == before:
            return


async def _require_start(client: ClusterClient, partition: TopicPartition, offset: AnyOffset) -> None:
    """Raise ClusterError unless the log begins at an offset or before it."""
    starts = await client.list_offsets([partition], EARLIEST)
    if partition not in starts:
        raise ClusterError(f"cluster {client.alias}: {partition} does not report its offsets")
    if starts[partition] > offset:
        raise ClusterError(
            f"cluster {client.alias}: {partition} was read from offset {offset} on, "
            f"but begins at {starts[partition]} now"
        )
