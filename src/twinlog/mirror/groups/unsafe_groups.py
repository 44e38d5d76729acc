"""Which groups of a running flow would repeat or skip records after a failover, by the judgement of `twinlog groups`.

The writer of checkpoints and the commits on the target see doubtful positions: an offset lacks an exact translation,
or the target is further. The journals of switchovers, and all offset syncs and checkpoints, resolve a part of these
doubts. While there is no doubt, no topic is read. Of all positions the first offsets of the target's logs are asked
for: a consumer before the first record begins by auto.offset.reset.
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
from twinlog.mirror.groups.group_moves import GroupMoves, GroupMovesReader, GroupReturnsReader
from twinlog.mirror.groups.group_offsets import GroupOffsetTranslator
from twinlog.mirror.groups.group_places import GroupPlace, GroupPlaceProver, translated_place
from twinlog.mirror.groups.group_sync import GroupSync
from twinlog.mirror.groups.move_facts import MoveFacts
from twinlog.mirror.groups.safe_move import Obstacle, judge
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
        self._ask_starts_at = LONG_AGO
        self.before_start: frozenset[GroupId] = frozenset()
        """The groups that would continue before the first record of the target, at the last complete look."""
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
        self._look_at_starts()
        doubts = frozenset(self._inexact()).union(self._ahead())
        now = self._target.clock.monotonic()
        if not doubts:
            self._looked_at, self._resolved, self._unresolved = doubts, frozenset(), frozenset()
            self._exactly_ahead = frozenset()
            self._prover, self._proven = None, {}
            return
        if doubts == self._looked_at and now < self._look_again_at:
            return
        try:
            self._resolved, self._exactly_ahead = self._resolve(doubts)
        except ClusterError as error:
            log.debug("%s: which groups have moved is unknown: %s", self._name, error)
        else:
            self._looked_at, self._look_again_at = doubts, now + SAME_S
        self._unresolved = frozenset((doubt.group, doubt.where) for doubt in doubts) - self._resolved

    def _look_at_starts(self) -> None:
        """Look after `SAME_S` for groups whose position the target has deleted."""
        now = self._target.clock.monotonic()
        if now < self._ask_starts_at:
            return
        self._ask_starts_at = now + SAME_S
        try:
            self.before_start = self._find_before_start()
        except ClusterError as error:
            log.debug("%s: which positions the target has deleted is unknown: %s", self._name, error)

    def _find_before_start(self) -> frozenset[GroupId]:
        positions = {
            group: offsets for group, offsets in self._writer.positions().items() if not self._has_moved(group)
        }
        starts = self._target.offsets({where for offsets in positions.values() for where in offsets}, latest=False)
        low = {
            group: {where: one for where, one in offsets.items() if one.offset < starts.get(where, 0)}
            for group, offsets in positions.items()
        }
        low = {group: offsets for group, offsets in low.items() if offsets}
        if not low:
            return frozenset()
        moves = self._moves.read()
        present, _ = self._target.call(self._admin.offsets, sorted(low))
        found = set()
        for group, offsets in low.items():
            there = present.get(group, {}) if self._syncing is not None else {**offsets, **present.get(group, {})}
            for where in offsets:
                if where not in there or there[where].offset >= starts[where]:
                    continue
                move = moves.get((group, where))
                if move is None or move.released or there[where].offset < move.target:
                    found.add(group)
        return frozenset(found)

    def _resolve(
        self, doubts: Collection[Doubt]
    ) -> tuple[frozenset[tuple[GroupId, TopicPartition]], frozenset[tuple[GroupId, TopicPartition]]]:
        """The doubts about positions that a failover leaves right, and about moved groups; then the doubts with an
        exact place, which the group has passed on the target."""
        moves, returns = self._moves.read(), self._returns.read()
        moves = self._returns.mark_ended(moves)
        places = self._places(doubts)
        present, _ = self._target.call(self._admin.offsets, sorted({doubt.group for doubt in doubts}))
        right, exact = set(), set()
        for doubt in doubts:
            if doubt not in places or doubt.group not in present:
                continue
            if self._is_right(doubt, places[doubt], present[doubt.group], moves, returns):
                right.add((doubt.group, doubt.where))
            elif places[doubt].exact:
                exact.add((doubt.group, doubt.where))
        return frozenset(right), frozenset(exact)

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
        checkpoints = [one for group in committed for one in self._writer.last_checkpoints(group)]
        by_partition = {(doubt.group, doubt.where): place for doubt, place in places.items()}
        proven = self._prover.prove(by_partition, committed, {}, checkpoints)
        return {doubt: proven.get((doubt.group, doubt.where), place) for doubt, place in places.items()}

    def _is_right(
        self, doubt: Doubt, place: GroupPlace, present: GroupOffsets, moves: GroupMoves, returns: GroupMoves
    ) -> bool:
        key = doubt.group, place.partition
        stands = present.get(place.partition)
        known = None if place.offset is None else TargetOffset(place.offset)
        verdict = judge(
            MoveFacts(
                group=doubt.group,
                source=doubt.where,
                remote=place.partition,
                committed=doubt.offset,
                copied=doubt.offset,
                translated=known,
                exact=place.exact,
                past_copies=None if place.past is None else TargetOffset(place.past),
                checkpoint_source=doubt.offset,
                checkpoint_target=known,
                target_committed=None if stands is None else TargetOffset(stands.offset),
                from_target=self._translator.came_from_target(doubt.where.topic),
                active_on_source=doubt.group in self._writer.active_on_source,
                active_on_target=self._syncing is not None and doubt.group in self._syncing.active,
                syncs=self._syncing is not None,
                move=moves.get(key),
                returned=returns.get(key),
            )
        )
        if verdict.moved or not verdict.reasons:
            return True
        return place.exact and all(reason.obstacle is not Obstacle.TARGET_AHEAD for reason in verdict.reasons)
