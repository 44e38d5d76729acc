"""Hosts a flow in this process: begins it on the thread of all flows, and ends it on a thread of its own.

`twinlog run` and a Connect worker have the same host. They differ in the decision that this process runs the flow:
processes with the same file elect a process (`worker/elected_flow.py`), and the leader of a group of workers assigns a
source connector to a worker (`connect/instances.py`).
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from twinlog.clock import Clock
from twinlog.errors import TwinlogError
from twinlog.errors.message_ids import told
from twinlog.kafka.admin.cluster import Connect
from twinlog.lease.channel import VALID_S
from twinlog.lease.lease_server import LeaseServer
from twinlog.process.log_once import AGAIN_S, LogOnce
from twinlog.settings.flow import FlowSettings
from twinlog.worker.flow.failure_log import FailureLog
from twinlog.worker.flow.flow import JOBS_STOP_S, FlowRunner
from twinlog.worker.flow_tasks import first_tasks
from twinlog.worker.read_ahead import StoredOffsets
from twinlog.worker.retrying import RetryDelay
from twinlog.worker.status.flow_status import FlowStatus
from twinlog.worker.status.report import FlowState

log = logging.getLogger(__name__)

COPIERS_STOP_S = 2.5
"""The longest wait of a clean stop for copiers to release their partitions."""


class HostState(Enum):
    """The part that a process has in the life of a flow."""

    ABSENT = "the flow is still to begin here, or is left to another process"
    RUNNING = "the flow runs here"
    ENDING = "the flow is being ended here"
    OVER = "the flow has ended here for good"


@dataclass(frozen=True, slots=True)
class FlowBuilder:
    """Makes the runners of all flows of a process; `local` is whether its Spark runs tasks on this machine."""

    local: bool
    wake: Callable[[], None]
    clock: Clock
    connect: Connect
    until_caught_up: bool = False
    failures: FailureLog = field(default_factory=FailureLog)

    def build_runner(
        self,
        settings: FlowSettings,
        flows: Sequence[FlowSettings],
        leads_for_s: Callable[[], float],
        stored: StoredOffsets | None,
    ) -> FlowRunner:
        """Make the runner of a flow, which may append for `leads_for_s()` seconds from now on.

        `flows` are all flows of the file or of the group. `stored` has the flow's offsets that this process read while
        it stood by, None if the flow has to read them. Raises RuntimeError for lack of threads, OSError for lack of
        files, and ConfigError for an unusable class of the user's.
        """
        return FlowRunner(
            settings,
            slots=settings.tasks_max,
            tasks=first_tasks(settings, local=self.local),
            until_caught_up=self.until_caught_up,
            wake=self.wake,
            flows=flows,
            leads_for_s=leads_for_s,
            stored=stored,
            clock=self.clock,
            connect=self.connect,
            failures=self.failures,
        )


class FlowHost(ABC):
    """A flow in this process. A single thread calls `poll_flow` every moment; other threads may read the rest.

    `flows()` are all flows of the file or of the group: some may conflict. `take_out(flow)` ends the copying of a flow:
    it returns a function that ends its query, for another thread to call.
    """

    returns = False
    """Whether the flow may run here again after another process ran it."""

    def __init__(
        self,
        settings: FlowSettings,
        builder: FlowBuilder,
        flows: Callable[[], Sequence[FlowSettings]],
        take_out: Callable[[FlowRunner], Callable[[], None]],
    ) -> None:
        clock = builder.clock
        self.flow: FlowRunner | None = None
        """The flow while this process runs it."""
        self.flow_status = FlowStatus(clock.monotonic)
        """The records that this process copied, also before another process took over."""
        self.failure: str | None = None
        """The failure that ended the flow here for good, if any."""
        self.over = False
        """Whether the flow has ended here for good, or is being ended for good."""
        self.emptying = False
        """Whether the flow ends here while another process continues it."""
        self.begun = 0
        """The number of times that the flow began here."""
        self._settings = settings
        self._builder = builder
        self._flows = flows
        self._take_out = take_out
        self._clock = clock
        self._asked_to_end = False
        self._put_off = RetryDelay(settings.name, clock)
        self._lease_server: LeaseServer | None = None
        self._clearing: Callable[[], None] | None = None
        """The steps, under way or still to do, that end the flow here."""
        self._clearer: threading.Thread | None = None
        self._logged = LogOnce(clock)

    @property
    def settings(self) -> FlowSettings:
        """The settings with which the flow runs here, or would run."""
        flow = self.flow
        return self._settings if flow is None else flow.settings

    @property
    def stands_by(self) -> bool:
        """Whether another process, of twinlog or of MirrorMaker 2, runs the flow."""
        return False

    @property
    def has_read(self) -> bool:
        """Whether this process could run the flow at once, with stored positions already read."""
        return True

    @property
    def host_state(self) -> HostState:
        """The part that this process has in the life of the flow."""
        if self._clearing is not None:
            return HostState.ENDING
        if self.over:
            return HostState.OVER
        return HostState.ABSENT if self.flow is None else HostState.RUNNING

    @property
    def running(self) -> FlowRunner | None:
        """The flow, if it runs here, until its end begins."""
        return self.flow if self.host_state is HostState.RUNNING else None

    @property
    def clearing(self) -> bool:
        """Whether the flow is just being ended here."""
        return self.host_state is HostState.ENDING

    @property
    def occupied(self) -> bool:
        """Whether the flow runs here, or is still being ended."""
        return self.flow is not None and self.host_state in (HostState.RUNNING, HostState.ENDING)

    @property
    def copies(self) -> bool:
        """Whether copiers hold the flow's lease."""
        flow = self.flow
        return flow is not None and flow.leases.lease > 0 and not flow.leases.unclaimed

    def end(self) -> None:
        """End the flow here in order and for good; `over` is true once the end begins."""
        self._asked_to_end = True

    def poll_flow(self, lease_server: LeaseServer) -> None:
        """Run the flow while this process may run it, or continue to end it."""
        if not self._poll_ending() or self.over:
            return
        flow = self.flow
        if flow is None:
            if self._asked_to_end:
                self._end_absent()
            else:
                self._poll_absent(lease_server)
        elif flow.state is FlowState.FAILED:
            # Another process may succeed, for example when the fault is this machine's.
            self._fail(flow.reason or "")
            self._clear(self._leave)
        elif self._has_lost(flow):
            log.warning(
                "TW-FLOW-08: %s: another process may run the flow now, the copiers of this process are cut off",
                self.settings.name,
            )
            self.over = not self.returns
            self._clear(None)
        elif self._asked_to_end or flow.state in (FlowState.DONE, FlowState.HELD, FlowState.NOTHING):
            # Other processes may wait for the end of the copying, also while other flows still run here.
            self.over = True
            self._clear(self._leave)

    def fail_flow(self, error: Exception) -> None:
        """End the flow here for good after an unexpected error of `poll_flow`; the other flows continue."""
        self._fail(f"TW-FAULT-01: internal error: {type(error).__name__}")
        if self._clearing is not None:
            return
        if self.flow is None:
            self._run_steps(self._leave)
        else:
            self._clear(self._leave)

    def stop(self) -> None:
        """End the flow here in order, and wait for its end."""
        self._stop_runner()

    def close(self) -> None:
        """Close the connections to both clusters."""
        if self.flow is not None and self._clearing is None:
            self.flow.close()

    @abstractmethod
    def _poll_absent(self, lease_server: LeaseServer) -> None:
        """Begin the flow if this process may run it."""

    @abstractmethod
    def _has_lost(self, flow: FlowRunner) -> bool:
        """Whether another process may run the flow now."""

    @abstractmethod
    def _leave(self) -> None:
        """Leave the flow to other processes, after its end here; called by the thread that ends the flow."""

    def _end_absent(self) -> None:
        """End for good, while the flow is absent."""
        self.over = True

    def _fail(self, reason: str) -> None:
        self.failure, self.over = reason, True

    def _withdraw(self, reason: str) -> None:
        """Fail before the flow begins here, and leave the flow to other processes."""
        self._fail(reason)
        self._builder.failures.log_failure(self.settings.name, reason)
        self._run_steps(self._leave)

    def _crash(self, reason: str) -> None:
        """The orderly end of the flow failed, so that its state is unknown; called by the thread that ends the flow."""
        self._fail(reason)

    def _start_flow(
        self, lease_server: LeaseServer, leads_for_s: Callable[[], float], stored: StoredOffsets | None = None
    ) -> bool:
        """Begin the flow; False for lack of threads or files, for the caller to try again.

        Also False when the flow can never begin here: it has failed then. The flow closes `stored`, or this method
        closes it after a failure.
        """
        flow: FlowRunner | None = None
        try:
            flow = self._builder.build_runner(self._settings, self._flows(), leads_for_s, stored)
            flow.flow_status.count_on(self.flow_status)
            flow.start()
        except (RuntimeError, OSError) as error:
            if flow is not None:
                flow.close()
            elif stored is not None:
                stored.close()
            self._put_off.set_failure(error)
            return False
        except TwinlogError as error:
            # A class of the user's has become unusable since the configuration was read.
            if stored is not None:
                stored.close()
            self._withdraw(told(error, "TW-FLOW-01"))
            return False
        self._put_off.clear_delay()
        self._lease_server = lease_server
        self.flow, self.flow_status = flow, flow.flow_status
        lease_server.flows[self.settings.name] = flow.leases
        self.begun += 1
        return True

    def _clear(self, then: Callable[[], None] | None, *, emptying: bool = False) -> None:
        """End the flow that runs here.

        With `then` it ends in order, and `then` is called once every copier has lost its right to append. If `then` is
        None, the copiers are cut off.
        """
        flow = self.flow
        assert flow is not None
        assert self._lease_server is not None
        self._lease_server.flows.pop(self.settings.name, None)
        end_query = self._take_out(flow)

        def clear() -> None:
            try:
                if then is None:
                    flow.drop_copiers()
                    self.flow = None
                else:
                    if not flow.stop(COPIERS_STOP_S):
                        flow.drop_copiers()
                        # A copier out of reach of the message may append until its permission expires.
                        self._clock.sleep(VALID_S)
                    then()
            except Exception as error:
                log.exception("TW-FAULT-01: flow %s", self.settings.name)
                self._crash(f"internal error: {error!r}")
            try:
                end_query()
            finally:
                flow.close()

        self.emptying = self.emptying or emptying or then is None
        self._run_steps(clear)

    def _run_steps(self, steps: Callable[[], None]) -> None:
        """Run steps that end the flow here, on a thread of their own, because they would delay other flows."""
        self._clearing = steps
        self._begin_clearing()

    def _begin_clearing(self) -> None:
        """Start the thread for the end of the flow; for lack of threads, `poll_flow` tries again."""
        assert self._clearing is not None
        thread = threading.Thread(target=self._clearing, name=f"clearing {self.settings.name}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            if self._logged.is_new("threads", AGAIN_S):
                log.warning("TW-LEADER-06: %s: cannot be ended here yet, trying again: %s", self.settings.name, error)
        else:
            self._clearer = thread

    def _poll_ending(self) -> bool:
        """Continue to end the flow; returns False until it has ended."""
        if self._clearing is not None:
            if self._clearer is None:
                self._begin_clearing()
            if self._clearer is None or self._clearer.is_alive():
                return False
            self._clearing, self._clearer, self.emptying = None, None, False
        return True

    def _stop_runner(self) -> bool:
        """End the flow here in order and wait for its end; False if a copier may still append."""
        released = True
        if self._clearer is not None:
            self._clearer.join(COPIERS_STOP_S + JOBS_STOP_S)
            released = not self._clearer.is_alive()
        elif self._clearing is not None:
            self._clearing()
        flow = self.running
        return released if flow is None else flow.stop(COPIERS_STOP_S)
