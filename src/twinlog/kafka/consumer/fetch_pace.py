"""The pace and the size of fetches: a short wait for single records, and more bytes for a distant broker.

A fetch, an append and their answers cost as much processor time for a single record as for a hundred records. Kafka's
producers wait for the same reason, `linger.ms` (KIP-1030).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from twinlog.clock import LONG_AGO
from twinlog.kafka.record.batch import next_start

ROUND_TRIPS = 4
"""A full answer in less than so many round trips spent too large a part of its time on the way."""

FULL = 0.75
"""The share of its limit from which on an answer counts as full; the broker cuts off or leaves out larger batches."""


class FetchSize:
    """The most bytes of a partition in an answer of a broker.

    The size is at least `least_bytes`, and grows with full answers that spend too much time on the way. A fetch is sent
    after the previous answer, which has the next offset. So the connection is idle for a round trip in each fetch. From
    a distant broker only a large fetch makes the round trip cheap.
    """

    __slots__ = ("_least_bytes", "bytes")

    def __init__(self, least_bytes: int) -> None:
        self._least_bytes = least_bytes
        self.bytes = least_bytes

    def record_answer(self, received: int, asked: int, elapsed_s: float, round_trip_s: float) -> None:
        """Adapt the size to an answer that came after `elapsed_s` seconds, with `received` of at most `asked` bytes."""
        if received < FULL * asked:
            return
        if elapsed_s < ROUND_TRIPS * round_trip_s:
            if asked >= self.bytes:
                self.bytes *= 2
        elif elapsed_s > 3 * ROUND_TRIPS * round_trip_s:
            self.bytes = max(self._least_bytes, self.bytes // 2)


LINGER_SHARE = 0.7
"""The part of `linger.ms` that a reader waits.

Of the least processor time and the least latency, this wait is in between. At 1,000 records/s with `linger.ms=5`, a
copier takes 0.30 s of processor time a second without a wait, 0.17 s with a share of 0.35, and 0.12 s with 0.7. Half of
the records are under way for less than 0.7, 2.0 and 3.1 ms; with a producer that waits for all 5 ms, for 5.5 ms.
"""

MOST_S = 0.02

WINDOW_S = 0.05
"""The shortest time in seconds over which the rate is measured."""

LARGE_BYTES = 32 << 10
"""After an answer of so many bytes the next fetch follows at once: its records share their requests already."""


class Pacer(Protocol):
    """The pauses of the reader of a broker."""

    def pause_s(self, answers: Iterable[memoryview], now: float) -> float:
        """The seconds to wait before the next fetch, after answers that came `now` (monotonic seconds); usually 0."""


class EvenPacer:
    """The same pause after each answer with records of less than `large_bytes`.

    For a reader that may be late: large answers cost the reader and the broker less than many small answers.
    """

    __slots__ = ("_large_bytes", "_pause_s")

    def __init__(self, pause_s: float, large_bytes: int) -> None:
        self._pause_s = pause_s
        self._large_bytes = large_bytes

    def pause_s(self, answers: Iterable[memoryview], now: float) -> float:
        """As `Pacer.pause_s`."""
        return self._pause_s if 0 < sum(map(len, answers)) < self._large_bytes else 0.0


class FetchPacer:
    """The pauses of the reader of a broker, by the latest batches; a large answer has no pause after it."""

    __slots__ = ("_batches", "_pause_s", "_since", "_worth")

    def __init__(self, linger_ms: int) -> None:
        self._pause_s = min(linger_ms / 1000 * LINGER_SHARE, MOST_S)
        self._batches = 0
        self._since = LONG_AGO
        self._worth = False

    def pause_s(self, answers: Iterable[memoryview], now: float) -> float:
        """As `Pacer.pause_s`.

        The reader waits if another batch is expected during the pause.
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
    """The number of batches in `records`; the fetch may have cut off the last batch."""
    count, at = 0, 0
    while (at := next_start(records, at)) >= 0:
        count += 1
    return count
