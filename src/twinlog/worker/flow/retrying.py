"""Repeats a step of a flow until it succeeds, for any duration of an outage of its clusters."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from twinlog.clock import SYSTEM, Clock
from twinlog.errors import TwinlogError
from twinlog.kafka.retry import FLOW_STEP, retry_until_stopped
from twinlog.log_once import AGAIN_S, LogOnce
from twinlog.worker.status.flow_status import FlowStatus
from twinlog.worker.status.outage import OutageDetector

log = logging.getLogger(__name__)

LOG_AFTER_S = 2.0


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

    def __call__(self, step: Callable[[], None], what: str) -> bool:
        """Repeat a step until it succeeds; False if the flow was stopped meanwhile. Raises RefusedError."""
        logged = LogOnce(self._clock)
        began = self._clock.monotonic()

        def failed(error: TwinlogError) -> None:
            lasts = self._clock.monotonic() - began > LOG_AFTER_S
            if self._waiting.outage is None and lasts and logged.is_new(what, AGAIN_S):
                log.warning("%s: cannot %s yet, trying again: %s", self._name, what, error)
            self._flow_status.set_job_trouble(what, str(error))

        if not retry_until_stopped(self._clock, FLOW_STEP, step, self._stopping, failed=failed):
            return False
        self._flow_status.set_job_trouble(what, None)
        return True
