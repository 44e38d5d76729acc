"""A disabled flow: it only writes heartbeats to its target, as in MirrorMaker 2.

The flow is inactive here while another process writes the heartbeats, as with flows that copy (`worker.elected_flow`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from twinlog.clock import SYSTEM, Clock
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect
from twinlog.settings.flow import FlowSettings
from twinlog.worker.election.election import Election
from twinlog.worker.election.role import ElectionState
from twinlog.worker.election.roster import ElectionRegistry
from twinlog.worker.flow.flow_jobs import begin_heartbeats
from twinlog.worker.periodic import PeriodicJob, PeriodicJobs
from twinlog.worker.put_off import RetryDelay

log = logging.getLogger(__name__)

STOP_S = 0.5
LEAVE_S = 0.5
"""The wait of a clean stop for a heartbeat under way, and for the arrival of the leave request at the coordinator."""


class IdleFlow:
    """Works without Spark, and `--until caught-up` ignores it; it writes as long as `allowed()` is true."""

    def __init__(
        self, settings: FlowSettings, allowed: Callable[[], bool] = lambda: True, connect: Connect = ClusterAdmin
    ) -> None:
        self.settings = settings
        self.trouble: str | None = None
        """The error of the last heartbeat; None if it was written."""
        self._target = connect(settings.target, settings.target_admin.client)
        self._target.client.append_only_while(allowed)
        self._jobs = PeriodicJobs(settings.name, self._note, clock=self._target.clock)
        self._beats: PeriodicJob | None = None

    def start(self) -> None:
        why = "not enabled, only heartbeats are" if self.settings.kind is None else "heartbeats are"
        log.info("%s: %s written to %s", self.settings.name, why, self.settings.target)
        self._beats = begin_heartbeats(self._jobs, self.settings, self._target)

    @property
    def has_beaten(self) -> bool:
        """Whether a heartbeat has been written."""
        return self._beats is not None and self._beats.succeeded

    def poll_flow(self) -> None:
        """Called every moment."""
        self._jobs.poll_jobs()

    def stop(self) -> None:
        self._jobs.stop(STOP_S)

    def close(self) -> None:
        self._target.close()

    def take_written(self) -> set[str]:
        """The topics on the target that were written since the last call."""
        return self._target.client.take_written()

    def _note(self, what: str, trouble: str | None) -> None:
        self.trouble = trouble


class ElectedIdleFlow:
    """A disabled flow: the elected process writes its heartbeats."""

    def __init__(
        self, settings: FlowSettings, wake: Callable[[], None], clock: Clock = SYSTEM, connect: Connect = ClusterAdmin
    ) -> None:
        self._connect = connect
        self.settings = settings
        self._ending: threading.Thread | None = None
        self.election = Election(settings, wake, ElectionRegistry(ready=True, clock=clock), connect=connect)
        self._term = 0
        self._flow: IdleFlow | None = None
        self._put_off = RetryDelay(settings.name, clock)

    def start(self) -> None:
        """Start the election of the process that writes the heartbeats."""
        self.election.start()

    def poll_flow(self) -> None:
        """Begin to write after the election of this process, and end with its leadership; called every moment."""
        election, term = self.election, self.election.term
        if self._flow is not None and term != self._term:
            self._end()
        if election.standing is not ElectionState.LEADING:
            self._put_off.clear_delay()
        elif self._flow is None:
            if self._put_off.is_due:
                self._take(term)
        else:
            self._flow.poll_flow()

    def _take(self, term: int) -> None:
        election = self.election
        try:
            flow = IdleFlow(self.settings, lambda: election.leads_for_s() > 0, self._connect)
        except RuntimeError as error:
            self._put_off.set_failure(error)
            return
        self._put_off.clear_delay()
        self._term, self._flow = term, flow
        flow.start()

    def change_settings(self, settings: FlowSettings) -> None:
        """Write heartbeats by other settings: a changed interval takes effect at once."""
        before, self.settings = self.settings, settings
        self.election.change_settings(settings)
        if settings.emit_heartbeats_interval_s != before.emit_heartbeats_interval_s:
            self._end()

    def end(self) -> None:
        """Run `stop` on a thread of its own, or here for lack of threads; afterwards `gone` is true."""
        self._ending = threading.Thread(target=self.stop, name=f"ending {self.settings.name}", daemon=True)
        try:
            self._ending.start()
        except RuntimeError:
            self.stop()

    @property
    def gone(self) -> bool:
        """Whether all parts of the flow have ended here after `end`."""
        return self._ending is not None and not self._ending.is_alive()

    def stop(self) -> None:
        """End the writing here and leave it to other processes."""
        self._end()
        self.election.stop(LEAVE_S)

    @property
    def writes(self) -> bool:
        """Whether this process writes the heartbeats."""
        return self._flow is not None

    @property
    def text(self) -> str:
        """In a few words: that it writes heartbeats, its obstacle, or the process that writes them."""
        if self._flow is None:
            return f"heartbeats only: {self._put_off.why or self.election.text}"
        return self._flow.trouble or "heartbeats only"

    def _end(self) -> None:
        flow, self._flow = self._flow, None
        if flow is not None:
            flow.stop()
            flow.close()
