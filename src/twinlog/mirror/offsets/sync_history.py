"""What the offset syncs of a flow prove about copies of MirrorMaker 2, which has no exact map.

An offset sync is a pair of offsets of the same record. Between two syncs, source and target offsets that grow in step
mean that each record was copied once. Source offsets that grow faster lack copies, target offsets that grow faster have
copies twice, or records of another producer. MirrorMaker 2 writes a sync after each source offset that it did not read
(Kafka class OffsetSyncWriter), so the places of losses are known within a few offsets.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
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
        if self._targets and target < self._targets[-1]:
            # The remote topic was recreated: earlier syncs are of a deleted log.
            del self._sources[:], self._targets[:]
        self._sources.append(source)
        self._targets.append(target)

    def anchors(self, source_end: int) -> list[OffsetPair]:
        """The syncs whose offsets grow on both sides; `source_end` is the end of the source's log.

        A sync at or beyond the end is of an earlier topic of the same name, and so are all syncs before it. A sync that
        goes back on the source, after a restart that copied again, is left out: the next sync ahead shows how much.
        """
        found: list[OffsetPair] = []
        for source, target in zip(self._sources, self._targets, strict=True):
            if source >= source_end:
                found.clear()
            elif not found or (source > found[-1].source and target > found[-1].target):
                found.append(OffsetPair(source, target))
        return found


class SyncHistory:
    """The anchors of each partition of a flow, and their jumps."""

    def __init__(self, anchors: dict[TopicPartition, list[OffsetPair]]) -> None:
        self._anchors = anchors

    def __bool__(self) -> bool:
        return any(self._anchors.values())

    def anchors(self, partition: TopicPartition) -> list[OffsetPair]:
        """The pairs of offsets of a source partition, in order; empty before its first sync."""
        return self._anchors.get(partition, [])

    def partitions(self) -> Iterator[TopicPartition]:
        """The partitions with syncs."""
        return iter(sorted(self._anchors))

    def jumps(self, partition: TopicPartition) -> list[OffsetJump]:
        """The places where source and target offsets part."""
        return [
            OffsetJump(before, after)
            for before, after in pairwise(self.anchors(partition))
            if after.source - before.source != after.target - before.target
        ]

    def translate(self, partition: TopicPartition, offset: SourceOffset, target_end: int) -> TargetOffset | None:
        """The target offset of the next record of a group that has committed `offset`; None if the syncs leave it open.

        Beyond the last sync the offsets grow in step, up to the end of the target's log: MirrorMaker 2 would have
        written a sync for a source offset that it did not read.
        """
        found = _in_step(self.anchors(partition), int(offset), target_end)
        return None if found is None else TargetOffset(found)

    def translate_back(self, partition: TopicPartition, offset: TargetOffset, source_end: int) -> SourceOffset | None:
        """The source offset of the next record of a group that has committed `offset` in the copy of a partition."""
        turned = [OffsetPair(one.target, one.source) for one in self.anchors(partition)]
        found = _in_step(turned, int(offset), source_end)
        return None if found is None else SourceOffset(found)


def _in_step(anchors: Sequence[OffsetPair], offset: int, end: int) -> int | None:
    """The offset on the other side, by the anchors around an offset; None if they part in between, or after the end."""
    at = bisect_right(anchors, offset, key=lambda one: one.source) - 1
    if at < 0:
        return None
    before = anchors[at]
    found = before.target + offset - before.source
    if at + 1 < len(anchors) and offset > before.source:
        after = anchors[at + 1]
        if after.source - before.source != after.target - before.target:
            return None
    return found if found <= end else None


class SyncHistoryReader:
    """Reads all offset syncs of a flow, a repeated `read` only the new syncs; 16 bytes of memory for each sync.

    `source` and `target` are connected to the clusters of the flow.
    """

    def __init__(self, flow: FlowSettings, source: ClusterAdmin, target: ClusterAdmin) -> None:
        here = source if flow.offset_syncs_location == "source" else target
        self._reader = TopicReader(here, TopicName(flow.offset_syncs_topic), optional=True)
        self._known: defaultdict[TopicPartition, PartitionSyncs] = defaultdict(PartitionSyncs)

    def read(self, source_ends: Mapping[TopicPartition, int]) -> SyncHistory:
        """The history of the source partitions whose logs end at `source_ends`.

        Raises ClusterError, and RefusedError if the login lacks READ on the topic of offset syncs.
        """
        for _, record in self._reader.read():
            sync = decode_offset_sync(record.key, record.value)
            if sync is not None:
                self._known[sync.source].add(sync.upstream, sync.downstream)
        return SyncHistory(
            {part: self._known[part].anchors(end) for part, end in source_ends.items() if part in self._known}
        )
