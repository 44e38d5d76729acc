"""Repeats failing steps of a flow: a step during an outage of its clusters, and a start for lack of threads."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from twinlog.clock import LONG_AGO, SYSTEM, Clock
from twinlog.errors import TwinlogError
from twinlog.errors.message_ids import id_of, with_id
from twinlog.kafka.retry import FEW_THREADS, FLOW_STEP, RetryPolicy, retry_until_stopped
from twinlog.process.log_once import AGAIN_S, LogOnce
from twinlog.worker.status.flow_status import FlowStatus
from twinlog.worker.status.outage import OutageDetector

log = logging.getLogger(__name__)


LOG_AFTER_S = 2.0


class RetryDelay:
    """The delay of a flow; a limit of the host or container is temporary, and the process has other flows.

    `what` is logged at `level` with the id `message_id`, once a minute. The step is tried again by `policy`, None for
    `FEW_THREADS`.
    """

    def __init__(
        self,
        name: str,
        clock: Clock = SYSTEM,
        *,
        what: str = "cannot be run here yet, trying again",
        level: int = logging.WARNING,
        policy: RetryPolicy | None = None,
        message_id: str = "TW-LEADER-06",
    ) -> None:
        self._clock = clock
        self.why: str | None = None
        """The reason of the present delay, if any."""
        self._name = name
        self._what = what
        self._level = level
        self._policy = policy
        self._message_id = message_id
        self._until = LONG_AGO
        self._logged = LogOnce(clock)

    @property
    def is_due(self) -> bool:
        """Whether it is time for a try."""
        return self.why is None or self._clock.monotonic() >= self._until

    def set_failure(self, error: Exception) -> None:
        """Note that a try failed with this error of Python."""
        self.why = f"{self._message_id}: {self._what}: {error}"
        self._until = self._clock.monotonic() + (self._policy or FEW_THREADS).first_s
        if self._logged.is_new("threads", AGAIN_S):
            log.log(self._level, "%s", with_id(f"{self._name}: {self.why}", self._message_id))

    def clear_delay(self) -> None:
        """The step began, or is unneeded now."""
        self.why = None


@dataclass(frozen=True, slots=True)
class _FailingStep:
    """A step that fails: the time of its first try, and its log lines."""

    began: float
    logged: LogOnce


class FlowRetrier:
    """Repeats steps of the flow `name`, until `stopping` is set.

    The flow status shows the failing step; the log does, too, unless an outage explains it.
    """

    def __init__(
        self, name: str, status: FlowStatus, waiting: OutageDetector, stopping: threading.Event, clock: Clock = SYSTEM
    ) -> None:
        self._clock = clock
        self._name = name
        self._flow_status = status
        self._waiting = waiting
        self._stopping = stopping
        self._failing: dict[str, _FailingStep] = {}
        """The steps of `try_step` that fail at present."""

    def __call__(self, step: Callable[[], None], what: str) -> bool:
        """Repeat a step until it succeeds; False if the flow was stopped meanwhile. Raises RefusedError."""
        failing = self._begin_step()

        def failed(error: TwinlogError) -> None:
            self._note(what, failing, error)

        if not retry_until_stopped(self._clock, FLOW_STEP, step, self._stopping, failed=failed):
            return False
        self._flow_status.set_job_trouble(what, None)
        return True

    def try_step(self, step: Callable[[], None], what: str) -> bool:
        """Try a step once; False if it failed, and shall be tried again after a pause of `FLOW_STEP`.

        For the flow's thread, when it has other work during an outage. Raises RefusedError.
        """
        failing = self._failing.setdefault(what, self._begin_step())
        try:
            step()
        except TwinlogError as error:
            if not error.retriable:
                raise
            self._note(what, failing, error)
            return False
        del self._failing[what]
        self._flow_status.set_job_trouble(what, None)
        return True

    def _begin_step(self) -> _FailingStep:
        return _FailingStep(self._clock.monotonic(), LogOnce(self._clock))

    def _note(self, what: str, failing: _FailingStep, error: TwinlogError) -> None:
        lasts = self._clock.monotonic() - failing.began > LOG_AFTER_S
        if self._waiting.outage is None and lasts and failing.logged.is_new(what, AGAIN_S):
            log.warning("%s: %s: cannot %s yet, trying again: %s", id_of(error, "TW-NET-14"), self._name, what, error)
        self._flow_status.set_job_trouble(what, str(error))
