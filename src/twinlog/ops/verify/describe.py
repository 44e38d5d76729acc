"""Describes the difference of records that should be equal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from twinlog.arrow.bodies import Bodies, same_timestamps
from twinlog.kafka.record.records import Record, decode_body
from twinlog.ops.verify.alignment import AlignmentGap, keys
from twinlog.ops.verify.model import RecordDifference

SHOWN = 40
"""The number of bytes of a key or value to show."""


def describe(ours: Bodies, theirs: Bodies, place: int, *, crossed: bool) -> RecordDifference:
    """Return the difference between the records at a place; `crossed` when the next record is there in its stead."""
    at = int(ours.offsets[place]), int(theirs.offsets[place])
    if crossed:
        return RecordDifference("order", *at, "this record and the next one are there in the other order")
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
    return f"of {len(ours)} bytes became one of {len(theirs)}; they part at byte {at}"
