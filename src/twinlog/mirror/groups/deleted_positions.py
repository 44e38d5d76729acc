"""Finds the positions of groups whose records the target has deleted: a consumer there begins by auto.offset.reset."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple

from twinlog.clock import LONG_AGO
from twinlog.errors import ClusterError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.groups import GroupAdmin
from twinlog.mirror.groups.checkpoint_writer import CheckpointWriter
from twinlog.mirror.groups.group_offsets import GroupOffsetTranslator
from twinlog.model.types import GroupId, SourceOffset, TargetOffset, TopicPartition

log = logging.getLogger(__name__)

LOOK_S = 30.0
"""The seconds between two looks; after a failed look the next call looks again."""

STALE_S = 90.0
"""The seconds for which a look counts."""


class DeletedPositions(NamedTuple):
    """The `committed` offsets on the source by group and source partition, and the first offsets of the target's logs.

    `starts` has the partitions of these positions alone.
    """

    committed: Mapping[tuple[GroupId, TopicPartition], SourceOffset]
    starts: Mapping[TopicPartition, TargetOffset]


class DeletedPositionsFinder:
    """Compares the positions of a running flow's groups on the target with the first offsets of the logs there.

    The groups and their offsets on the source are those of `writer`; with `syncs` the flow commits on the target. The
    groups may have moved since.
    """

    def __init__(
        self, target: ClusterAdmin, translator: GroupOffsetTranslator, writer: CheckpointWriter, *, syncs: bool
    ) -> None:
        self._target = target
        self._translator = translator
        self._writer = writer
        self._syncs = syncs
        # The same groups are asked for each time: an unchanged answer is not read again.
        self._admin = GroupAdmin(target.client)
        self._look_at = self._looked_at = LONG_AGO
        self.found = DeletedPositions({}, {})
        """The positions of the last complete look."""

    @property
    def known(self) -> bool:
        """Whether `found` is of the last `STALE_S`."""
        return self._target.clock.monotonic() - self._looked_at <= STALE_S

    def find_positions(self) -> None:
        """Look after `LOOK_S`, as soon as the flow knows its groups; a silent cluster leaves `found` as it is.

        A look asks each coordinator for a hundred groups at a time, and each leader once for all partitions in which a
        group has a position.
        """
        now = self._target.clock.monotonic()
        if now < self._look_at or self._writer.followed is None:
            return
        try:
            self.found = self._look()
        except ClusterError as error:
            log.debug("cluster %s: which positions of groups it has deleted is unknown: %s", self._target.alias, error)
        else:
            self._look_at, self._looked_at = now + LOOK_S, now

    def _look(self) -> DeletedPositions:
        translated = self._writer.positions()
        committed = {group: self._writer.committed(group) for group in translated}
        for group, offsets in self._writer.left_to_switchover().items():
            committed[group] = {**committed.get(group, {}), **offsets}
        if not committed:
            return DeletedPositions({}, {})
        present, _ = self._target.call(self._admin.offsets, sorted(committed))
        if not self._syncs:
            # The checkpoint stands in for a missing position on the target.
            present = {group: {**translated.get(group, {}), **present.get(group, {})} for group in committed}
        here: set[TopicPartition] = set().union(*committed.values())
        remotes = {where: there for where in here if (there := self._translator.remote(where)) is not None}
        asked = set(remotes.values()).intersection(set().union(*present.values()))
        starts = {where: start for where, start in self._target.offsets(asked, latest=False).items() if start > 0}
        found: dict[tuple[GroupId, TopicPartition], SourceOffset] = {}
        deleted_in: set[TopicPartition] = set()
        for group, stands in present.items() if starts else ():
            low = {where for where, one in stands.items() if one.offset < starts.get(where, 0)}
            if low:
                ours = {where: one for where, one in committed[group].items() if remotes.get(where) in low}
                found |= {(group, where): SourceOffset(one.offset) for where, one in ours.items()}
                deleted_in.update(remotes[where] for where in ours)
        return DeletedPositions(found, {where: TargetOffset(starts[where]) for where in deleted_in})
