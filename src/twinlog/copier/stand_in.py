"""Answers the driver for a copier that a transform keeps busy, from a thread of its own, and reports what lasts.

The driver takes a copier that is silent for seconds for dead, and gives its partitions to another one, which the same
record would silence.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from twinlog.lease.channel import BEAT_S
from twinlog.lease.messages import Beat, Event, FromCopier
from twinlog.model.call import Call, Loading

REPORTED_S = 10.0
"""A call that lasts so long is reported, and again whenever it has lasted twice as long."""


class StandIn:
    """`call()` is the call that goes on, if any, and `send` reaches the driver; both may be used from any thread."""

    def __init__(
        self, call: Callable[[], Call | Loading | None], send: Callable[[FromCopier], None], now: Callable[[], float]
    ) -> None:
        self._call = call
        self._send = send
        self._now = now
        self._reported: Call | Loading | None = None
        self._report_at_s = REPORTED_S

    def run(self, over: threading.Event) -> None:
        """Until it is `over`."""
        while not over.wait(BEAT_S):
            self.look()

    def look(self) -> None:
        """Beat where the copier does not."""
        call, now = self._call(), self._now()
        if call is None or now - call.since < BEAT_S:
            return
        self._send(Beat(now))
        if call is not self._reported:
            self._reported, self._report_at_s = call, REPORTED_S
        lasted = now - call.since
        if lasted >= self._report_at_s:
            self._report_at_s = 2 * lasted
            self._send(Event("transform", f"{call.shown(lasted)}; this task copies nothing meanwhile"))
