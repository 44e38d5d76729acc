"""Chooses the ranges of records that an audit compares: the first and the last records of each partition, some between,
and each place at which offset syncs show a missing or doubled record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from twinlog.console.options import SAMPLE_RECORDS
from twinlog.mirror.offsets.sync_history import OffsetPair, SyncHistory
from twinlog.model.amounts import counted
from twinlog.ops.verify.model import PartitionToVerify, Section

BETWEEN = 2
"""The number of ranges between the first and the last."""

MOST_JUMPS = 20
"""The number of suspicious places of a partition to compare, the newest first."""

WHOLE = 4
"""A partition with at most this many ranges is compared as a whole."""


@dataclass(frozen=True, slots=True)
class SampledPartition:
    """The ranges of a partition to compare, and the number of source offsets that stay outside of them.

    `unanchored` is set if offset syncs are missing, so that ranges in the middle of the partition are incomparable.
    """

    ranges: tuple[PartitionToVerify, ...]
    left: int = 0
    unanchored: bool = False


def sampled(part: PartitionToVerify, history: SyncHistory, records: int = SAMPLE_RECORDS) -> SampledPartition:
    """The sample of a partition; the whole partition if it is small. Equal partitions have equal samples."""
    if part.problem is not None or not part.sections or _offsets(part.sections) <= WHOLE * records:
        return SampledPartition((part,))
    found: list[Section] = []
    unanchored = False
    for section in part.sections:
        if section.kind == "exact":
            found += _exact(section, records)
        elif section.kind in ("not copied", "foreign"):
            found.append(_shortened(section, records))
        else:
            anchored = _anchored(section, part, history, records)
            unanchored |= not anchored
            found += anchored
    ranges = tuple(replace(part, sections=(section,), left=()) for section in found)
    compared = sum(section.source_end - section.source for section in found)
    left = sum(section.source_end - section.source for section in part.sections) - compared
    return SampledPartition(ranges, max(0, left), unanchored)


@dataclass(frozen=True, slots=True)
class AuditSample:
    """The ranges of some partitions to compare; `left` source offsets stay outside of them.

    `unanchored` partitions lack offset syncs.
    """

    ranges: tuple[PartitionToVerify, ...]
    partitions: int
    left: int
    unanchored: int

    @property
    def problem(self) -> str | None:
        """The part of the partitions beyond the reach of the sample."""
        if not self.unanchored:
            return None
        return (
            f"{counted(self.unanchored, 'partition')} {'lacks' if self.unanchored == 1 else 'lack'} offset syncs, "
            "so that only their begin can be compared: --full "
            "compares them"
        )


def sample_of(parts: Iterable[PartitionToVerify], history: SyncHistory, records: int, *, full: bool) -> AuditSample:
    """The sample of each partition, or with `full` all of each partition."""
    chosen = [SampledPartition((part,)) if full else sampled(part, history, records) for part in parts]
    return AuditSample(
        tuple(part for one in chosen for part in one.ranges),
        len(chosen),
        sum(one.left for one in chosen),
        sum(one.unanchored for one in chosen),
    )


def _offsets(sections: Iterable[Section]) -> int:
    return sum(section.source_end - section.source for section in sections)


def _exact(section: Section, records: int) -> list[Section]:
    """Ranges of a section whose offsets grow in step."""
    shift = section.target - section.source
    places = _places(section.source, section.source_end, records)
    return [
        replace(section, source=start, source_end=end, target=start + shift, target_end=end + shift)
        for start, end in places
    ]


def _places(start: int, end: int, records: int) -> list[tuple[int, int]]:
    """The first, the last and some ranges between, all apart."""
    if end - start <= (BETWEEN + 2) * records:
        return [(start, end)]
    last = end - records
    step = (last - start) // (BETWEEN + 1)
    begins = [start + number * step for number in range(BETWEEN + 1)]
    return [*((begin, begin + records) for begin in begins), (last, end)]


def _shortened(section: Section, records: int) -> Section:
    """The first records of a section that one side lacks."""
    return replace(
        section,
        source_end=min(section.source_end, section.source + records),
        target_end=min(section.target_end, section.target + records),
    )


def _anchored(section: Section, part: PartitionToVerify, history: SyncHistory, records: int) -> list[Section]:
    """Ranges of a section of another program's copies: each begins and ends at a pair of offsets of the same record."""
    known = [
        one
        for one in history.anchors(part.source)
        if section.source <= one.source < section.source_end and section.target <= one.target < section.target_end
    ]
    if not known:
        return []
    spans: list[tuple[int, int]] = []
    inside = {one: number for number, one in enumerate(known)}
    # The record after a jump is the first that both sides have in common again.
    spans += [
        (inside[jump.before], min(inside[jump.after] + 1, len(known) - 1))
        for jump in history.jumps(part.source)[-MOST_JUMPS:]
        if jump.before in inside and jump.after in inside
    ]
    for start, end in _places(known[0].source, known[-1].source, records)[:-1]:
        first = _at_or_before(known, start)
        spans.append((first, min(_at_or_before(known, end) + 1, len(known) - 1)))
    found = [_between(section, known[first], known[last]) for first, last in _joined(spans) if first < last]
    tail = known[_at_or_before(known, known[-1].source - records)]
    last = found[-1] if found else None
    if last is not None and last.source_end > tail.source:
        # The last of the ranges reaches into the end of the section.
        tail = OffsetPair(last.source, last.target)
        found.pop()
    return [*found, replace(section, kind="by content", source=tail.source, target=tail.target, retained=())]


def _between(section: Section, first: OffsetPair, last: OffsetPair) -> Section:
    """The records from an anchor to below another anchor."""
    return Section("by content", first.source, last.source, first.target, last.target)


def _at_or_before(known: Sequence[OffsetPair], offset: int) -> int:
    found = 0
    for number, one in enumerate(known):
        if one.source > offset:
            break
        found = number
    return found


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return found
