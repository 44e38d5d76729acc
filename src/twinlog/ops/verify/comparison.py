"""Compares a partition on both sides, section by section: whole batches as bytes, and all other records singly."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from twinlog.batches.arrow.bodies import Bodies, aligned_runs, equal_records, match_offsets, same_bytes, spans
from twinlog.batches.arrow.placed import NO_TIMESTAMP
from twinlog.errors import CorruptBatchError
from twinlog.kafka.record.batch import HEADER_SIZE, LOG_APPEND_TIME
from twinlog.ops.verify.alignment import NearbyRecords, PartitionLogs, window
from twinlog.ops.verify.by_content import ContentComparison
from twinlog.ops.verify.digests import EqualRanges
from twinlog.ops.verify.findings import VerifyFindings, describe
from twinlog.ops.verify.model import (
    PartitionToVerify,
    RecordDifference,
    Section,
    Side,
    UncomparedRange,
    Verdict,
    VerifyRules,
)
from twinlog.ops.verify.sections import COMPACTED_SOURCE, COMPACTED_TARGET, DELETED_SOURCE, DELETED_TARGET, NOT_YET

MOST_MARKERS = 1_000
"""The number of offsets after a position that are searched for a record."""


_NOTHING = Section("foreign", 0, 0, 0, 0)


class PartitionComparison:
    """The comparison of a partition; `run` reads both logs once and returns the row.

    `progress(offsets)` is called with the number of offsets compared since the last call.
    """

    def __init__(
        self, part: PartitionToVerify, rules: VerifyRules, logs: PartitionLogs, progress: Callable[[int], None]
    ) -> None:
        self._part = part
        self._rules = rules
        self._logs = logs
        self._progress = progress
        self._begin = part.sections[0] if part.sections else _NOTHING
        self._end = part.sections[-1] if part.sections else _NOTHING
        nearby = NearbyRecords(logs, self._begin.source, self._end.source_end)
        # Offsets count both sides.
        ranges = EqualRanges(rules.range_records, part.offsets // 2)
        self._findings = VerifyFindings(Verdict.of(part), nearby, ranges, ignore_foreign=rules.ignore_foreign)
        self._gone: list[tuple[int, int]] = []

    def run(self) -> Verdict:
        """Raises ClusterError if a side is unreadable."""
        verdict, part, logs = self._findings.verdict, self._part, self._logs
        if not part.sections or part.problem is not None:
            return verdict.without_sections()
        first, last = self._begin, self._end
        self._source = logs.open("source", first.source, last.source_end)
        self._target = logs.open("target", first.target, last.target_end)
        self._by_content = ContentComparison(
            part,
            logs,
            self._source,
            self._target,
            self._findings,
            lambda one: self._same_batch(one, None),
            self._progress,
        )
        verdict.source_start, verdict.target_start = first.source, first.target
        for section in part.sections:
            if section.source > self._source.position or section.target > self._target.position:
                # Uncompared records may lie between.
                self._findings.ranges.cut()
            self._source.discard_before(section.source)
            self._target.discard_before(section.target)
            before = self._source.position + self._target.position
            try:
                self._section(section)
            except CorruptBatchError as error:
                self._damaged(section, error)
            self._progress(section.source_end + section.target_end - before)
            self._source.discard_before(section.source_end)
            if not section.open_end:
                self._target.discard_before(section.target_end)
        verdict.source_end, verdict.target_end = self._source.position, self._target.position
        verdict.left = [one for one in verdict.left if not self._is_of_markers(one)]
        self._findings.result()
        if verdict.differences or self._findings.compared:
            verdict.equal = not verdict.differences
            return verdict
        return verdict.without_sections()

    def _is_of_markers(self, left: UncomparedRange) -> bool:
        """Whether only markers follow the position: MirrorMaker 2 stores the position of the last record, and the
        marker of its transaction follows."""
        if left.reason != NOT_YET or left.end - left.start > MOST_MARKERS:
            return False
        rows, _ = window(self._logs, "source", left.start, left.end, 1)
        return not len(rows)

    @property
    def so_far(self) -> Verdict:
        """The row up to now, for a partition that is unreadable towards its end."""
        return self._findings.result()

    def lost(self, side: Side, start: int, end: int) -> None:
        """Note that retention deleted offsets of a side during the comparison."""
        self._findings.verdict.add_uncompared(side, start, end, DELETED_SOURCE if side == "source" else DELETED_TARGET)
        self._gone.append((start, end))
        self._findings.ranges.cut()

    def _section(self, section: Section) -> None:
        if section.kind == "exact":
            self._exact(section)
        elif section.kind == "not copied":
            self._missing_in(section)
        elif section.kind == "foreign":
            self._foreign_in(section)
        else:
            self._by_content.compare(section)

    # Whole batches.

    def _same_batch(self, section: Section, shift: int | None) -> bool:
        """Take the next batch of both sides if their stored bytes are equal."""
        if self._rules.decodes_all:
            return False
        ours = self._source.whole_batch(section.source_end)
        if ours is None:
            return False
        theirs = self._target.whole_batch(section.target_end)
        if theirs is None:
            return False
        (records, batch), (copies, copy) = ours, theirs
        stamped = copy.attributes & LOG_APPEND_TIME
        if (
            batch.record_count != copy.record_count
            or batch.length != copy.length
            or batch.codec != copy.codec
            or batch.attributes & LOG_APPEND_TIME
            or (shift is not None and copy.base_offset - batch.base_offset != shift)
            or not (stamped or batch.base_timestamp in {copy.base_timestamp, NO_TIMESTAMP})
        ):
            return False
        block = records[batch.start + HEADER_SIZE : batch.end]
        if not same_bytes(block, copies[copy.start + HEADER_SIZE : copy.end]):
            return False
        self._findings.same_batch(batch, copy, block)
        self._source.skip_batch()
        self._target.skip_batch()
        self._progress(2 * batch.record_count)
        return True

    # By offsets.

    def _exact(self, section: Section) -> None:
        """Compare by offsets, which grow in step: records at the same place must be equal, and a side may lack a record
        only if it is compacted."""
        shift = section.target - section.source
        source, target = self._source, self._target
        while source.position < section.source_end:
            if self._same_batch(section, shift):
                continue
            ours, past = source.rows(section.source_end)
            theirs, past_there = target.rows(section.target_end)
            behind = min(past, past_there - shift)
            empty = _empty(ours if ours is not None else theirs)
            if empty is not None:
                ours = empty if ours is None else ours.from_offset(0, behind)
                theirs = empty if theirs is None else theirs.from_offset(0, behind + shift)
                self._match(ours, theirs, shift)
            self._progress(2 * (behind - source.position))
            source.discard_before(behind)
            target.discard_before(behind + shift)
            source.more_at_once()
            target.more_at_once()

    def _match(self, ours: Bodies, theirs: Bodies, shift: int) -> None:
        matched = match_offsets(ours, theirs, shift)
        if len(matched.source_only) or len(matched.target_only):
            if self._rules.decodes_all and len(matched.source):
                # In pieces the digests get all records in the order of their offsets, however many are read at once.
                for mine, copies in aligned_runs(ours, theirs, shift):
                    self._match(mine, copies, shift)
                return
            self._findings.ranges.cut()
        for start, end in spans(theirs.offsets[matched.target_only]):
            # A copy of an original that the source has lost.
            if not self._was_lost(start - shift, end - shift):
                self._findings.verdict.add_uncompared("target", start, end, COMPACTED_SOURCE)
        for start, end in spans(ours.offsets[matched.source_only]):
            if self._part.target_compacted:
                self._findings.verdict.add_uncompared("source", start, end, COMPACTED_TARGET)
            elif not self._was_lost(start + shift, end + shift):
                self._findings.differs(end - start, partial(RecordDifference, "missing", start, start + shift))
        if len(matched.source_only):
            if not self._part.target_compacted:
                self._findings.digests.of_source(ours.chosen(matched.source_only).content())
            ours = ours.chosen(matched.source)
        if len(matched.target_only):
            theirs = theirs.chosen(matched.target)
        if not len(ours):
            return
        same = equal_records(ours, theirs)
        if same.all():
            self._findings.same(ours, theirs)
            return
        different = (~same).nonzero()[0]
        place = int(different[0])
        self._findings.differs(
            len(different), lambda: describe(ours, theirs, place, crossed=self._next_to(ours, theirs, place))
        )
        self._findings.count(ours, len(different))
        self._findings.digests.of_source(ours.content())
        self._findings.digests.of_target(theirs.content())
        self._findings.keep_equal(ours, theirs, same)

    def _next_to(self, ours: Bodies, theirs: Bodies, place: int) -> bool:
        """Whether the record and its neighbour are there in the other order."""
        if place + 1 >= len(ours):
            return False
        crossed = equal_records(ours.chosen([place, place + 1]), theirs.chosen([place + 1, place]))
        return bool(crossed.all())

    def _was_lost(self, start: int, end: int) -> bool:
        return any(first <= start and end <= past for first, past in self._gone)

    def _missing_in(self, section: Section) -> None:
        """Report source records that lack a copy by the map: at the time of copying these offsets were holes, or left
        out."""
        while True:
            ours, past = self._source.rows(section.source_end)
            if ours is None:
                return
            self._findings.differs(
                len(ours), partial(RecordDifference, "missing", int(ours.offsets[0]), section.target)
            )
            self._findings.digests.of_source(ours.content())
            self._source.discard_before(past)

    def _foreign_in(self, section: Section) -> None:
        """Report target records that are foreign by the map: they are markers, or records of another producer."""
        while True:
            theirs, past = self._target.rows(section.target_end)
            if theirs is None:
                return
            self._findings.extra(theirs, section.source)
            self._target.discard_before(past)

    def _damaged(self, section: Section, error: CorruptBatchError) -> None:
        at = self._source.position, self._target.position
        self._findings.differs(1, lambda: RecordDifference("damaged", *at, str(error)))
        self._findings.verdict.add_uncompared("source", at[0], section.source_end, "after a damaged batch")
        self._findings.verdict.add_uncompared("target", at[1], section.target_end, "after a damaged batch")


def _empty(rows: Bodies | None) -> Bodies | None:
    return None if rows is None else rows.part(0, 0)
