"""How far one partition is read ahead of what the target takes, and for how long it is not read after its memory was
freed."""

from __future__ import annotations

BACKOFF_S = (2.0, 32.0)
"""For how long a partition is not read after its memory was freed, at first and at most."""


class ReadAhead:
    """`held_back` is True while the partition is not read because too much of it waits, or it backs off."""

    __slots__ = ("_backoffs", "_limit_bytes", "_until", "held_back")

    def __init__(self) -> None:
        self.held_back = False
        self._limit_bytes = 0
        self._until = 0.0
        self._backoffs = 0

    def is_full(self, queued_bytes: int, limit_bytes: int, now: float) -> bool:
        """Whether to wait, with so much queued and room for so much (`now` in monotonic seconds)."""
        self._limit_bytes = limit_bytes
        self.held_back = queued_bytes >= limit_bytes or now < self._until
        return self.held_back

    def release(self) -> None:
        """It is not read for another reason."""
        self.held_back = False

    def back_off(self, now: float) -> None:
        """What waited was dropped at `now` (monotonic seconds), to free memory.

        It is read again once the target acknowledged something, or after a while that doubles each time, for as long as
        the target takes nothing of it.
        """
        first_s, most_s = BACKOFF_S
        self._until = now + min(first_s * 2**self._backoffs, most_s)
        self._backoffs += 1

    def reset(self) -> None:
        """It is read from another offset now."""
        self._until = 0.0

    def acknowledged(self, queued_bytes: int) -> bool:
        """The target took something, and so much is left; whether reading may go on that was held back."""
        self._until, self._backoffs = 0.0, 0
        if self.held_back and queued_bytes < self._limit_bytes:
            self.held_back = False
            return True
        return False
