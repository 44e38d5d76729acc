"""Logs the failures of the flows of a process; a reason that several flows share is in the log once.

Each flow connects by itself, so all flows of a cluster fail with the same sentence, for example about a refused login.
"""

from __future__ import annotations

import logging
import threading

from twinlog.clock import LONG_AGO, SYSTEM, Clock
from twinlog.errors.message_ids import split_id, with_id
from twinlog.process.log_once import AGAIN_S
from twinlog.worker.placement.processes import FlowName

log = logging.getLogger(__name__)


class FailureLog:
    """The reasons that were logged within the last minute, each with its first flow. For any thread."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._logged: dict[str, tuple[FlowName, float]] = {}

    def log_failure(self, flow: FlowName, reason: str) -> None:
        """Log that a flow has failed."""
        self._log(flow, "FAILED", reason, "TW-FLOW-01")

    def log_refusal(self, flow: FlowName, reason: str) -> None:
        """Log that a cluster refuses a flow, which tries again."""
        self._log(flow, "refused, trying again", reason, "TW-LEADER-13")

    def _log(self, flow: FlowName, event: str, reason: str, default: str) -> None:
        text, message_id = split_id(with_id(reason, default))
        first = self._first_flow(flow, text)
        line = f"{flow}: {event}: {text}" if first is None else f"{flow}: {event}, for the same reason as {first}"
        log.error("%s", with_id(line, message_id or default))

    def _first_flow(self, flow: FlowName, text: str) -> FlowName | None:
        """The other flow whose line has the reason; None if the line of `flow` is to have it."""
        now = self._clock.monotonic()
        with self._lock:
            first, at = self._logged.get(text, (flow, LONG_AGO))
            if first != flow and now - at < AGAIN_S:
                return first
            self._logged = {known: entry for known, entry in self._logged.items() if now - entry[1] < AGAIN_S}
            self._logged[text] = flow, now
            return None
