"""A flow that copies here because a group of workers gave it to this process, until the group takes it away."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from twinlog.clock import SYSTEM, Clock
from twinlog.lease.lease_server import LeaseServer
from twinlog.model.types import TopicPartition
from twinlog.settings.flow import FlowSettings
from twinlog.worker.flow.flow import FlowRunner
from twinlog.worker.flow.flow_lifecycle import Builder, FlowLifecycle
from twinlog.worker.status.flow_state import FlowState

log = logging.getLogger(__name__)


class AssignedFlow:
    """A flow that copies; `poll_flow` is called every moment by the thread of `SparkFlows`.

    Appends stop once `leads_for_s()` returns 0 seconds, because another process may then run the flow.
    """

    stands_by = False
    has_read = True

    def __init__(
        self,
        settings: FlowSettings,
        build: Builder,
        take_out: Callable[[FlowRunner], Callable[[], None]],
        leads_for_s: Callable[[], float],
        clock: Clock = SYSTEM,
    ) -> None:
        self.settings = settings
        self.failure: str | None = None
        """The reason for the failure of the flow; a failed flow stays ended."""
        self.over = False
        """Whether the flow has ended here for good."""
        self._lifecycle = FlowLifecycle(settings, build, take_out, self._fail, clock)
        self._leads_for_s = leads_for_s
        self._asked_to_end = False

    @property
    def running(self) -> FlowRunner | None:
        """The flow, if it runs here, until its end begins."""
        return self._lifecycle.running

    @property
    def occupied(self) -> bool:
        """Whether the flow runs here, or is still being ended."""
        return self._lifecycle.clearing or (self._lifecycle.flow is not None and not self.over)

    @property
    def copies(self) -> bool:
        """Whether copiers hold the flow's lease."""
        return self._lifecycle.copies

    @property
    def ended(self) -> bool:
        """Whether all parts of the flow have ended."""
        return self.over and not self._lifecycle.clearing

    @property
    def trouble(self) -> str | None:
        """The fault that keeps the flow from copying now; None without a fault."""
        flow = self._lifecycle.flow
        return self._lifecycle.put_off.why if flow is None else flow.status[1]

    @property
    def nothing_copied(self) -> str | None:
        """The reason for a standstill of the flow if all its partitions are held."""
        flow = self._lifecycle.flow
        return None if flow is None or flow.ended else flow.nothing_copied

    @property
    def partitions(self) -> Collection[TopicPartition] | None:
        """The source partitions that the flow copies, with heartbeats; the object changes only with its content.

        None until they are known.
        """
        flow = self._lifecycle.flow
        return None if flow is None or flow.state is FlowState.STARTING else flow.copied

    def take_written(self) -> set[str]:
        """The remote topics in which records arrived since the last call."""
        flow = self._lifecycle.flow
        return set() if flow is None else flow.take_written()

    def end(self) -> None:
        """End the flow here in order; `ended` is true after its end."""
        self._asked_to_end = True

    def poll_flow(self, lease_server: LeaseServer) -> None:
        """Begin the flow, or continue to end it."""
        if not self._lifecycle.poll_ending() or self.over:
            return
        flow = self._lifecycle.flow
        if flow is None:
            if self._asked_to_end:
                self.over = True
            elif self._lifecycle.put_off.is_due:
                self._lifecycle.start_flow(lease_server, self._leads_for_s)
        elif flow.state is FlowState.FAILED:
            self._fail(flow.reason or "")
            self._lifecycle.clear(lambda: None)
        elif self._leads_for_s() <= 0:
            log.warning(
                "%s: another process may run the flow now, the copiers of this one are cut off", self.settings.name
            )
            self.over = True
            self._lifecycle.clear(None)
        elif self._asked_to_end:
            self.over = True
            self._lifecycle.clear(lambda: None)

    def stop(self) -> None:
        """End the flow here in order, and wait for its end."""
        self.over = True
        self._lifecycle.stop()

    def close(self) -> None:
        """Close the connections to both clusters."""
        self._lifecycle.close()

    def _fail(self, reason: str) -> None:
        self.failure, self.over = reason, True
