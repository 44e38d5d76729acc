"""Has a reader wait for a moment where records come one by one so fast that each would cost requests of its own.

A fetch, an append and their answers cost as much processor time for one record as for a hundred. Kafka's producers wait
for the same reason, `linger.ms` (KIP-1030).
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from twinlog.clock import LONG_AGO

LINGER_SHARE = 0.35
"""What part of `linger.ms` a reader waits: a record is to be on its way for half as long as with a producer that waits
for all of it."""

MOST_S = 0.02

WINDOW_S = 0.05
"""The rate is measured over so many seconds at least."""

LARGE_BYTES = 32 << 10
"""After an answer of so many bytes there is no pause: its records share their requests already."""

_LENGTH = Struct(">i")
_LENGTH_AT = 8
_OVERHEAD = 12


class Pace:
    """The pauses of the reader of one broker, by the batches that came lately."""

    __slots__ = ("_batches", "_pause_s", "_since", "_worth")

    def __init__(self, linger_ms: int) -> None:
        self._pause_s = min(linger_ms / 1000 * LINGER_SHARE, MOST_S)
        self._batches = 0
        self._since = LONG_AGO
        self._worth = False

    def pause_s(self, answers: Iterable[memoryview], now: float) -> float:
        """How long to wait before the next fetch, after answers that came `now` (monotonic seconds); as a rule 0.

        It is worth it where another batch is expected meanwhile.
        """
        if not self._pause_s:
            return 0.0
        size = 0
        for records in answers:
            size += len(records)
            if size >= LARGE_BYTES:
                self._batches, self._since, self._worth = 0, now, False
                return 0.0
            self._batches += count_batches(records)
        elapsed = now - self._since
        if elapsed >= WINDOW_S:
            self._worth = self._batches * self._pause_s >= elapsed
            self._batches, self._since = 0, now
        return self._pause_s if self._worth and size else 0.0


def count_batches(records: memoryview) -> int:
    """How many batches there are; the last one may be cut off."""
    count, at, size = 0, 0, len(records)
    while at + _OVERHEAD <= size:
        (length,) = _LENGTH.unpack_from(records, at + _LENGTH_AT)
        if length <= 0:
            break
        at += length + _OVERHEAD
        count += 1
    return count
