"""Which groups of a running flow would repeat or skip records after a failover, by the judgement of `twinlog groups`.

The writer of checkpoints and the commits on the target see doubtful positions: an offset lacks an exact translation,
or the target is further. The journals of switchovers, and all offset syncs and checkpoints, resolve a part of these
doubts. While there is no doubt, no topic is read. A position that the target has deleted, and an offset without any
translation, are doubts, too, until the first offset of the source's log shows that the group begins alike on both
clusters.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Mapping
from functools import partial
from typing import NamedTuple

from twinlog.clock import LONG_AGO
from twinlog.errors import ClusterError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.groups import GroupAdmin
from twinlog.mirror.groups.checkpoint_writer import CheckpointWriter
from twinlog.mirror.groups.deleted_positions import DeletedPositionsFinder
from twinlog.mirror.groups.group_moves import GroupMoves, GroupMovesReader, GroupReturnsReader
from twinlog.mirror.groups.group_offsets import GroupOffsetTranslator
from twinlog.mirror.groups.group_places import GroupPlace, GroupPlaceProver, translate_starts, translated_place
from twinlog.mirror.groups.group_sync import GroupSync
from twinlog.mirror.groups.move_facts import MoveFacts
from twinlog.mirror.groups.safe_move import MoveVerdict, Obstacle, judge
from twinlog.mirror.topology.plugins import group_filter_of
from twinlog.model.groups import CommittedOffset, GroupOffsets
from twinlog.model.types import GroupId, SourceOffset, TargetOffset, TopicPartition
from twinlog.settings.flow import FlowSettings

log = logging.getLogger(__name__)

MISSING_S = 30.0
"""The longest rest in seconds before a missing journal is looked for again."""

SAME_S = 30.0
"""The seconds between two looks at the same doubts."""

UNUSED_S, LONGEST_S = 60.0, 600.0
"""The seconds after which an unused history of offset syncs is forgotten, and after which the history is read again."""


class Doubt(NamedTuple):
    """A committed offset of a group on the source whose place on the target is doubtful."""

    group: GroupId
    where: TopicPartition
    offset: SourceOffset


class _Resolved(NamedTuple):
    """Judged doubts, by group and source partition.

    A failover leaves the position `right`, or the group has moved. An `exact` place is one that the group has passed on
    the target. `moved_on` are all positions but those before the first record of the target, if the source still has
    records for the group that the target lacks.
    """

    right: frozenset[tuple[GroupId, TopicPartition]]
    exact: frozenset[tuple[GroupId, TopicPartition]]
    moved_on: frozenset[tuple[GroupId, TopicPartition]]


class _DoubtedLogs(NamedTuple):
    """The first and next offsets of logs with a doubt about a deleted position, or about an untranslated offset.

    The source's logs of deleted positions are left out unless they begin after the position. No copy of the present
    records of a log lies before its offset in `starts_there`, on the target. The target's ends are those of
    untranslated offsets alone.
    """

    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    starts_there: Mapping[TopicPartition, TargetOffset]
    target_starts: Mapping[TopicPartition, int]
    target_ends: Mapping[TopicPartition, int]


class UnsafeGroups:
    """The unsafe groups of a flow; `resolve_doubts` looks at the clusters, and any thread may read the properties.

    `syncing` is None for a flow that commits nothing on the target. A missing right, or a silent cluster, leaves the
    doubts as they are.
    """

    def __init__(
        self,
        settings: FlowSettings,
        source: ClusterAdmin,
        target: ClusterAdmin,
        translator: GroupOffsetTranslator,
        writer: CheckpointWriter,
        syncing: GroupSync | None,
    ) -> None:
        self._name = settings.name
        self._source = source
        self._target = target
        self._translator = translator
        self._writer = writer
        self._syncing = syncing
        self._moves = GroupMovesReader(settings, target, missing_s=MISSING_S)
        self._returns = GroupReturnsReader(settings, source, missing_s=MISSING_S)
        accepts = group_filter_of(settings).accepts
        self._new_prover = partial(GroupPlaceProver, settings, translator.reverse, source, target, accepts)
        self._prover: GroupPlaceProver | None = None
        self._prover_since = self._forget_at = LONG_AGO
        self._proven: dict[Doubt, GroupPlace] = {}
        self._admin = GroupAdmin(target.client)
        self._finder = DeletedPositionsFinder(target, translator, writer, syncs=syncing is not None)
        self._deleted: frozenset[Doubt] = frozenset()
        """The positions before the first record of the target, of moved groups, too."""
        self._moved_on: frozenset[tuple[GroupId, TopicPartition]] = frozenset()
        """The deleted positions of the last complete look whose groups have moved, or begin alike on both clusters."""
        self._before_start: frozenset[GroupId] = frozenset()
        self._looked_at: frozenset[Doubt] = frozenset()
        self._look_again_at = LONG_AGO
        self._resolved: frozenset[tuple[GroupId, TopicPartition]] = frozenset()
        """The resolved doubts of the last complete look."""
        self._unresolved: frozenset[tuple[GroupId, TopicPartition]] = frozenset()
        """All other doubts of the last look: a doubt counts from its first look on, as long as the doubt lasts."""
        self._exactly_ahead: frozenset[tuple[GroupId, TopicPartition]] = frozenset()
        """The doubts of the last complete look with an exact place, which the group has passed on the target."""

    @property
    def inexact(self) -> frozenset[GroupId]:
        """The groups with an offset that has had no exact translation for some time, and that has to move."""
        exact = self._exactly_ahead
        return self._groups_of([doubt for doubt in self._inexact() if (doubt.group, doubt.where) not in exact])

    @property
    def ahead(self) -> frozenset[GroupId]:
        """The groups that would continue on the target after their place there, and have not read on from there."""
        exact = self._exactly_ahead
        proven = [doubt for doubt in self._inexact() if (doubt.group, doubt.where) in exact]
        return self._groups_of([*self._ahead(), *proven])

    @property
    def before_start(self) -> frozenset[GroupId] | None:
        """The groups that would begin on the target by auto.offset.reset: their position there is deleted.

        None before the first look, and while the target has been silent for long.
        """
        return self._before_start if self._finder.known else None

    def _groups_of(self, doubts: Collection[Doubt]) -> frozenset[GroupId]:
        unresolved = self._unresolved
        return frozenset(doubt.group for doubt in doubts if (doubt.group, doubt.where) in unresolved)

    def _has_moved(self, group: GroupId) -> bool:
        """Whether the group has members on the target alone."""
        there = self._syncing is not None and group in self._syncing.active
        return there and group not in self._writer.active_on_source

    def _inexact(self) -> list[Doubt]:
        return [
            Doubt(group, where, offset)
            for group, offsets in self._writer.inexact.items()
            if not self._has_moved(group)
            for where, offset in offsets.items()
        ]

    def _ahead(self) -> list[Doubt]:
        further = {} if self._syncing is None else self._syncing.ahead
        return [
            Doubt(group, where, SourceOffset(one.offset))
            for group, remotes in further.items()
            if not self._has_moved(group)
            for where, one in self._writer.committed(group).items()
            if self._translator.remote(where) in remotes
        ]

    def resolve_doubts(self) -> None:
        """Look again at new doubts, and at known doubts after `SAME_S`; nothing is written."""
        self._finder.find_positions()
        deleted = self._finder.found.committed.items()
        self._deleted = frozenset(Doubt(group, where, one) for (group, where), one in deleted)
        doubts = self._deleted.union(self._inexact(), self._ahead())
        now = self._target.clock.monotonic()
        if not doubts:
            self._looked_at, self._resolved, self._unresolved = doubts, frozenset(), frozenset()
            self._exactly_ahead = self._moved_on = frozenset()
            self._before_start = frozenset()
            self._prover, self._proven = None, {}
            return
        if doubts == self._looked_at and now < self._look_again_at:
            return
        try:
            self._resolved, self._exactly_ahead, self._moved_on = self._resolve(doubts)
        except ClusterError as error:
            log.debug("%s: which groups have moved is unknown: %s", self._name, error)
        else:
            self._looked_at, self._look_again_at = doubts, now + SAME_S
        self._unresolved = frozenset((doubt.group, doubt.where) for doubt in doubts) - self._resolved
        needed = {(doubt.group, doubt.where) for doubt in self._deleted} - self._moved_on
        self._before_start = frozenset(group for group, _ in needed)

    def _resolve(self, doubts: Collection[Doubt]) -> _Resolved:
        """Judge all doubts. Raises ClusterError."""
        deleted = self._deleted
        if deleted:
            # Translations of positions that are left to a switchover are read here alone.
            self._translator.refresh_back({doubt.where.topic for doubt in deleted})
        moves, returns = self._moves.read(), self._returns.read()
        moves = self._returns.mark_ended(moves)
        places = self._places(doubts)
        logs = self._doubted_logs(deleted, places)
        present, _ = self._target.call(self._admin.offsets, sorted({doubt.group for doubt in doubts}))
        active = self._active_on_target()
        right, exact, moved_on = set(), set(), set()
        for doubt in doubts:
            place, key = places.get(doubt), (doubt.group, doubt.where)
            if place is None or (doubt.group not in present and doubt not in deleted and place.offset is not None):
                continue
            verdict = self._judge(doubt, place, present.get(doubt.group, {}), moves, returns, active, logs)
            obstacles = {reason.obstacle for reason in verdict.reasons}
            if not obstacles or (place.exact and Obstacle.TARGET_AHEAD not in obstacles):
                right.add(key)
            elif place.exact:
                exact.add(key)
            if Obstacle.BEFORE_START not in obstacles:
                moved_on.add(key)
        return _Resolved(frozenset(right), frozenset(exact), frozenset(moved_on))

    def _doubted_logs(self, deleted: Collection[Doubt], places: Mapping[Doubt, GroupPlace]) -> _DoubtedLogs:
        """The logs of deleted positions, and of offsets that lack a place. Raises ClusterError."""
        untranslated = {doubt: place.partition for doubt, place in places.items() if place.offset is None}
        positions = [(doubt.where, doubt.offset) for doubt in (*deleted, *untranslated)]
        found = self._source.offsets({where for where, _ in positions}, latest=False)
        needed = {where for where, offset in positions if offset < found.get(where, 0)}
        needed |= {doubt.where for doubt in untranslated}
        starts = {where: found[where] for where in needed if where in found}
        ends = self._source.offsets(starts, latest=True)
        remotes = set(untranslated.values())
        target_starts = {**self._finder.found.starts, **self._target.offsets(remotes, latest=False)}
        target_ends = self._target.offsets(remotes, latest=True)
        starts_there = translate_starts(self._translator, positions, starts)
        return _DoubtedLogs(starts, ends, starts_there, target_starts, target_ends)

    def _active_on_target(self) -> frozenset[GroupId]:
        """The consumer groups that have members on the target; commits there look only at translated groups."""
        if self._deleted:
            groups = self._target.call(self._admin.listed)
            return frozenset(name for name, group in groups.items() if group.commits and not group.empty)
        return frozenset() if self._syncing is None else self._syncing.active

    def _places(self, doubts: Collection[Doubt]) -> dict[Doubt, GroupPlace]:
        found = {
            doubt: place
            for doubt in doubts
            if (place := translated_place(self._translator, doubt.where, doubt.offset)) is not None
        }
        copied = self._translator.copied_up_to()
        inexact = {
            doubt: place
            for doubt, place in found.items()
            if place.by == "back" or (place.by and doubt.offset <= copied.get(doubt.where, -1))
        }
        self._proven = {doubt: place for doubt, place in self._proven.items() if doubt in inexact}
        self._proven |= self._prove({doubt: place for doubt, place in inexact.items() if doubt not in self._proven})
        return {**found, **self._proven}

    def _prove(self, places: Mapping[Doubt, GroupPlace]) -> dict[Doubt, GroupPlace]:
        """The places of copies by MirrorMaker 2 as near as they are proven; more offset syncs add nothing later."""
        now = self._target.clock.monotonic()
        if not places:
            if now >= self._forget_at:
                self._prover = None
            return {}
        if self._prover is None or now - self._prover_since > LONGEST_S:
            # The history of offset syncs grows in memory as long as it is read.
            self._prover, self._prover_since = self._new_prover(), now
        self._forget_at = now + UNUSED_S
        committed: dict[GroupId, GroupOffsets] = defaultdict(dict)
        for doubt in places:
            committed[doubt.group][doubt.where] = CommittedOffset(doubt.offset)
        checkpoints = [one for group in committed for one in self._writer.stored.last(group).values()]
        by_partition = {(doubt.group, doubt.where): place for doubt, place in places.items()}
        proven = self._prover.prove(by_partition, committed, {}, checkpoints)
        return {doubt: proven.get((doubt.group, doubt.where), place) for doubt, place in places.items()}

    def _judge(
        self,
        doubt: Doubt,
        place: GroupPlace,
        present: GroupOffsets,
        moves: GroupMoves,
        returns: GroupMoves,
        active: Collection[GroupId],
        logs: _DoubtedLogs,
    ) -> MoveVerdict:
        start, end = logs.starts.get(doubt.where), logs.ends.get(doubt.where)
        key = doubt.group, place.partition
        stands = present.get(place.partition)
        target_start, target_end = logs.target_starts.get(place.partition), logs.target_ends.get(place.partition)
        known = None if place.offset is None else TargetOffset(place.offset)
        if known is not None:
            target_end = None
            if start is not None and doubt.offset >= start:
                # The position of another group is before this log.
                start = end = None
        never_copied = known is None and start is not None and start == end
        return judge(
            MoveFacts(
                group=doubt.group,
                source=doubt.where,
                remote=place.partition,
                committed=doubt.offset,
                source_start=None if start is None else SourceOffset(start),
                source_end=None if end is None else SourceOffset(end),
                source_start_there=logs.starts_there.get(doubt.where),
                # The metrics of the copies tell of records that are still to copy.
                copied=None if never_copied else doubt.offset,
                translated=known,
                exact=place.exact,
                past_copies=None if place.past is None else TargetOffset(place.past),
                checkpoint_source=None if known is None else doubt.offset,
                checkpoint_target=known,
                target_committed=None if stands is None else TargetOffset(stands.offset),
                target_start=None if target_start is None else TargetOffset(target_start),
                target_end=None if target_end is None else TargetOffset(target_end),
                from_target=self._translator.came_from_target(doubt.where.topic),
                left_to_switchover=self._translator.left_to_switchover(doubt.where.topic),
                active_on_source=doubt.group in self._writer.active_on_source,
                active_on_target=doubt.group in active,
                syncs=self._syncing is not None,
                move=moves.get(key),
                returned=returns.get(key),
            )
        )
