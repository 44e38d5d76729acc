"""How many bytes to fetch from a broker at a time, so that the round trip does not limit the throughput."""

from __future__ import annotations

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

    def answered(self, received: int, asked: int, elapsed_s: float, round_trip_s: float) -> None:
        """An answer came after `elapsed_s` seconds, with `received` of at most `asked` bytes."""
        if received < FULL * asked:
            return
        if elapsed_s < ROUND_TRIPS * round_trip_s:
            if asked >= self.bytes:
                self.bytes *= 2
        elif elapsed_s > 3 * ROUND_TRIPS * round_trip_s:
            self.bytes = max(self._least_bytes, self.bytes // 2)
