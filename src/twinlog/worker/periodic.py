"""Periodic jobs of a flow on the driver: heartbeats, checkpoints, settings and ACLs of remote topics.

MirrorMaker 2 has a single thread for all periodic work of a connector. A slow job blocks the other jobs there, and a
failed job is dropped until its next turn. Here each job has its own thread and is tried again soon.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from typing import Protocol

from twinlog.clock import SYSTEM, Clock, wall_ms
from twinlog.errors import RefusedError, TwinlogError
from twinlog.errors.message_ids import with_id
from twinlog.kafka.retry import PERIODIC_JOB, REFUSED
from twinlog.process.log_once import DOUBLING_S, LogOnce

log = logging.getLogger(__name__)

OFTEN_S = 5.0
"""The longest wait of a job that has its turns more often."""

FAILED_JOB = "TW-FLOW-04"
"""The message id of a job without an id of its own."""

LOG_AFTER_S = 3.0
"""The shortest fault that is logged."""

LAST_TURNS, LONGEST_LAST_S = 3, 5.0
"""A last step may take as long as so many turns of its job, and so many seconds."""


_FAULT = object()

Step = Callable[[], str | None] | Callable[[], None]


class Retryable(Protocol):
    """Urgent work of a job between two turns, too urgent to wait for the next turn."""

    def again_s(self) -> float | None:
        """Seconds until the next try; None while all work can wait."""

    def try_again(self) -> str | None:
        """Try the urgent work once. Raises TwinlogError, or returns the text of a partial failure, as a turn does."""


class PeriodicJob:
    """A job: `step` runs at once and then every `interval_s` seconds, in a thread of its own.

    `what` completes "cannot ..." in messages, `way_out` tells the operator the remedy for a refusal, and the messages
    have the id `message_id`. A step raises TwinlogError; if it fails for some groups or topics only, it does the rest
    and returns a text about them. Retriable errors stay out of the log while `excused()`: their reason was logged
    before, for all jobs. After a long step the job rests for as long as the step took, so a job takes at most half of
    its thread's time. After a successful turn, the job calls `again` until the next turn. A stopped job takes its
    `last_step`, if it has any. A job that works `once` ends after its first successful turn.
    """

    def __init__(
        self,
        flow: str,
        what: str,
        step: Step,
        interval_s: float,
        *,
        way_out: str = "",
        message_id: str = FAILED_JOB,
        again: Retryable | None = None,
        last_step: Step | None = None,
        once: bool = False,
        note: Callable[[str, str | None], None] = lambda what, trouble: None,
        excused: Callable[[], bool] = lambda: False,
        clock: Clock = SYSTEM,
    ) -> None:
        self._clock = clock
        self.what = what
        self.trouble: str | None = None
        """The error of the last turn; None if it succeeded."""
        self.succeeded_ms: int | None = None
        """The time at which the last complete turn ended (Unix time); None before."""
        self._flow = flow
        self._step = step
        self._interval_s = interval_s
        self._way_out = way_out
        self.message_id = message_id
        self._again = again
        self.last_step = last_step
        self._once = once
        self.took_s = 0.0
        """The time of the last complete turn."""
        self._note = note
        self._excused = excused
        self._logged = LogOnce(clock)
        longest_s = min(PERIODIC_JOB.longest_s, max(OFTEN_S, interval_s))
        self._backoff = PERIODIC_JOB.with_longest(longest_s).backoff()
        self._stopping = False
        self._hurried = False
        self._followed = False
        self._wake = threading.Event()
        self._succeeded = False
        self._worked = False
        """Whether the last turn ran to its end."""
        self._thread = threading.Thread(target=self._run, name=f"{flow}: {what}", daemon=True)

    @property
    def succeeded(self) -> bool:
        """Whether a turn has ever run to its end."""
        return self._succeeded

    def start(self) -> None:
        self._thread.start()

    def run_turn_now(self, *, afresh: bool = False) -> None:
        """Take the next turn now; with `afresh`, earlier failures are forgotten."""
        if afresh:
            self._backoff.reset_failures()
            self._logged.restart_condition(_FAULT)
        self._hurried = True
        self._wake.set()

    def follow(self) -> None:
        """Take the next turn soon, because there is new work: once the job has rested as long as the last turn took."""
        self._followed = True
        self._wake.set()

    def ask_to_stop(self) -> None:
        """Stop before the next turn; errors of the turn under way are suppressed."""
        self._stopping = True
        self._wake.set()

    def join(self, timeout_s: float) -> bool:
        """Wait for the turn under way; False if it takes longer."""
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopping:
            self._hurried = self._followed = False
            begun = self._clock.monotonic()
            rest_s = self._turn()
            took_s = self._clock.monotonic() - begun
            if self._worked:
                self.took_s = took_s
            log.debug("%s: a turn of the job to %s took %.3f s", self._flow, self.what, took_s)
            if self._once and self._worked:
                break
            if not self._stopping:
                self._rest(max(rest_s - took_s, min(took_s, rest_s)), min(took_s, rest_s))
        if self.last_step is not None:
            try:
                if self.last_step() is None:
                    self.succeeded_ms = wall_ms(self._clock)
            except TwinlogError as error:
                # An earlier trouble was already reported, and a last turn completes only a job that has succeeded
                # before.
                known = self.trouble is not None or not self._succeeded
                level = logging.DEBUG if known else logging.WARNING
                log.log(level, "TW-FLOW-03: %s: could not %s a last time: %s", self._flow, self.what, error)

    def _rest(self, rest_s: float, least_s: float) -> None:
        """Wait for the next turn, at least `least_s` seconds even with new work, and do urgent work meanwhile."""
        now = self._clock.monotonic()
        until, least = now + rest_s, now + least_s
        while (again_s := self._again_s()) is not None:
            at = max(self._clock.monotonic() + again_s, least)
            if at >= until:
                break
            if self._wait_until(at, least):
                return
            begun = self._clock.monotonic()
            failed_s = self._look_again()
            now = self._clock.monotonic()
            least = now + (now - begun)
            if failed_s is not None:
                until = max(now + failed_s, least)
                break
        self._wait_until(until, least)

    def _again_s(self) -> float | None:
        return None if self._again is None or self._stopping or not self._worked else self._again.again_s()

    def _wait_until(self, until: float, least: float) -> bool:
        """Wait until a moment; True if the next turn comes before it."""
        while True:
            self._wake.clear()
            if self._stopping or self._hurried:
                return True
            left_s = (min(least, until) if self._followed else until) - self._clock.monotonic()
            if left_s <= 0:
                return self._followed
            self._clock.wait(self._wake, left_s)

    def _look_again(self) -> float | None:
        """Do the urgent work; returns the seconds until the next turn if that failed, else None."""
        assert self._again is not None
        rest_s = self._turn(self._again.try_again)
        return None if self._worked else rest_s

    def _turn(self, step: Step | None = None) -> float:
        """Take a turn, or call only `step`; returns the seconds from the start of this turn to the next turn."""
        self._worked = False
        try:
            trouble = (step or self._step)()
        except TwinlogError as error:
            return self._failed(str(error), refused=isinstance(error, RefusedError))
        except Exception as error:
            if not self._stopping and self._logged.is_due(repr(error)):
                log.exception("TW-FAULT-01: %s: %s", self._flow, self.what)
            return self._failed(f"internal error: {error!r}", refused=False)
        self._backoff.reset_failures()
        self._succeeded = self._worked = True
        self._logged.restart_condition(_FAULT)
        if trouble is None and step is None:
            self.succeeded_ms = wall_ms(self._clock)
        if trouble is not None:
            self._refused(trouble, logging.WARNING)
            self._show(trouble)
        elif self.trouble is not None:
            if self._logged.all_over():
                log.info("%s: can %s again", self._flow, self.what)
            self._show(None)
        return self._interval_s

    def _failed(self, text: str, *, refused: bool) -> float:
        if self._stopping:
            return 0.0
        self._show(text)
        if refused:
            self._refused(text, logging.ERROR)
            return max(REFUSED.first_s, self._interval_s)
        self._faulty(text)
        return self._backoff.count_failure()

    def _refused(self, text: str, level: int) -> None:
        """Log a refusal once, with the way out."""
        if not self._stopping and self._logged.is_due(text):
            way_out = f"; {self._way_out}" if self._way_out else ""
            log.log(
                level,
                "%s: %s: cannot %s, trying again: %s%s",
                *(self.message_id, self._flow, self.what, text, way_out),
            )

    def _faulty(self, text: str) -> None:
        """Log a lasting fault, at growing intervals."""
        if not self._excused() and self._logged.is_due(_FAULT, LOG_AFTER_S, *DOUBLING_S):
            log.warning("%s: %s: cannot %s, trying again: %s", self.message_id, self._flow, self.what, text)

    def _show(self, trouble: str | None) -> None:
        self.trouble = trouble
        if trouble is not None and self.message_id != FAILED_JOB:
            trouble = with_id(trouble, self.message_id)
        self._note(self.what, trouble)


class PeriodicJobs:
    """The jobs of a flow.

    `note` is called with each job's trouble, and with None when the trouble is over; `excused` is as in `PeriodicJob`.
    """

    def __init__(
        self,
        flow: str,
        note: Callable[[str, str | None], None] = lambda what, trouble: None,
        excused: Callable[[], bool] = lambda: False,
        clock: Clock = SYSTEM,
    ) -> None:
        self._clock = clock
        self._flow = flow
        self._excused = excused
        self._note = note
        self._jobs: list[PeriodicJob] = []
        self._waiting: list[PeriodicJob] = []
        """Jobs that wait for a thread."""
        self._logged = LogOnce(clock)
        self._stopped = False
        self._lock = threading.Lock()

    @property
    def all(self) -> tuple[PeriodicJob, ...]:
        """Every begun job that is still in use."""
        return tuple(self._jobs)

    def begin(
        self,
        what: str,
        step: Step,
        interval_s: float | None,
        *,
        way_out: str = "",
        message_id: str = FAILED_JOB,
        again: Retryable | None = None,
        last_step: Step | None = None,
        once: bool = False,
    ) -> PeriodicJob | None:
        """Begin a `PeriodicJob`; None if the job is turned off (`interval_s` None) or after `stop`."""
        with self._lock:
            if interval_s is None or self._stopped:
                return None
            job = PeriodicJob(
                self._flow,
                what,
                step,
                interval_s,
                way_out=way_out,
                message_id=message_id,
                again=again,
                last_step=last_step,
                once=once,
                note=self._note,
                excused=self._excused,
                clock=self._clock,
            )
            self._jobs.append(job)
            self._waiting.append(job)
            self._start()
            return job

    def poll_jobs(self) -> None:
        """Begin jobs that wait for a thread; called every moment."""
        if self._waiting:
            with self._lock:
                self._start()

    def _start(self) -> None:
        while self._waiting and not self._stopped:
            try:
                self._waiting[0].start()
            except RuntimeError as error:
                if self._logged.is_new("threads", DOUBLING_S[0]):
                    log.warning(
                        "TW-LEADER-06: %s: cannot %s yet, trying again: %s",
                        *(self._flow, self._waiting[0].what, error),
                    )
                return
            del self._waiting[0]

    def rerun_failed_jobs(self) -> None:
        """Run the failed jobs now, because their fault is over."""
        with self._lock:
            for job in self._jobs:
                if job.trouble is not None:
                    job.run_turn_now(afresh=True)

    def stop(self, timeout_s: float, *, cut_off: bool = False) -> None:
        """Stop the jobs: each takes its last step, in the order in which the jobs began.

        Waits up to `timeout_s` for each last step, or longer for a job whose turns take long, and up to `timeout_s` in
        all for the other jobs. When the flow is `cut_off`, another process does its jobs, and unfinished work here is
        dropped.
        """
        with self._lock:
            self._stopped = True
            jobs = list(self._jobs)
        self._end(jobs, timeout_s, cut_off=cut_off)

    def end(self, jobs: Collection[PeriodicJob], timeout_s: float) -> None:
        """End some of the jobs as `stop` ends all; their troubles end with them."""
        with self._lock:
            self._jobs = [job for job in self._jobs if job not in jobs]
            self._waiting = [job for job in self._waiting if job not in jobs]
        self._end(jobs, timeout_s)
        for job in jobs:
            if job.trouble is not None:
                self._note(job.what, None)

    def _end(self, jobs: Collection[PeriodicJob], timeout_s: float, *, cut_off: bool = False) -> None:
        for job in jobs if cut_off else ():
            job.last_step = None
        ending = [job for job in jobs if job.last_step is None]
        for job in ending:
            job.ask_to_stop()
        for job in jobs:
            if job.last_step is not None:
                # The turns of a job with a distant cluster, or with thousands of groups, take long.
                last_s = max(timeout_s, min(LAST_TURNS * job.took_s, LONGEST_LAST_S))
                job.ask_to_stop()
                self._join(job, last_s, cut_off=cut_off)
        deadline = self._clock.monotonic() + timeout_s
        for job in ending:
            self._join(job, max(0.0, deadline - self._clock.monotonic()), cut_off=cut_off)

    def _join(self, job: PeriodicJob, timeout_s: float, *, cut_off: bool) -> None:
        if not job.join(timeout_s):
            level = logging.DEBUG if cut_off else logging.WARNING
            log.log(
                level,
                "TW-FLOW-03: %s: could not %s to the end within %.1f s",
                *(self._flow, job.what, timeout_s),
            )
