"""Offset syncs: pairs of a source offset and the target offset of the same record, in MirrorMaker 2's bytes.

twinlog translates with its own exact map, and writes offset syncs so that MirrorMaker 2 can take a flow over, and for
tools that read them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from twinlog.mirror.records import INT32, INT64, FieldError, FieldReader, string
from twinlog.model.types import SourceOffset, TargetOffset, TopicName, TopicPartition

DELAY_S = 0.25
"""The longest delay in seconds of a sync before it is due."""

MAX_PENDING = 64
"""The number of syncs of a partition in the memory of MirrorMaker 2's reader (Kafka class OffsetSyncStore)."""


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """The copy of the record at `upstream` of a source partition is at `downstream`. Kafka class OffsetSync."""

    topic: TopicName
    partition: int
    upstream: SourceOffset
    downstream: TargetOffset

    @property
    def source(self) -> TopicPartition:
        """The source partition of the sync."""
        return TopicPartition(self.topic, self.partition)

    @property
    def key(self) -> bytes:
        """The record's key: STRING topic, INT32 partition."""
        return string(self.topic) + INT32.pack(self.partition)

    @property
    def value(self) -> bytes:
        """The record's value: INT64 upstream offset, INT64 downstream offset; it has no version."""
        return INT64.pack(self.upstream) + INT64.pack(self.downstream)

    def __str__(self) -> str:
        """As Kafka's console formatter prints it."""
        return (
            f"OffsetSync{{topicPartition={self.source}, upstreamOffset={self.upstream}, "
            f"downstreamOffset={self.downstream}}}"
        )


def decode_offset_sync(key: bytes | None, value: bytes | None) -> OffsetSync | None:
    """The offset sync of a record; None for a tombstone and for a malformed record.

    MirrorMaker 2 would fail on both.
    """
    if key is None or value is None:
        return None
    where, offsets = FieldReader(key), FieldReader(value)
    try:
        upstream, downstream = SourceOffset(offsets.int64()), TargetOffset(offsets.int64())
        return OffsetSync(TopicName(where.string()), where.int32(), upstream, downstream)
    except FieldError:
        return None


@dataclass(slots=True)
class _Generation:
    """The rule's memory of a partition: the offsets after its last record, and the target offset of the last sync."""

    next_upstream: SourceOffset
    next_downstream: TargetOffset
    synced: TargetOffset


