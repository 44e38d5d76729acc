"""After a crash: finds out which records arrived on the target after the last stored position.

A position is stored after the append, so the end of the remote log may be ahead of it. twinlog reads what arrived there
and follows it in the source, record by record, so that nothing is copied twice. Comparing contents, not counting, keeps
this right when the source was compacted meanwhile, and shows when somebody else wrote to the remote topic.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

from twinlog.errors import ClusterError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.faults import Code, explain
from twinlog.kafka.fetch import FetchSession
from twinlog.kafka.fetch_request import FetchPosition
from twinlog.kafka.fetch_response import PartitionAnswer
from twinlog.offsets.positions import Position
from twinlog.read.batches import HEADER_SIZE, scan
from twinlog.read.records import record_bodies
from twinlog.task.grant import Grant
from twinlog.types import TopicPartition
from twinlog.write.appends import Append, CopyRules
from twinlog.write.prepare import prepare

CHUNK_BYTES = 8 << 20
PATIENCE_MS = 500
"""How long one answer may wait for records that must be there."""


async def _chunks(
    client: ClusterClient, partition: TopicPartition, offset: int, *, committed: bool
) -> AsyncIterator[tuple[PartitionAnswer, Callable[[int], None]]]:
    """Answers from `offset` on; the caller says by the function where the next one starts. Ends at the log's end."""
    leader = client.leader(partition)
    if leader is None:
        raise ClusterError(f"cluster {client.alias}: {partition} has no leader")
    session = FetchSession(client, leader.node, read_committed=committed, kept=False)
    topic = client.topic(partition.topic)
    topic_id = None if topic is None else topic.topic_id
    place = [offset]

    def go_on(next_offset: int) -> None:
        place[0] = next_offset

    while True:
        before = place[0]
        answers = await session.fetch(
            {partition: FetchPosition(before, CHUNK_BYTES, topic_id=topic_id)},
            max_wait_ms=PATIENCE_MS,
            min_bytes=1,
            max_bytes=CHUNK_BYTES,
        )
        for fetched in (found.answer for found in answers):
            if fetched.error == Code.OFFSET_OUT_OF_RANGE:
                return
            if fetched.error:
                raise ClusterError(f"cluster {client.alias}: reading {partition}: {explain(fetched.error)}")
            yield fetched, go_on
        if place[0] == before:
            return


class _Arrived:
    """What the remote log holds from an offset up to its end, as batches."""

    def __init__(self, client: ClusterClient, partition: TopicPartition, start: int, end: int) -> None:
        self._chunks = _chunks(client, partition, start, committed=False)
        self._batches: deque[tuple[memoryview, int]] = deque()
        self._end = end
        self._position = start

    async def next(self) -> tuple[memoryview, int] | None:
        """A batch and its number of records; None at the end."""
        while not self._batches and self._position < self._end:
            try:
                fetched, go_on = await anext(self._chunks)
            except StopAsyncIteration:
                return None
            for batch in scan(fetched.records):
                # What came in transactions is either counted by the position or was aborted.
                if batch.last_offset >= self._position and not batch.is_control and not batch.is_transactional:
                    self._batches.append((fetched.records[batch.start : batch.end], batch.record_count))
                self._position = max(self._position, batch.last_offset + 1)
            go_on(self._position)
        return self._batches.popleft() if self._batches else None


class _Expected:
    """What a copier would append from a source offset on."""

    def __init__(self, client: ClusterClient, partition: TopicPartition, start: int, rules: CopyRules) -> None:
        self._chunks = _chunks(client, partition, start, committed=rules.read_committed)
        self._appends: deque[Append] = deque()
        self._rules = rules
        self._position = start
        self.leader_epoch = -1
        """That of the last batch read; never older than what `next` gave last."""

    async def next(self) -> Append | None:
        while not self._appends:
            try:
                fetched, go_on = await anext(self._chunks)
            except StopAsyncIteration:
                return None
            prepared = prepare(fetched.records, self._position, self._rules, fetched.aborted)
            self._position = prepared.position
            self.leader_epoch = max(self.leader_epoch, prepared.leader_epoch)
            self._appends.extend(prepared.appends)
            go_on(self._position)
        return self._appends.popleft()


def _same(arrived: memoryview, count: int, append: Append) -> bool:
    return (
        count == append.count
        and len(arrived) == len(append.data)
        and bytes(arrived[27:43]) == bytes(append.data[27:43])  # base and max timestamp
        and bytes(arrived[HEADER_SIZE:]) == bytes(append.data[HEADER_SIZE:])
    )


def _records(view: bytearray | memoryview) -> list[tuple[int, bytes]]:
    view = memoryview(view)
    return [(timestamp, bytes(body)) for batch in scan(view) for _, timestamp, body in record_bodies(view, batch)]


def _with_offsets(append: Append) -> list[tuple[int, tuple[int, bytes]]]:
    offsets = (first + index for first, count in append.spans for index in range(count))
    return list(zip(offsets, _records(append.data), strict=True))


async def resume_behind_log_end(
    source: ClusterClient,
    target: ClusterClient,
    grant: Grant,
    position: Position,
    log_start: int,
    end: int,
    rules: CopyRules,
    event: Callable[[str, str], None],
) -> Position:
    """The position behind what is on the remote log up to `end`.

    Reads the remote log from `position.next_target` and the source from `position.next_source`, or from its `log_start`
    when that is behind it. Raises ClusterError.
    """
    assert position.next_target is not None
    arrived = _Arrived(target, grant.remote, position.next_target, end)
    expected = _Expected(source, grant.source, max(position.next_source, log_start), rules)
    here: deque[tuple[int, tuple[int, bytes]]] = deque()
    next_source, matched, strange = position.next_source, 0, 0
    while True:
        batch = await arrived.next()
        if batch is None:
            break
        view, count = batch
        append = None
        if not here:
            append = await expected.next()
            if append is not None and _same(view, count, append):
                next_source, matched = append.next_source_offset, matched + count
                continue
            if append is not None:
                here.extend(_with_offsets(append))
        for record in _records(view):
            if not here:
                append = await expected.next()
                if append is not None:
                    here.extend(_with_offsets(append))
            if here and here[0][1] == record:
                next_source, matched = here.popleft()[0] + 1, matched + 1
            else:
                strange += 1
    if strange:
        reason = "the source was compacted, or somebody else writes to this remote topic"
        if log_start > position.next_source:
            reason = f"the source log now starts at {log_start}, so that those before it cannot be compared"
        event(
            "foreign",
            f"{grant.remote}: of {matched + strange} records behind the stored position {strange} are not copies of "
            f"{grant.source} from offset {position.next_source} on: {reason}",
        )
    # An epoch older than the position would look to the source as if its log had been cut back.
    epoch = expected.leader_epoch if matched else position.leader_epoch
    return replace(position, next_source=next_source, next_target=end, leader_epoch=epoch)
