"""Keeps the offset syncs of a flow: all of them for the translation of groups, or the few that MirrorMaker 2 keeps.

MirrorTranslation has the behaviour of Kafka's class OffsetSyncStore since 3.5 (KAFKA-12468, KAFKA-14666).
"""

from __future__ import annotations

import struct
import threading
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable

from twinlog.kafka.consumer.topic_reader import TopicReader
from twinlog.mirror.offsets.sync_history import OffsetPair, PartitionPlaces, PartitionSyncs
from twinlog.mirror.offsets.syncs import OffsetSync, decode_offset_sync
from twinlog.mirror.records import INT32, string
from twinlog.model.types import SourceOffset, TargetOffset, TopicPartition

PAIR = struct.Struct(">qq")
VALUE_SIZE = PAIR.size
KEPT_APART = 4096
"""The most undecoded syncs of a partition; at this number they are decoded, and redundant syncs are forgotten."""

MOST_SYNCS = 1 << 20
"""The most syncs of a flow in memory, 16 MiB, and 40 MiB more if groups have positions in all partitions."""

SYNCS_PER_PARTITION = 64
"""The number of bits of an offset; sync j of a partition is about 2^j source offsets older than its newest sync."""

UNTRANSLATABLE = TargetOffset(-1)


class SyncStore(ABC):
    """The syncs of a flow for which `adds` is true, decoded for the partitions that are asked for.

    A topic of months may hold millions of syncs, and all syncs of a key count. Decoding and choosing takes ten
    microseconds a sync, keeping it undecoded takes a single microsecond. `read` may run beside the other methods;
    callers of the other methods hold `lock`.
    """

    def __init__(self, reader: TopicReader, adds: Callable[[OffsetSync], bool], lock: threading.Lock) -> None:
        self._reader = reader
        self._adds = adds
        self._lock = lock
        self._unread: dict[bytes, bytearray] = {}
        """Concatenated values, by their key."""
        self._reading = threading.Lock()

    def read(self) -> None:
        """Read the syncs since the last call.

        Raises ClusterError, and RefusedError if the login lacks READ on the topic.
        """
        with self._reading:
            for _, record in self._reader.read():
                key, value = record.key, record.value
                # Other records are skipped; MirrorMaker 2 would fail on them.
                if key is None or value is None or len(value) < VALUE_SIZE:
                    continue
                with self._lock:
                    unread = self._unread.setdefault(key, bytearray())
                    unread += value[:VALUE_SIZE]
                    if len(unread) >= KEPT_APART * VALUE_SIZE:
                        self._take(key)

    def _decode_syncs(self, partition: TopicPartition) -> None:
        """Add the undecoded syncs of a partition."""
        self._take(string(partition.topic) + INT32.pack(partition.partition))

    def _take(self, key: bytes) -> None:
        unread = self._unread.pop(key, None)
        first = None if unread is None else decode_offset_sync(key, bytes(unread[:VALUE_SIZE]))
        if unread is None or first is None:
            return
        syncs = (
            OffsetSync(first.topic, first.partition, SourceOffset(upstream), TargetOffset(downstream))
            for upstream, downstream in PAIR.iter_unpack(unread)
        )
        self._add(first.source, filter(self._adds, syncs))

    @abstractmethod
    def _add(self, partition: TopicPartition, syncs: Iterable[OffsetSync]) -> None:
        """Take the next syncs of a partition."""


class MirrorSyncStore(SyncStore):
    """The 64 syncs of each partition that MirrorMaker 2 would keep."""

    def __init__(self, reader: TopicReader, adds: Callable[[OffsetSync], bool], lock: threading.Lock) -> None:
        super().__init__(reader, adds, lock)
        self._kept = MirrorTranslation()
        self._kept.ready()

    def get_translation(self, partition: TopicPartition) -> MirrorTranslation:
        """The translation for offsets of this partition; it may lack syncs of other partitions."""
        self._decode_syncs(partition)
        return self._kept

    def _add(self, partition: TopicPartition, syncs: Iterable[OffsetSync]) -> None:
        for sync in syncs:
            newest = self._kept.newest(partition)
            if newest is not None and sync.downstream < newest.downstream:
                # The remote topic was recreated. MirrorMaker 2 would still translate to offsets of the deleted topic.
                self._kept.forget_partition(partition)
            self._kept.add(sync)


