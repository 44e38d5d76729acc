"""The proof of equality by partition, from the reports of a flow's copiers in the progress topic on the target.

A report has a proven range with the chain over its batches. Two successive reports of the same range make two ranges:
the chain of the first is the begin of the second. So a later check also succeeds after retention has deleted the
earlier range.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from twinlog.clock import wall_ms
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.consumer.topic_reader import TopicReader
from twinlog.kafka.producer.proof import EMPTY_CHAIN
from twinlog.lease.progress import PartitionProgress, Report
from twinlog.model.topic_names import progress_topic
from twinlog.model.types import SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings

SINCE_MS = 150_000
"""The first read begins so long ago: each minute a copier reports all its partitions."""

LEAST = 64
"""The least number of records of the first read, as the clocks of copiers may differ."""

MOST_RANGES = 8
"""The ranges of a partition: above it the two successive ranges with the fewest bytes become one."""


@dataclass(frozen=True, slots=True)
class ProvenRange:
    """Offsets of both sides, from each start to below each end, that the proof found equal while the flow ran.

    The target range has `records` visible records, in batches of `bytes`. The chain over these batches begins with
    `chain_before` and ends with `chain`, in hexadecimal digits (`kafka.producer.proof.extend_chain`). `time` is the
    moment of the report, in UTC.
    """

    source_start: int
    source_end: int
    target_start: int
    target_end: int
    records: int
    bytes: int
    chain_before: str
    chain: str
    time: str

    @property
    def digest(self) -> str:
        """The value that a later reader of the target range must arrive at."""
        return self.chain

    def span(self, side: str) -> tuple[int, int]:
        """The offsets of a side, `source` or `target`."""
        return (self.source_start, self.source_end) if side == "source" else (self.target_start, self.target_end)

    def followed_by(self, later: ProvenRange) -> ProvenRange:
        """This range and the next range of the same chain."""
        return replace(
            later,
            source_start=self.source_start,
            target_start=self.target_start,
            records=self.records + later.records,
            bytes=self.bytes + later.bytes,
            chain_before=self.chain_before,
        )


@dataclass(frozen=True, slots=True)
class PartitionProven:
    """The proof of a source partition by the last report of its copier.

    The partition is copied up to source offset `copied`, and proven up to `source` and `target`. `lag_ms` is the time
    since the acknowledgement of the oldest unproven append; 0 if everything up to `copied` is proven, and -1 if
    the partition lacks a proof. `unproved` records are out of the proof, and `differences` were found, since the copier
    took the partition. `difference` is the last of them in words. `ranges` are proven, the oldest first.
    """

    copied: SourceOffset
    source: SourceOffset
    target: TargetOffset
    lag_ms: int
    unproved: int = 0
    differences: int = 0
    difference: str = ""
    ranges: tuple[ProvenRange, ...] = ()

    @property
    def proves(self) -> bool:
        """Whether a copier proves the partition."""
        return self.lag_ms >= 0

    def reaches(self, offset: int) -> bool:
        """Whether all copies of records before a source offset are proven."""
        return self.proves and (self.source >= offset or (self.copied >= offset and not self.lag_ms))

    def as_json(self) -> dict[str, Any]:
        """The proof as a JSON object; its ranges stay out."""
        return {
            "source_offset": self.source,
            "target_offset": self.target,
            "lag_s": self.lag_ms / 1000 if self.proves else None,
            "unproved": self.unproved,
            "differences": self.differences,
            "difference": self.difference or None,
        }


class ProvenRangesReader:
    """Reads the proofs of a flow's partitions, over a borrowed connection to its target. Used by a single thread."""

    def __init__(self, settings: FlowSettings, target: ClusterAdmin) -> None:
        self._settings = settings
        self._target = target
        self._topic = TopicName(progress_topic(settings.source))
        self._reader: TopicReader | None = None
        self._found: dict[TopicPartition, _KnownProof] = {}

    def read_proven(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, PartitionProven]:
        """The proofs up to now of those of `partitions` that a copier has reported; a repeated read reads only the new
        records.

        Raises ClusterError, and RefusedError if the right to read the progress topic is missing.
        """
        if self._reader is None:
            self._reader = TopicReader(self._target, self._topic, optional=True, last=self._count_recent())
        for _, record in self._reader.read():
            # Reports of the driver have other fields.
            report = Report.decode(record.value or b"")
            if report is not None and report.flow == self._settings.name:
                self._add_report(report)
        return {one: self._found[one].proven() for one in partitions if one in self._found}

    def _count_recent(self) -> int:
        """The number of records before the end for the first read."""
        target, partition = self._target, TopicPartition(self._topic, 0)
        end = target.offsets([partition], latest=True).get(partition, 0)
        if not end:
            return LEAST
        since = target.first_since([partition], wall_ms(target.clock) - SINCE_MS).get(partition, -1)
        return max(LEAST, end - since if since >= 0 else 0)

    def _add_report(self, report: Report) -> None:
        for part in report.partitions:
            where = TopicPartition(TopicName(part.topic), part.partition)
            known = self._found.get(where)
            if known is None:
                known = self._found[where] = _KnownProof(part)
            known.add_progress(report.copier, part, report.at_ms)


