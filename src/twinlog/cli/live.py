"""The lines of `twinlog run` on an output that is a file or a pipe, written every ten seconds; and figures in words."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from twinlog.clock import LONG_AGO, SYSTEM
from twinlog.errors.message_ids import split_id
from twinlog.model.amounts import counted

if TYPE_CHECKING:
    from twinlog.worker.elected_flow import ElectedFlow
    from twinlog.worker.runner import Runner
    from twinlog.worker.status.flow_status import Summary

log = logging.getLogger("twinlog")

LINE_EVERY_S = 10.0
SAME_EVERY_S = 60.0


class LogLines:
    """A log line per flow every ten seconds, every minute while the figures stay the same, and a last line at the
    end."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._ended = threading.Event()
        self._logged: dict[str, tuple[object, float]] = {}
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        for flow in self._runner.flows:
            log.info("%s", _line(flow))

    def _run(self) -> None:
        logged_url = False
        while not SYSTEM.wait(self._ended, LINE_EVERY_S):
            if self._runner.web_url and not logged_url:
                log.info("Spark's pages: %s", self._runner.web_url)
                logged_url = True
            for flow in self._runner.flows:
                if flow.status[0] != "stopped" and self._is_news(flow):
                    log.info("%s", _line(flow))

    def _is_news(self, flow: ElectedFlow) -> bool:
        """Whether a line would differ from the last, or the last is long ago."""
        seen = flow.flow_status.summary()
        word, detail = flow.status
        figures = (seen.partitions, seen.records, seen.lag, seen.unknown)
        # While a flow waits, only its lag grows.
        state = word if word == "waiting" else (word, detail, *figures)
        before, at = self._logged.get(flow.settings.name, (None, LONG_AGO))
        now = SYSTEM.monotonic()
        if state == before and now - at < SAME_EVERY_S:
            return False
        self._logged[flow.settings.name] = state, now
        return True


def lag(seen: Summary) -> str:
    """The lag with its age, because it grows while reports are late."""
    if seen.lag < 0:
        return "unknown"
    more = f", {counted(seen.unknown, 'partition')} unknown" if seen.unknown else ""
    return f"{seen.lag} ({seen.lag_age_s:.0f} s ago{more})"


def eta(seen: Summary) -> str:
    """When the lag will be gone, in words."""
    if seen.eta_s is None or seen.unknown:
        return "?"
    if seen.eta_s < 1:
        return "now" if seen.lag == 0 else "1 s"
    seconds = int(seen.eta_s)
    if seconds < 120:
        return f"{seconds} s"
    minutes = seconds // 60
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def _line(flow: ElectedFlow) -> str:
    state, detail = flow.status
    name = flow.settings.name
    if flow.absent:
        return f"{name}: {state}"
    seen = flow.flow_status.summary()
    copied = f"{counted(seen.partitions, 'partition')}, {counted(seen.records, 'record')} copied"
    if state == "idle":
        return f"{name}: {state}: {detail}, {copied}"
    if state == "failed":
        # The line of the failure has the reason.
        return f"{name}: {state} ({split_id(detail or '')[1] or 'TW-FLOW-01'}), {copied}"
    if state != "running":
        # The reason of a state other than running comes first.
        why = f": {detail}" if detail else ""
        return f"{name}: {state}{why}, {copied}, lag {lag(seen)}"
    rates = f"{seen.record_rate:.0f} records/s, {seen.byte_rate / 1e6:.1f} MB/s"
    trouble = f", trouble: {detail}" if detail else ""
    return f"{name}: {state}, {copied}, {rates}, lag {lag(seen)}, ETA {eta(seen)}{trouble}"
