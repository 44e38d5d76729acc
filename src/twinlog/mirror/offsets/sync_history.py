"""What the offset syncs of a flow prove about copies of MirrorMaker 2, which has no exact map.

An offset sync is a pair of offsets of the same record. Between two syncs, source offsets that grow faster lack copies,
target offsets that grow faster have copies twice, or records of another producer. MirrorMaker 2 writes a sync after
each gap in the offsets of its records (Kafka class OffsetSyncWriter), so most places of losses are known within a few
offsets. Offsets that grow in step are no proof that each record was copied once: MirrorMaker 2 drops syncs while ten
syncs are under way and when it is killed, so a hole in the source may hide behind a doubled record or a marker of its
own transactions. A group between two syncs is therefore translated to the first of them. Two tasks that copy a
partition side by side for long, because nothing fences the earlier task, may still lead a group beyond a record.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.consumer.topic_reader import TopicReader
from twinlog.mirror.offsets.syncs import decode_offset_sync
from twinlog.model.types import SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings


class OffsetPair(NamedTuple):
    """The source and target offset of the same record."""

    source: int
    target: int


@dataclass(frozen=True, slots=True)
class OffsetJump:
    """Between two syncs, `missing` source offsets lack a target offset, or `extra` target offsets lack a source offset.

    Only one of both is above 0, and it is the difference of both numbers: a lost and a doubled record in the same place
    cancel out.
    """

    before: OffsetPair
    after: OffsetPair

    @property
    def _shift(self) -> int:
        return (self.after.source - self.before.source) - (self.after.target - self.before.target)

    @property
    def missing(self) -> int:
        return max(0, self._shift)

    @property
    def extra(self) -> int:
        return max(0, -self._shift)


class PartitionSyncs:
    """The offset syncs of a source partition in the order of their writing."""

    def __init__(self) -> None:
        self._sources = array("q")
        self._targets = array("q")

    def __len__(self) -> int:
        return len(self._sources)

    def add(self, source: int, target: int) -> None:
        """Take the next sync."""
        if self._targets and target <= self._targets[-1] and (source, target) != (self._sources[-1], self._targets[-1]):
            # The remote topic was recreated: earlier syncs are of a deleted log.
            del self._sources[:], self._targets[:]
        self._sources.append(source)
        self._targets.append(target)

    @property
    def newest(self) -> OffsetPair | None:
        """The last sync."""
        return OffsetPair(self._sources[-1], self._targets[-1]) if self._sources else None

    def drop_newest(self) -> None:
        """Drop the last sync."""
        del self._sources[-1:], self._targets[-1:]

    def thin_out(self) -> int:
        """Drop every second sync, keep the first and the last sync; returns the number of dropped syncs.

        Both syncs at each step back on the source are kept as well, because they show a second copy or a recreated
        topic. Translations stay safe, and repeat up to twice the records.
        """
        before = len(self)
        back = [at for at, (earlier, later) in enumerate(pairwise(self._sources)) if later < earlier]
        if not 0 < 4 * len(back) < before:
            # Two tasks that copied side by side for very long have too many steps back.
            for some in (self._sources, self._targets):
                some[1:] = some[:0:-2][::-1]
            return before - len(self)
        kept = sorted({0, *range(before - 1, 0, -2), *back, *(at + 1 for at in back)})
        for some in (self._sources, self._targets):
            some[:] = array("q", map(some.__getitem__, kept))
        return before - len(self)

    def places(self) -> PartitionPlaces:
        """The places that the present syncs prove."""
        return PartitionPlaces(self._sources[:], self._targets[:])

    def written(self, source_end: int) -> list[OffsetPair]:
        """The syncs of the present logs; `source_end` is the end of the source's log, and later than the last sync.

        A sync at or beyond the end is of an earlier topic of the same name, and so are all syncs before it.
        """
        found: list[OffsetPair] = []
        for source, target in zip(self._sources, self._targets, strict=True):
            if source >= source_end:
                found.clear()
            else:
                found.append(OffsetPair(source, target))
        return found


@dataclass(frozen=True, slots=True)
class SyncedPlace:
    """The place on the other cluster of a group at or after an offset sync.

    A group that continues at `least` skips no record. From `past` on it repeats no record that the syncs show; `past`
    is None after the last sync.
    """

    least: int
    past: int | None

    @property
    def exact(self) -> bool:
        return self.least == self.past

    def joined(self, least: int | None, past: int | None) -> SyncedPlace:
        """The place with what else is known: the later least offset, and the earlier end of repeats."""
        known = [one for one in (self.past, past) if one is not None]
        return SyncedPlace(max(self.least, least or 0), min(known, default=None))


class PartitionPlaces:
    """The places that the syncs of a partition prove: source and target offsets in the order of their writing, which is
    the order of target offsets."""

    def __init__(self, sources: array[int], targets: array[int]) -> None:
        self._sources = sources
        self._targets = targets

    @classmethod
    def of(cls, syncs: Iterable[OffsetPair]) -> PartitionPlaces:
        """The places of these syncs."""
        made = cls(array("q"), array("q"))
        for one in syncs:
            made._sources.append(one.source)
            made._targets.append(one.target)
        return made

    def __len__(self) -> int:
        return len(self._sources)

    @property
    def goes_back(self) -> bool:
        """Whether a source offset is lower than an earlier source offset: MirrorMaker 2 copied again, or the source
        topic was recreated."""
        return any(before > after for before, after in pairwise(self._sources))

    def before(self, source_end: int) -> PartitionPlaces:
        """The places by the syncs of the present log, as in `PartitionSyncs.written`."""
        first = max((at + 1 for at, source in enumerate(self._sources) if source >= source_end), default=0)
        return PartitionPlaces(self._sources[first:], self._targets[first:])

    @cached_property
    def anchors(self) -> list[OffsetPair]:
        found: list[OffsetPair] = []
        for one in map(OffsetPair, self._sources, self._targets):
            if not found or (one.source > found[-1].source and one.target > found[-1].target):
                found.append(one)
        return found

    @cached_property
    def _furthest(self) -> array[int]:
        """The furthest source offset up to each sync."""
        return array("q", accumulate(self._sources, max))

    @cached_property
    def _reached(self) -> array[int]:
        """The furthest source offset that may have a copy before each sync.

        The syncs of the last records before a restart may be missing, and an earlier task may copy beside the next
        task for a while.
        """
        steps = (
            max(source, source + after - target - 1)
            for source, (target, after) in zip(self._sources, pairwise(self._targets), strict=False)
        )
        return array("q", accumulate((-1, *steps), max)) if self._sources else array("q")

    @cached_property
    def _nearest_after(self) -> array[int]:
        """The least source offset from each sync on."""
        return array("q", accumulate(reversed(self._sources), min))[::-1]

    def to_target(self, offset: int) -> SyncedPlace | None:
        """The place of the next record after all records before `offset`; None before the first sync.

        The copies of later records begin after the last sync that precedes all syncs of later records, and before
        which no later record may have a copy: the task that copies it again may end before it. The copies of earlier
        records end before the sync that follows the last sync of an earlier record.
        """
        ahead = min(bisect_right(self._furthest, offset), bisect_left(self._reached, offset))
        if not ahead or self._sources[0] > offset:
            return None
        return SyncedPlace(self._targets[ahead - 1] + (self._sources[ahead - 1] < offset), self.past_copies(offset))

    def past_copies(self, offset: int) -> int | None:
        """A target offset after the copies of all records before `offset`, and not after the last copy of the next
        record with a sync; None after the last sync."""
        after = bisect_left(self._nearest_after, offset)
        if after and self._sources[after - 1] == offset - 1:
            return self._targets[after - 1] + 1
        return self._targets[after] if after < len(self) else None

    def to_source(self, offset: int) -> SyncedPlace | None:
        """The place after the records that a reader of the copy before `offset` has read; None before the first sync.

        The reader has read all records up to the furthest sync before `offset`, and perhaps the records after a sync
        that fit in the places up to the next sync. Three readers lack records there, and bound the least place. A group
        that came from the source begins at second copies. It begins after the last sync. A record with a later sync may
        be of a source topic that was recreated.
        """
        at = bisect_left(self._targets, offset)
        following = OffsetPair(self._sources[at], self._targets[at]) if at < len(self) else None
        came = bisect_right(self._targets, offset)
        if not came:
            return None
        least = self._sources[came - 1] + (self._targets[came - 1] < offset)
        if following is not None:
            least = min(least, self._nearest_after[at])
        read, perhaps = -1, -1
        if at:
            read = self._furthest[at - 1]
            last = self._sources[at - 1] + offset - 1 - self._targets[at - 1]
            perhaps = max(read, self._reached[at - 1], last)
        if following is not None and following.target == offset and following.source > read:
            # Before the first sync, a reader may have read copies of any record.
            known = at or not offset
            return SyncedPlace(least, max(following.source, perhaps + 1) if known else None)
        return SyncedPlace(min(least, read + 1), perhaps + 1)


class SyncHistory:
    """The offset syncs of each partition of a flow in the order of their writing, with their anchors and jumps."""

    def __init__(self, syncs: Mapping[TopicPartition, Sequence[OffsetPair]]) -> None:
        self._written = {partition: PartitionPlaces.of(some) for partition, some in syncs.items()}

    def __bool__(self) -> bool:
        return any(map(len, self._written.values()))

    def anchors(self, partition: TopicPartition) -> list[OffsetPair]:
        """The syncs of a source partition whose offsets grow on both sides; empty before its first sync.

        A sync that goes back on the source, after a restart that copied again, is left out: the next sync ahead shows
        how much.
        """
        known = self._written.get(partition)
        return [] if known is None else known.anchors

    def partitions(self) -> Iterator[TopicPartition]:
        """The partitions with syncs."""
        return iter(sorted(self._written))

    def jumps(self, partition: TopicPartition) -> list[OffsetJump]:
        """The places where source and target offsets part."""
        return [
            OffsetJump(before, after)
            for before, after in pairwise(self.anchors(partition))
            if after.source - before.source != after.target - before.target
        ]

    def translate(self, partition: TopicPartition, offset: SourceOffset, target_end: int) -> SyncedPlace | None:
        """The place in the copy of a group that has committed `offset`.

        None before the first sync, and if the target's log ends before the place: the log is another log, or lost its
        end.
        """
        known = self._written.get(partition)
        return None if known is None else _inside(known.to_target(int(offset)), target_end)

    def past_copies(self, partition: TopicPartition, offset: SourceOffset) -> int | None:
        """As in `translate`, also before the first sync: a group that continues later would skip records.

        The copies are in an earlier log if the remote topic was recreated since.
        """
        known = self._written.get(partition)
        return None if known is None else known.past_copies(int(offset))

    def translate_back(self, partition: TopicPartition, offset: TargetOffset, source_end: int) -> SyncedPlace | None:
        """The place in a source partition of a group that has committed `offset` in its copy."""
        known = self._written.get(partition)
        return None if known is None else _inside(known.to_source(int(offset)), source_end)


def _inside(place: SyncedPlace | None, end: int) -> SyncedPlace | None:
    """The place, if the log has it; after the last sync nothing is repeated from the end of the log on."""
    if place is None or place.least > end:
        return None
    return SyncedPlace(place.least, end if place.past is None else min(place.past, end))


class SyncHistoryReader:
    """Reads all offset syncs of a flow, a repeated `read` only the new syncs; 16 bytes of memory for each sync.

    `source` and `target` are connected to the clusters of the flow.
    """

    def __init__(self, flow: FlowSettings, source: ClusterAdmin, target: ClusterAdmin) -> None:
        here = source if flow.offset_syncs_location == "source" else target
        self._reader = TopicReader(here, TopicName(flow.offset_syncs_topic), optional=True)
        self._known: defaultdict[TopicPartition, PartitionSyncs] = defaultdict(PartitionSyncs)

    def read(self, source_ends: Callable[[], Mapping[TopicPartition, int]]) -> SyncHistory:
        """The history of the source partitions that `source_ends` returns, with the ends of their logs.

        The ends are asked for after the syncs are read: a sync of a newer record would look like a sync of an earlier
        topic. Raises ClusterError, and RefusedError if the login lacks READ on the topic of offset syncs.
        """
        for _, record in self._reader.read():
            sync = decode_offset_sync(record.key, record.value)
            if sync is not None:
                self._known[sync.source].add(sync.upstream, sync.downstream)
        return SyncHistory(
            {part: self._known[part].written(end) for part, end in source_ends().items() if part in self._known}
        )
