"""Reads the ranges of a statement again, and compares their digests. Runs in Spark tasks: plain values only.

Both sides are read apart from each other: after the loss of a cluster, the other side alone shows whether its records
are as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from twinlog.copier.proof.comparing import read_stored
from twinlog.errors import CorruptBatchError, TwinlogError
from twinlog.kafka.producer.proof import extend_chain
from twinlog.model.types import TargetOffset
from twinlog.ops.proven_ranges import ProvenRange
from twinlog.ops.verify.digests import RecordDigest
from twinlog.ops.verify.log_reader import LogReader, PartitionLogs
from twinlog.ops.verify.model import ComparedRange, PartitionToVerify, Side, VerifyRules
from twinlog.ops.verify.task import ClusterPair, connected_pair


@dataclass(frozen=True, slots=True)
class SideLog:
    """The log of a side now, from its first offset `start` to the `end` of the readable records.

    A log with a `problem` stays unread.
    """

    side: Side
    start: int = 0
    end: int = 0
    compacted: bool = False
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionToRecheck:
    """A partition of a statement with its ranges, and the logs to read; `part` has the names."""

    part: PartitionToVerify
    ranges: tuple[ComparedRange | ProvenRange, ...]
    logs: tuple[SideLog, ...]

    @property
    def offsets(self) -> int:
        """How many offsets its ranges have on the sides to read; a measure of the work."""
        spans = (one.span(log.side) for log in self.logs for one in self.ranges)
        return sum(end - start for start, end in spans)


@dataclass(frozen=True, slots=True)
class RecheckPlan:
    """The partitions of a flow for tasks to read again, and the rules; `tasks` of the flow may run at once."""

    rules: VerifyRules
    parts: tuple[PartitionToRecheck, ...]
    tasks: int = 1


@dataclass(frozen=True, slots=True)
class ChangedRange:
    """The first range of a side whose records differ from the statement: its offsets, the stated number of records, and
    the number of records there now."""

    start: int
    end: int
    stated: int
    found: int


@dataclass(slots=True)
class SideFindings:
    """Counts the records of a statement on a side: `equal` records, records `trimmed` by retention, and records
    `compacted` away.

    `unproved` records are left in ranges that have lost records: the digest needs the whole range. `different` counts
    ranges, and `newer` the offsets after the last range. A side with a `problem` is unread from some range on.
    """

    side: Side
    equal: int = 0
    trimmed: int = 0
    compacted: int = 0
    unproved: int = 0
    different: int = 0
    first: ChangedRange | None = None
    newer: int = 0
    problem: str | None = None

    @property
    def gone(self) -> int:
        """The records that the side has lost."""
        return self.trimmed + self.compacted


@dataclass(slots=True)
class RecheckVerdict:
    """A partition of a statement with `records` in its ranges, as the read sides have it now."""

    flow: str
    topic: str
    remote_topic: str
    partition: int
    records: int
    sides: list[SideFindings] = field(default_factory=list)
    span: tuple[float, float] | None = None
    """From when to when it was read, in seconds since 1970."""

    @property
    def equal(self) -> bool | None:
        """Whether all read ranges are as stated; None if a side is unreadable, or all stated records are gone."""
        if any(one.different for one in self.sides):
            return False
        if any(one.problem is not None for one in self.sides):
            return None
        return True if not self.records or any(one.equal for one in self.sides) else None

    def as_json(self) -> dict[str, Any]:
        """The partition as a JSON object; ranges end after their last offset."""
        return {
            "flow": self.flow,
            "topic": self.topic,
            "remote_topic": self.remote_topic,
            "partition": self.partition,
            "records": self.records,
            "equal": self.equal,
            "sides": [asdict(one) for one in self.sides],
        }


def recheck_partitions(
    parts: Iterable[PartitionToRecheck], rules: VerifyRules, progress: Callable[[int], None] = lambda _: None
) -> Iterator[RecheckVerdict]:
    """Read partitions again in turn; `progress(offsets)` is called during the reading."""
    pair = connected_pair(rules)
    for part in parts:
        yield recheck(pair, part, progress)


def recheck(
    pair: ClusterPair, part: PartitionToRecheck, progress: Callable[[int], None] = lambda _: None
) -> RecheckVerdict:
    """Read the ranges of a partition again; a side that is unreadable has a problem in its findings."""
    names = part.part
    verdict = RecheckVerdict(
        names.flow,
        names.source.topic,
        names.remote.topic,
        names.source.partition,
        sum(one.records for one in part.ranges),
    )
    began = pair.clock.wall()
    for log in part.logs:
        side = _SideReading(pair.logs_of(names), log, part.ranges, progress)
        try:
            side.read_ranges()
        except TwinlogError as error:
            side.findings.problem = str(error)
        verdict.sides.append(side.findings)
    verdict.span = began, pair.clock.wall()
    return verdict


class _SideReading:
    """The ranges of a partition on a side."""

    def __init__(
        self,
        logs: PartitionLogs,
        log: SideLog,
        ranges: tuple[ComparedRange | ProvenRange, ...],
        progress: Callable[[int], None],
    ) -> None:
        logs.lost = self._lost
        self._logs = logs
        self._log = log
        self._ranges = ranges
        self._progress = progress
        self._begin = log.start
        """The first offset that retention has left."""
        self.findings = SideFindings(log.side, problem=log.problem)

    def read_ranges(self) -> None:
        """Raises ClusterError if the side is unreadable."""
        log, ranges = self._log, self._ranges
        if log.problem is not None or not ranges:
            return
        start, end = ranges[0].span(log.side)[0], ranges[-1].span(log.side)[1]
        self.findings.newer = max(0, log.end - end)
        reader = self._logs.open(log.side, max(start, log.start), min(end, log.end))
        for one in ranges:
            if isinstance(one, ProvenRange):
                self._read_batches(one)
            else:
                self._read_range(reader, one)
            self._progress(one.span(log.side)[1] - one.span(log.side)[0])

    def _lost(self, _side: Side, _start: int, past: int) -> None:
        self._begin = max(self._begin, past)

    def _read_range(self, reader: LogReader, one: ComparedRange) -> None:
        start, end = one.span(self._log.side)
        if self._begin >= end:
            self.findings.trimmed += one.records
            return
        digest, count, damaged = RecordDigest(), 0, False
        limit = min(end, self._log.end)
        reader.discard_before(max(start, self._begin))
        try:
            while True:
                rows, past = reader.rows(limit)
                if rows is None:
                    break
                content = rows.content()
                digest.add(content if one.timestamps else (b"", *content[1:]))
                count += len(rows)
                reader.discard_before(past)
                reader.more_at_once()
        except CorruptBatchError:
            damaged = True
            reader.discard_before(limit)
        self._judge(one, None if damaged else digest.result(), count)

    def _read_batches(self, one: ProvenRange) -> None:
        """Compute the chain over the visible batches of a proven range."""
        start, end = one.span(self._log.side)
        if self._begin >= end:
            self.findings.trimmed += one.records
            return
        reader = self._logs.open(self._log.side, max(start, self._begin), min(end, self._log.end))
        chain, count, damaged = bytes.fromhex(one.chain_before), 0, False
        position = TargetOffset(reader.position)
        try:
            while not damaged and (read := reader.raw()) is not None:
                records, aborted, _ = read
                part = read_stored(records, aborted, position, 0.0)
                position = part.position
                damaged = part.unreadable
                for batch in part.batches:
                    # The last fetch goes on after the range.
                    if batch.base >= end:
                        break
                    if batch.element is None:
                        damaged = True
                        break
                    chain = extend_chain(chain, batch.element.encode(batch.base))
                    count += batch.records
        except CorruptBatchError:
            damaged = True
        self._judge(one, None if damaged else chain.hex(), count)

    def _judge(self, one: ComparedRange | ProvenRange, digest: str | None, count: int) -> None:
        """Count a range whose records were read; a damaged range lacks a digest."""
        findings, (start, end) = self.findings, one.span(self._log.side)
        if digest == one.digest:
            findings.equal += one.records
        elif digest is not None and self._begin > start and count <= one.records:
            findings.trimmed += one.records - count
            findings.unproved += count
        elif digest is not None and self._log.compacted and count < one.records:
            findings.compacted += one.records - count
            findings.unproved += count
        else:
            findings.different += 1
            findings.first = findings.first or ChangedRange(start, end, one.records, count)
