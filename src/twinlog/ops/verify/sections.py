"""Cuts a partition into sections: by its exact map, by the present ends of both logs, and by the options."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from twinlog.mirror.offsets.exact_map import ExactMap
from twinlog.ops.verify.model import Kind, Section, Side, UncomparedRange

RETAINED_SOURCE = "the source has deleted its records (retention)"
RETAINED_TARGET = "the target has deleted its records (retention)"
BEFORE_COPYING = "copying began after them"
IN_TRANSACTION = "another producer's open transaction hides their copies from read_committed consumers"
OLDER = "older than all that the source still has, or than any offset that can be translated"
NOT_YET = "after the last position that is stored: not known to be copied yet"
TRUNCATED = "the source ends before their originals: it has lost them, or they are in an open transaction"
COMPACTED_SOURCE = "compaction has removed records of the source"
COMPACTED_TARGET = "compaction has removed records of the target"
DELETED_SOURCE = "the source deleted its records (retention) while it was compared"
DELETED_TARGET = "the target deleted its records (retention) while it was compared"
UNRELATED = "no record further on is the same on both sides"
BEFORE_BEGIN = "after them is the first record that is known to be on both sides"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of a partition: both ends of its logs, the end of the copied offsets, and the end of the copies.

    `copied_up_to` and `copies_end` come from the stored position, None if it lacks them. The comparison leaves out
    offsets before `since` and from `until` on; both are source offsets. With `hidden` the target has more after its end
    than readers see yet.
    """

    source_start: int
    source_end: int
    target_start: int
    target_end: int
    copied_up_to: int | None = None
    copies_end: int | None = None
    since: int | None = None
    until: int | None = None
    hidden: bool = False


def sections_of(known: ExactMap | None, bounds: Bounds) -> tuple[list[Section], list[UncomparedRange]]:
    """Return the sections of a partition in the order of their offsets, and the incomparable ranges.

    A partition that lacks a map is compared by content as a whole.
    """
    source_end = bounds.source_end if bounds.copied_up_to is None else min(bounds.source_end, bounds.copied_up_to)
    target_end = bounds.target_end if bounds.copies_end is None else min(bounds.target_end, bounds.copies_end)
    open_end = bounds.copied_up_to is not None and bounds.copies_end is None
    past = bounds.source_end if bounds.until is None else min(bounds.source_end, bounds.until)
    left = [UncomparedRange("source", max(source_end, bounds.source_start, bounds.since or 0), past, NOT_YET)]
    if known is None:
        raw = [
            Section("copied from", bounds.source_start, source_end, bounds.target_start, target_end, open_end=open_end)
        ]
    else:
        raw, lacks = _by_map(known, bounds, source_end, target_end, open_end)
        left += lacks
    kept: list[Section] = []
    for one in raw:
        found, lacks = _within(one, bounds)
        left += lacks
        if found is not None:
            kept.append(found)
    return kept, _joined(left)


def _by_map(
    known: ExactMap, bounds: Bounds, source_end: int, target_end: int, open_end: bool
) -> tuple[list[Section], list[UncomparedRange]]:
    points = known.points()
    first = points[0]
    found: list[Section] = []
    left: list[UncomparedRange] = []
    if known.complete:
        if bounds.source_start < first.source:
            left.append(UncomparedRange("source", bounds.source_start, first.source, BEFORE_COPYING))
        if bounds.target_start < first.target:
            # Copying began after them: earlier records there belong to another producer.
            found.append(Section("foreign", first.source, first.source, bounds.target_start, first.target))
    elif bounds.source_start < first.source and bounds.target_start < first.target:
        found.append(Section("copied from", bounds.source_start, first.source, bounds.target_start, first.target))
    else:
        if bounds.source_start < first.source:
            left.append(UncomparedRange("source", bounds.source_start, first.source, RETAINED_TARGET))
        if bounds.target_start < first.target:
            left.append(UncomparedRange("target", bounds.target_start, first.target, OLDER))
    part_ends = [*((point.source, point.target) for point in points[1:]), (known.next_source, known.next_target)]
    for point, (past_source, past_target) in zip(points, part_ends, strict=True):
        found += _between(point.source, point.target, past_source, past_target, point.uncertainty)
    end_source, end_target = known.next_source, known.next_target
    if source_end > end_source and target_end > end_target:
        # Another program continued to copy.
        found.append(Section("by content", end_source, source_end, end_target, target_end, open_end=open_end))
    elif source_end > end_source:
        found.append(Section("not copied", end_source, source_end, end_target, end_target))
    elif target_end > end_target and not open_end:
        found.append(Section("foreign", end_source, end_source, end_target, target_end))
    pieces = [piece for one in found for piece in _cut(one, source_end, target_end)]
    if bounds.until is None:
        left += [
            UncomparedRange(
                "target", one.target + max(0, source_end - one.source), min(one.target_end, target_end), TRUNCATED
            )
            for one in found
            if one.kind == "exact" and source_end < min(one.source_end, bounds.copied_up_to or one.source_end)
        ]
    if not bounds.hidden:
        return pieces, left
    left += [
        UncomparedRange("source", one.source, one.source_end, IN_TRANSACTION)
        for one in pieces
        if one.kind == "not copied" and one.target >= target_end
    ]
    return [one for one in pieces if one.kind != "not copied" or one.target < target_end], left


