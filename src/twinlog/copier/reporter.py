"""Reports once a second the progress of a copier: to its driver, to the progress topic, and to Spark as rows."""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from twinlog.clock import LONG_AGO, wall_ms
from twinlog.copier.copier import Copier
from twinlog.copier.partition.partition import PartitionCopy
from twinlog.copier.proof.partition_proof import Proven
from twinlog.copier.stalled_partitions import StalledGrant
from twinlog.errors import NotAppendedError, RefusedError, TwinlogError
from twinlog.kafka.producer.produce_errors import Remedy, remedy_for
from twinlog.kafka.producer.topic_writer import TopicWriter
from twinlog.kafka.record.compression import LZ4
from twinlog.lease.progress import CopierCounters, PartitionCounters, PartitionProgress, Report, in_pieces
from twinlog.mirror.offsets.positions import Position
from twinlog.model.topic_names import progress_topic
from twinlog.model.types import SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.process.log_once import LogOnce

log = logging.getLogger(__name__)

UNKNOWN = TargetOffset(-1)

INTERVAL_S = 1.0
POLL_S = 0.05

LOOKED_AT = 250
"""For each so many partitions the pause between two looks at all of them is `POLL_S` longer."""

FULL_EVERY_S = 60.0
"""How often a record has all partitions; in between, a record has the partitions that moved or are in trouble."""

QUIET_S = 10.0
"""The longest time between two records in the topic."""

OLD_S = 30.0
"""A source end counts as unknown if its last confirmation is older."""

PIECE_BYTES = 500_000
"""The largest record in the topic, smaller if the topic takes less; the default of brokers is 1 MB."""

LAST_S = 1.0
"""How long a copier that releases partitions waits for the topic to take the last report of these partitions."""

TIMEOUT_S = 5.0
MOST_EVENTS = 100
Shown = tuple[SourceOffset, SourceOffset, str | None, int, Proven | None, int]
"""The reported values of a partition beside counts: its position, the end of its source if known, its trouble, the
timestamp of its first waiting record, the progress of its proof, and the lag of its proof in ms, -1 without a proof."""


@dataclass(frozen=True, slots=True)
class CopiedRange:
    """Records of a source partition, from `first_source` up to `next_source`, the next offset to copy.

    Target offsets are offsets of the remote partition (-1 unknown). `records` and `bytes` count the acknowledged or
    committed records. `lag` is the number of source offsets after the range (-1 unknown, or in a later range).
    """

    topic: str
    partition: int
    first_source: SourceOffset
    next_source: SourceOffset
    first_target: TargetOffset
    next_target: TargetOffset
    records: int
    bytes: int
    lag: int


