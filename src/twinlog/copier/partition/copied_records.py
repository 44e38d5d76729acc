"""Records of a partition on the target: their source offsets, their counts, and records of other producers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from twinlog.clock import LONG_AGO, Clock, wall_ms
from twinlog.copier.partition.context import CopierContext
from twinlog.copier.proof.partition_proof import PartitionProof
from twinlog.kafka.producer.appends import Append, Road
from twinlog.kafka.record.stamp import sequence_after
from twinlog.lease.messages import Grant
from twinlog.lease.progress import CopierCounters, PartitionCounters
from twinlog.mirror.offsets.exact_map import CopiedRun, CopiedRuns
from twinlog.mirror.offsets.positions import Position, Writer
from twinlog.model.amounts import counted
from twinlog.model.types import SourceOffset, TargetOffset, TopicName, TopicPartition


@dataclass(slots=True)
class MisplacedAppends:
    """Appends at offsets before the acknowledged records: the remote log had become shorter.

    `end` is the end of the log before these appends, `next_source` the source offset after them, `runs` their places.
    """

    end: TargetOffset
    next_source: SourceOffset
    runs: CopiedRuns = field(default_factory=CopiedRuns)

    def lower_end(self, end: TargetOffset) -> None:
        """The log may have ended at `end` already."""
        self.end = min(self.end, end)

    def add(self, append: Append, base_offset: TargetOffset) -> None:
        """Add an append."""
        self.next_source = append.next_source_offset
        self.runs.add(append.spans, base_offset)


class CopiedRecords:
    """The records of a partition that the target acknowledged; within transactions, also the committed records of them.

    `begin` is the first position of this copier. `acknowledged` is the position after the last append that the target
    acknowledged. `committed` is the position up to which no crash takes records back; it counts for transactions only.
    While a transaction is open, `acknowledged` is after `committed`. `runs` are acknowledged runs since the last
    `take_runs`. `counts` and `bytes` count records on the target for good: `counts` since the last report, `bytes`
    since this copier took the partition. While `leeway`, markers and aborted records may lie before the next append.
    `proof` has notes of the appends, None for an unproven topic.
    """

    __slots__ = (
        "_clock",
        "_difference",
        "_tally",
        "_transactional",
        "_uncommitted",
        "acknowledged",
        "begin",
        "bytes",
        "committed",
        "counts",
        "leeway",
        "proof",
        "runs",
    )

    def __init__(self, position: Position, clock: Clock, tally: CopierCounters, *, transactional: bool) -> None:
        self.begin = position
        self.acknowledged = position
        self.committed = position
        self.runs = CopiedRuns()
        self.counts = PartitionCounters()
        self.bytes = 0
        self.leeway = transactional
        self.proof: PartitionProof | None = None
        self._clock = clock
        self._difference: TargetOffset | None = None
        self._tally = tally
        self._transactional = transactional
        self._uncommitted: list[tuple[int, int, int]] = []
        """For each append in the open transaction: records, bytes, largest timestamp."""

    def set_proof(self, proof: PartitionProof | None) -> None:
        """Note all appends from now on for the proof of equality."""
        self.proof = proof

    def mark_difference(self, target: TargetOffset) -> None:
        """The proof found a difference at a target offset: all positions from now on tell it."""
        self._difference = target
        self.acknowledged = replace(self.acknowledged, difference=target)

    @property
    def durable(self) -> Position:
        """The position up to which the partition is copied for good."""
        return self.committed if self._transactional else self.acknowledged

    def transaction_end(self, *, marked: bool) -> Position:
        """The position at the end of the open transaction; all sent appends are acknowledged.

        With `marked` the partition takes part, so the transaction's marker follows its records.
        """
        position = self.acknowledged
        if not marked or position.next_target is None:
            return position
        return replace(position, next_target=TargetOffset(position.next_target + 1))

    @property
    def first_uncommitted_ms(self) -> int | None:
        """The largest timestamp of the first append of the open transaction, or None."""
        return self._uncommitted[0][2] if self._uncommitted else None

    @property
    def in_transaction(self) -> bool:
        """Whether acknowledged records are uncommitted."""
        return bool(self._uncommitted)

    def add(self, append: Append, base_offset: TargetOffset, leader_epoch: int) -> None:
        """The target acknowledged an append, at `base_offset`."""
        self.leeway = False
        before, count = self.acknowledged, append.count
        # Records and markers that only fill offsets are left out of counts and maps.
        copies = bool(append.data) and (before.kept_from is None or append.next_source_offset > before.kept_from)
        if copies:
            self.runs.add(append.spans, base_offset)
        writer = before.writer
        # A step has another producer.
        if writer is not None and append.step is None:
            writer = Writer(writer.producer_id, writer.epoch, sequence_after(writer.sequence, count))
        next_target = TargetOffset(base_offset + count)
        self.acknowledged = before.after_append(append.next_source_offset, next_target, leader_epoch, writer)
        if copies:
            self._note(append)
        if self.proof is not None:
            self.proof.add_append(append, base_offset)

    def routed(self, append: Append) -> None:
        """The target acknowledged records of this partition that a transform routed to another partition."""
        self._note(append)

    def passed_by(self, count: int, base_offset: TargetOffset) -> None:
        """Records of other partitions that a transform routed here are at `base_offset`."""
        next_target = max(self.acknowledged.next_target or 0, base_offset + count)
        self.leeway = False
        self.acknowledged = replace(self.acknowledged, next_target=TargetOffset(next_target))

    def pass_over(self, next_source: SourceOffset, leader_epoch: int) -> bool:
        """All records before a source offset are copied or skipped; returns whether the position moved."""
        if self.acknowledged.next_source == next_source:
            return False
        self.acknowledged = replace(self.acknowledged, next_source=next_source, leader_epoch=leader_epoch)
        return True

    def move_position(self, position: Position, runs: Sequence[CopiedRun] = ()) -> None:
        """Copying continues at `position`; `runs` had arrived before that position."""
        self.runs.add_runs(runs)
        if position.next_target is not None and position.next_target != self.acknowledged.next_target:
            self.runs.add_jump(position.next_source, position.next_target)
        self.acknowledged = position if self._difference is None else replace(position, difference=self._difference)
        if self.proof is not None:
            self.proof.move_position(position)

    def set_generation(self, generation: int) -> None:
        """The exact map of this partition is in another generation."""
        if self.acknowledged.generation != generation:
            self.acknowledged = replace(self.acknowledged, generation=generation)

    def commit(self, position: Position) -> None:
        """The transaction with this position was committed."""
        uncommitted, self._uncommitted = self._uncommitted, []
        for records, size, max_timestamp in uncommitted:
            self._count(records, size, max_timestamp)
        self.committed = position
        self.acknowledged = replace(self.acknowledged, next_target=position.next_target, generation=position.generation)
        if self.proof is not None:
            self.proof.commit(position)

    def abort(self) -> None:
        """The open transaction was aborted; `move_position` to `committed` follows if records were copied since."""
        self._uncommitted.clear()
        self.leeway = True
        if self.proof is not None:
            self.proof.abort()

    def recommit_records(self, position: Position) -> None:
        """The lost records of committed transactions lie after `position`."""
        self.committed = position

    def read(self, size: int, appends: Sequence[Append], roads: Mapping[Road, int]) -> None:
        """The source sent `size` bytes, which became these appends."""
        now, records = wall_ms(self._clock), 0
        counts = self.counts
        for append in appends:
            if not append.data:
                continue
            records += append.count
            if append.max_timestamp >= 0:
                counts.add_read(append.count, max(0, now - append.max_timestamp))
        self._tally.add_fetch(size, records, roads)

    def take_counts(self) -> PartitionCounters:
        """Counts of records on the target for good since the last call."""
        counts, self.counts = self.counts, PartitionCounters()
        return counts

    def _note(self, append: Append) -> None:
        """Count an append; within transactions the append counts once it is committed."""
        if self._transactional:
            self._uncommitted.append((append.count, append.bytes, append.max_timestamp))
        else:
            self._count(append.count, append.bytes, append.max_timestamp)

    def _count(self, records: int, size: int, max_timestamp: int) -> None:
        self.bytes += size
        # If the clock of this machine is behind the producer's clock, the record counts as just made.
        age_ms = -1 if max_timestamp < 0 else max(0, wall_ms(self._clock) - max_timestamp)
        self.counts.add_append(records, size, age_ms)
        self._tally.add_append(records, size, age_ms)


SUM_S = 60.0
"""How often a sum is reported."""

LOOK_S = 5.0
"""How often the copier looks whether a sum is due."""

NAMED = 3
"""How many partitions a sum names."""


@dataclass(slots=True)
class _Seen:
    """Offsets of a remote partition with records of other producers: their number, places and bounds."""

    offsets: int
    places: int
    first: TargetOffset
    end: TargetOffset


class ForeignOffsets:
    """The foreign offsets of a copier.

    The first offsets are reported at once; `report_sum` reports the offsets of the following minute as a single sum.
    """

    def __init__(self, context: CopierContext, routed: Collection[TopicName]) -> None:
        """`routed` are the topics to which a transform routes records, read again each time."""
        self._context = context
        self._routed = routed
        self._seen: dict[TopicPartition, _Seen] = {}
        self._quiet_until = LONG_AGO

    def note_offsets(self, grant: Grant, first: TargetOffset, end: TargetOffset) -> None:
        """Target offsets from `first` up to `end`, which is excluded, lie between two appends of this copier.

        A transform that routes records writes to any partition, from other copiers as well. Also, several connectors
        between two clusters all copy heartbeats. So these topics are left out.
        """
        remote = grant.remote
        if grant.heartbeats or remote.topic in self._routed:
            return
        seen = self._seen.get(remote)
        if seen is None:
            self._seen[remote] = _Seen(end - first, 1, first, end)
        else:
            seen.offsets += end - first
            seen.places += 1
            seen.end = end
        self.report_sum()

    async def keep_counting(self) -> None:
        """Report each sum when it is due, until the copier stops."""
        while not self._context.stopped:
            await self._context.loop.sleep(LOOK_S)
            self.report_sum()

    def report_sum(self) -> None:
        """Report the sum if it is due."""
        if self._context.loop.clock.monotonic() >= self._quiet_until:
            self.report()

    def report(self) -> None:
        """Report the sum."""
        if not self._seen:
            return
        self._quiet_until = self._context.loop.clock.monotonic() + SUM_S
        seen, self._seen = self._seen, {}
        if len(seen) == 1:
            ((remote, one),) = seen.items()
            verb = "is" if one.offsets == 1 else "are"
            text = f"{remote}: {_described(one)} {verb} not ours; somebody else writes to this remote topic"
        else:
            most = sorted(seen, key=lambda remote: -seen[remote].offsets)
            where = "; ".join(f"{remote}: {_described(seen[remote])}" for remote in most[:NAMED])
            others = "" if len(most) <= NAMED else f"; and {len(most) - NAMED} more"
            total = sum(one.offsets for one in seen.values())
            text = (
                f"{counted(total, 'target offset')} in {counted(len(seen), 'partition')} are not ours; somebody else "
                f"writes to these remote topics: {where}{others}"
            )
        self._context.report_event("foreign", text)


def _described(seen: _Seen) -> str:
    if seen.places == 1:
        return f"{counted(seen.offsets, 'target offset')} from {seen.first} on"
    return f"{counted(seen.offsets, 'target offset')} in {seen.places:,} places from {seen.first} to {seen.end - 1}"