def _between(source: int, target: int, past_source: int, past_target: int, uncertainty: int) -> Iterable[Section]:
    """The sections between two points of a map."""
    if uncertainty:
        yield Section("by content", source, past_source, target, past_target)
        return
    steps = min(past_source - source, past_target - target)
    if steps:
        yield Section("exact", source, source + steps, target, target + steps)
    source, target = source + steps, target + steps
    if past_source > source:
        yield Section("not copied", source, past_source, target, target)
    elif past_target > target:
        yield Section("foreign", source, source, target, past_target)


def _cut(one: Section, source_end: int, target_end: int) -> Iterable[Section]:
    """Cut a section at the ends of both logs: a log that lost its end is shorter than the map."""
    past_source = max(one.source, min(one.source_end, source_end))
    past_target = max(one.target, min(one.target_end, target_end))
    cut = replace(one, source_end=past_source, target_end=past_target)
    if one.kind != "exact":
        yield cut
        return
    steps = min(past_source - one.source, past_target - one.target)
    source, target = one.source + steps, one.target + steps
    if steps:
        yield replace(cut, source_end=source, target_end=target)
    if past_source > source:
        yield Section("not copied", source, past_source, target, target)


def _within(one: Section, bounds: Bounds) -> tuple[Section | None, list[UncomparedRange]]:
    """The part of a section that both logs still have and that was asked for."""
    since = one.source if bounds.since is None else max(one.source, bounds.since)
    until = one.source_end if bounds.until is None else min(one.source_end, bounds.until)
    if one.kind == "exact":
        shift = one.target - one.source
        begin = max(since, bounds.source_start, bounds.target_start - shift)
        left = [
            UncomparedRange("target", since + shift, min(bounds.source_start, until) + shift, RETAINED_SOURCE),
            UncomparedRange("source", since, min(bounds.target_start - shift, until), RETAINED_TARGET),
        ]
        if begin >= until:
            return None, left
        return Section("exact", begin, until, begin + shift, until + shift), left
    target = max(one.target, bounds.target_start)
    if one.kind == "foreign":
        asked = since <= one.source and (bounds.until is None or one.source <= bounds.until)
        return (replace(one, target=target) if asked and target < one.target_end else None), []
    source = max(since, bounds.source_start)
    if one.kind == "not copied":
        return (replace(one, source=source, source_end=until) if source < until else None), []
    asked = bounds.since is not None or bounds.until is not None
    if source >= until and (asked or target >= one.target_end):
        return None, []
    # If a side lacks the begin, the begin on the other side has to be found.
    kind: Kind = "copied from" if source > one.source or target > one.target else one.kind
    return (
        Section(
            kind,
            source,
            max(source, until),
            target,
            max(target, one.target_end),
            open_end := one.open_end or until < one.source_end,
            _retained(bounds, source, target),
            bounds.source_end if open_end else -1,
        ),
        [],
    )


def _retained(bounds: Bounds, source: int, target: int) -> tuple[Side, ...]:
    """The sides whose logs begin at these offsets, and had earlier records."""
    begins: tuple[tuple[Side, int, int], ...] = (
        ("source", source, bounds.source_start),
        ("target", target, bounds.target_start),
    )
    return tuple(side for side, at, start in begins if at == start > 0)


def _joined(left: Sequence[UncomparedRange]) -> list[UncomparedRange]:
    """The same ranges, with empty ranges removed and neighbours joined."""
    found: list[UncomparedRange] = []
    for one in sorted(left, key=lambda part: (part.side, part.reason, part.start)):
        last = found[-1] if found else None
        if one.end <= one.start:
            continue
        if last is not None and (last.side, last.reason) == (one.side, one.reason) and last.end >= one.start:
            found[-1] = UncomparedRange(last.side, last.start, max(last.end, one.end), last.reason)
        else:
            found.append(one)
    return found
