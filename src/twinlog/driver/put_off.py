"""A flow that cannot be taken at the moment, because there may be no more threads: it is tried again after a while."""

from __future__ import annotations

import logging

from twinlog.clock import SYSTEM, Clock
from twinlog.log_once import AGAIN_S, LogOnce

log = logging.getLogger(__name__)

PUT_OFF_S = 2.0


class PutOff:
    """Of the flow with this name; a limit of the host or of the container passes, and the process has other flows."""

    def __init__(self, name: str, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self.why: str | None = None
        """What keeps the flow from being run here; None when nothing does."""
        self._name = name
        self._until = 0.0
        self._logged = LogOnce(clock)

    @property
    def is_due(self) -> bool:
        """Whether to try now."""
        return self.why is None or self._clock.monotonic() >= self._until

    def because(self, error: RuntimeError) -> None:
        """It was tried, and Python said this of a thread."""
        self.why = f"cannot be run here yet, trying again: {error}"
        self._until = self._clock.monotonic() + PUT_OFF_S
        if self._logged.is_new("threads", AGAIN_S):
            log.warning("%s: %s", self._name, self.why)

    def over(self) -> None:
        """The flow runs here."""
        self.why = None