class _KnownProof:
    """The last report of a partition, and its proven ranges."""

    def __init__(self, progress: PartitionProgress) -> None:
        self._last = progress
        self._chain: tuple[str, int] | None = None
        """The copier of the last range, and the number of its chain."""
        self._counted = 0, 0
        """The records and bytes of this chain in all ranges."""
        self._ranges: list[ProvenRange] = []

    def add_progress(self, copier: str, progress: PartitionProgress, at_ms: int) -> None:
        self._last = progress
        if progress.proof_lag_ms < 0 or progress.proof_target < 0 or progress.proven_target <= progress.proof_target:
            return
        chain = copier, progress.proof_range
        last = self._ranges[-1] if self._ranges else None
        if chain != self._chain or last is None:
            # Copies beyond the begin of a chain were lost on the target.
            self._ranges = [one for one in self._ranges if one.target_end <= progress.proof_target]
            self._chain, self._counted, last = chain, (0, 0), None
        if last is not None and progress.proven_target <= last.target_end:
            return
        records, size = self._counted
        self._counted = progress.proven_records, progress.proven_bytes
        self._ranges.append(
            ProvenRange(
                progress.proof_source if last is None else last.source_end,
                progress.proven_source,
                progress.proof_target if last is None else last.target_end,
                progress.proven_target,
                progress.proven_records - records,
                progress.proven_bytes - size,
                EMPTY_CHAIN.hex() if last is None else last.chain,
                progress.proof_chain,
                datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds"),
            )
        )
        if len(self._ranges) > MOST_RANGES:
            self._join()

    def _join(self) -> None:
        """Join two successive ranges of a chain, or forget the oldest range if each range has its own chain."""
        pairs = [
            (one.bytes + later.bytes, place)
            for place, (one, later) in enumerate(zip(self._ranges, self._ranges[1:], strict=False))
            if one.target_end == later.target_start and one.chain == later.chain_before
        ]
        if not pairs:
            del self._ranges[0]
            return
        _, place = min(pairs)
        self._ranges[place : place + 2] = [self._ranges[place].followed_by(self._ranges[place + 1])]

    def proven(self) -> PartitionProven:
        last = self._last
        offsets = f"source offset {last.difference_source}, target offset {last.difference_target}"
        return PartitionProven(
            last.source_offset,
            last.proven_source,
            last.proven_target,
            last.proof_lag_ms,
            last.unproved,
            last.differences,
            f"{last.difference_kind} at {offsets}" if last.difference_kind else "",
            tuple(self._ranges),
        )


def lag_s(proofs: Mapping[TopicPartition, PartitionProven]) -> float:
    """The largest lag of some proofs, in seconds."""
    return max((one.lag_ms for one in proofs.values() if one.proves), default=0) / 1000