class CopiedRanges:
    """Ranges of copied records: the copier's thread adds them, and its task's thread takes them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends: dict[TopicPartition, Position] = {}
        self._ranges: defaultdict[TopicPartition, list[CopiedRange]] = defaultdict(list)

    def add(self, source: TopicPartition, begin: Position, end: Position, records: int, size: int, lag: int) -> None:
        """A partition that began at position `begin` has reached `end`, with `records` copied since the last call."""
        with self._lock:
            known = self._ends.get(source)
            # A partition that comes back from another copier begins a new range.
            start = known if known is not None and known.next_source >= begin.next_source else begin
            self._ends[source] = end
            ranges = self._ranges[source]
            last = ranges[-1] if ranges else None
            if last is not None and last.next_source == start.next_source:
                ranges[-1] = replace(
                    last,
                    next_source=end.next_source,
                    next_target=_offset(end),
                    records=last.records + records,
                    bytes=last.bytes + size,
                    lag=lag,
                )
            elif records:
                if last is not None:
                    ranges[-1] = replace(last, lag=-1)
                ranges.append(
                    CopiedRange(
                        source.topic,
                        source.partition,
                        first_source=start.next_source,
                        next_source=end.next_source,
                        first_target=_offset(start),
                        next_target=_offset(end),
                        records=records,
                        bytes=size,
                        lag=lag,
                    )
                )

    def end_range(self, source: TopicPartition) -> None:
        """The copier has released a partition."""
        with self._lock:
            self._ends.pop(source, None)

    def take_ranges(self) -> list[CopiedRange]:
        """A range for each partition with records copied since the last call.

        A partition has several ranges if another copier had it meanwhile.
        """
        with self._lock:
            taken, self._ranges = self._ranges, defaultdict(list)
        return [one for ranges in taken.values() for one in ranges]


def _offset(position: Position) -> TargetOffset:
    return UNKNOWN if position.next_target is None else position.next_target


class Reporter:
    """Reports for a copier; `lease` is the number of its current lease.

    `deliver(report)` passes a report to the driver; False when the report would have to wait. `refused(error)` is
    called once for a missing permission, because other programs need the reports to see the progress.
    """

    def __init__(
        self,
        copier: Copier,
        name: str,
        deliver: Callable[[Report], bool] = lambda report: True,
        refused: Callable[[RefusedError], None] = lambda error: None,
    ) -> None:
        self.lease = 0
        self.ranges = CopiedRanges()
        """The copied ranges, for the rows of a task."""
        self._copier = copier
        self._now = copier.loop.clock.monotonic
        self._name = name
        self._deliver = deliver
        self._refused = refused
        self._logged = LogOnce(copier.loop.clock)
        self._topic = TopicWriter(
            copier.target,
            TopicName(progress_topic(copier.settings.source)),
            TIMEOUT_S,
            "reporting what is copied",
            control=False,
            codec=LZ4,
        )
        self._piece_bytes = PIECE_BYTES
        self._events: list[tuple[str, str]] = []
        self._known: dict[TopicPartition, PartitionCopy] = {}
        self._last_shown: dict[TopicPartition, Shown] = {}
        self._held: dict[TopicPartition, StalledGrant] = {}
        """Partitions that are stalled now, as reported last."""
        self._line: dict[TopicPartition, PartitionProgress] = {}
        self._rest: dict[TopicPartition, PartitionProgress] = {}
        self._publishing = copier.loop.lock()
        self._full_at = self._quiet_at = LONG_AGO
        self._due = copier.loop.signal()
        self._line_at = self._topic_at = self._now()
        self._cpu_at, self._cpu = self._line_at, time.thread_time()
        self._busy = self._age_s = 0.0

    def add_event(self, kind: str, text: str) -> None:
        """Add an event for operators to the next report."""
        self._events.append((kind, text))
        del self._events[:-MOST_EVENTS]

    async def run(self) -> None:
        """Report to the driver every second, and at once when the last partition has caught up."""
        behind = True
        while not self._copier.stopped:
            parts = self._copier.partitions.values()
            await self._copier.loop.sleep(POLL_S * (1 + len(parts) // LOOKED_AT))
            was_behind, behind = behind, any(part.lag for part in parts)
            if self._now() - self._line_at >= INTERVAL_S or (was_behind and not behind):
                self.report_now()
                self._due.set()

    async def keep_publishing(self) -> None:
        """Publish after each report to the driver, as soon as the target takes the report."""
        while not self._copier.stopped:
            await self._due.wait()
            await self.append_report()

    def report_now(self) -> None:
        """Report to the driver now."""
        self._gather()
        now = self._now()
        parts = [part for part in self._copier.partitions.values() if part.queue.queued_bytes]
        waiting = sum(append.count for part in parts for append in part.queue.waiting())
        now_waiting = CopierCounters(waiting_records=waiting, free_bytes=self._copier.memory.room_bytes)
        report = self._report(self._line.values(), now - self._line_at)
        if self._deliver(replace(report, counters=self._copier.tally + now_waiting)):
            if log.isEnabledFor(logging.DEBUG):
                self._log_report(report)
            self._copier.tally.clear()
            self._line.clear()
            self._line_at = now

    def _log_report(self, report: Report) -> None:
        copied = sum(part.counters.records for part in report.partitions)
        if copied:
            log.debug("%s: %d records were copied in %.1f s", self._copier.settings.name, copied, report.seconds)

    async def flush(self) -> None:
        """Send the last report of released partitions; the wait for the topic lasts at most `LAST_S`."""
        self.report_now()
        if self._copier.target.contact.reach().out:
            return
        done = self._copier.loop.signal()
        self._copier.loop.spawn(self.append_report).add_both(lambda _: done.set())
        await done.wait(LAST_S)

    async def append_report(self) -> None:
        """Append the new progress to the topic. Refused progress is in the next report."""
        async with self._publishing:
            now = self._now()
            if now >= self._full_at:
                for part in self._known.values():
                    if part.source not in self._rest:
                        self._rest[part.source] = _progress(part, self._shown(part, now), PartitionCounters())
            if not self._rest and not self._events and now < self._quiet_at:
                return
            parts, self._rest = self._rest, {}
            events, self._events = self._events, []
            report = replace(self._report(parts.values(), now - self._topic_at), events=tuple(events))
            try:
                left = await self._send(report)
            except TwinlogError:
                left = list(in_pieces(report, self._piece_bytes))
            for piece in left:
                self._events[:0] = piece.events
                for lost in piece.partitions:
                    key = TopicPartition(TopicName(lost.topic), lost.partition)
                    newer = self._rest.get(key)
                    self._rest[key] = lost if newer is None else lost.followed_by(newer)
            self._topic_at = now
            if not left:
                self._quiet_at = now + QUIET_S
                self._full_at = now + FULL_EVERY_S if now >= self._full_at else self._full_at

    async def _send(self, report: Report) -> list[Report]:
        """Append a report in as many records as it needs.

        Returns the pieces that the target refused. Raises ClusterError.
        """
        waiting = list(in_pieces(report, self._piece_bytes))
        while waiting:
            piece = waiting[0]
            try:
                await self._topic.append([(self._name.encode(), piece.encode())], timestamp_ms=report.at_ms)
            except NotAppendedError as error:
                if remedy_for(error.code) is not Remedy.SPLIT:
                    return waiting
                waiting[:1] = self._smaller(piece, error.size)
            except RefusedError as error:
                if self._logged.is_new("refused"):
                    self._refused(error)
                return waiting
            except TwinlogError:
                return waiting
            else:
                del waiting[0]
        return []

    def _smaller(self, piece: Report, size: int) -> list[Report]:
        """Cut a report that is too large for the topic into pieces; a report of a single partition is dropped."""
        if len(piece.partitions) + len(piece.events) > 1:
            self._piece_bytes = max(1, min(self._piece_bytes, size) // 2)
            return list(in_pieces(piece, self._piece_bytes))
        if self._logged.is_new("size"):
            self._copier.report_event(
                "progress",
                f"{self._topic.topic} does not take records of {size} bytes, so it lacks some progress reports; "
                "raise its max.message.bytes",
            )
        return []

    def _gather(self) -> None:
        """Note the progress of each partition since the last call, for the driver and for the topic."""
        now, cpu = self._now(), time.thread_time() + self._copier.proofs.busy_s
        self._busy = min(1.0, (cpu - self._cpu) / max(now - self._cpu_at, 1e-9))
        self._cpu_at, self._cpu = now, cpu
        copied = self._copier.partitions
        left = [part for key, part in self._known.items() if copied.get(key) is not part]
        self._known = dict(copied)
        self._age_s = 0.0
        for part in (*left, *copied.values()):
            shown = self._shown(part, now)
            if part.copied.proof is not None:
                proven = part.copied.proof.take_progress()
                self._copier.tally.add_proven(proven.records, proven.bytes, proven.unproved)
            counts = part.copied.counts
            if shown == self._last_shown.get(part.source) and not counts.records and not counts.read_records:
                continue
            self._last_shown[part.source] = shown
            counts = part.take_counts()
            progress = _progress(part, shown, counts)
            self.ranges.add(*(part.source, part.copied.begin, part.durable, counts.records, counts.bytes, progress.lag))
            self._note(part.source, progress)
        for part in left:
            if part.source not in copied:
                self._last_shown.pop(part.source, None)
                self.ranges.end_range(part.source)
        self._gather_held_back(now)

    def _gather_held_back(self, now: float) -> None:
        """Note the partitions that fail to begin, so that operators see the reason for their stall."""
        held = self._copier.held_back
        self._held = {source: shown for source, shown in self._held.items() if source in held}
        for source, stalled in held.items():
            if self._held.get(source) != stalled or now >= self._full_at:
                self._held[source] = stalled
                self._note(source, _not_begun(stalled))

    def _note(self, source: TopicPartition, progress: PartitionProgress) -> None:
        for waiting in (self._line, self._rest):
            before = waiting.get(source)
            waiting[source] = progress if before is None else before.followed_by(progress)

    def _shown(self, part: PartitionCopy, now: float) -> Shown:
        """A partition's position, its source's end if known, and its trouble."""
        answered_at = self._copier.troubles.source_answered_at(part)
        end = SourceOffset(-1)
        if answered_at is not None and now - answered_at <= OLD_S:
            end = part.read.end
            self._age_s = max(self._age_s, now - answered_at)
        reason, proof = self._copier.troubles.find_reason(part), part.copied.proof
        # The lag is read first: records that are proven meanwhile may count as unproven, and never the other way round.
        lag_ms = -1 if proof is None else proof.lag_ms(now)
        proven = None if proof is None else proof.proven
        return part.durable.next_source, end, reason, part.waiting_ms, proven, lag_ms

    def _report(self, parts: Iterable[PartitionProgress], seconds: float) -> Report:
        return Report(
            flow=self._copier.settings.name,
            copier=self._name,
            lease=self.lease,
            at_ms=wall_ms(self._copier.loop.clock),
            seconds=max(seconds, 1e-9),
            busy=self._busy,
            partitions=tuple(parts),
            age_s=self._age_s,
            source=self._copier.source.contact.reach(),
            target=self._copier.target.contact.reach(),
        )


def _not_begun(stalled: StalledGrant) -> PartitionProgress:
    source, stored = stalled.grant.source, stalled.grant.position
    return PartitionProgress(
        topic=source.topic,
        partition=source.partition,
        source_offset=SourceOffset(0) if stored is None else stored.next_source,
        target_offset=TargetOffset(0) if stored is None or stored.next_target is None else stored.next_target,
        end=stalled.end,
        trouble=stalled.trouble,
        waiting_ms=stalled.waiting_ms,
    )


def _progress(part: PartitionCopy, shown: Shown, counters: PartitionCounters) -> PartitionProgress:
    source_offset, end, trouble, waiting_ms, known, proof_lag_ms = shown
    proven = Proven() if known is None else known
    return PartitionProgress(
        topic=part.source.topic,
        partition=part.source.partition,
        source_offset=source_offset,
        target_offset=part.durable.next_target or TargetOffset(0),
        end=end,
        counters=counters,
        trouble=trouble,
        waiting_ms=waiting_ms,
        proven_source=proven.source,
        proven_target=proven.target,
        proof_lag_ms=proof_lag_ms,
        proven_records=proven.records - proven.records_before,
        proven_bytes=proven.bytes - proven.bytes_before,
        proof_chain="" if known is None else proven.chain,
        proof_source=proven.first_source,
        proof_target=proven.first_target,
        proof_range=proven.range,
        unproved=proven.unproved,
        differences=proven.differences,
        difference_kind=proven.difference_kind or "",
        difference_source=proven.difference_source,
        difference_target=proven.difference_target,
    )
