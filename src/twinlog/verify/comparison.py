"""Compares one partition on both sides, section by section: batches copied whole as bytes, others by record."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from struct import Struct

from twinlog.errors import CorruptBatchError
from twinlog.record.batch import HEADER_SIZE, LOG_APPEND_TIME
from twinlog.rows.bodies import NO_TIMESTAMP, Bodies, equal_records, first_difference, match_offsets, same_bytes, spans
from twinlog.verify.alignment import (
    ALIKE,
    WINDOWS,
    Aligned,
    Logs,
    begins_behind,
    find_at_hand,
    find_begin,
    find_far,
    find_next_common,
    window,
)
from twinlog.verify.describe import between, describe, without_tail
from twinlog.verify.digest import Digests
from twinlog.verify.model import Difference, Left, PartitionToVerify, Section, Side, Verdict, VerifyRules
from twinlog.verify.nearby import Nearby
from twinlog.verify.sections import (
    BEFORE_BEGIN,
    COMPACTED_SOURCE,
    COMPACTED_TARGET,
    DELETED_SOURCE,
    DELETED_TARGET,
    NOT_YET,
    OLDER,
    RETAINED_SOURCE,
    RETAINED_TARGET,
    UNRELATED,
)

MOST_PLACES = 1_000
"""At so many places of a section without a map both logs are searched for where they go on together."""

TOO_MANY = (
    f"before them both sides part in more than {MOST_PLACES} places; --from-timestamp with the time of the first one "
    "goes on there"
)

MOST_MARKERS = 1_000
"""So many offsets behind a position are looked at for whether there is a record."""

_SHAPE = Struct(">qqi")


class Comparison:
    """One partition; `run` reads both logs once and returns the row.

    `told(offsets)` is called with the number of offsets that were compared since.
    """

    def __init__(self, part: PartitionToVerify, rules: VerifyRules, logs: Logs, told: Callable[[int], None]) -> None:
        self._part = part
        self._rules = rules
        self._logs = logs
        self._told = told
        self._verdict = Verdict.of(part)
        self._digests = Digests()
        self._searched = 0
        self._compared = False
        self._gone: list[tuple[int, int]] = []

    def run(self) -> Verdict:
        """Raises ClusterError where a side cannot be read."""
        verdict, part, logs = self._verdict, self._part, self._logs
        if not part.sections or part.problem is not None:
            return verdict.without_sections()
        first, last = part.sections[0], part.sections[-1]
        self._source = logs.open("source", first.source, last.source_end)
        self._target = logs.open("target", first.target, last.target_end)
        self._nearby = Nearby(logs, first.source, last.source_end)
        verdict.source_start, verdict.target_start = first.source, first.target
        for section in part.sections:
            self._source.take(section.source)
            self._target.take(section.target)
            before = self._source.position + self._target.position
            try:
                self._section(section)
            except CorruptBatchError as error:
                self._damaged(section, error)
            self._told(section.source_end + section.target_end - before)
            self._source.take(section.source_end)
            if not section.open_end:
                self._target.take(section.target_end)
        verdict.source_end, verdict.target_end = self._source.position, self._target.position
        verdict.left = [one for one in verdict.left if not self._is_of_markers(one)]
        verdict.source_digest, verdict.target_digest = self._digests.result()
        if verdict.differences or self._compared:
            verdict.equal = not verdict.differences
            return verdict
        return verdict.without_sections()

    def _is_of_markers(self, left: Left) -> bool:
        """Whether nothing was to be copied behind the position: MirrorMaker 2 stores that of the last record, and the
        marker of a transaction follows."""
        if left.reason != NOT_YET or left.end - left.start > MOST_MARKERS:
            return False
        rows, _ = window(self._logs, "source", left.start, left.end, 1)
        return not len(rows)

    @property
    def so_far(self) -> Verdict:
        """The row as far as it is known, for a partition that cannot be read to its end."""
        verdict = self._verdict
        verdict.source_digest, verdict.target_digest = self._digests.result()
        return verdict

    def lost(self, side: Side, start: int, end: int) -> None:
        """Retention has deleted offsets of one side meanwhile."""
        self._verdict.leave(side, start, end, DELETED_SOURCE if side == "source" else DELETED_TARGET)
        self._gone.append((start, end))

    def _section(self, section: Section) -> None:
        if section.kind == "exact":
            self._exact(section)
        elif section.kind == "not copied":
            self._missing_in(section)
        elif section.kind == "foreign":
            self._foreign_in(section)
        else:
            self._by_content(section)

    # Whole batches.

    def _same_batch(self, section: Section, shift: int | None) -> bool:
        """Take the next batch of both sides where they are the same as they are stored."""
        if self._rules.every_record:
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
        self._compared = True
        verdict = self._verdict
        verdict.records += batch.record_count
        verdict.bytes += batch.size
        verdict.whole_batches += 1
        shape = _SHAPE.pack(0 if stamped else batch.base_timestamp, batch.record_count, batch.codec)
        self._digests.same_block(block, shape)
        self._source.skip_batch()
        self._target.skip_batch()
        self._told(2 * batch.record_count)
        return True

    # By offsets.

    def _exact(self, section: Section) -> None:
        """Offsets are in step: what lies where must be the same, and a side without a record must be compacted."""
        shift = section.target - section.source
        source, target = self._source, self._target
        while source.position < section.source_end:
            if self._same_batch(section, shift):
                continue
            ours, past = source.rows(section.source_end)
            theirs, past_there = target.rows(section.target_end)
            behind = min(past, past_there - shift)
            empty = _nothing(ours if ours is not None else theirs)
            if empty is not None:
                ours = empty if ours is None else ours.from_offset(0, behind)
                theirs = empty if theirs is None else theirs.from_offset(0, behind + shift)
                self._match(ours, theirs, shift)
            self._told(2 * (behind - source.position))
            source.take(behind)
            target.take(behind + shift)
            source.more_at_once()
            target.more_at_once()

    def _match(self, ours: Bodies, theirs: Bodies, shift: int) -> None:
        matched = match_offsets(ours, theirs, shift)
        for start, end in spans(theirs.offsets[matched.target_only]):
            # A copy, whose original the source does not have any more.
            if not self._was_lost(start - shift, end - shift):
                self._verdict.leave("target", start, end, COMPACTED_SOURCE)
        for start, end in spans(ours.offsets[matched.source_only]):
            if self._part.target_compacted:
                self._verdict.leave("source", start, end, COMPACTED_TARGET)
            elif not self._was_lost(start + shift, end + shift):
                self._differs(end - start, partial(Difference, "missing", start, start + shift))
        if len(matched.source_only):
            if not self._part.target_compacted:
                self._digests.of_source(ours.chosen(matched.source_only).content())
            ours = ours.chosen(matched.source)
        if len(matched.target_only):
            theirs = theirs.chosen(matched.target)
        if not len(ours):
            return
        same = equal_records(ours, theirs)
        if same.all():
            self._same(ours, theirs)
            return
        different = (~same).nonzero()[0]
        place = int(different[0])
        self._differs(len(different), lambda: describe(ours, theirs, place, crossed=self._next_to(ours, theirs, place)))
        self._count(ours, len(different))
        self._digests.of_source(ours.content())
        self._digests.of_target(theirs.content())

    def _next_to(self, ours: Bodies, theirs: Bodies, place: int) -> bool:
        """Whether the record and its neighbour are there in the other order."""
        if place + 1 >= len(ours):
            return False
        crossed = equal_records(ours.chosen([place, place + 1]), theirs.chosen([place + 1, place]))
        return bool(crossed.all())

    def _was_lost(self, start: int, end: int) -> bool:
        return any(first <= start and end <= past for first, past in self._gone)

    def _missing_in(self, section: Section) -> None:
        """By the map nothing of these source offsets was copied: they were holes then, or left out."""
        while True:
            ours, past = self._source.rows(section.source_end)
            if ours is None:
                return
            self._differs(len(ours), partial(Difference, "missing", int(ours.offsets[0]), section.target))
            self._digests.of_source(ours.content())
            self._source.take(past)

    def _foreign_in(self, section: Section) -> None:
        """By the map these target offsets are no copies: markers, or records of somebody else."""
        while True:
            theirs, past = self._target.rows(section.target_end)
            if theirs is None:
                return
            self._extra(theirs, section.source)
            self._target.take(past)

    # By content.

    @property
    def _alike(self) -> int:
        """How many records in a row must be the same: next to each one compaction may have made a hole."""
        return 1 if self._part.compacted else ALIKE

    def _by_content(self, section: Section) -> None:
        source, target = self._source, self._target
        if section.kind == "copied from":
            begin = find_begin(self._logs, section, self._part.syncs, self._alike)
            if begin is None and self._is_retained(section):
                return
            if begin is None and not section.open_end and section.source_end == section.source:
                begin = section.source, section.target
            if begin is not None:
                self._leave_before(section, *begin)
                source.take(begin[0])
                target.take(begin[1])
        while True:
            if self._same_batch(section, None):
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
                    self._same(mine, copies)
                    self._told(2 * count)
                    source.take(int(mine.offsets[-1]) + 1)
                    target.take(int(copies.offsets[-1]) + 1)
                source.more_at_once()
                target.more_at_once()
                if count == min(len(ours), len(theirs)):
                    continue
                ours, theirs = ours.part(count, len(ours)), theirs.part(count, len(theirs))
            if not self._resolve(section, ours, theirs):
                return

    def _leave_before(self, section: Section, source: int, target: int) -> None:
        """What the log of one side begins with tells where the records are that the other one has before it."""
        ours, _ = window(self._logs, "source", section.source, source, 1)
        theirs, _ = window(self._logs, "target", section.target, target, 1)
        if len(ours):
            why = COMPACTED_TARGET if self._part.target_compacted else BEFORE_BEGIN
            if not len(theirs) and "target" in section.retained:
                why = RETAINED_TARGET
            self._verdict.leave("source", int(ours.offsets[0]), source, why)
        if len(theirs):
            why = COMPACTED_SOURCE if self._part.source_compacted else BEFORE_BEGIN
            if not len(ours) and "source" in section.retained:
                why = RETAINED_SOURCE
            self._verdict.leave("target", int(theirs.offsets[0]), target, why)

    def _is_retained(self, section: Section) -> bool:
        """Whether nothing in common is there because retention took all that one side had.

        A side that still has records is compared, wherever it begins, unless they are copies of later ones: its begin
        excuses no record that is there.
        """
        part, verdict = self._part, self._verdict
        if part.compacted:
            # Nothing near need be on both sides.
            return False
        if "target" in section.retained and (
            section.target == section.target_end or begins_behind(self._logs, section, part.syncs)
        ):
            verdict.leave("source", section.source, section.source_end, RETAINED_TARGET)
        elif not ("source" in section.retained and section.source == section.source_end):
            return False
        if not section.open_end:
            verdict.leave("target", section.target, section.target_end, OLDER)
        return True

    def _resolve(self, section: Section, ours: Bodies | None, theirs: Bodies | None) -> bool:
        """Find where both sides go on together, and count what lies before it; False where they do not.

        `ours` and `theirs` are next, as far as they are at hand.
        """
        compacted, alike = self._part.compacted, self._alike
        at = self._source.position, self._target.position
        found = None if ours is None or theirs is None else find_at_hand(ours, theirs, alike)
        if found is None:
            self._searched += 1
            if self._searched > MOST_PLACES:
                self._verdict.leave("source", at[0], section.source_end, TOO_MANY)
                self._verdict.leave("target", at[1], section.target_end, TOO_MANY)
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
                self._differs(1, lambda: Difference("order", *at, UNRELATED))
            self._verdict.leave("source", at[0], section.source_end, UNRELATED)
            self._verdict.leave("target", at[1], section.target_end, UNRELATED)
            return False
        if section.open_end and found.to_end and len(found.ours) == 0:
            self._target.take(found.target_next)
            return False
        if section.open_end and found.to_end:
            # Behind the end of the source the target has what nobody asked for.
            found = without_tail(found)
        self._count_gap(found)
        self._source.take(found.source_next)
        self._target.take(found.target_next)
        self._told(len(found.ours) + len(found.theirs))
        return True

    def _skip_far(self, section: Section, ours: Bodies, theirs: Bodies) -> bool:
        """Go where both sides go on together, however much compaction took of one; False where they do not."""
        at = self._source.position, self._target.position
        found = find_far(self._logs, section, *at)
        if found is None:
            return False
        if self._part.target_compacted:
            self._verdict.leave("source", int(ours.offsets[0]), found[0], COMPACTED_TARGET)
        else:
            lacking, _ = window(self._logs, "source", at[0], found[0], WINDOWS[-1])
            if len(lacking):
                self._differs(len(lacking), partial(Difference, "missing", int(lacking.offsets[0]), at[1]))
                self._digests.of_source(lacking.content())
        if self._part.source_compacted:
            self._verdict.leave("target", int(theirs.offsets[0]), found[1], COMPACTED_SOURCE)
        else:
            more, _ = window(self._logs, "target", at[1], found[1], WINDOWS[-1])
            if len(more):
                self._extra(more, found[0])
        self._source.take(found[0])
        self._target.take(found[1])
        self._told(found[0] + found[1] - sum(at))
        return True

    def _count_gap(self, gap: Aligned) -> None:
        if gap.explained(source_compacted=self._part.source_compacted, target_compacted=self._part.target_compacted):
            for start, end in spans(gap.ours.offsets):
                self._verdict.leave("source", start, end, COMPACTED_TARGET)
            for start, end in spans(gap.theirs.offsets):
                self._verdict.leave("target", start, end, COMPACTED_SOURCE)
            return
        if not len(gap.ours):
            self._extra(gap.theirs, self._source.position)
            return
        count, make = between(gap)
        self._differs(count, make)
        self._digests.of_source(gap.ours.content())
        self._digests.of_target(gap.theirs.content())

    # What was found.

    def _same(self, ours: Bodies, theirs: Bodies) -> None:
        self._compared = True
        self._count(ours, 0)
        if theirs.timed.all() and not (ours.timestamps == NO_TIMESTAMP).any():
            self._digests.same(ours.content())
        else:
            # Timestamps were not compared, so they are in neither digest.
            self._digests.same((b"", *ours.content()[1:]))

    def _count(self, ours: Bodies, different: int) -> None:
        self._compared = True
        self._verdict.records += len(ours) - different
        self._verdict.bytes += ours.size

    def _differs(self, count: int, make: Callable[[], Difference]) -> None:
        if self._verdict.first is None:
            self._verdict.first = make()
        self._verdict.differences += count

    def _extra(self, theirs: Bodies, source_offset: int) -> None:
        """Records that are no copies, or copies for the second time."""
        doubled = self._nearby.having(theirs, source_offset)
        self._verdict.foreign += len(theirs) - doubled
        if self._rules.ignore_foreign and not doubled:
            return
        at = int(theirs.offsets[0])
        what = "doubled" if doubled else "extra"
        self._differs(
            doubled if self._rules.ignore_foreign else len(theirs), lambda: Difference(what, source_offset, at)
        )
        self._digests.of_target(theirs.content())

    def _damaged(self, section: Section, error: CorruptBatchError) -> None:
        at = self._source.position, self._target.position
        self._differs(1, lambda: Difference("damaged", *at, str(error)))
        self._verdict.leave("source", at[0], section.source_end, "behind a damaged batch")
        self._verdict.leave("target", at[1], section.target_end, "behind a damaged batch")


def _nothing(rows: Bodies | None) -> Bodies | None:
    return None if rows is None else rows.part(0, 0)