class SyncEmitter:
    """Decides which offset syncs are due; each task has an emitter and feeds it with every acknowledged append.

    The rule is the rule of Kafka's OffsetSyncWriter. A partition's first record is synced at once, and again when
    source or target went back. A sync is also due when the last sync is more than `offset_lag_max` target offsets old.
    Three details differ. A hole in the source offsets alone makes no sync due: readers since Kafka 3.5 never count
    across a sync, and transactions would cost a sync each. Of a single append only the records are synced that the
    reader would still remember afterwards, at doubling distances from its last record. A sync before it is due waits
    `delay_s` seconds at most, in place of the wait for the next commit. So an idle partition gets a sync for its last
    record.

    The syncs of a partition must be written in order, and an older sync never again after a newer sync: a reader takes
    this for a source that was rewound and forgets its history. So a single write is in flight, with the syncs of a
    `take_syncs`.
    """

    def __init__(
        self,
        offset_lag_max: int,
        clock: Callable[[], float],
        *,
        delay_s: float = DELAY_S,
    ) -> None:
        self._lag_max = max(0, offset_lag_max)
        self._delay_s = delay_s
        self._clock = clock
        self._generations: dict[TopicPartition, _Generation] = {}
        self._pending: dict[TopicPartition, list[OffsetSync]] = {}
        # The order is the order of time, because a newer sync takes the place of a delayed sync.
        self._delayed: dict[TopicPartition, tuple[float, OffsetSync]] = {}

    def acknowledged(
        self, source: TopicPartition, spans: Sequence[tuple[SourceOffset, int]], base_offset: TargetOffset
    ) -> None:
        """Add an append: runs of (first source offset, count), the first record at target offset `base_offset`."""
        end = TargetOffset(base_offset + sum(count for _, count in spans))
        first, next_upstream = spans[0][0], SourceOffset(sum(spans[-1]))
        last_there = TargetOffset(end - 1)
        generation = self._generations.get(source)
        begins = generation is None or first < generation.next_upstream or base_offset < generation.next_downstream
        if generation is None or begins:
            generation = self._generations[source] = _Generation(next_upstream, end, last_there)
            self._pending.pop(source, None)
        generation.next_upstream, generation.next_downstream = next_upstream, end
        due_from = base_offset if begins else generation.synced + 1 + self._lag_max
        if last_there < due_from:
            since = self._delayed[source][0] if source in self._delayed else self._clock()
            last = SourceOffset(next_upstream - 1)
            self._delayed[source] = since, OffsetSync(source.topic, source.partition, last, last_there)
            return
        generation.synced = last_there
        self._delayed.pop(source, None)
        pending = self._pending.setdefault(source, [])
        for index in self._indexes(end - base_offset, max(0, due_from - base_offset), begins):
            downstream = TargetOffset(base_offset + index)
            pending.append(OffsetSync(source.topic, source.partition, _at(spans, index), downstream))
        if len(pending) > MAX_PENDING:
            self._pending[source] = _thinned(pending)

    def _indexes(self, count: int, due_from: int, begins: bool) -> list[int]:
        """The records of an append to sync: the last record, and earlier records at doubling distances."""
        found = [count - 1]
        distance = self._lag_max + 1
        while count - 1 - distance >= due_from:
            found.append(count - 1 - distance)
            distance *= 2
        if begins and found[-1] != 0:
            found.append(0)
        return found[::-1]

    def take_syncs(self, *, all_of_them: bool = False) -> list[OffsetSync]:
        """Syncs to write now, each partition's in order; with `all_of_them` also the delayed syncs."""
        latest = self._clock() - self._delay_s
        while self._delayed:
            source, (since, sync) = next(iter(self._delayed.items()))
            if since > latest and not all_of_them:
                break
            del self._delayed[source]
            self._pending.setdefault(source, []).append(sync)
            if source in self._generations:
                self._generations[source].synced = sync.downstream
        pending, self._pending = self._pending, {}
        return [sync for syncs in pending.values() for sync in syncs]

    def not_stored(self, syncs: Iterable[OffsetSync]) -> None:
        """Put back syncs that were taken and surely stayed unwritten: they come first in the next `take_syncs`."""
        back: dict[TopicPartition, list[OffsetSync]] = {}
        for sync in syncs:
            back.setdefault(sync.source, []).append(sync)
        for source, earlier in back.items():
            self._pending[source] = _thinned(earlier + self._pending.get(source, []))

    def unanswered(self, syncs: Iterable[OffsetSync]) -> None:
        """Put back the newest sync of each partition: the syncs were taken and may have been written."""
        self.not_stored({sync.source: sync for sync in syncs}.values())

    def release_partition(self, source: TopicPartition) -> None:
        """Release the partition to another task; the next `take_syncs` returns its last sync."""
        self._generations.pop(source, None)
        if source in self._delayed:
            self._pending.setdefault(source, []).append(self._delayed.pop(source)[1])


def _at(spans: Sequence[tuple[SourceOffset, int]], index: int) -> SourceOffset:
    """The source offset of record number `index` of an append."""
    for first, count in spans:
        if index < count:
            return SourceOffset(first + index)
        index -= count
    raise IndexError(index)


def _thinned(syncs: list[OffsetSync]) -> list[OffsetSync]:
    """The first sync, the last sync, and some between; a step is at most as long as its distance to the last sync."""
    if len(syncs) <= MAX_PENDING:
        return syncs
    end = syncs[-1].downstream
    kept = [syncs[-1]]
    for sync, older in zip(syncs[-2:0:-1], syncs[-3::-1], strict=True):
        newer = kept[-1].downstream
        if newer - older.downstream > max(1, end - newer):
            kept.append(sync)
    return [syncs[0], *kept[::-1]]
