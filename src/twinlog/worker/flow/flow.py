"""Runs a flow on the driver: watches both clusters, plans leases, keeps its query alive, and stops in order."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from math import inf

from twinlog.clock import LONG_AGO, SYSTEM, Clock, wall_ms
from twinlog.copier.recovery import LIMIT_EVENT
from twinlog.errors import ConfigError, TwinlogError, is_ours
from twinlog.errors.message_ids import told, with_event_id, with_id
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect, both_clusters
from twinlog.kafka.retry import FLOW_STEP
from twinlog.lease.channel import VALID_S
from twinlog.lease.fencing import TransactionalIds
from twinlog.lease.leases import Leases
from twinlog.lease.ledger import CopierPlace
from twinlog.lease.progress import Report
from twinlog.mirror.offsets.map_store import MapStore
from twinlog.mirror.offsets.position_store import PositionStore
from twinlog.mirror.offsets.translator import Translator
from twinlog.mirror.topics.checks import check_internal_topics, check_one_cluster, check_proof
from twinlog.model.held import HeldPartition
from twinlog.model.types import TopicPartition
from twinlog.process.flow_levels import FLOW_LEVELS
from twinlog.settings.flow import FlowSettings
from twinlog.worker.control.control import EVERY_S, TopicControl
from twinlog.worker.flow.failure_log import FailureLog
from twinlog.worker.flow.flow_changes import FlowChanges
from twinlog.worker.flow.flow_jobs import (
    FlowJobs,
    begin_bounding,
    begin_joining_segments,
    begin_pinning_starts,
    begin_publishing,
)
from twinlog.worker.flow.start_ends import CaughtUpRun
from twinlog.worker.flow_tasks import FlowGrants, FlowTasks
from twinlog.worker.periodic import PeriodicJob, PeriodicJobs
from twinlog.worker.placement.tasks import SlotDemand
from twinlog.worker.read_ahead import StoredOffsets
from twinlog.worker.retrying import FlowRetrier
from twinlog.worker.status.flow_reporter import FlowReporter
from twinlog.worker.status.flow_status import FlowStatus
from twinlog.worker.status.held_and_paused import FlowHeldPartitions, describe, summed_up
from twinlog.worker.status.outage import OutageDetector
from twinlog.worker.status.report import DriverReport, FlowState, TaskPlace
from twinlog.worker.topics.topic_refresh import TopicRefresh

log = logging.getLogger(__name__)

TICK_S = 0.1
JOBS_STOP_S = 1.0
THREAD_STOP_S = 3.0

LOCAL_EXECUTOR = "driver"
"""Spark's id of the only executor of a local Spark."""


