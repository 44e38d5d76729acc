"""The places at which groups continue on the target, as near as MirrorMaker 2's offset syncs and checkpoints prove.

A switchover, and all commands that judge groups, translate offsets here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Literal, NamedTuple

from twinlog.errors import RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.consumer.topic_reader import TopicReader
from twinlog.kafka.record.last_records import KeptRecord, LastRecords
from twinlog.mirror.groups.group_offsets import GroupOffsetTranslator, TranslatedGroupOffset
from twinlog.mirror.offsets.sync_history import SyncedPlace, SyncHistory, SyncHistoryReader
from twinlog.mirror.records import Checkpoint, decode_checkpoint
from twinlog.mirror.topology.plugins import policy_of
from twinlog.model.groups import GroupOffsets
from twinlog.model.types import GroupId, SourceOffset, TargetOffset, TopicPartition
from twinlog.settings.flow import FlowSettings


class GroupPlace(NamedTuple):
    """A partition of the target, and the offset there at which a group continues, None if it is unknown.

    An inexact place may repeat records before `past`; None is unknown. `by_syncs` is True for a place by offset syncs.
    `by` is the flow whose maps and offset syncs translated the offset: the flow there, or the flow back. It is empty
    for an offset to which the histories of both flows add nothing.
    """

    partition: TopicPartition
    offset: int | None
    exact: bool
    by: Literal["there", "back", ""] = ""
    past: int | None = None
    by_syncs: bool = False


def translate_starts(
    translator: GroupOffsetTranslator,
    positions: Iterable[tuple[TopicPartition, int]],
    starts: Mapping[TopicPartition, int],
) -> dict[TopicPartition, TargetOffset]:
    """The target offsets of the first records of source logs that begin after a group's position, or earlier offsets.

    `starts` are the first offsets of the source's logs. An untranslatable start is left out. Raises ClusterError.
    """
    later = {where for where, offset in positions if offset < starts.get(where, 0)}
    found = {where: translator.translate_offset(where, SourceOffset(starts[where])) for where in later}
    return {where: one.offset for where, one in found.items() if one is not None}


def place_of(
    partition: TopicPartition,
    known: TranslatedGroupOffset | None,
    by: Literal["there", "back"],
    past: Callable[[], int | None] = lambda: None,
) -> GroupPlace:
    """The place by a translation of the flow `by`, None for an untranslated offset.

    `past` returns an offset from which on the group repeats no record.
    """
    if known is None:
        return GroupPlace(partition, None, False, by, past())
    # Of a remote topic that was recreated since the last copy, offset syncs and checkpoints are of the earlier log.
    if known.exact or known.recreated:
        return GroupPlace(partition, known.offset, known.exact)
    return GroupPlace(partition, known.offset, False, by, past(), known.by_syncs)


def translated_place(
    translator: GroupOffsetTranslator, where: TopicPartition, offset: SourceOffset
) -> GroupPlace | None:
    """The place of a committed offset by the maps and offset syncs of its flow alone; None for a copy whose original
    lacks a name."""
    remote = translator.remote(where)
    if remote is None:
        return None
    known = translator.translate_offset(where, offset)
    by: Literal["there", "back"] = "back" if translator.came_from_target(where.topic) else "there"
    return place_of(remote, known, by, lambda: translator.past_copies(where, offset))


def _nearest(
    place: GroupPlace, synced: SyncedPlace | None, past_copies: int | None, last: Checkpoint | None, end: int
) -> GroupPlace:
    """Return an inexact place in a log up to `end`, with what offset syncs and an earlier checkpoint add to it.

    Without any place `past_copies` bounds the checkpoint: the checkpoint may be of an earlier log.
    """
    if synced is not None:
        # The ends of both logs rule out syncs that the translation had to believe.
        known = synced.joined(None if place.by_syncs else place.offset, place.past)
        place = place._replace(offset=known.least, exact=known.exact, past=known.past)
    elif place.offset is None and past_copies is not None:
        place = place._replace(past=past_copies if place.past is None else min(place.past, past_copies))
    past = end if place.past is None else min(place.past, end)
    if last is not None and (place.offset or 0) < last.downstream <= past:
        place = place._replace(offset=int(last.downstream))
    return place._replace(past=past)


class GroupPlaceProver:
    """Proves inexact places; `back` is the flow in the opposite direction, and `accepts` the filter of groups."""

    def __init__(
        self,
        flow: FlowSettings,
        back: FlowSettings,
        source: ClusterAdmin,
        target: ClusterAdmin,
        accepts: Callable[[GroupId], bool],
    ) -> None:
        self._source = source
        self._target = target
        self._accepts = accepts
        self._history_there = SyncHistoryReader(flow, source, target)
        self._history_back = SyncHistoryReader(back, target, source)
        checkpoints = policy_of(flow).checkpoints_topic(flow.source_name)
        self._checkpoint_reader = TopicReader(target, checkpoints, optional=True)
        self._last_checkpoints: LastRecords = {}

    def prove(
        self,
        places: Mapping[tuple[GroupId, TopicPartition], GroupPlace],
        committed: Mapping[GroupId, GroupOffsets],
        cut: Mapping[TopicPartition, int],
        checkpoints: Iterable[Checkpoint] | None = None,
    ) -> dict[tuple[GroupId, TopicPartition], GroupPlace]:
        """Nearer places by all offset syncs, as in an audit, and by the checkpoints of the flow there.

        The flow there has copied the records before `cut`. The last `checkpoints` are read if they are None.

        The checkpoints of MirrorMaker 2 may be further than the offset syncs prove: compaction deletes offset syncs.
        """
        if not places:
            return {}
        there = {where for (_, where), place in places.items() if place.by == "there"}
        back = {place.partition for place in places.values() if place.by == "back"}
        forth_known, back_known = SyncHistory({}), SyncHistory({})
        last_ones: Mapping[tuple[GroupId, TopicPartition], Checkpoint] = {}
        # Without the right to read these topics, places stay as they are.
        with suppress(RefusedError):
            if there:
                forth_known = self._history_there.read(lambda: self._source.offsets(there, latest=True))
        with suppress(RefusedError):
            if back:
                back_known = self._history_back.read(lambda: self._target.offsets(back, latest=True))
        with suppress(RefusedError):
            if there:
                known = self.read_checkpoints() if checkpoints is None else checkpoints
                last_ones = {(one.group, one.remote): one for one in known}
        # Last: the copy of a record with an offset sync is on the target.
        on_target = self._target.offsets({place.partition for place in places.values()}, latest=True)
        found = {}
        for (group, where), place in places.items():
            offset, end = committed[group][where].offset, on_target.get(place.partition)
            if end is None:
                continue
            if place.by == "there":
                synced = forth_known.translate(where, SourceOffset(offset), end)
                past = forth_known.past_copies(where, SourceOffset(offset))
            else:
                synced, past = back_known.translate_back(place.partition, TargetOffset(offset), end), None
            last = last_ones.get((group, place.partition))
            last = last if last is not None and last.upstream <= offset else None
            near = _nearest(place, synced, past, last, end)
            # While the flow is behind, records that the group has read are still to come.
            is_behind = offset > cut.get(where, offset)
            found[group, where] = near._replace(exact=False, past=None) if is_behind else near
        return found

    def read_checkpoints(self) -> Iterator[Checkpoint]:
        """The last checkpoints of the followed groups; a repeated call reads only the new records."""
        self._checkpoint_reader.read_last(self._last_checkpoints, deletions=False)
        for record in map(KeptRecord.decode, self._last_checkpoints.values()):
            checkpoint = decode_checkpoint(record.key, record.value)
            if checkpoint is not None and self._accepts(checkpoint.group):
                yield checkpoint
