"""Puts off a step that fails to begin for lack of threads; it is retried after a while."""

from __future__ import annotations

import logging

from twinlog.clock import LONG_AGO, SYSTEM, Clock
from twinlog.kafka.retry import FEW_THREADS, RetryPolicy
from twinlog.log_once import AGAIN_S, LogOnce

log = logging.getLogger(__name__)


class RetryDelay:
    """The delay of a flow; a limit of the host or container is temporary, and the process has other flows.

    `what` is logged at `level`, once a minute. The step is tried again by `policy`, None for `FEW_THREADS`.
    """

    def __init__(
        self,
        name: str,
        clock: Clock = SYSTEM,
        *,
        what: str = "cannot be run here yet, trying again",
        level: int = logging.WARNING,
        policy: RetryPolicy | None = None,
    ) -> None:
        self._clock = clock
        self.why: str | None = None
        """The reason of the delay; None without a delay."""
        self._name = name
        self._what = what
        self._level = level
        self._policy = policy
        self._until = LONG_AGO
        self._logged = LogOnce(clock)

    @property
    def is_due(self) -> bool:
        """Whether it is time for a try."""
        return self.why is None or self._clock.monotonic() >= self._until

    def set_failure(self, error: Exception) -> None:
        """Note that a try failed with this error of Python."""
        self.why = f"{self._what}: {error}"
        self._until = self._clock.monotonic() + (self._policy or FEW_THREADS).first_s
        if self._logged.is_new("threads", AGAIN_S):
            log.log(self._level, "%s: %s", self._name, self.why)

    def clear_delay(self) -> None:
        """The step began, or is unneeded now."""
        self.why = None
