"""The findings of a comparison of a partition: its row, the digests of both sides, and the ranges of equal records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from struct import Struct

from twinlog.batches.arrow.bodies import Bodies, comparable_timestamps, runs, same_timestamps
from twinlog.batches.vectors import Flags
from twinlog.kafka.record.batch import LOG_APPEND_TIME, Batch
from twinlog.kafka.record.records import Record, decode_body
from twinlog.ops.verify.alignment import AlignmentGap, NearbyRecords, keys
from twinlog.ops.verify.digests import EqualRanges, SideDigests
from twinlog.ops.verify.model import RecordDifference, Verdict

SHOWN = 40
"""The number of bytes of a key or value to show."""

_SHAPE = Struct(">qqi")


def describe(ours: Bodies, theirs: Bodies, place: int, *, crossed: bool) -> RecordDifference:
    """Return the difference between the records at a place; `crossed` when the next record is there in its stead."""
    at = int(ours.offsets[place]), int(theirs.offsets[place])
    if crossed:
        return RecordDifference("order", *at, "this record and the next record are there in the other order")
    fields = fields_of(ours, theirs, place)
    return RecordDifference(", ".join(name for name, _ in fields), *at, "; ".join(text for _, text in fields))


def fields_of(ours: Bodies, theirs: Bodies, place: int) -> list[tuple[str, str]]:
    """The different fields, each with the contents of both sides."""
    try:
        mine, copy = _record(ours, place), _record(theirs, place)
    except IndexError:
        return [("damaged", "a record cannot be decoded")]
    found = []
    if not same_timestamps(ours.part(place, place + 1), theirs.part(place, place + 1)).all():
        found.append(("timestamp", f"timestamp {mine.timestamp} became {copy.timestamp}"))
    if mine.key != copy.key:
        found.append(("key", f"key {_shown(mine.key)} became {_shown(copy.key)}"))
    if mine.value != copy.value:
        found.append(("value", f"value {_changed(mine.value, copy.value)}"))
    if mine.headers != copy.headers:
        names = ", ".join(name for name, _ in mine.headers) or "none"
        others = ", ".join(name for name, _ in copy.headers) or "none"
        found.append(("headers", f"headers {names} became {others}" if names != others else f"contents of {names}"))
    return found or [("encoding", "the same fields are encoded in another way")]


def between(gap: AlignmentGap) -> tuple[int, Callable[[], RecordDifference]]:
    """Return how many records of a gap are changed, missing or too many, and a description of the first."""
    mine, copies = keys(gap.ours, gap.theirs)
    missing, extra = Counter(mine) - Counter(copies), Counter(copies) - Counter(mine)
    if not missing and not extra:
        place = next((at for at, (a, b) in enumerate(zip(mine, copies, strict=False)) if a != b), 0)
        return sum(a != b for a, b in zip(mine, copies, strict=False)), lambda: _moved(gap, place)
    count = max(missing.total(), extra.total())
    if len(mine) == len(copies):
        place = next(at for at, (a, b) in enumerate(zip(mine, copies, strict=True)) if a != b)
        if mine[place] in missing and copies[place] in extra:
            return count, lambda: describe(gap.ours, gap.theirs, place, crossed=False)
    if missing:
        place = next(at for at, one in enumerate(mine) if one in missing)
        before = sum(one in set(mine[:place]) for one in copies)
        there = int(gap.theirs.offsets[before]) if before < len(copies) else gap.target_next
        return count, lambda: RecordDifference("missing", int(gap.ours.offsets[place]), there)
    place = next(at for at, one in enumerate(copies) if one in extra)
    what = "doubled" if copies[place] in set(mine) else "extra"
    return count, lambda: RecordDifference(what, gap.source_next, int(gap.theirs.offsets[place]))


def without_tail(gap: AlignmentGap) -> AlignmentGap:
    """A gap at the end of the source, reduced by the copies of later records: either equally many records are changed,
    or some are missing."""
    count = min(len(gap.ours), len(gap.theirs))
    theirs = gap.theirs.part(0, count if count and _of_one_record(gap) else 0)
    behind = int(theirs.offsets[-1]) + 1 if len(theirs) else int(gap.theirs.offsets[0]) if count else gap.target_next
    return replace(gap, theirs=theirs, target_next=behind)


def _of_one_record(gap: AlignmentGap) -> bool:
    """Whether the first records of both sides may be a record and its changed copy."""
    try:
        mine, copy = _record(gap.ours, 0), _record(gap.theirs, 0)
    except IndexError:
        return True
    return mine.timestamp == copy.timestamp or (mine.key is not None and mine.key == copy.key)


def _moved(gap: AlignmentGap, place: int) -> RecordDifference:
    text = "the same records are there in another order"
    return RecordDifference("order", int(gap.ours.offsets[place]), int(gap.theirs.offsets[place]), text)


def _record(rows: Bodies, place: int) -> Record:
    return decode_body(int(rows.offsets[place]), int(rows.timestamps[place]), rows.body(place))


def _shown(data: bytes | None) -> str:
    return "null" if data is None else repr(data if len(data) <= SHOWN else data[:SHOWN] + b"...")


def _changed(ours: bytes | None, theirs: bytes | None) -> str:
    """Shows only the first different byte of two values, as values may be secret and long."""
    if ours is None or theirs is None:
        return f"{_shown(ours)} became {_shown(theirs)}"
    at = next((n for n, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs)))
    return f"of {len(ours)} bytes became {len(theirs)} bytes, different from byte {at} on"


class VerifyFindings:
    """Adds up equal and different records in `verdict`. `nearby` is the source, for a search around a copy; `ranges`
    gets the equal records."""

    def __init__(self, verdict: Verdict, nearby: NearbyRecords, ranges: EqualRanges, *, ignore_foreign: bool) -> None:
        self.verdict = verdict
        self.digests = SideDigests()
        self.ranges = ranges
        self.compared = False
        self._nearby = nearby
        self._ignore_foreign = ignore_foreign

    def same_batch(self, batch: Batch, copy: Batch, block: memoryview) -> None:
        """A batch that both sides have as it is; `block` are its records as they are stored."""
        self.compared = True
        self.verdict.records += batch.record_count
        self.verdict.bytes += batch.size
        timestamp = 0 if copy.attributes & LOG_APPEND_TIME else batch.base_timestamp
        self.digests.same_block(block, _SHAPE.pack(timestamp, batch.record_count, batch.codec))

    def same(self, ours: Bodies, theirs: Bodies) -> None:
        """Count equal records of both sides."""
        self.count(ours, 0)
        # Timestamps that the comparison skipped are missing in both digests.
        dated = comparable_timestamps(ours, theirs)
        self.digests.same(ours.content(dated))
        self.ranges.add(ours, theirs, dated)

    def keep_equal(self, ours: Bodies, theirs: Bodies, same: Flags) -> None:
        """Keep the ranges of the records that are the `same` among compared records, of which some differ."""
        dated = comparable_timestamps(ours, theirs)
        for start, end in runs(same):
            if same[start]:
                self.ranges.add(ours.part(start, end), theirs.part(start, end), dated[start:end])
            self.ranges.cut()

    def count(self, ours: Bodies, different: int) -> None:
        """Records that were compared, of which so many differ."""
        self.compared = True
        self.verdict.records += len(ours) - different
        self.verdict.bytes += ours.size

    def differs(self, count: int, make: Callable[[], RecordDifference]) -> None:
        """So many records differ; `make` describes the first of them."""
        self.ranges.cut()
        if self.verdict.first is None:
            self.verdict.first = make()
        self.verdict.differences += count

    def extra(self, theirs: Bodies, source_offset: int) -> None:
        """Count target records that are foreign, or are second copies."""
        self.ranges.cut()
        doubled = self._nearby.count_known(theirs, source_offset)
        self.verdict.foreign += len(theirs) - doubled
        if self._ignore_foreign and not doubled:
            return
        at = int(theirs.offsets[0])
        what = "doubled" if doubled else "extra"
        self.differs(
            doubled if self._ignore_foreign else len(theirs), lambda: RecordDifference(what, source_offset, at)
        )
        self.digests.of_target(theirs.content())

    def result(self) -> Verdict:
        """The row as far as it is known."""
        self.ranges.cut()
        self.verdict.ranges = self.ranges.found
        self.verdict.source_digest, self.verdict.target_digest = self.digests.result()
        return self.verdict
