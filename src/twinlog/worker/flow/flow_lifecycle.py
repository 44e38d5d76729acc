"""The life cycle of a flow in this process: begun on the thread of all flows, ended on a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Protocol

from twinlog.clock import SYSTEM, Clock
from twinlog.lease.channel import VALID_S
from twinlog.lease.lease_server import LeaseServer
from twinlog.log_once import AGAIN_S, LogOnce
from twinlog.settings.flow import FlowSettings
from twinlog.worker.flow.flow import JOBS_STOP_S, FlowRunner
from twinlog.worker.put_off import RetryDelay
from twinlog.worker.read_ahead import StoredOffsets
from twinlog.worker.status.flow_status import FlowStatus

log = logging.getLogger(__name__)

COPIERS_STOP_S = 2.5
"""The longest wait of a clean stop for copiers to release their partitions."""


class Builder(Protocol):
    """Makes the runner of a flow; it may append for `leads_for_s()` seconds from now on.

    `stored` has the flow's offsets that this process read while it stood by, None if it did not read them.
    """

    def __call__(self, leads_for_s: Callable[[], float], stored: StoredOffsets | None) -> FlowRunner: ...


class FlowLifecycle:
    """A flow, from its start to its end in this process; used by a single thread, read by other threads.

    `take_out(flow)` ends the copying of a flow: it returns a function that ends its query, for another thread to call.
    `crashed(reason)` is called by another thread if the orderly end of the flow failed: its state is then unknown.
    """

    def __init__(
        self,
        settings: FlowSettings,
        build: Builder,
        take_out: Callable[[FlowRunner], Callable[[], None]],
        crashed: Callable[[str], None],
        clock: Clock = SYSTEM,
    ) -> None:
        self.settings = settings
        self.flow: FlowRunner | None = None
        """The flow while this process runs it."""
        self.flow_status = FlowStatus(clock.monotonic)
        """The records that this process copied, also before another process took over."""
        self.put_off = RetryDelay(settings.name, clock)
        self.emptying = False
        """Whether the flow ends here while another process continues it."""
        self.begun = 0
        """The number of times that the flow began here."""
        self._build = build
        self._take_out = take_out
        self._crashed = crashed
        self._clock = clock
        self._runs = False
        self._lease_server: LeaseServer | None = None
        self._clearing: Callable[[], None] | None = None
        """The steps, under way or still to do, that end the flow here."""
        self._clearer: threading.Thread | None = None
        self._logged = LogOnce(clock)

    @property
    def running(self) -> FlowRunner | None:
        """The flow, if it runs here, until its end begins."""
        return self.flow if self._runs else None

    @property
    def clearing(self) -> bool:
        """Whether the flow is just being ended here."""
        return self._clearing is not None

    @property
    def copies(self) -> bool:
        """Whether copiers hold the flow's lease."""
        flow = self.flow
        return flow is not None and flow.leases.lease > 0 and not flow.leases.unclaimed

    def poll_ending(self) -> bool:
        """Continue to end the flow, called every moment; returns False until it has ended."""
        if self._clearing is not None:
            if self._clearer is None:
                self._begin_clearing()
            if self._clearer is None or self._clearer.is_alive():
                return False
            self._clearing, self._clearer, self.emptying = None, None, False
        return True

    def start_flow(
        self, lease_server: LeaseServer, leads_for_s: Callable[[], float], stored: StoredOffsets | None = None
    ) -> bool:
        """Begin the flow; False for lack of threads, for the caller to try again.

        The flow closes `stored`, or this method closes it after a failure.
        """
        flow: FlowRunner | None = None
        try:
            flow = self._build(leads_for_s, stored)
            flow.flow_status.count_on(self.flow_status)
            flow.start()
        except RuntimeError as error:
            if flow is not None:
                flow.close()
            elif stored is not None:
                stored.close()
            self.put_off.set_failure(error)
            return False
        self.put_off.clear_delay()
        self._lease_server = lease_server
        self.flow, self.flow_status = flow, flow.flow_status
        lease_server.flows[self.settings.name] = flow.leases
        self._runs = True
        self.begun += 1
        return True

    def clear(self, then: Callable[[], None] | None, *, emptying: bool = False) -> None:
        """End the flow that runs here.

        With `then` it ends in order, and `then` is called once every copier has lost its right to append. Without
        `then`, the copiers are cut off.
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
                log.exception("flow %s", self.settings.name)
                self._crashed(f"internal error: {error!r}")
            try:
                end_query()
            finally:
                flow.close()

        self._runs = False
        self.emptying = self.emptying or emptying or then is None
        self.run_steps(clear)

    def run_steps(self, steps: Callable[[], None]) -> None:
        """Run steps that end the flow here, on a thread of their own, because they would delay other flows."""
        self._clearing = steps
        self._begin_clearing()

    def stop(self) -> bool:
        """End the flow here in order and wait for its end; False if a copier may still append."""
        released = True
        if self._clearer is not None:
            self._clearer.join(COPIERS_STOP_S + JOBS_STOP_S)
            released = not self._clearer.is_alive()
        elif self._clearing is not None:
            self._clearing()
        flow = self.running
        return released if flow is None else flow.stop(COPIERS_STOP_S)

    def close(self) -> None:
        """Close the connections to both clusters."""
        if self.flow is not None and self._clearing is None:
            self.flow.close()

    def _begin_clearing(self) -> None:
        """Start the thread for the end of the flow; for lack of threads, `poll_ending` tries again."""
        assert self._clearing is not None
        thread = threading.Thread(target=self._clearing, name=f"clearing {self.settings.name}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            if self._logged.is_new("threads", AGAIN_S):
                log.warning("%s: cannot be ended here yet, trying again: %s", self.settings.name, error)
        else:
            self._clearer = thread