class PlaceStore(SyncStore):
    """The places that all syncs prove; of very many syncs every second sync is forgotten, in all partitions."""

    def __init__(self, reader: TopicReader, adds: Callable[[OffsetSync], bool], lock: threading.Lock) -> None:
        super().__init__(reader, adds, lock)
        self._known: defaultdict[TopicPartition, PartitionSyncs] = defaultdict(PartitionSyncs)
        self._places: dict[TopicPartition, PartitionPlaces] = {}
        self._count = 0

    def find_places(self, partition: TopicPartition) -> tuple[PartitionPlaces, bool]:
        """The places of this partition, and whether they were stored by `store_places`."""
        self._decode_syncs(partition)
        stored = self._places.get(partition)
        return (self._known[partition].places(), False) if stored is None else (stored, True)

    def store_places(self, partition: TopicPartition, places: PartitionPlaces, count: int) -> None:
        """Answer with these places, made of `count` syncs, until the next sync of the partition."""
        if count == len(self._known[partition]):
            self._places[partition] = places

    def newest(self, partition: TopicPartition) -> OffsetPair | None:
        """The last sync of a partition."""
        self._decode_syncs(partition)
        return self._known[partition].newest

    def _add(self, partition: TopicPartition, syncs: Iterable[OffsetSync]) -> None:
        known = self._known[partition]
        before, last = len(known), known.newest
        while (newest := known.newest) is not None:
            if self._adds(OffsetSync(*partition, SourceOffset(newest.source), TargetOffset(newest.target))):
                break
            # The flow wrote this sync before it stored the end of its copies: now a map covers the sync.
            known.drop_newest()
        for sync in syncs:
            known.add(sync.upstream, sync.downstream)
        if known.newest != last:
            self._places.pop(partition, None)
        self._count += len(known) - before
        while self._count > MOST_SYNCS and (dropped := sum(one.thin_out() for one in self._known.values())):
            self._count -= dropped
            self._places.clear()


class MirrorTranslation:
    """Offset syncs of all partitions as MirrorMaker 2 keeps them, and its answers.

    `latest_only` is MirrorMaker 2's mode after unreadable checkpoints: of the syncs before `ready` only each
    partition's last sync counts.
    """

    def __init__(self, *, latest_only: bool = False) -> None:
        self._latest_only = latest_only
        self._ready = False
        self._syncs: dict[TopicPartition, list[OffsetSync]] = {}

    def add(self, sync: OffsetSync) -> None:
        """Take the next record of the topic of offset syncs."""
        syncs = self._syncs.get(sync.source)
        if syncs is None or sync.upstream < syncs[0].upstream or (self._latest_only and not self._ready):
            self._syncs[sync.source] = [sync] * SYNCS_PER_PARTITION
        else:
            self._syncs[sync.source] = _inserted(syncs, sync)

    def ready(self) -> None:
        """Start translating: the topic was read to its end once."""
        self._ready = True

    def translate(self, source: TopicPartition, offset: SourceOffset) -> TargetOffset | None:
        """The target offset for a committed source offset.

        None before `ready` and before the first sync of a partition; UNTRANSLATABLE when all syncs kept are newer.
        """
        syncs = self._syncs.get(source)
        if syncs is None or not self._ready:
            return None
        for sync in syncs:
            if sync.upstream <= offset:
                return TargetOffset(sync.downstream + (sync.upstream < offset))
        return UNTRANSLATABLE

    def translate_back(self, source: TopicPartition, offset: TargetOffset) -> SourceOffset | None:
        """The source offset for an offset committed in the remote partition; None when all syncs kept are newer.

        The rule of `translate` applies from the other side; MirrorMaker 2 lacks this direction.
        """
        for sync in self._syncs.get(source, ()):
            if sync.downstream <= offset:
                return SourceOffset(sync.upstream + (sync.downstream < offset))
        return None

    def newest(self, source: TopicPartition) -> OffsetSync | None:
        """The last sync of a partition."""
        syncs = self._syncs.get(source)
        return None if syncs is None else syncs[0]

    def forget_partition(self, source: TopicPartition) -> None:
        """Forget the syncs of a partition, as after a sync that goes back on the source."""
        self._syncs.pop(source, None)

    def kept(self, source: TopicPartition) -> list[OffsetSync]:
        """The different syncs of a partition in memory, newest first."""
        kept: list[OffsetSync] = []
        for sync in self._syncs.get(source, ()):
            if not kept or kept[-1] is not sync:
                kept.append(sync)
        return kept


def _close(newer: OffsetSync, older: OffsetSync, i: int, j: int) -> bool:
    """Whether sync j is close enough to sync i."""
    return newer.upstream <= older.upstream + (1 << j) - (1 << i)


def _apart(newer: OffsetSync, older: OffsetSync, i: int) -> bool:
    """Whether a sync after sync i is enough older than sync i, or the same."""
    return newer is older or newer.upstream >= older.upstream + (1 << max(i - 2, 0))


def _inserted(old: list[OffsetSync], new: OffsetSync) -> list[OffsetSync]:
    """The syncs with `new` in front.

    Each place takes the newest old sync that keeps both distances, or the sync of its neighbour. Each old sync is
    looked at once, in order, because a sync that is too near for a place is too near for later places.
    """
    syncs = old.copy()
    syncs[0] = fill = new
    at = 0
    for j in range(1, SYNCS_PER_PARTITION):
        before = syncs[j - 1]
        while True:
            candidate = old[at]
            apart = _apart(before, candidate, j - 1)
            usable = apart and _close(before, candidate, j - 1, j)
            if usable and j < SYNCS_PER_PARTITION - 1:
                usable = _apart(candidate, old[j + 1], j)
            if usable:
                fill = candidate
            drop = not apart or (at < SYNCS_PER_PARTITION - 1 and candidate is old[at + 1])
            if (usable or drop) and at < SYNCS_PER_PARTITION - 1:
                at += 1
            if not (drop and at < j):
                break
        if _close(before, syncs[j], j - 1, j):
            break
        syncs[j] = fill
    return syncs
