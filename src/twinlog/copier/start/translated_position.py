"""Finds the position of a granted partition whose copies get the next offsets of the target, as in MirrorMaker 2.

The stored position names an offset on each side. The remote log may have more records by now, because a position is
stored after the append; it may have lost records, or both topics may be new topics of the same names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from twinlog.batches.prepare import prepare
from twinlog.copier.start.first_look import GrantedPartition, LogBounds, log_starts
from twinlog.copier.start.gap_check import GapCheck
from twinlog.copier.start.lost_records import RemoteLogComparison, TransformedAppends
from twinlog.copier.start.producer_ids import fencing
from twinlog.copier.start.resume_after_crash import Resumed, resume_after_log_end
from twinlog.kafka.admin.partition_states import require_current_id
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.producer.appends import CopyRules, Prepare
from twinlog.kafka.protocol.offsets import EARLIEST
from twinlog.lease.messages import Grant
from twinlog.mirror.gaps import find_gap
from twinlog.mirror.offsets.positions import Position
from twinlog.model.amounts import counted
from twinlog.model.types import SourceOffset, TargetOffset, TopicName
from twinlog.settings.flow import FlowSettings


def translated(position: Position, end: TargetOffset) -> Position:
    """A stored position for copies with translated offsets; the topic may have had identical offsets before.

    If the remote log, which ends at `end`, has only fillers, copying begins at the first source offset to copy.
    """
    first = position.kept_from
    if first is None or position.next_source >= first:
        return replace(position, kept_from=None)
    filled = TargetOffset(min(end, first))
    # Fillers of the former copier may still arrive.
    writer = fencing(position.writer)
    return replace(position, next_source=first, next_target=filled, leader_epoch=-1, writer=writer, kept_from=None)


def topic_ids(source: ClusterClient, target: ClusterClient, grant: Grant) -> tuple[str | None, str | None]:
    """The ids of both topics (KIP-516), None if the metadata lack an id."""
    return _topic_id(source, grant.source.topic), _topic_id(target, grant.remote.topic)


def _topic_id(client: ClusterClient, topic: TopicName) -> str | None:
    known = client.topic(topic)
    return None if known is None or known.topic_id is None else str(known.topic_id)


class TranslatedPositions:
    """The positions of partitions with translated offsets.

    `prepare_for(grant)` returns the function that makes appends if a transform changes records, else None.
    """

    def __init__(
        self,
        source: ClusterClient,
        target: ClusterClient,
        settings: FlowSettings,
        event: Callable[[str, str], None],
        gap_check: GapCheck,
        prepare_for: Callable[[Grant], Prepare | None],
    ) -> None:
        self._source = source
        self._target = target
        self._settings = settings
        self._event = event
        self._gap_check = gap_check
        self._prepare_for = prepare_for

    def begin(self, grant: Grant, start: SourceOffset, end: TargetOffset) -> Position:
        """The first position of a partition: its records from `start` on get the target offsets from `end` on."""
        topic_id, remote_id = topic_ids(self._source, self._target, grant)
        return Position(start, end, -1, topic_id, remote_id, remote_topic=grant.remote.topic)

    async def find_position(self, one: GrantedPartition, logs: LogBounds | None) -> Resumed:
        """The position of a partition, and the records found after the granted position.

        `logs` come from `look`, None if `look` skipped the partition.
        """
        grant, position, end = one.grant, one.position, one.end
        topic_id, remote_id = topic_ids(self._source, self._target, grant)
        if position.topic_id is not None and topic_id is not None and position.topic_id != topic_id:
            await require_current_id(self._source, grant.source)
            starts = await self._source.list_offsets([grant.source], EARLIEST)
            start = SourceOffset(starts.get(grant.source, 0))
            gap = find_gap(position.next_source, start, SourceOffset(0), recreated=True)
            assert gap is not None
            position = self._gap_check.handle_gap(gap, grant, position, topic_id)
            remote_topic, writer = grant.remote.topic, fencing(position.writer)
            position = replace(position, remote_topic_id=remote_id, remote_topic=remote_topic, writer=writer)
            return Resumed(replace(position, next_target=end), [])
        now = replace(position, topic_id=topic_id, remote_topic_id=remote_id, remote_topic=grant.remote.topic)
        expected = position.next_target
        if expected is None:
            # MirrorMaker 2 wrote this position: its target offset is unknown.
            return Resumed(replace(now, next_target=end, writer=None), [])
        if await self.is_recreated(grant, position, remote_id):
            return Resumed(replace(now, next_target=end, writer=None), [])
        if end == expected and not one.in_doubt:
            return Resumed(now, [])
        logs = logs or LogBounds(*await log_starts(self._source, self._target, grant), end)
        if one.in_doubt:
            lost = await self.find_lost(one, now, logs)
            if lost is not None:
                return Resumed(replace(lost, next_target=end), [])
        if end == expected:
            return Resumed(now, [])
        return await resume_after_log_end(
            self._source,
            self._target,
            grant,
            now,
            logs,
            self._rules(grant),
            self._event,
            self._prepare_for(grant) or prepare,
            in_transactions=self._settings.exactly_once != "disabled",
        )

    async def find_lost(self, one: GrantedPartition, position: Position, logs: LogBounds) -> Position | None:
        """The position from which to copy again the acknowledged records that the target lost.

        The caller sets the target offset. Returns None if the log has its full length and holds every record.
        """
        grant, end, expected = one.grant, one.left, position.next_target
        assert expected is not None
        if logs.last is None or logs.last.copy is None:
            # A leader that answered a request with the topic's id has the current topic.
            await require_current_id(self._target, grant.remote)
        changing = self._prepare_for(grant)
        rules = self._rules(grant)
        transformed = None if changing is None else TransformedAppends(changing, rules)
        comparison = RemoteLogComparison(
            *(self._source, self._target, grant, one.known, logs.start, end), transformed=transformed, last=logs.last
        )
        if end == expected and await comparison.is_whole():
            return None
        place = await comparison.find_place()
        left = end if place is None else place.end
        position = replace(position, writer=fencing(position.writer))
        what = f"ends at {end}" if left == end else f"has something else from {left} on"
        lost = expected - left
        text = (
            f"{grant.remote}: the remote log {what}, but {expected} was acknowledged: {counted(lost, 'record')} "
            f"{'was' if lost == 1 else 'were'} lost on the target"
        )
        if place is None:
            self._event("target", f"{text}; where they came from is not known, so they are not copied again")
            return position
        begin = min(max(place.next_source, logs.source_start), position.next_source)
        if begin < position.next_source:
            text += f"; source offsets {begin} to {position.next_source - 1} of {grant.source} are copied again"
        if logs.source_start > place.next_source:
            text += f", those from {place.next_source} on are gone from the source as well"
        if not place.exact:
            text += ", as near as the map of offsets shows: some may be missing or there twice"
        self._event("target", text)
        # With the leader epoch of later batches the source would report a divergence at this offset.
        return replace(position, next_source=begin, leader_epoch=-1)

    async def is_recreated(self, grant: Grant, position: Position, remote_id: str | None) -> bool:
        """Whether the remote topic was recreated since the position was stored; reports that. Raises ClusterError."""
        known = position.remote_topic_id
        if known is None or remote_id is None or known == remote_id:
            return False
        await require_current_id(self._target, grant.remote)
        self._event(
            "target",
            f"TW-TARGET-03: remote topic {grant.remote.topic} was recreated: what it held before is not copied again",
        )
        return True

    def _rules(self, grant: Grant) -> CopyRules:
        return replace(CopyRules.of(self._settings, grant.source.topic), max_batch_bytes=grant.max_batch_bytes)
