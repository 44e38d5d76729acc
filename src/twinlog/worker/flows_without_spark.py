"""Flows that run without Spark in this process: heartbeats only, or consumer groups only.

A disabled flow writes heartbeats to its target, as in MirrorMaker 2, and so does a heartbeat connector. A checkpoint
connector follows the consumer groups of a flow that another connector copies.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence

from twinlog.clock import SYSTEM, Clock
from twinlog.errors import TwinlogError
from twinlog.errors.message_ids import id_of, told, with_id
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect, both_clusters
from twinlog.kafka.retry import FLOW_STEP, retry_until_stopped
from twinlog.mirror.groups.checkpoint_writer import CheckpointWriter
from twinlog.mirror.offsets.map_store import MapStore
from twinlog.mirror.offsets.position_store import PositionsOfAll
from twinlog.mirror.offsets.translator import Translator
from twinlog.mirror.topics.checks import check_two_clusters
from twinlog.mirror.topology.topology import topology_of
from twinlog.model.groups import GroupOffsets
from twinlog.model.types import GroupId
from twinlog.process.log_once import AGAIN_S, DOUBLING_S, LogOnce
from twinlog.settings.flow import FlowSettings
from twinlog.worker.election.election import Election
from twinlog.worker.election.role import ElectionState
from twinlog.worker.election.roster import ElectionRegistry
from twinlog.worker.flow.failure_log import FailureLog
from twinlog.worker.flow.flow_jobs import (
    begin_finding_left_fences,
    begin_following_groups,
    begin_heartbeats,
    begin_lifting,
    begin_publishing,
)
from twinlog.worker.metrics.meters import FlowMeters
from twinlog.worker.periodic import PeriodicJob, PeriodicJobs
from twinlog.worker.retrying import RetryDelay
from twinlog.worker.status.flow_reporter import FlowReporter
from twinlog.worker.status.report import DriverReport

log = logging.getLogger(__name__)

HEARTBEATS_STOP_S = 0.5
LEAVE_S = 0.5
"""The wait of a clean stop for a heartbeat under way, and for the arrival of the leave request at the coordinator."""

GROUPS_STOP_S = 1.0
END_S = 3.0
LOG_AFTER_S = 3.0


def in_thread(step: Callable[[], None], name: str) -> threading.Thread:
    """Begin a step that takes seconds on its own thread, so that other flows continue.

    When the system refuses a further thread, the calling thread runs the step.
    """
    thread = threading.Thread(target=step, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        step()
    return thread


class FlowWithoutSpark:
    """The jobs of a flow on the driver, which end within `stop_s`; they write as long as `allowed()` is true.

    A single thread calls `poll_flow` every moment. The jobs write to the last of `clusters`.
    """

    def __init__(
        self, settings: FlowSettings, clusters: Sequence[ClusterAdmin], allowed: Callable[[], bool], stop_s: float
    ) -> None:
        self.settings = settings
        self._clusters = clusters
        self._target = clusters[-1]
        self._clock = self._target.clock
        for cluster in clusters:
            cluster.client.append_only_while(allowed)
        self._stop_s = stop_s
        self._troubles: dict[str, str] = {}
        self._jobs = PeriodicJobs(settings.name, self._note, clock=self._clock)

    @property
    def trouble(self) -> str | None:
        """The error of a step that is tried again; None while all steps succeed."""
        return next(iter(dict(self._troubles).values()), None)

    def poll_flow(self) -> None:
        """Called every moment."""
        self._jobs.poll_jobs()

    def stop(self) -> None:
        """End the jobs, some of them with a last turn."""
        self._jobs.stop(self._stop_s)

    def close(self) -> None:
        """Close the connections to the clusters."""
        for cluster in self._clusters:
            cluster.close()

    def take_written(self) -> set[str]:
        """The topics on the target that were written since the last call."""
        return self._target.client.take_written()

    def _note(self, what: str, trouble: str | None) -> None:
        if trouble is None:
            self._troubles.pop(what, None)
        else:
            self._troubles[what] = trouble


class IdleFlow(FlowWithoutSpark):
    """Writes the heartbeats of a flow, and removes its fence of an earlier run; `--until-caught-up` ignores it."""

    def __init__(
        self, settings: FlowSettings, allowed: Callable[[], bool] = lambda: True, connect: Connect = ClusterAdmin
    ) -> None:
        super().__init__(settings, [connect(settings.target, settings.target_admin.client)], allowed, HEARTBEATS_STOP_S)
        self._beats: PeriodicJob | None = None

    def start(self) -> None:
        why = "not enabled, only heartbeats are" if self.settings.kind is None else "heartbeats are"
        log.info("%s: %s written to %s", self.settings.name, why, self.settings.target)
        self._beats = begin_heartbeats(self._jobs, self.settings, self._target)
        if self.settings.kind is None:
            begin_lifting(self._jobs, self.settings, self._target)
            begin_finding_left_fences(self._jobs, self.settings, self._target)

    @property
    def has_beaten(self) -> bool:
        """Whether a heartbeat has been written."""
        return self._beats is not None and self._beats.succeeded


class ElectedIdleFlow:
    """A disabled flow: the elected process writes its heartbeats, and the flow is inactive in other processes."""

    def __init__(
        self,
        settings: FlowSettings,
        wake: Callable[[], None],
        clock: Clock = SYSTEM,
        connect: Connect = ClusterAdmin,
        failures: FailureLog | None = None,
    ) -> None:
        self._connect = connect
        self._failures = failures or FailureLog(clock)
        self._logged = LogOnce(clock)
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
        if election.standing is not ElectionState.REFUSED:
            self._logged.all_over()
        elif self._logged.is_due(election.text, LOG_AFTER_S, AGAIN_S):
            self._failures.log_refusal(self.settings.name, election.text)
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
        except (RuntimeError, OSError) as error:
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
        self._ending = in_thread(self.stop, f"ending {self.settings.name}")

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


class GroupsFlow(FlowWithoutSpark):
    """Follows consumer groups: it writes checkpoints, and the offsets of idle groups.

    It translates by the exact maps of twinlog, or by offset syncs if MirrorMaker 2 copies. `copied_by` are the flows
    that copy the translated topics, if twinlog copies them: their stored positions show the ends of the maps. `reverse`
    is the flow back, if the file has it.
    """

    def __init__(
        self,
        settings: FlowSettings,
        allowed: Callable[[], bool] = lambda: True,
        copied_by: Sequence[FlowSettings] = (),
        reverse: FlowSettings | None = None,
        connect: Connect = ClusterAdmin,
    ) -> None:
        self._source, target = both_clusters(settings, connect)
        super().__init__(settings, [self._source, target], allowed, GROUPS_STOP_S)
        self.failure: str | None = None
        """The reason for the failure; a failed object stays ended."""
        self.meters = FlowMeters()
        self._copied_by = copied_by or (settings,)
        self._reverse = reverse
        self._writer: CheckpointWriter | None = None
        self._reporter = FlowReporter(settings, self._clock)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"groups {settings.name}", daemon=True)

    @property
    def groups(self) -> Sequence[GroupId] | None:
        """The followed groups; the object changes only if its content changes. None until they are known."""
        return None if self._writer is None else self._writer.followed

    def positions(self) -> Mapping[GroupId, GroupOffsets]:
        """The offsets at which each followed group would continue at the target."""
        return {} if self._writer is None else self._writer.positions()

    def start(self) -> None:
        """Begin, on a thread of its own. Raises RuntimeError for lack of threads."""
        self._thread.start()

    def stop(self) -> None:
        """Take a last turn of each job, and end within some seconds."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(END_S)
        super().stop()

    def _run(self) -> None:
        try:
            if self._connected():
                copied_by = self._copied_by
                maps = MapStore(copied_by[0], self._target, PositionsOfAll(copied_by, self._target))
                if self.settings.emit_checkpoints_interval_s is not None:
                    log.info("%s: checkpoints are written to %s", self.settings.name, self.settings.target)
                translator = Translator(self.settings, self._source, self._target, maps)
                self._writer = begin_following_groups(
                    self._jobs,
                    self.settings,
                    self._source,
                    self._target,
                    translator,
                    self._reverse,
                    self._reporter.groups,
                    self.meters,
                )
                begin_publishing(self._jobs, self.settings, self._target, self.report)
        except TwinlogError as error:
            self.failure = told(error, "TW-FLOW-01")
            log.error("%s", with_id(f"{self.settings.name}: FAILED: {self.failure}", "TW-FLOW-01"))
        except Exception as error:
            if not self._stopping.is_set():
                log.exception("TW-FAULT-01: flow %s", self.settings.name)
                self.failure = f"TW-FAULT-01: internal error: {error!r}"

    def _connected(self) -> bool:
        """Connect to both clusters, with tries until success; False if `stop` is called meanwhile."""
        logged = LogOnce(self._clock)

        def connect() -> None:
            self._target.connect()
            self._source.connect()
            check_two_clusters(self.settings, topology_of(self.settings), self._source, self._target)

        def failed(error: TwinlogError) -> None:
            if logged.is_due("connect", LOG_AFTER_S, *DOUBLING_S):
                log.warning(
                    "%s: %s: cannot connect yet, trying again: %s",
                    *(id_of(error, "TW-NET-13"), self.settings.name, error),
                )
            self._note("connect", str(error))

        if not retry_until_stopped(self._clock, FLOW_STEP, connect, self._stopping, failed=failed):
            return False
        self._note("connect", None)
        return True

    def report(self) -> DriverReport:
        """The present report of this flow."""
        return self._reporter.report("stopped" if self._stopping.is_set() else "running", self.trouble)
