"""Finds by content the next records that two logs have in common, and their first common records: for copies outside
every exact map."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product

from twinlog.batches.arrow.bodies import Bodies, join
from twinlog.batches.arrow.placed import NO_TIMESTAMP
from twinlog.kafka.protocol.offsets import EARLIEST
from twinlog.kafka.record.records import decode_body
from twinlog.ops.verify.log_reader import PartitionLogs
from twinlog.ops.verify.model import Section, Side

NEAR_OFFSETS = 1_000
"""The distance in offsets within which a second copy of a record is searched."""

_AT_ONCE = 4 * NEAR_OFFSETS
"""Offsets that are read together: a foreign record is often followed by further foreign records."""


class NearbyRecords:
    """The source of a partition, with compared offsets from `start` to below `end`."""

    def __init__(self, logs: PartitionLogs, start: int, end: int) -> None:
        self._logs = logs
        self._start = start
        self._end = end
        self._rows: Bodies | None = None
        self._read = 0, 0

    def count_known(self, theirs: Bodies, source_offset: int) -> int:
        """How many of these records of the target the source has shortly before, or after, an offset."""
        first = max(self._start, source_offset - NEAR_OFFSETS)
        past = min(self._end, source_offset + NEAR_OFFSETS)
        if self._rows is None or first < self._read[0] or past > self._read[1]:
            read_to = min(self._end, first + _AT_ONCE)
            self._rows, ends = window(self._logs, "source", first, read_to, _AT_ONCE)
            behind = read_to if ends or not len(self._rows) else int(self._rows.offsets[-1]) + 1
            self._read = first, max(behind, first)
        known, found = keys(self._rows.from_offset(first, past), theirs)
        having = set(known)
        return sum(one in having for one in found)


WINDOWS = (64, 1_024, 16_384)
"""The numbers of records of each side to search, in turn, until common records are found."""

MOST_BYTES = 16 << 20
"""A window ends with this number of bytes of a side."""

ALIKE = 3
"""The number of records in a row that must be equal; a single record may be in the log more than once."""

SAME_CANDIDATES = 64

Key = tuple[int, bytes]


@dataclass(slots=True)
class AlignmentGap:
    """Unmatched records of both sides, and the offsets after them, from which both sides are equal again.

    `to_end` is set when the rest lacks a common record, up to the end of a side or of both.
    """

    ours: Bodies
    theirs: Bodies
    source_next: int
    target_next: int
    to_end: bool = False

    def explained(self, *, source_compacted: bool, target_compacted: bool) -> bool:
        """Whether compaction alone may have made the gap: then each record of the gap is on a single side only."""
        if (len(self.ours) and not target_compacted) or (len(self.theirs) and not source_compacted):
            return False
        # Compaction only removes records.
        ours, theirs = Counter(self.ours.timestamps.tolist()), Counter(self.theirs.timestamps.tolist())
        return not ours & theirs


def find_at_hand(ours: Bodies, theirs: Bodies, alike: int) -> AlignmentGap | None:
    """As `find_next_common`, but only among the records already read: a topic may have many foreign records, or many
    holes of compaction."""
    most = WINDOWS[0] if alike > 1 else WINDOWS[1]
    mine, copies = ours.part(0, min(len(ours), most)), theirs.part(0, min(len(theirs), most))
    found = _first_common(*keys(mine, copies), alike)
    if found is None or found[0] + alike > len(mine) or found[1] + alike > len(copies):
        return None
    i, j = found
    return AlignmentGap(mine.part(0, i), copies.part(0, j), int(mine.offsets[i]), int(copies.offsets[j]))


def find_next_common(
    logs: PartitionLogs, ours: tuple[int, int], theirs: tuple[int, int], *, alike: int = ALIKE
) -> AlignmentGap | None:
    """Return the gap before the next common records of two logs; None when the windows differ wholly.

    Each log is searched from its first offset to its second.
    """
    for most in WINDOWS:
        mine, mine_ends = window(logs, "source", *ours, most)
        copies, copies_end = window(logs, "target", *theirs, most)
        a, b = keys(mine, copies)
        found = _first_common(a, b, alike)
        if found is not None:
            i, j = found
            return AlignmentGap(mine.part(0, i), copies.part(0, j), int(mine.offsets[i]), int(copies.offsets[j]))
        if mine_ends and copies_end:
            return AlignmentGap(mine, copies, ours[1], theirs[1], to_end=True)
    if mine_ends and not len(mine):
        return AlignmentGap(mine, copies, ours[1], int(copies.offsets[-1]) + 1, to_end=True)
    if copies_end and not len(copies):
        return AlignmentGap(mine, copies, int(mine.offsets[-1]) + 1, theirs[1], to_end=True)
    return None


def find_begin(
    logs: PartitionLogs, section: Section, syncs: Sequence[tuple[int, int]], alike: int = ALIKE
) -> tuple[int, int] | None:
    """Return the offsets of the first records of a section that both sides have; None when the search fails."""
    source, target = section.source, section.target
    tried: set[tuple[int, int]] = set()

    def first_alike(begins: Iterable[tuple[int, int]]) -> tuple[int, int] | None:
        for begin in begins:
            inside = source <= begin[0] < section.source_end and target <= begin[1] < section.target_end
            if inside and begin not in tried and _alike(logs, section, *begin, alike):
                return begin
            tried.add(begin)
        return None

    # Usually source and target offsets grow in step around a sync, and also in logs that lack a sync. In a compacted
    # log, a sync in the middle leaves the first copies open.
    known = sorted(syncs) if alike == ALIKE else []
    back = [(one, min(one[0] - source, one[1] - target)) for one in ((source, target), (0, 0), *known)]
    return (
        first_alike((upstream - steps, downstream - steps) for (upstream, downstream), steps in back)
        # Last come the syncs themselves, which may be far after the first records: a single wrong record there would
        # otherwise decide.
        or _by_timestamp(logs, section, alike)
        or first_alike(known)
    )


def before_changes(logs: PartitionLogs, begin: tuple[int, int], section: Section, *, by_key: bool) -> tuple[int, int]:
    """Return the begin of wrong copies right before `begin`: there both sides have records with equal timestamps.

    `by_key`: both sides are compacted, and each may lack another record with the same timestamp.
    """
    for most in (WINDOWS[1], WINDOWS[0], ALIKE):
        mine, mine_end = window(logs, "source", max(section.source, begin[0] - most), begin[0], most + 1)
        copies, copies_end = window(logs, "target", max(section.target, begin[1] - most), begin[1], most + 1)
        if mine_end and copies_end:
            break
    else:
        return begin
    found = begin
    for i, j in zip(reversed(range(len(mine))), reversed(range(len(copies))), strict=False):
        time = int(mine.timestamps[i])
        if time == NO_TIMESTAMP or not copies.timed[j] or time != int(copies.timestamps[j]):
            break
        if by_key and _key(mine, i) != _key(copies, j):
            break
        found = int(mine.offsets[i]), int(copies.offsets[j])
    return found


def copied_up_to(logs: PartitionLogs, section: Section, source: int, target: int) -> bool:
    """Whether a section begins in the middle of copied records, and both sides match after its begin.

    Then the target records right before it are copies of source records before the section.

    The source records in between lack copies.
    """
    if source <= section.source or target <= section.target or "source" in section.retained:
        return False
    first = logs.at_timestamp("source", EARLIEST)
    if not 0 <= first < section.source:
        return False
    mine, _ = window(logs, "source", max(first, section.source - WINDOWS[1]), section.source, WINDOWS[1])
    copies, _ = window(logs, "target", max(section.target, target - WINDOWS[0]), target, WINDOWS[0])
    a, b = keys(mine, copies)
    last = b[-ALIKE:]
    return bool(last) and any(a[end - len(last) : end] == last for end in range(len(last), len(a) + 1))


def _key(rows: Bodies, place: int) -> bytes | None:
    try:
        return decode_body(int(rows.offsets[place]), int(rows.timestamps[place]), rows.body(place)).key
    except IndexError:
        return None


def find_far(logs: PartitionLogs, section: Section, source: int, target: int) -> tuple[int, int] | None:
    """Return the offsets from which two compacted logs match again, each searched from an offset on, over any number of
    unmatched records."""
    mine, _ = window(logs, "source", source, section.source_end, ALIKE + 1)
    copies, _ = window(logs, "target", target, section.target_end, ALIKE + 1)
    # The other side may lack the first records.
    for ours, theirs in ((mine.offsets, copies.offsets[:1]), (mine.offsets[:1], copies.offsets[1:])):
        for begin in product(ours.tolist(), theirs.tolist()):
            found = _by_timestamp(logs, replace(section, source=begin[0], target=begin[1]), 1)
            if found is not None:
                return found
    return None


def begins_after(logs: PartitionLogs, section: Section, syncs: Sequence[tuple[int, int]]) -> bool:
    """Whether the first record of the target is a copy of a record after an open section."""
    behind = replace(section, source=section.source_end, source_end=section.source_past)
    if not section.open_end or behind.source >= behind.source_end:
        return False
    found = find_begin(logs, behind, syncs)
    if found is None:
        return False
    copies, _ = window(logs, "target", behind.target, behind.target_end, 1)
    return bool(len(copies)) and found[1] <= int(copies.offsets[0])


def _by_timestamp(logs: PartitionLogs, section: Section, alike: int) -> tuple[int, int] | None:
    """Search the first record of a side on the other side, among the records with its timestamp."""
    mine, _ = window(logs, "source", section.source, section.source_end, WINDOWS[0])
    copies, _ = window(logs, "target", section.target, section.target_end, WINDOWS[0])
    if not len(mine) or not len(copies):
        return None
    there = logs.at_timestamp("target", int(mine.timestamps.min()))
    if there >= 0:
        found, _ = window(logs, "target", max(there, section.target), section.target_end, WINDOWS[-1])
        common = _first_common(*keys(mine, found), alike)
        if common is not None:
            return int(mine.offsets[common[0]]), int(found.offsets[common[1]])
    # Timestamps that the target's brokers set are useless for this search.
    here = logs.at_timestamp("source", int(copies.timestamps.min())) if copies.timed.all() else section.source
    if here >= 0:
        found, _ = window(logs, "source", max(here, section.source), section.source_end, WINDOWS[-1])
        common = _first_common(*keys(found, copies), alike)
        if common is not None:
            return int(found.offsets[common[0]]), int(copies.offsets[common[1]])
    return None


def _alike(logs: PartitionLogs, section: Section, source: int, target: int, alike: int) -> bool:
    mine, _ = window(logs, "source", source, section.source_end, 2 * ALIKE)
    copies, _ = window(logs, "target", target, section.target_end, 2 * ALIKE)
    a, b = keys(mine, copies)
    count = min(len(a), len(b), alike)
    return bool(count) and a[:count] == b[:count]


def window(logs: PartitionLogs, side: Side, start: int, end: int, most: int) -> tuple[Bodies, bool]:
    """The next records of a log, and whether the log ends with them."""
    if start >= end:
        return join([]), True
    log = logs.open(side, start, end)
    found: list[Bodies] = []
    count = size = 0
    while count < most and size < MOST_BYTES:
        rows, past = log.rows(end)
        if rows is None:
            return join(found), True
        found.append(rows.part(0, most - count))
        count += len(found[-1])
        size += found[-1].size
        log.discard_before(past)
    return join(found), False


def keys(ours: Bodies, theirs: Bodies) -> tuple[list[Key], list[Key]]:
    """The keys by which records of both sides count as equal; they include timestamps only if timestamps can be
    compared."""
    a, b = ours.cells.to_pylist(), theirs.cells.to_pylist()
    if not theirs.timed.all() or (ours.timestamps == NO_TIMESTAMP).any():
        return [(0, one) for one in a], [(0, one) for one in b]
    return (
        list(zip(ours.timestamps.tolist(), a, strict=True)),
        list(zip(theirs.timestamps.tolist(), b, strict=True)),
    )


def _first_common(a: Sequence[Key], b: Sequence[Key], alike: int) -> tuple[int, int] | None:
    """The places in both from which on they are the same, with as little as possible before them."""
    places: dict[Key, list[int]] = {}
    for j, key in enumerate(b):
        at = places.setdefault(key, [])
        if len(at) < SAME_CANDIDATES:
            at.append(j)
    best: tuple[int, int] | None = None
    for i, key in enumerate(a):
        if best is not None and i >= sum(best):
            break
        for j in places.get(key, ()):
            if best is not None and i + j >= sum(best):
                break
            count = min(alike, len(a) - i, len(b) - j)
            if a[i : i + count] == b[j : j + count]:
                best = i, j
    return best
