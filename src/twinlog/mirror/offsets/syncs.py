"""Offset syncs: pairs of a source offset and the target offset of the same record, in MirrorMaker 2's bytes.

twinlog translates with its own exact map; it writes offset syncs so that MirrorMaker 2 can take a flow over, and for
tools that read them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from twinlog.mirror.offsets.fields import INT32, INT64, FieldError, FieldReader, string
from twinlog.model.types import SourceOffset, TargetOffset, TopicName, TopicPartition

DELAY_S = 0.25
"""For how long a sync that is not due is held back at most."""

MAX_PENDING = 64
"""As many as MirrorMaker 2's reader remembers of a partition (Kafka class OffsetSyncStore)."""


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """The record at `upstream` of a source partition is at `downstream` of the remote one. Kafka class OffsetSync."""

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
    """The offset sync of a record; None for a tombstone and for what is none, on which MirrorMaker 2 would fail."""
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
    """What the rule remembers of a partition: the offsets after its last record, and the last one synced."""

    next_upstream: SourceOffset
    next_downstream: TargetOffset
    synced: TargetOffset


class SyncEmitter:
    """Decides which offset syncs are due; one per task, fed with every acknowledged append.

    The rule is that of Kafka's OffsetSyncWriter: a partition's first record is synced at once, and again when source
    or target went back, and whenever the last sync is more than `offset_lag_max` target offsets old. Three things
    differ. A hole in the source offsets alone makes nothing due: readers since Kafka 3.5 never count across a sync, and
    transactions would cost a sync each. Of one append only those records are synced that the reader would still
    remember afterwards, at doubling distances from its last. And what is not due is not held back until the next
    commit, but `delay_s` seconds at most, so an idle partition gets a sync for its last record.

    The syncs of a partition must be written in order, and no older one again after a newer: a reader takes that for a
    source that was rewound and forgets its history. So there is one write at a time, of what `take_syncs` returned.
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
        # In the order of time, because a newer sync takes the place of a delayed one.
        self._delayed: dict[TopicPartition, tuple[float, OffsetSync]] = {}

    def acknowledged(
        self, source: TopicPartition, spans: Sequence[tuple[SourceOffset, int]], base_offset: TargetOffset
    ) -> None:
        """An append arrived: runs of (first source offset, count), the first record at target offset `base_offset`."""
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
        """Which records of an append are synced: the last, and before it at doubling distances."""
        found = [count - 1]
        distance = self._lag_max + 1
        while count - 1 - distance >= due_from:
            found.append(count - 1 - distance)
            distance *= 2
        if begins and found[-1] != 0:
            found.append(0)
        return found[::-1]

    def take_syncs(self, *, all_of_them: bool = False) -> list[OffsetSync]:
        """Syncs to write now, each partition's in order; with `all_of_them` also those not due yet."""
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
        """Syncs that were taken and surely not written: they come first in the next `take_syncs`."""
        back: dict[TopicPartition, list[OffsetSync]] = {}
        for sync in syncs:
            back.setdefault(sync.source, []).append(sync)
        for source, earlier in back.items():
            self._pending[source] = _thinned(earlier + self._pending.get(source, []))

    def unanswered(self, syncs: Iterable[OffsetSync]) -> None:
        """Syncs that were taken and may have been written: only the newest of each partition may be written again."""
        self.not_stored({sync.source: sync for sync in syncs}.values())

    def release_partition(self, source: TopicPartition) -> None:
        """Another task copies this partition next; the next `take_syncs` returns its last sync."""
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
    """The first, the last, and so many between them that no step is longer than the way from it to the last."""
    if len(syncs) <= MAX_PENDING:
        return syncs
    end = syncs[-1].downstream
    kept = [syncs[-1]]
    for sync, older in zip(syncs[-2:0:-1], syncs[-3::-1], strict=True):
        newer = kept[-1].downstream
        if newer - older.downstream > max(1, end - newer):
            kept.append(sync)
    return [syncs[0], *kept[::-1]]
