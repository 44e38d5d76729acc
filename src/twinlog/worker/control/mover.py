"""Moves released partitions of a flow to other source offsets, at which the next copier continues.

The position has the form of a copier's position in a recreated topic. Its target offset is the end of the remote log
once this log is at rest. So every record on the target is excluded from the copies of records after the new source
offset. The position's writer fences the writer of the old position, whose appends may still be under way.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from twinlog.copier.offset_writers import NO_GENERATION
from twinlog.copier.start.first_look import LogBounds, LogsAtRest, log_starts
from twinlog.copier.start.producer_ids import fencing
from twinlog.copier.start.resume_after_crash import resume_after_log_end
from twinlog.errors import ClusterError, CopyError, RefusedError
from twinlog.errors.message_ids import with_event_id, with_id
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.producer.appends import CopyRules
from twinlog.kafka.producer.topic_writer import OwnRecord, TopicWriter
from twinlog.kafka.protocol.offsets import LATEST
from twinlog.kafka.retry import LOOK_CONNECT_S
from twinlog.lease.messages import Grant
from twinlog.mirror.offsets.exact_map import CopiedRun
from twinlog.mirror.offsets.map_store import MapStore
from twinlog.mirror.offsets.position_store import PositionStore
from twinlog.mirror.offsets.position_writer import position_records, positions_writer
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.offsets.segments import COPIER_GENERATIONS, LastPoint, SegmentWriter, segments_topic
from twinlog.model.topics import Topic, listed
from twinlog.model.types import TargetOffset, TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings
from twinlog.worker.control.deciding import decide, stays_with_offsets
from twinlog.worker.control.model import PartitionMove, TopicCommand, TopicVerb
from twinlog.worker.control.recopies import RecopiedRange, counting_first_copies, taken_back
from twinlog.worker.control.source_logs import look

log = logging.getLogger(__name__)

REST_S = 15.0
"""The longest wait for remote logs that still grow."""

TIMEOUT_S = 15.0
LARGEST_BATCH = 1 << 30
ELSEWHERE = "TW-COMMAND-08: another program stored offset {} meanwhile, and it stays there"


class PartitionMover:
    """Moves partitions of a flow; used by a single thread, while all copiers have released the partitions.

    All methods raise ClusterError if a cluster is silent about a partition, and RefusedError if a right is missing.
    """

    def __init__(
        self,
        settings: FlowSettings,
        source: ClusterAdmin,
        target: ClusterAdmin,
        positions: PositionStore,
        maps: MapStore,
    ) -> None:
        self._settings = settings
        self._source = source
        self._target = target
        self._positions = positions
        self._maps = maps
        self._stores_positions = positions_writer(target.client, settings)
        purpose = "storing where records were copied to"
        self._stores_maps = TopicWriter(target.client, segments_topic(settings.source), TIMEOUT_S, purpose)

    def catch_up(self, partitions: Iterable[TopicPartition], remote: Mapping[TopicPartition, TopicPartition]) -> None:
        """Store positions after the records of these source partitions that had arrived when their copiers were lost.

        So a command counts these records as copied. `remote` has the remote partition of each source partition. In
        transactions, a position arrives together with its records, and the output of a transform is unknown here. So
        positions stay unchanged for both kinds of flows.
        """
        if self._settings.exactly_once != "disabled" or self._settings.transform is not None:
            return
        here, there = self._source.topics(), self._target.topics()
        stored = {
            part: position
            for part, position in self._positions.read([part for part in partitions if part in remote]).items()
            if position.next_target is not None
            and position.kept_from is None
            and part.topic in here
            and not here[part.topic].recreated(position.topic_id)
            and position.remote_topic_id in (None, _id(there.get(remote[part].topic)))
        }
        counted = {remote[part]: position.next_target for part, position in stored.items()}
        ends = self._target.call(partial(self._ends, counted)) if counted else {}
        behind = {
            Grant(part, remote[part], position.topic_id, LARGEST_BATCH, position): ends[remote[part]]
            for part, position in stored.items()
            if position.next_target is not None and ends.get(remote[part], 0) > position.next_target
        }
        found = self._target.call(partial(self._find_arrived, behind)) if behind else {}
        if not found:
            return
        self._maps.read()
        tips = self._maps.tips(stored)
        positions: dict[TopicPartition, Position] = {}
        records: list[OwnRecord] = []
        for part, (position, runs) in found.items():
            map_ = SegmentWriter.take_over(part, position, stored[part], tips.get(part), complete=False, found=runs)
            records += [(segment.key, segment.value) for segment in map_.changed()]
            positions[part] = replace(position, generation=map_.generation)
        # A map must never be older than the position at which it ends.
        self._target.call(partial(self._stores_maps.append, records))
        self._store_positions(positions)

    async def _find_arrived(
        self, behind: Mapping[Grant, TargetOffset]
    ) -> dict[TopicPartition, tuple[Position, list[CopiedRun]]]:
        """The positions after the arrived records of partitions with these remote ends, and the runs of these
        records."""
        settings, loop = self._settings, self._target.client.loop
        source = ClusterClient(loop, settings.source, settings.consumer.client)
        target = ClusterClient(loop, settings.target, settings.producer.client)
        found = {}
        try:
            await source.connect(LOOK_CONNECT_S)
            await target.connect(LOOK_CONNECT_S)
            await source.refresh({grant.source.topic for grant in behind})
            await target.refresh({grant.remote.topic for grant in behind})
            ends = await source.list_offsets([grant.source for grant in behind], LATEST)
            for grant, end in behind.items():
                assert grant.position is not None
                if target.leader(grant.remote) is None or ends.get(grant.source, -1) < grant.position.next_source:
                    # The partition has no leader, or the source log was truncated: a comparison is impossible.
                    continue
                rules = CopyRules.of(settings, grant.source.topic)
                try:
                    logs = LogBounds(*await log_starts(source, target, grant), end)
                    resumed = await resume_after_log_end(source, target, grant, grant.position, logs, rules, self._note)
                except (CopyError, RefusedError) as error:
                    log.warning(
                        "TW-COMMAND-12: %s: the arrived records of %s are unknown: %s",
                        *(settings.name, grant.source, error),
                    )
                    continue
                if resumed.position.next_source > grant.position.next_source:
                    found[grant.source] = resumed.position, resumed.runs
        finally:
            source.close()
            target.close()
        return found

    def _note(self, kind: str, text: str) -> None:
        log.warning("%s", with_id(f"{self._settings.name}: {with_event_id(kind, text)}", "TW-COMMAND-12"))

    def decide_moves(
        self,
        command: TopicCommand,
        partitions: Sequence[TopicPartition],
        recopied: Mapping[TopicPartition, RecopiedRange],
    ) -> list[PartitionMove]:
        """The move of each of these source partitions; a read-only method.

        `recopied` has the partitions that an earlier command has moved back.
        """
        stored = self._positions.read(partitions)
        logs = look(self._settings, self._source, command, partitions, stored)
        moves = [
            stays_with_offsets(part, stored.get(part))
            if command.verb.moves and self._settings.keeps_offsets(part.topic)
            else decide(command, part, stored.get(part), logs.get(part))
            for part in partitions
        ]
        if command.verb is TopicVerb.RESTART_FROM:
            self._maps.read()
            moves = [self._with_first_target(move) for move in moves]
        moves = [counting_first_copies(move, recopied.get(move.partition)) for move in moves]
        return [_with_target(move, stored.get(move.partition)) for move in moves]

    def _with_first_target(self, move: PartitionMove) -> PartitionMove:
        map_ = self._maps.maps.map(move.partition)
        if map_ is None or move.after is None or not move.changes:
            return move
        found = map_.to_target(move.after)
        return move if found is None else replace(move, first_target=found.offset)

    def apply_moves(
        self,
        moves: Sequence[PartitionMove],
        remote: Mapping[TopicPartition, TopicPartition],
        recopied: Mapping[TopicPartition, RecopiedRange],
    ) -> dict[TopicPartition, str]:
        """Store the new positions of partitions; `remote` has their remote partitions. A partition already there stays.

        Returns the partitions whose position changed since `decide_moves`, and other unmoved partitions, each with the
        reason.
        """
        wanted = {move.partition: move for move in moves if move.changes}
        stored = self._positions.read(wanted)
        here = self._source.topics()
        left: dict[TopicPartition, str] = {}
        moving: dict[TopicPartition, PartitionMove] = {}
        for part, move in wanted.items():
            now = stored.get(part)
            if part not in remote or part.topic not in here:
                left[part] = "it is not mirrored any more"
            elif _is_done(move, now, here[part.topic]):
                continue
            elif (now and now.next_source, now and now.next_target) == (move.before, move.before_target):
                moving[part] = move
            else:
                left[part] = ELSEWHERE.format(None if now is None else now.next_source)
        counted = {remote[part]: stored[part].next_target if part in stored else None for part in moving}
        ends = self._target.call(partial(self._ends, counted)) if counted else {}
        for part in [part for part in moving if remote[part] not in ends]:
            del moving[part]
            left[part] = f"{self._target.alias} is silent about the end of {remote[part]}; ask again"
        if moving:
            back = {part: recopied[part] for part, move in moving.items() if taken_back(move, recopied.get(part))}
            self._close_maps({part: stored[part] for part in moving if part in stored and part not in back}, remote)
            self._lead_back(back, moving, {part: ends[remote[part]] for part in back})
            self._store(moving, stored, remote, ends, here)
        return left

    def _store(
        self,
        moving: Mapping[TopicPartition, PartitionMove],
        stored: Mapping[TopicPartition, Position],
        remote: Mapping[TopicPartition, TopicPartition],
        ends: Mapping[TopicPartition, TargetOffset],
        here: Mapping[TopicName, Topic],
    ) -> None:
        there = self._target.topics()
        positions: dict[TopicPartition, Position] = {}
        for part, move in moving.items():
            assert move.after is not None
            topic = remote[part].topic
            remote_id = _id(there.get(topic))
            before = stored.get(part)
            # A recreated remote topic is out of reach for the appends of the old writer.
            same = before is not None and before.remote_topic_id in (None, remote_id)
            if before is not None and same and ends[remote[part]] < (before.next_target or 0):
                log.warning(
                    "TW-COMMAND-07: %s: %s ends at offset %d, though %d was acknowledged: of the records that the "
                    "target lost, only the records from the place of the command on are copied again",
                    *(self._settings.name, remote[part], ends[remote[part]], before.next_target),
                )
            positions[part] = Position(
                move.after,
                ends[remote[part]],
                -1,
                _id(here[part.topic]),
                remote_id,
                # The next copier determines the generation of the map.
                NO_GENERATION,
                topic,
                fencing(before.writer) if before is not None and same else None,
            )
        self._store_positions(positions)

    def _store_positions(self, positions: Mapping[TopicPartition, Position]) -> None:
        records = list(position_records(self._settings, positions))
        self._target.call(partial(self._stores_positions.append, records))
        seen = self._positions.read(positions)
        lost = [part for part, position in positions.items() if seen.get(part) != position]
        if lost:
            raise ClusterError(
                f"cluster {self._target.alias}: other positions of {listed(map(str, lost))} arrived at the same time"
            )

    async def _ends(self, counted: Mapping[TopicPartition, TargetOffset | None]) -> dict[TopicPartition, TargetOffset]:
        """The ends of remote logs once all appends of an earlier copier are in them; of the logs that report them."""
        client = self._target.client
        at_rest = LogsAtRest(client)
        found: dict[TopicPartition, TargetOffset] = {}
        until = client.loop.clock.monotonic() + REST_S
        while missing := [part for part in counted if part not in found]:
            await client.refresh({part.topic for part in missing})
            now = await at_rest.find_ends(missing)
            found |= {part: end for part, end in now.items() if not at_rest.lacks_marker(part, counted[part], end)}
            if client.loop.clock.monotonic() >= until:
                break
        return found

    def _close_maps(
        self, stored: Mapping[TopicPartition, Position], remote: Mapping[TopicPartition, TopicPartition]
    ) -> None:
        """Add a last point to the exact map of each partition, as a copier does when it releases a partition in order.

        Otherwise only the old position would have the end of the map.
        """
        self._maps.read()
        tips = self._maps.tips(stored)
        there = self._target.topics()
        records: list[tuple[bytes, bytes | None]] = []
        for part, position in stored.items():
            tip = tips.get(part)
            recreated = position.remote_topic_id not in (None, _id(there.get(remote[part].topic)))
            if tip is not None and not recreated and _ends_after(tip, position):
                map_ = SegmentWriter.take_over(part, position, position, tip, complete=False)
                records += [(segment.key, segment.value) for segment in map_.changed()]
        if records:
            self._target.call(partial(self._stores_maps.append, records))

    def _lead_back(
        self,
        recopied: Mapping[TopicPartition, RecopiedRange],
        moves: Mapping[TopicPartition, PartitionMove],
        ends: Mapping[TopicPartition, TargetOffset],
    ) -> None:
        """Make the exact maps lead offsets of these partitions to their first copies, up to the offset of the move.

        A map knows only the second copies, and some records lack a second copy.
        """
        self._maps.read()
        tips = self._maps.tips(recopied)
        records: list[OwnRecord] = []
        for part, recopy in recopied.items():
            tip, after = tips.get(part), moves[part].after
            if tip is None or after is None:
                continue
            first = TargetOffset(0) if recopy.first_target is None else recopy.first_target
            map_ = SegmentWriter(part, recopy.low, first, generation=tip.generation + COPIER_GENERATIONS)
            map_.add_jump(after, ends[part])
            records += [(segment.key, segment.value) for segment in map_.changed()]
        if records:
            self._target.call(partial(self._stores_maps.append, records))


def _with_target(move: PartitionMove, stored: Position | None) -> PartitionMove:
    return move if stored is None else replace(move, before_target=stored.next_target)


def _is_done(move: PartitionMove, now: Position | None, topic: Topic) -> bool:
    """Whether a partition is already at the offset of its move; for a recreated topic, the old offset may be equal."""
    if now is None or now.next_source != move.after:
        return False
    return move.before != move.after or now.topic_id == _id(topic)


def _ends_after(tip: LastPoint, position: Position) -> bool:
    """Whether a map ends at the position, after its newest point."""
    end = position.next_source, position.next_target
    return (
        position.next_target is not None and tip.generation == position.generation and (tip.source, tip.target) != end
    )


def _id(topic: Topic | None) -> str | None:
    return None if topic is None or topic.topic_id is None else str(topic.topic_id)
