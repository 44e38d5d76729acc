"""What a flow does again and again on the driver: heartbeats, checkpoints, settings and rights of remote topics.

MirrorMaker 2 has one thread for all of a connector's periodic work, so that a slow job holds up the others, and drops
a failed one until its next turn. Here each job has its own thread and is tried again soon.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from twinlog.errors import RefusedError, TwinlogError

log = logging.getLogger(__name__)

RETRY_S = (0.5, 30.0)
"""First and longest wait after a failure; it doubles in between."""

REFUSED_S = 10.0
"""The wait after a refusal: a permission may be granted while the flow runs."""

SAY_AGAIN_S = 60.0


class Job:
    """One job: `step` runs at once and then every `interval_s` seconds, in a thread of its own.

    `what` completes "cannot ..." in messages, `way_out` says what the operator may do. A step that takes long is
    followed by a rest as long, so that a job never takes more than half of its thread's time.
    """

    def __init__(
        self,
        flow: str,
        what: str,
        step: Callable[[], None],
        interval_s: float,
        *,
        way_out: str = "",
        note: Callable[[str, str | None], None] = lambda what, trouble: None,
    ) -> None:
        self.what = what
        self.trouble: str | None = None
        """Why the last turn failed; None when it did not."""
        self._flow = flow
        self._step = step
        self._interval_s = interval_s
        self._way_out = way_out
        self._note = note
        self._said: dict[str, float] = {}
        self._wait_s = RETRY_S[0]
        self._stopping = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"{flow}: {what}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def hurry(self) -> None:
        """Take the next turn now."""
        self._wake.set()

    def ask_to_stop(self) -> None:
        """No more turns; errors of the one under way are not reported."""
        self._stopping = True
        self._wake.set()

    def join(self, timeout_s: float) -> bool:
        """Wait for the turn under way; False when it takes longer."""
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopping:
            self._wake.clear()
            begun = time.monotonic()
            rest_s = self._turn()
            took_s = time.monotonic() - begun
            if not self._stopping:
                self._wake.wait(max(rest_s - took_s, min(took_s, rest_s)))

    def _turn(self) -> float:
        """Take one turn; seconds from its begin to the next."""
        try:
            self._step()
        except TwinlogError as error:
            return self._failed(str(error), refused=isinstance(error, RefusedError))
        except Exception as error:
            if not self._stopping and repr(error) not in self._said:
                log.exception("%s: %s", self._flow, self.what)
            return self._failed(f"internal error: {error!r}", refused=False)
        if self.trouble is not None:
            log.info("%s: can %s again", self._flow, self.what)
            self._told(None)
            self._said.clear()
        self._wait_s = RETRY_S[0]
        return self._interval_s

    def _failed(self, text: str, *, refused: bool) -> float:
        if self._stopping:
            return 0.0
        now = time.monotonic()
        # A refusal is said once; what may pass is said again from time to time as long as it does not.
        if text not in self._said or (not refused and now - self._said[text] > SAY_AGAIN_S):
            self._said[text] = now
            way_out = f"; {self._way_out}" if self._way_out else ""
            log.log(
                logging.ERROR if refused else logging.WARNING,
                "%s: cannot %s, trying again: %s%s",
                self._flow,
                self.what,
                text,
                way_out,
            )
        self._told(text)
        if refused:
            return max(REFUSED_S, self._interval_s)
        wait_s, self._wait_s = self._wait_s, min(2 * self._wait_s, RETRY_S[1])
        return wait_s

    def _told(self, trouble: str | None) -> None:
        self.trouble = trouble
        self._note(self.what, trouble)


class Jobs:
    """The jobs of one flow. `note` hears of each job's trouble, and with None that it is over."""

    def __init__(self, flow: str, note: Callable[[str, str | None], None] = lambda what, trouble: None) -> None:
        self._flow = flow
        self._note = note
        self._jobs: list[Job] = []
        self._stopped = False
        self._lock = threading.Lock()

    def begin(self, what: str, step: Callable[[], None], interval_s: float | None, *, way_out: str = "") -> Job | None:
        """Begin a job; None when it is turned off (`interval_s` None) or after `stop`.

        `what` completes "cannot ..."; `step` raises ClusterError or RefusedError.
        """
        with self._lock:
            if interval_s is None or self._stopped:
                return None
            job = Job(self._flow, what, step, interval_s, way_out=way_out, note=self._note)
            self._jobs.append(job)
            job.start()
            return job

    def stop(self, timeout_s: float) -> None:
        """No more turns; waits up to `timeout_s` seconds for those under way."""
        with self._lock:
            self._stopped = True
        for job in self._jobs:
            job.ask_to_stop()
        deadline = time.monotonic() + timeout_s
        for job in self._jobs:
            if not job.join(max(0.0, deadline - time.monotonic())):
                log.warning("%s: could not %s to the end within %.1f s", self._flow, job.what, timeout_s)
