"""The places on the target at which a flow's groups have to continue, by all that is known of its copies.

Exact maps answer for copies by twinlog. For copies by MirrorMaker 2, all its offset syncs and checkpoints prove the
nearest place, by the code of a switchover. `twinlog groups`, `plan`, `audit`, `canary report` and the console ask here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.mirror.groups.group_offsets import GroupOffsetTranslator
from twinlog.mirror.groups.group_places import GroupPlace, GroupPlaceProver, translate_starts, translated_place
from twinlog.mirror.offsets.map_store import MapStore
from twinlog.mirror.offsets.translator import Translator
from twinlog.mirror.records import Checkpoint
from twinlog.mirror.topology.plugins import group_filter_of
from twinlog.model.groups import GroupOffsets
from twinlog.model.types import GroupId, SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings

GroupPlaces = Mapping[tuple[GroupId, TopicPartition], GroupPlace]
"""The places by group and source partition."""


class GroupPlacesReader:
    """Reads places, a repeated call only new records; `maps` are those of the flow that copies the topics.

    `source` and `target` are connected to the clusters of the flow. `reverse` is the flow back, if there is any.
    """

    def __init__(
        self,
        flow: FlowSettings,
        source: ClusterAdmin,
        target: ClusterAdmin,
        maps: MapStore,
        reverse: FlowSettings | None = None,
    ) -> None:
        self._maps = maps
        self._runs_back = reverse is not None and reverse.copies
        self._offsets_of_flow = Translator(flow, source, target, maps)
        self.translator = GroupOffsetTranslator(flow, source, target, self._offsets_of_flow, reverse)
        self._proofs = GroupPlaceProver(flow, self.translator.reverse, source, target, group_filter_of(flow).accepts)

    def refresh(self, topics: Iterable[TopicName]) -> None:
        """Read the new positions and maps, for commits on these topics. Raises ClusterError."""
        self.translator.refresh(topics)

    def needed_offsets(
        self, committed: Mapping[GroupId, GroupOffsets], places: GroupPlaces, on_target: Mapping[GroupId, GroupOffsets]
    ) -> dict[GroupId, GroupOffsets]:
        """The offsets on the source that groups need on the target; `on_target` are the offsets of groups there.

        Only a switchover commits positions in copies from the target that `topics` leaves out. They count if the flow
        back runs by the same settings, or if the group also has a position in the original. Remaining copies have an
        origin unknown here, and no flow mirrors them. Copies beside their originals never count. Raises ClusterError.
        """
        return {
            group: {
                where: one
                for where, one in offsets.items()
                if self._is_needed(where, places.get((group, where)), on_target.get(group, {}))
            }
            for group, offsets in committed.items()
        }

    def _is_needed(self, where: TopicPartition, place: GroupPlace | None, on_target: GroupOffsets) -> bool:
        if self.translator.is_copy_beside(where.topic):
            return False
        if not self.translator.left_to_switchover(where.topic) or self._runs_back:
            return True
        return place is not None and place.offset is not None and place.partition in on_target

    def copied_up_to(self, partition: TopicPartition, end: int | None) -> SourceOffset | None:
        """How far a source partition that ends at `end` is copied: by its position, or by a newer offset sync if
        another program copies. Needs the translations before."""
        position = self._maps.position(partition)
        stored = None if position is None else position.next_source
        synced = self._offsets_of_flow.synced_up_to(partition)
        if synced is None or end is None or synced > end:
            # A sync beyond the end belongs to a former topic of the same name.
            return stored
        return synced if stored is None else max(stored, synced)

    def translate_starts(
        self, committed: Mapping[GroupId, GroupOffsets], starts: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, TargetOffset]:
        """The target offsets of the first records of the source's logs, for groups that stand before these records.

        `starts` are the first offsets of the source's logs. Raises ClusterError.
        """
        positions = ((where, one.offset) for offsets in committed.values() for where, one in offsets.items())
        return translate_starts(self.translator, positions, starts)

    def read_places(
        self,
        committed: Mapping[GroupId, GroupOffsets],
        ends: Mapping[TopicPartition, int],
        checkpoints: Iterable[Checkpoint] | None = None,
    ) -> GroupPlaces:
        """The places of committed offsets, the nearest that are proven; `ends` are the ends of the source's logs.

        `checkpoints` are the last checkpoints, which are read here if they are None. Raises ClusterError.
        """
        found: dict[tuple[GroupId, TopicPartition], GroupPlace] = {}
        unproven: dict[tuple[GroupId, TopicPartition], GroupPlace] = {}
        for group, offsets in committed.items():
            for where, one in offsets.items():
                offset = SourceOffset(one.offset)
                place = translated_place(self.translator, where, offset)
                if place is None:
                    continue
                found[group, where] = place
                copied = self.copied_up_to(where, ends.get(where))
                # A group in front of a flow that is behind waits for the flow, whatever its place.
                if place.by == "back" or (place.by and copied is not None and copied >= offset):
                    unproven[group, where] = place
        return {**found, **self._proofs.prove(unproven, committed, {}, checkpoints)}
