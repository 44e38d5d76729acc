"""Compares a section by content, for copies outside every exact map: record by record from the first common record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from twinlog.batches.arrow.bodies import Bodies, first_difference, spans
from twinlog.ops.verify.alignment import (
    ALIKE,
    WINDOWS,
    AlignmentGap,
    PartitionLogs,
    before_changes,
    begins_after,
    copied_up_to,
    find_at_hand,
    find_begin,
    find_far,
    find_next_common,
    window,
)
from twinlog.ops.verify.findings import VerifyFindings, between, describe, without_tail
from twinlog.ops.verify.log_reader import LogReader
from twinlog.ops.verify.model import PartitionToVerify, RecordDifference, Section
from twinlog.ops.verify.sections import (
    BEFORE_BEGIN,
    COMPACTED_SOURCE,
    COMPACTED_TARGET,
    OLDER,
    RETAINED_SOURCE,
    RETAINED_TARGET,
    UNRELATED,
)

MOST_PLACES = 1_000
"""The number of places of a section at which both logs are searched for common records."""

TOO_MANY = (
    f"before them the two sides differ in more than {MOST_PLACES} places; --since with the time of the first "
    "of them continues there"
)


class ContentComparison:
    """The sections of a partition that are compared by content, read by `source` and `target`.

    `same_batch(section)` takes the next batch of both sides if their stored bytes are equal, and `progress(offsets)` is
    called with the number of offsets compared since the last call.
    """

    def __init__(
        self,
        part: PartitionToVerify,
        logs: PartitionLogs,
        source: LogReader,
        target: LogReader,
        findings: VerifyFindings,
        same_batch: Callable[[Section], bool],
        progress: Callable[[int], None],
    ) -> None:
        self._part = part
        self._logs = logs
        self._source = source
        self._target = target
        self._findings = findings
        self._same_batch = same_batch
        self._progress = progress
        self._searched = 0

    @property
    def _alike(self) -> int:
        """The number of records in a row that must be equal: next to each record compaction may have made a hole."""
        return 1 if self._part.compacted else ALIKE

    def compare(self, section: Section) -> None:
        """Raises ClusterError, and CorruptBatchError for a damaged batch."""
        source, target = self._source, self._target
        if section.kind == "copied from":
            self._findings.ranges.cut()
            begin = find_begin(self._logs, section, self._part.syncs, self._alike)
            if begin is None and self._is_retained(section):
                return
            if begin is None and not section.open_end and section.source_end == section.source:
                begin = section.source, section.target
            if begin is not None:
                both = self._part.source_compacted and self._part.target_compacted
                begin = before_changes(self._logs, begin, section, by_key=both)
                self._leave_before(section, *begin)
                source.discard_before(begin[0])
                target.discard_before(begin[1])
        while True:
            if self._same_batch(section):
                continue
            ours, _ = source.rows(section.source_end)
            if ours is None and section.open_end:
                return
            theirs, _ = target.rows(section.target_end)
            if ours is None and theirs is None:
                return
            count = 0
            if ours is not None and theirs is not None:
                count = first_difference(ours, theirs)
                if count:
                    mine, copies = ours.part(0, count), theirs.part(0, count)
                    self._findings.same(mine, copies)
                    self._progress(2 * count)
                    source.discard_before(int(mine.offsets[-1]) + 1)
                    target.discard_before(int(copies.offsets[-1]) + 1)
                source.more_at_once()
                target.more_at_once()
                if count == min(len(ours), len(theirs)):
                    continue
                ours, theirs = ours.part(count, len(ours)), theirs.part(count, len(theirs))
            if not self._resolve(section, ours, theirs):
                return

    def _leave_before(self, section: Section, source: int, target: int) -> None:
        """Report the records of each side before the first common record."""
        if not self._part.compacted and copied_up_to(self._logs, section, source, target):
            self._count_missing(section.source, source, target)
            section = replace(section, source=source)
        ours, _ = window(self._logs, "source", section.source, source, 1)
        theirs, _ = window(self._logs, "target", section.target, target, 1)
        if len(ours):
            why = COMPACTED_TARGET if self._part.target_compacted else BEFORE_BEGIN
            if not len(theirs) and "target" in section.retained:
                why = RETAINED_TARGET
            self._findings.verdict.add_uncompared("source", int(ours.offsets[0]), source, why)
        if len(theirs):
            why = COMPACTED_SOURCE if self._part.source_compacted else BEFORE_BEGIN
            if not len(ours) and "source" in section.retained:
                why = RETAINED_SOURCE
            self._findings.verdict.add_uncompared("target", int(theirs.offsets[0]), target, why)

    def _count_missing(self, start: int, end: int, target: int) -> None:
        while start < end:
            lacking, _ = window(self._logs, "source", start, end, WINDOWS[-1])
            if not len(lacking):
                return
            self._findings.differs(len(lacking), partial(RecordDifference, "missing", int(lacking.offsets[0]), target))
            self._findings.digests.of_source(lacking.content())
            start = int(lacking.offsets[-1]) + 1

    def _is_retained(self, section: Section) -> bool:
        """Whether common records are missing because retention removed all records of a side.

        A side with records is compared from any begin, unless its records are copies of later source records: a lost
        begin never excuses present records.
        """
        part, verdict = self._part, self._findings.verdict
        if part.compacted:
            # Compaction may have removed all records nearby.
            return False
        if "target" in section.retained and (
            section.target == section.target_end or begins_after(self._logs, section, part.syncs)
        ):
            verdict.add_uncompared("source", section.source, section.source_end, RETAINED_TARGET)
        elif not ("source" in section.retained and section.source == section.source_end):
            return False
        if not section.open_end:
            verdict.add_uncompared("target", section.target, section.target_end, OLDER)
        return True

    def _resolve(self, section: Section, ours: Bodies | None, theirs: Bodies | None) -> bool:
        """Find the next common records, and count the gap before them; False if the search fails.

        `ours` and `theirs` are the next records, as far as they are already read.
        """
        compacted, alike = self._part.compacted, self._alike
        self._findings.ranges.cut()
        at = self._source.position, self._target.position
        found = None if ours is None or theirs is None else find_at_hand(ours, theirs, alike)
        if found is None:
            self._searched += 1
            if self._searched > MOST_PLACES:
                self._findings.verdict.add_uncompared("source", at[0], section.source_end, TOO_MANY)
                self._findings.verdict.add_uncompared("target", at[1], section.target_end, TOO_MANY)
                return False
            found = find_next_common(self._logs, (at[0], section.source_end), (at[1], section.target_end), alike=alike)
        if (
            found is None
            and compacted
            and ours is not None
            and theirs is not None
            and self._skip_far(section, ours, theirs)
        ):
            return True
        if found is None:
            if not compacted:
                self._findings.differs(1, lambda: RecordDifference("order", *at, UNRELATED))
            self._findings.verdict.add_uncompared("source", at[0], section.source_end, UNRELATED)
            self._findings.verdict.add_uncompared("target", at[1], section.target_end, UNRELATED)
            return False
        if ours is not None and theirs is not None and not len(found.ours) and not len(found.theirs):
            self._count_timestamp(ours.part(0, 1), theirs.part(0, 1))
            return True
        if section.open_end and found.to_end and len(found.ours) == 0:
            self._target.discard_before(found.target_next)
            return False
        if section.open_end and found.to_end:
            # Target records after the end of the source are outside the comparison.
            found = without_tail(found)
        self._count_gap(found)
        self._source.discard_before(found.source_next)
        self._target.discard_before(found.target_next)
        self._progress(len(found.ours) + len(found.theirs))
        return True

    def _skip_far(self, section: Section, ours: Bodies, theirs: Bodies) -> bool:
        """Continue at the next common records, however many records compaction removed from a side; False if the search
        fails."""
        at = self._source.position, self._target.position
        found = find_far(self._logs, section, *at)
        if found is None:
            return False
        if self._part.target_compacted:
            self._findings.verdict.add_uncompared("source", int(ours.offsets[0]), found[0], COMPACTED_TARGET)
        else:
            self._count_missing(at[0], found[0], at[1])
        if self._part.source_compacted:
            self._findings.verdict.add_uncompared("target", int(theirs.offsets[0]), found[1], COMPACTED_SOURCE)
        else:
            more, _ = window(self._logs, "target", at[1], found[1], WINDOWS[-1])
            if len(more):
                self._findings.extra(more, found[0])
        self._source.discard_before(found[0])
        self._target.discard_before(found[1])
        self._progress(found[0] + found[1] - sum(at))
        return True

    def _count_timestamp(self, mine: Bodies, copy: Bodies) -> None:
        """Count a record whose timestamp alone differs, near records with incomparable timestamps: there the search
        ignores timestamps and finds this very record."""
        self._findings.differs(1, lambda: describe(mine, copy, 0, crossed=False))
        self._findings.count(mine, 1)
        self._findings.digests.of_source(mine.content())
        self._findings.digests.of_target(copy.content())
        self._source.discard_before(int(mine.offsets[0]) + 1)
        self._target.discard_before(int(copy.offsets[0]) + 1)
        self._progress(2)

    def _count_gap(self, gap: AlignmentGap) -> None:
        if gap.explained(source_compacted=self._part.source_compacted, target_compacted=self._part.target_compacted):
            for start, end in spans(gap.ours.offsets):
                self._findings.verdict.add_uncompared("source", start, end, COMPACTED_TARGET)
            for start, end in spans(gap.theirs.offsets):
                self._findings.verdict.add_uncompared("target", start, end, COMPACTED_SOURCE)
            return
        if not len(gap.ours):
            self._findings.extra(gap.theirs, self._source.position)
            return
        count, make = between(gap)
        self._findings.differs(count, make)
        self._findings.digests.of_source(gap.ours.content())
        self._findings.digests.of_target(gap.theirs.content())
