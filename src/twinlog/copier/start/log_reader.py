"""Reads remote logs from an offset to their end, and finds logs whose ends another leader may have cut."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping

from twinlog.errors import ClusterError
from twinlog.kafka.admin.partition_states import ProducerState, producer_states
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.consumer.leader_fetch import fetch_once
from twinlog.kafka.fetch_session import FetchSession
from twinlog.kafka.protocol.error_codes import Code, explain, refused
from twinlog.kafka.protocol.fetch import FetchPosition, PartitionResponse
from twinlog.kafka.protocol.offsets import EARLIEST
from twinlog.kafka.record.batch import Batch, read_batch, scan
from twinlog.kafka.record.records import is_abort_marker
from twinlog.kafka.record.stamp import records_between
from twinlog.mirror.offsets.positions import Position
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
        self._open: dict[int, list[Batch]] = {}
        """The batches of each producer's open transaction."""
        self.committed: list[Batch] = []
        """The batches of committed transactions so far."""
        self.earlier: Batch | None = None
        """The first marker that commits a transaction whose records are all before the batches read here."""
        self.first: Batch | None = None
        self.position = start
        """The offset after the last batch read; after the end, if the log grew meanwhile."""

    async def read_batch(self) -> tuple[memoryview, Batch] | None:
        """Return a batch of records outside of transactions; None at the end."""
        while not self._batches and self.position < self._end:
            try:
                fetched, go_on = await anext(self._chunks)
            except StopAsyncIteration:
                return None
            for batch in scan(fetched.records):
                if batch.last_offset < self.position:
                    continue
                self.first = self.first or batch
                # The position counts the committed records of the copier's transactions.
                if batch.is_control:
                    self._end_transaction(fetched.records, batch)
                elif batch.is_transactional:
                    self._open.setdefault(batch.producer_id, []).append(batch)
                else:
                    self._batches.append((fetched.records[batch.start : batch.end], batch))
                self.position = TargetOffset(batch.last_offset + 1)
            go_on(self.position)
        return self._batches.popleft() if self._batches else None

    def _end_transaction(self, records: memoryview, marker: Batch) -> None:
        batches = self._open.pop(marker.producer_id, [])
        if is_abort_marker(records, marker):
            return
        self.committed += batches
        if not batches and self.earlier is None:
            self.earlier = marker

    @property
    def opened(self) -> dict[int, TargetOffset]:
        """The first offset of each transaction that is open so far, by producer id."""
        return {producer: TargetOffset(batches[0].base_offset) for producer, batches in self._open.items()}

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
                    "throttles it",
                    message_id="TW-WAIT-09",
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


MARKER_BYTES = 128
"""Larger than any marker's batch; for a larger batch a broker's answer is empty."""

MOST_BYTES = 64 << 20
"""A broker returns the first batch of an answer whole."""


async def find_unverified(
    target: ClusterClient, positions: Mapping[TopicPartition, Position], ends: Mapping[TopicPartition, TargetOffset]
) -> tuple[dict[TopicPartition, bool], dict[TopicPartition, str]]:
    """Whether a remote log that ends at its position or after it may lack earlier records.

    The second result has the reason for each partition about which that is unknown. Makes at most two requests to each
    leader. Raises ClusterError, and RefusedError without READ on the topic.
    """
    counted = {remote: position for remote, position in positions.items() if position.next_target}
    written = {remote: position for remote, position in counted.items() if position.writer is not None}
    found = dict.fromkeys(positions.keys() - counted.keys(), False)
    errors: dict[TopicPartition, str] = {}
    if written:
        states, errors = await producer_states(target, written)
        found |= {remote: _overtaken(written[remote], ends[remote], states[remote]) for remote in states}
    marked, failed = await _unmarked(target, {remote: one for remote, one in counted.items() if remote not in written})
    return found | marked, errors | failed


def _overtaken(position: Position, end: TargetOffset, states: list[ProducerState]) -> bool:
    """Whether the position's writer has since appended more records than the log has grown by."""
    writer, counted = position.writer, position.next_target
    assert writer is not None
    assert counted is not None
    for state in states:
        if (state.producer_id, state.epoch) == (writer.producer_id, writer.epoch) and state.last_sequence >= 0:
            appended = records_between(writer.sequence, state.last_sequence + 1)
            # Sequence numbers wrap: a distance of more than half the range means that the log has fewer of the writer's
            # records than the position counts.
            return appended > end - counted
    return False


async def _unmarked(
    target: ClusterClient, positions: Mapping[TopicPartition, Position]
) -> tuple[dict[TopicPartition, bool], dict[TopicPartition, str]]:
    """Whether the offset of a commit marker holds another batch.

    The second result has the reason for each partition about which that is unknown. Raises ClusterError, and
    RefusedError without READ on the topic.
    """
    places = {
        remote: TargetOffset(position.next_target - 1)
        for remote, position in positions.items()
        if position.next_target is not None
    }
    answers = await fetch_once(
        target, places, read_committed=False, partition_bytes=MARKER_BYTES, most_bytes=MOST_BYTES
    )
    found: dict[TopicPartition, bool] = {}
    errors = dict.fromkeys(positions, "it has no leader, or returns nothing, as when a quota throttles it")
    for remote, answer in answers.items():
        if refused(answer.error):
            raise target.lacks("READ", f"topic {remote.topic}", "finding out what the target still has")
        if not answer.error:
            found[remote] = _is_no_marker(answer, places[remote])
        elif answer.error == Code.OFFSET_OUT_OF_RANGE:
            # The offset is deleted by now. The end of a log shows whether the log became shorter.
            found[remote] = False
        else:
            errors[remote] = explain(answer.error)
    return found, {remote: why for remote, why in errors.items() if remote not in found}


def _is_no_marker(answer: PartitionResponse, offset: TargetOffset) -> bool:
    batch = read_batch(answer.records, 0)
    if batch is None:
        return True
    if batch.base_offset > offset or not batch.is_transactional:
        return False
    return not batch.is_control or batch.last_offset != offset or is_abort_marker(answer.records, batch)
