"""What a remote log holds after a position, a batch at a time."""

from __future__ import annotations

from collections import deque

from twinlog.copier.start.chunks import chunks
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.protocol.fetch_response import PartitionResponse
from twinlog.kafka.record.batch import Batch, scan
from twinlog.model.types import TargetOffset, TopicPartition


class Arrived:
    """What the remote log holds from an offset up to its end, as batches."""

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
        """The offset after what was read; after the end, if more came meanwhile."""

    async def next(self) -> tuple[memoryview, Batch] | None:
        """A batch of records; None at the end."""
        while not self._batches and self.position < self._end:
            try:
                fetched, go_on = await anext(self._chunks)
            except StopAsyncIteration:
                return None
            for batch in scan(fetched.records):
                if batch.last_offset < self.position:
                    continue
                self.first = self.first or batch
                # Records of transactions are either counted by the position or aborted.
                if not batch.is_control and not batch.is_transactional:
                    self._batches.append((fetched.records[batch.start : batch.end], batch))
                self.position = TargetOffset(batch.last_offset + 1)
            go_on(self.position)
        return self._batches.popleft() if self._batches else None

    async def look(self) -> None:
        """Read until the first batch is known."""
        batch = await self.next()
        if batch is not None:
            self._batches.appendleft(batch)
