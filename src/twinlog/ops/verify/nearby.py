"""Tells apart a second copy of a record, which the source has nearby, and a record of somebody else."""

from __future__ import annotations

from twinlog.arrow.bodies import Bodies
from twinlog.ops.verify.alignment import Logs, keys, window

NEAR_OFFSETS = 1_000
"""So far away a record is looked for that the target may have twice."""

_AT_ONCE = 4 * NEAR_OFFSETS
"""Offsets that are read at once: where one record is of somebody else, others often follow."""


class Nearby:
    """The source of one partition, of which offsets from `start` to below `end` are compared."""

    def __init__(self, logs: Logs, start: int, end: int) -> None:
        self._logs = logs
        self._start = start
        self._end = end
        self._rows: Bodies | None = None
        self._read = 0, 0

    def having(self, theirs: Bodies, source_offset: int) -> int:
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
