"""How much to ask a broker for at a time, so that the way there and back does not decide how fast records come."""

from __future__ import annotations

ROUND_TRIPS = 4
"""An answer that fills its limit in less time than so many round trips spent too much of it on the way."""

FULL = 0.75
"""The share of its limit from which on an answer counts as full; what does not fit is cut off or left out."""


class FetchSize:
    """The most bytes of one partition in an answer of one broker: `least_bytes`, and more as it pays.

    A fetch is asked for after the one before it came, for only then it is known where to go on. So each costs a round
    trip in which nothing comes, and from afar only a large one makes that cheap.
    """

    __slots__ = ("_least_bytes", "bytes")

    def __init__(self, least_bytes: int) -> None:
        self._least_bytes = least_bytes
        self.bytes = least_bytes

    def answered(self, received: int, asked: int, elapsed_s: float, round_trip_s: float) -> None:
        """An answer had `received` bytes of the `asked` ones that it might have had, after `elapsed_s` seconds."""
        if received < FULL * asked:
            return
        if elapsed_s < ROUND_TRIPS * round_trip_s:
            if asked >= self.bytes:
                self.bytes *= 2
        elif elapsed_s > 3 * ROUND_TRIPS * round_trip_s:
            self.bytes = max(self._least_bytes, self.bytes // 2)
