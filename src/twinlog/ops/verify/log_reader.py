"""Reads a range of a partition of a cluster as it is stored: batches, and on demand their records."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from twinlog.batches.arrow.bodies import Bodies, decode_bodies
from twinlog.errors import ClusterError, CorruptBatchError, RefusedError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.consumer.leader_fetch import GONE_S, LeaderFetch, RangeFetch, Silence
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.fetch import PartitionResponse
from twinlog.kafka.protocol.offsets import EARLIEST
from twinlog.kafka.record.batch import AbortedFilter, Batch, check_crc, read_batch
from twinlog.kafka.record.records import is_abort_marker
from twinlog.kafka.retry import TASK_CONNECT_S
from twinlog.model.types import TopicPartition
from twinlog.ops.verify.model import PartitionToVerify, Side, VerifyRules
from twinlog.settings.client import ConsumerSettings

GRANULE_BYTES = 512 << 10
"""The initial number of bytes of batches that are decoded together; it grows while records are compared singly."""


@dataclass(slots=True)
class _Fetched:
    """The unread rest of a fetch: the `batches` that a consumer sees, and the offset after the fetch."""

    records: memoryview
    batches: deque[Batch]
    past: int
    aborted: Sequence[tuple[int, int]]


class ClusterLogs:
    """Connections to a cluster, on a loop of the task's thread.

    A given `client` is used, otherwise a new client is made.
    """

    def __init__(self, loop: Loop, alias: str, settings: ConsumerSettings, client: ClusterClient | None = None) -> None:
        self.loop = loop
        self.alias = alias
        self.settings = settings
        self.client = ClusterClient(loop, alias, settings.client) if client is None else client

    def close(self) -> None:
        self.client.close()


class LogReader:
    """The records of `partition` with offsets from `start` to below `end`, in order.

    `position` is the offset after the last taken record. `committed` leaves out aborted transactions. Offsets that
    retention deletes during the read are skipped, and `lost(start, end)` is called for them. Raises ClusterError when
    the broker stalls for `patience_s`. `ahead` requests the next fetch while the present fetch is compared,
    if the loop runs on the reading thread.
    """

    def __init__(
        self,
        logs: ClusterLogs,
        partition: TopicPartition,
        start: int,
        end: int,
        *,
        committed: bool,
        topic_id: uuid.UUID | None,
        patience_s: float,
        lost: Callable[[int, int], None] = lambda start, end: None,
        fetch_bytes: int | None = None,
        ahead: bool = True,
    ) -> None:
        self._logs = logs
        self.partition = partition
        self.position = start
        self.end = end
        self._committed = committed
        self._lost = lost
        self._bytes = logs.settings.max_partition_fetch_bytes if fetch_bytes is None else fetch_bytes
        fetch = LeaderFetch(logs.client, logs.settings, read_committed=committed, partition_bytes=self._bytes)
        self._fetch = RangeFetch(
            fetch,
            partition,
            start,
            end,
            topic_id=topic_id,
            patience_s=patience_s,
            find_loss=self._after_loss,
            ahead=ahead,
        )
        self._answers = self._fetch.answers()
        self._fetched: _Fetched | None = None
        self._rows: Bodies | None = None
        self._rows_past = -1
        self._granule = GRANULE_BYTES

    # Whole batches.

    def whole_batch(self, limit: int) -> tuple[memoryview, Batch] | None:
        """Return the next batch with its fetch, if the position is at the begin of the batch and its bytes can be
        compared: it is gapless, and lies below `limit`. Return None otherwise, and at the end."""
        fetched = self._current(limit)
        if fetched is None:
            return None
        batch = fetched.batches[0]
        plain = (
            batch.magic == 2
            and batch.base_offset >= self.position
            and batch.record_count == batch.last_offset_delta + 1
            and batch.last_offset < limit
        )
        return (fetched.records, batch) if plain else None

    def skip_batch(self) -> None:
        """The batch was compared."""
        assert self._fetched is not None
        batch = self._fetched.batches.popleft()
        self.position = batch.last_offset + 1
        self._granule = GRANULE_BYTES

    # Records.

    def rows(self, limit: int) -> tuple[Bodies | None, int]:
        """Return some of the next records below `limit`, and the offset up to which these are all records.

        The records are None if the rest below `limit` is empty. Raises CorruptBatchError.
        """
        while self.position < limit:
            rows = self._rows
            if rows is not None and self.position < self._rows_past:
                found = rows.from_offset(self.position, limit)
                if len(found):
                    return found, min(limit, self._rows_past)
                self.position = min(limit, self._rows_past)
                continue
            fetched = self._current(limit)
            if fetched is None:
                break
            self._decode(fetched)
        return None, limit

    def discard_before(self, position: int) -> None:
        """Everything before an offset was compared."""
        if position <= self.position:
            return
        self.position = position
        fetched = self._fetched
        while fetched is not None and fetched.batches and _last_offset(fetched) < position:
            fetched.batches.popleft()

    def more_at_once(self) -> None:
        """Decode more bytes at once from now on: the batches of both sides differ here."""
        self._granule = min(4 * self._granule, self._bytes)

    def _decode(self, fetched: _Fetched) -> None:
        chosen: list[Batch] = []
        size = 0
        for batch in fetched.batches:
            if chosen and size + batch.size > self._granule:
                break
            chosen.append(batch)
            size += batch.size
        for place, batch in enumerate(chosen):
            try:
                check_crc(fetched.records, batch)
            except CorruptBatchError:
                if place == 0:
                    raise
                # The records before a damaged batch are sound.
                del chosen[place:]
                break
        self._rows, used = decode_bodies(fetched.records, chosen, self.position, self.end)
        del chosen[used:]
        past = fetched.past if len(chosen) == len(fetched.batches) else fetched.batches[len(chosen)].base_offset
        if fetched.batches[min(len(chosen), len(fetched.batches) - 1)].magic < 2 and len(chosen) < len(fetched.batches):
            # In old formats a wrapper has the offset of its last record.
            past = chosen[-1].last_offset + 1
        self._rows_past = max(past, self.position + 1)

    # Fetches.

    def raw(self) -> tuple[memoryview, Sequence[tuple[int, int]], int] | None:
        """The next fetch as it came, writable, with its aborted transactions and the offset after it; None at the end.

        A caller uses either this or the other methods.
        """
        while self.position < self.end:
            fetched = self._read()
            if fetched is not None:
                self.position = fetched.past
                return fetched.records, fetched.aborted, fetched.past
        return None

    def _current(self, limit: int) -> _Fetched | None:
        """Return the fetch whose first batch is next; None if the rest below `limit` is empty."""
        while self.position < limit:
            fetched = self._fetched
            if fetched is not None and fetched.batches:
                first = fetched.batches[0]
                if first.magic == 2 and first.base_offset >= limit:
                    self.position = limit
                    return None
                return fetched
            if fetched is not None:
                self.position = max(self.position, min(fetched.past, limit))
                if self.position >= limit:
                    if fetched.past <= self.position:
                        self._fetched = None
                    return None
                self._fetched = None
            self._fetched = self._read()
        return None

    def _read(self) -> _Fetched | None:
        """Return a fetch from the position on; None when the position is at the end after lost offsets."""
        self._fetch.position = self.position
        for answer in self._answers:
            fetched = self._batches(answer)
            if fetched.past > self.position:
                return fetched
        return None

    def _batches(self, answer: PartitionResponse) -> _Fetched:
        hidden = AbortedFilter(answer.aborted) if self._committed and answer.aborted else None
        batches: deque[Batch] = deque()
        at, past = 0, self.position
        while (batch := read_batch(answer.records, at)) is not None:
            at = batch.end
            if batch.magic == 2:
                aborted = hidden is not None and hidden.hides(
                    batch, abort_marker=is_abort_marker(answer.records, batch)
                )
                seen = not (aborted or batch.is_control or not batch.record_count)
            else:
                seen = True
            past = max(past, batch.last_offset + 1)
            if seen and batch.last_offset >= self.position:
                batches.append(batch)
        return _Fetched(answer.records, batches, past, answer.aborted or ())

    def _after_loss(self, silence: Silence) -> int:
        """The position after offsets that the log has lost at its begin. Raises ClusterError for a deleted topic."""
        code, waited_s = silence.code, silence.waited_s
        if code in error_codes.OTHER_TOPIC and (silence.late or waited_s > GONE_S):
            raise self._fetch.silent(round(waited_s), "the topic was deleted, or recreated")
        if code == Code.OFFSET_OUT_OF_RANGE:
            self._pass_over()
        return self.position

    def _pass_over(self) -> None:
        """Move the position to the begin of the log, if the log begins later by now."""

        async def ask() -> int:
            client = self._logs.client
            await client.refresh([self.partition.topic])
            return (await client.list_offsets([self.partition], EARLIEST)).get(self.partition, -1)

        try:
            begin = self._logs.loop.run(ask)
        except RefusedError:
            raise
        except ClusterError:
            return
        if begin > self.position:
            past = min(begin, self.end)
            self._lost(self.position, past)
            self.position = past


def _last_offset(fetched: _Fetched) -> int:
    return fetched.batches[0].last_offset


class PartitionLogs:
    """Both logs of a partition; `lost(side, start, end)` is called for offsets that retention deletes during the
    comparison."""

    def __init__(self, source: ClusterLogs, target: ClusterLogs, part: PartitionToVerify, rules: VerifyRules) -> None:
        self._logs: dict[Side, ClusterLogs] = {"source": source, "target": target}
        self._part = part
        self._rules = rules
        self.lost: Callable[[Side, int, int], None] = lambda side, start, end: None

    def open(self, side: Side, start: int, end: int) -> LogReader:
        """Open the log of a side from `start` to below `end`."""
        part, rules = self._part, self._rules
        topic_id: uuid.UUID | None = part.source_id if side == "source" else part.target_id
        return LogReader(
            self._logs[side],
            part.source if side == "source" else part.remote,
            start,
            end,
            # An aborted transaction lacks copies.
            committed=side == "target" or rules.source.isolation_level == "read_committed",
            topic_id=topic_id,
            patience_s=rules.patience_s,
            lost=lambda first, past: self.lost(side, first, past),
        )

    def at_timestamp(self, side: Side, timestamp: int) -> int:
        """Return the first offset of a side with a record of this timestamp in ms or a later timestamp, -1 if it is
        missing."""
        logs = self._logs[side]
        part = self._part.source if side == "source" else self._part.remote

        async def ask() -> int:
            client = logs.client
            if not client.connected:
                await client.connect(TASK_CONNECT_S)
            await client.refresh([part.topic])
            at = max(timestamp, 0) if timestamp != EARLIEST else EARLIEST
            return (await client.list_offsets([part], at)).get(part, -1)

        try:
            return logs.loop.run(ask)
        except ClusterError:
            # Only a guess is lost with it.
            return -1