class FlowRunner:
    """A flow; its thread begins with `start`. `start` and the constructor raise RuntimeError for lack of threads.

    The constructor also raises OSError for lack of files, and ConfigError for an unusable class of the user's.

    `slots` is the number of tasks that the flow may use at once, `tasks` the number with which it begins, None for all
    slots. With `until_caught_up` the flow is done when every partition has reached the end that it had at the start.
    `flows` are all flows of the file: some may conflict. Appends stop once `leads_for_s()` returns 0 seconds, see
    `Election`. `stored` are offsets of the flow that were read ahead, if any. `failures` logs the failures of
    all flows.
    """

    def __init__(
        self,
        settings: FlowSettings,
        *,
        slots: int,
        tasks: int | None,
        until_caught_up: bool,
        wake: Callable[[], None],
        flows: Sequence[FlowSettings] = (),
        leads_for_s: Callable[[], float] = lambda: VALID_S,
        stored: StoredOffsets | None = None,
        clock: Clock = SYSTEM,
        connect: Connect = ClusterAdmin,
        failures: FailureLog | None = None,
    ) -> None:
        self._clock = clock
        self._connect = connect
        self._failures = failures or FailureLog(clock)
        self.changes = FlowChanges(settings, flows)
        self.flow_status = FlowStatus(clock.monotonic)
        self.state = FlowState.STARTING
        self.reason: str | None = None
        self.ready = threading.Event()
        """Set when the first plan is made, so that the query may start."""
        self._wake = wake
        self._source, self._target = both_clusters(settings, connect)
        self._stored = stored
        self._positions = stored.positions if stored else PositionStore(settings, self._target)
        self._maps = stored.maps if stored else MapStore(settings, self._target, self._positions)
        for cluster in (self._source, self._target):
            cluster.client.append_only_while(lambda: leads_for_s() > 0)
        self._stopping = threading.Event()
        self._publishing: PeriodicJob | None = None
        self._shown = False
        """Whether the last report shows a flow that copies, and its lag."""
        self._executors: Mapping[int, str] | None = {}
        self._jobs = PeriodicJobs(
            settings.name, self.flow_status.set_job_trouble, lambda: self._waiting.outage is not None, clock
        )
        self._waiting = OutageDetector(
            settings,
            self.flow_status,
            source=self._source.reach,
            target=self._target.reach,
            leads=lambda: leads_for_s() > 0,
            over=self._jobs.rerun_failed_jobs,
            clock=clock,
        )
        self._retry = FlowRetrier(settings.name, self.flow_status, self._waiting, self._stopping, clock)
        self._ids: TransactionalIds | None = None
        if settings.exactly_once != "disabled":
            self._ids = TransactionalIds(settings, self._target, self._retry)
        try:
            self._topics = TopicRefresh(
                settings, flows or (settings,), self._source, self._target, self._positions, connect
            )
        except ConfigError:
            self._source.close()
            self._target.close()
            raise
        self._remote: dict[TopicPartition, TopicPartition] = {}
        self.held = FlowHeldPartitions(settings.name, self._try_again, clock)
        self._caught_up: CaughtUpRun | None = None
        if until_caught_up:
            self._caught_up = CaughtUpRun(settings, self._source, self.flow_status, self._topics, self.held)
        grants = FlowGrants(
            *(self._ids, self._retry, self._positions, self._maps, self._topics),
            lambda: self._remote,
            self.held.is_held,
        )
        self.leases = Leases(
            settings.name,
            grants.make_grants,
            self._copier_failed,
            self._copier_event,
            ids=self._ids if settings.exactly_once == "enabled" else None,
            leads_for_s=leads_for_s,
            reported=self._reported,
            gone=self.flow_status.remove_copier,
            mismatch=lambda text: self.flow_status.set_job_trouble("use every task", text),
            held=self._hold,
            clock=clock,
        )
        self._tasks = FlowTasks(settings, self.flow_status, self.leases, slots=slots, tasks=tasks, clock=clock)
        self._control = TopicControl(
            *(settings, self._source, self._target, self._positions, self._maps),
            *(self.flow_status, self._tasks, self.leases, self._ids),
            held=self.held,
            is_heartbeats=self._topics.is_heartbeats,
            stopping=self._stopping,
            changed=self._report_soon,
        )
        self.translator = Translator(settings, self._source, self._target, self._maps)
        self._reporter = FlowReporter(settings, clock)
        self.by_settings = FlowJobs(
            *(self._jobs, self._source, self._target, self._topics, self.translator),
            *(self._reporter.groups, self.flow_status),
        )
        self._thread = threading.Thread(target=self._run, name=f"flow {settings.name}", daemon=True)

    @property
    def settings(self) -> FlowSettings:
        """The settings with which the flow runs now."""
        return self.changes.settings

    @property
    def copied(self) -> Mapping[TopicPartition, TopicPartition]:
        """Each copied source partition with its remote partition; the object changes only if its content changes."""
        return self._remote

    def start(self) -> None:
        try:
            self._waiting.start(self._stopping)
            self._thread.start()
        except RuntimeError:
            self._stopping.set()
            raise

    def use_slots(self, slots: int) -> None:
        """Plan for another number of tasks: Spark's executors have changed, or another flow needs them more."""
        self._tasks.use_slots(slots)

    def leave_tasks(self, tasks: frozenset[int]) -> None:
        """Stop copying in these tasks of Spark's: their executors will end soon."""
        self._tasks.exclude_tasks(tasks)

    def use_executors(self, executors: Mapping[int, str] | None) -> None:
        """Note the executor of each of Spark's tasks, for reports; None with a local Spark."""
        self._executors = executors

    def take_written(self) -> set[str]:
        """The remote topics in which records arrived since the last call."""
        written = self.flow_status.take_written()
        remote = self._remote if written else {}
        return {str(there.topic) for here, there in remote.items() if here.topic in written}

    @property
    def demand(self) -> SlotDemand:
        """The number of slots that the flow could use, and its need."""
        return self._tasks.demand

    def fail_flow(self, reason: str) -> None:
        """End the flow with a reason; other flows continue."""
        if self.state in (FlowState.STARTING, FlowState.RUNNING):
            reason = with_id(reason, "TW-FLOW-01")
            self._failures.log_failure(self.settings.name, reason)
            self._end(FlowState.FAILED, reason)

    def _end(self, state: FlowState, reason: str | None = None) -> None:
        self.state, self.reason = state, reason
        self._stopping.set()
        self.ready.set()
        self._wake()

    @property
    def status(self) -> tuple[str, str | None]:
        """The status of the flow in a word, and its trouble: it runs only once a copier has reported."""
        if self.ended:
            return self.state.value, self.reason
        outage = self._waiting.outage
        if outage is not None:
            return "waiting", with_id(str(outage), outage.message_id)
        seen = self.flow_status
        found = seen.summary().trouble
        trouble = None if found is None else with_id(found, "TW-WAIT-05")
        if self.state is FlowState.STARTING or (seen.planned() and not any(one.held for one in seen.holders())):
            return FlowState.STARTING.value, trouble
        if not seen.planned():
            return "idle", trouble or seen.paused.all or f"no topic of {self.settings.source} is mirrored"
        if held := self.held.all():
            return FlowState.RUNNING.value, f"{summed_up(held)}: {describe(held[0])}"
        return FlowState.RUNNING.value, trouble

    @property
    def nothing_copied(self) -> str | None:
        """The reason for a standstill of the flow if all its partitions are held; None if a partition is copied."""
        held = [one for one in self.held.all() if not self._topics.is_heartbeats(one.source.topic)]
        planned = self.flow_status.planned()
        return None if not planned or len(held) < planned else f"{summed_up(held)}: {describe(held[0])}"

    @property
    def source_away(self) -> bool:
        """Whether the source is out of reach for the driver and all copiers, while the target is reachable."""
        outage = self._waiting.outage
        return outage is not None and outage.cluster == "source"

    @property
    def ended(self) -> bool:
        return self.state not in (FlowState.STARTING, FlowState.RUNNING)

    def stop(self, timeout_s: float) -> bool:
        """Let the copiers finish their appends in flight and store their positions; then end the jobs.

        False if a copier still held partitions after `timeout_s`.
        """
        if not self.ended:
            self.state = FlowState.STOPPED
        self._stopping.set()
        self.ready.set()
        released = self.leases.stop(timeout_s)
        if not released:
            log.warning(
                "TW-FLOW-02: %s: copiers took longer than %.1f s to release their partitions",
                *(self.settings.name, timeout_s),
            )
        self._jobs.stop(JOBS_STOP_S)
        return released

    def drop_copiers(self) -> None:
        """End at once because another process may run the flow: copiers are cut off, and their stores stop."""
        if not self.ended:
            self.state = FlowState.STOPPED
        self._stopping.set()
        self.ready.set()
        self.leases.drop_copiers()
        self._jobs.stop(JOBS_STOP_S, cut_off=True)
        # The connections of the thread are closed next, regardless of its present work.
        self._thread.join(THREAD_STOP_S)

    def close(self) -> None:
        FLOW_LEVELS.clear_level(self.settings.name)
        if self._stored is not None:
            self._stored.close()
        self._topics.close()
        self._source.close()
        self._target.close()

    # The flow's thread.

    def _run(self) -> None:
        try:
            if self._stored is not None:
                self._stored.hand_over(self._target)
            for cluster in (self._source, self._target):
                cluster.keep_in_contact()
            if not self._retry(self._target.connect, "connect"):
                return
            self._publishing = begin_publishing(self._jobs, self.settings, self._target, self.report)
            self.by_settings.begin_heartbeats(self.settings)
            if not self._retry(self._source.connect, "connect"):
                return
            if not (
                self._retry(self._check, "look at both clusters")
                and self._retry(self._topics.create_internal_topics, "create its topics")
                and self._take_over()
                and self._retry(self._control.begin, "read what is asked of topics")
                and self._retry(self._refresh, "plan")
            ):
                return
            run = self._caught_up
            if run is not None and not self._retry(lambda: run.note_ends(self._remote), "read the ends"):
                return
            self.state = FlowState.RUNNING
            self.ready.set()
            ahead = threading.Thread(target=self._read_maps_ahead, name=f"maps {self.settings.name}", daemon=True)
            # For lack of threads, the maps are read at their first use.
            with suppress(RuntimeError):
                ahead.start()
            self.by_settings.begin_jobs(self.settings, self.changes.reverse)
            begin_joining_segments(self._jobs, self._source, self._maps)
            begin_bounding(self._jobs, self.settings, self._source, self._target)
            self._jobs.begin(
                "do what is asked of topics", self._control.run_commands, EVERY_S, message_id="TW-COMMAND-04"
            )
            begin_pinning_starts(self._jobs, self._topics)
            self._keep_going()
        except TwinlogError as error:
            self.fail_flow(told(error, "TW-FLOW-01"))
        except Exception as error:
            if self.ended:
                log.debug("%s: at its end: %r", self.settings.name, error)
                return
            log.exception("TW-FAULT-01: flow %s", self.settings.name)
            self.fail_flow(f"TW-FAULT-01: internal error: {error!r}")

    def _read_maps_ahead(self) -> None:
        """Read the maps while Spark starts: the first copier needs them, they may be many, and the target far away."""
        try:
            self._maps.read()
        except Exception as error:
            # The first use of them reports the error.
            log.debug("%s: maps are read later: %r", self.settings.name, error)

    def _take_over(self) -> bool:
        """Fence copiers of an earlier process if this process uses transactions or prepares for them."""
        ids = self._ids
        return ids is None or self._retry(lambda: ids.take_over(self._tasks.slots), "fence earlier copiers")

    def _keep_going(self) -> None:
        """Follow topics, settings and tasks until the end of the flow.

        The tasks are attended between the tries of a failing step: a cluster may be out of reach for this process
        alone, while copiers reach it.
        """
        refreshed_at = self._clock.monotonic()
        again_at: float | None = None
        while not self._clock.wait(self._stopping, TICK_S):
            # A refresh that failed may have left out topics.
            if self._caught_up is not None and again_at is None:
                outcome = self._caught_up.poll_outcome(may_refresh=self._waiting.outage is None)
                if outcome is not None:
                    self._end(*outcome)
                    return
            due_at = again_at
            if due_at is None:
                interval = self.settings.refresh_topics_interval_s
                due_at = min(refreshed_at + (interval or inf), self._topics.due_at)
                due_at = LONG_AGO if self.changes.pending else due_at
            if self._clock.monotonic() >= due_at:
                step = self._take_settings_over if self.changes.pending else self._refresh
                done = self._retry.try_step(step, "follow topics and settings")
                refreshed_at = self._clock.monotonic()
                again_at = None if done else refreshed_at + FLOW_STEP.first_s
            self._control.poll_withheld()
            self._tasks.poll_tasks()
            self._jobs.poll_jobs()
            self.held.retry_due_partitions()

    def _take_settings_over(self) -> None:
        self.changes.take_over(self._topics, self._refresh, self.by_settings)

    def _check(self) -> None:
        self._topics.check_clusters()
        check_one_cluster(self.settings, self._source, self._target, self._connect)
        check_internal_topics(self.settings, self._source, self._target)
        check_proof(self.settings, self._target)

    def _refresh(self) -> None:
        """Bring the remote topics up to date, and plan again if the partitions have changed."""
        self._topics.refresh()
        self.flow_status.set_job_trouble("create or grow remote topics", self._topics.refused)
        remote = self._topics.partitions
        log.debug("%s: the topics of now have %d partitions", self.settings.name, len(remote))
        if remote != self._remote or not self.leases.lease:
            if self._caught_up is not None:
                # After an error here, the next refresh still has to plan these partitions.
                self._caught_up.add_partitions(remote)
            self._remote = remote
            self._control.plan(remote)

    # Called by leases, on their threads.

    def _copier_failed(self, kind: str, text: str) -> None:
        # The text of a twinlog error is a sentence; for other errors their class is shown, too.
        self.fail_flow(text if is_ours(kind) else f"{text} ({kind})")

    def _copier_event(self, kind: str, text: str) -> None:
        event = with_event_id(kind, text)
        # A record that waits for a raised limit is copied then; lost records stay lost.
        self._reporter.last_error.record_error(event, lasts=kind == LIMIT_EVENT)
        log.warning("%s", with_id(f"{self.settings.name}: {event}", "TW-WAIT-05"))
        self.flow_status.meters.event(kind, wall_ms(self._clock))
        keeps_settings = self.by_settings.keeps_settings
        if kind == LIMIT_EVENT and keeps_settings is not None:
            keeps_settings.run_turn_now()

    def _hold(self, held: HeldPartition) -> None:
        new = self.held.add_held(held)
        self._reporter.last_error.record_error(describe(held), lasts=True)
        if new:
            self.flow_status.meters.event("gap" if held.reason == "gap" else "held", wall_ms(self._clock))

    def _try_again(self, partitions: Set[TopicPartition]) -> None:
        self.leases.grant_again(partitions)

    def report(self) -> DriverReport:
        """The present report of the flow."""
        topics = self._topics
        self._shown = self._shows_lag()
        return self._reporter.report(
            *self.status,
            self.flow_status,
            self.held.all(),
            left_out=topics.left_out,
            missing=topics.missing,
            bridged=self.leases.bridged,
            tasks=[self._place(one) for one in self.leases.places()],
            log_level=self._control.log_level,
        )

    def _shows_lag(self) -> bool:
        return self.flow_status.summary().lag >= 0 and self.status[0] == FlowState.RUNNING.value

    def _place(self, copier: CopierPlace) -> TaskPlace:
        task = None if copier.bridge else copier.task
        executor = None
        if task is not None:
            executor = LOCAL_EXECUTOR if self._executors is None else self._executors.get(task)
        return TaskPlace(copier.name, copier.host, copier.partitions, task, executor)

    def _reported(self, report: Report) -> None:
        self.flow_status.add_report(self.held.complete(report))
        self.held.add_report(report)
        self._tasks.add_report(report)
        if not self._shown and self._shows_lag():
            # A reader of the reports sees at once that the flow has begun to copy.
            self._report_soon()

    def _report_soon(self) -> None:
        if self._publishing is not None:
            self._publishing.follow()
