"""How far one partition is read ahead of what the target takes, and for how long it is not read after its memory was
freed."""

from __future__ import annotations

from twinlog.clock import LONG_AGO

BACKOFF_S = (2.0, 32.0)
"""For how long a partition is not read after its memory was freed, at first and at most."""

TRIAL_RECORDS = 1 << 16
"""A trial ends with so many records."""


class ReadAhead:
    """`held_back` is True while the partition is not read because too much of it waits, or it backs off.

    On trial nothing is read ahead: a record, and twice as many each time that the target has taken all that was read.
    A record that the target refuses again has then no records behind it that a transform has routed elsewhere.
    """

    __slots__ = ("_backoffs", "_limit_bytes", "_trial", "_until", "held_back")

    def __init__(self, *, on_trial: bool = False) -> None:
        self.held_back = False
        self._trial = 1 if on_trial else 0
        self._limit_bytes = 0
        self._until = LONG_AGO
        self._backoffs = 0

    def is_full(self, queued_bytes: int, limit_bytes: int, now: float) -> bool:
        """Whether to wait, with so much queued and room for so much (`now` in monotonic seconds)."""
        self._limit_bytes = limit_bytes
        self.held_back = queued_bytes >= limit_bytes or now < self._until or bool(self._trial and queued_bytes)
        return self.held_back

    def next_records(self) -> int | None:
        """How many records to take of what was read; None for all of them."""
        now = self._trial
        self._trial = now * 2 if now < TRIAL_RECORDS else 0
        return now or None

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
        self._until = LONG_AGO

    def acknowledged(self, queued_bytes: int) -> bool:
        """The target took something, and so much is left; whether reading may go on that was held back."""
        self._until, self._backoffs = LONG_AGO, 0
        if self.held_back and queued_bytes < self._limit_bytes and not (self._trial and queued_bytes):
            self.held_back = False
            return True
        return False
