"""The pace and the size of fetches: a short wait for records that come one by one, and bytes for a distant broker.

A fetch, an append and their answers cost as much processor time for one record as for a hundred. Kafka's producers wait
for the same reason, `linger.ms` (KIP-1030).
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from twinlog.clock import LONG_AGO

ROUND_TRIPS = 4
"""An answer that fills its limit in less than so many round trips spent too much time on the way."""

FULL = 0.75
"""The share of its limit from which on an answer counts as full; what does not fit is cut off or left out."""


class FetchSize:
    """The most bytes of one partition in an answer of one broker: `least_bytes`, and more as it pays.

    A fetch is sent after the answer of the one before, which has the next offset. So each fetch costs a round trip in
    which no bytes arrive, and from a distant broker only a large one makes that cheap.
    """

    __slots__ = ("_least_bytes", "bytes")

    def __init__(self, least_bytes: int) -> None:
        self._least_bytes = least_bytes
        self.bytes = least_bytes

    def record_answer(self, received: int, asked: int, elapsed_s: float, round_trip_s: float) -> None:
        """An answer came after `elapsed_s` seconds, with `received` of at most `asked` bytes."""
        if received < FULL * asked:
            return
        if elapsed_s < ROUND_TRIPS * round_trip_s:
            if asked >= self.bytes:
                self.bytes *= 2
        elif elapsed_s > 3 * ROUND_TRIPS * round_trip_s:
            self.bytes = max(self._least_bytes, self.bytes // 2)


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


class FetchPacer:
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
