"""A flow's place in this process: empty while another process runs the flow, taken when this one is elected."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Protocol

from twinlog.clock import SYSTEM, Clock
from twinlog.driver.election.election import Election, Standing
from twinlog.driver.election.member import Leadership, Term
from twinlog.driver.election.roster import Roster
from twinlog.driver.flow import JOBS_STOP_S, FlowRunner, FlowState
from twinlog.driver.flow_status import FlowStatus
from twinlog.driver.lease_server import LeaseServer
from twinlog.driver.put_off import PutOff
from twinlog.driver.read_ahead import StoredOffsets
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect
from twinlog.lease.channel import VALID_S
from twinlog.log_once import AGAIN_S, LogOnce
from twinlog.plan.spread import ProcessName, choose
from twinlog.settings.flow import FlowSettings

log = logging.getLogger(__name__)

COPIERS_STOP_S = 2.5
"""How long a clean stop waits for copiers to release their partitions."""

AWAY_S = 60.0
"""After so long without the source a flow is left to another process, on the right side of a firewall perhaps."""

UNFIT_S = 600.0
"""For how long at least this process then gets the flow only where no other one is ready: the source may be away for
all."""

READ_AGAIN_S = 10.0
"""Pause before reading ahead is tried again when there are no threads or files left."""

LEAVE_S = 0.5
"""How long a clean stop waits until the coordinator has got it."""


class Builder(Protocol):
    """Makes the runner of a flow; it may append for `leads_for_s()` seconds from now on.

    `stored` is what this process has read of the flow's offsets while it stood by, None when it did not.
    """

    def __call__(self, leads_for_s: Callable[[], float], stored: StoredOffsets | None) -> FlowRunner: ...


class ElectedFlow:
    """One flow that copies. `attend` is called every moment; the rest may be read by other threads.

    `take_out(flow)` ends the copying of a flow: it returns what ends its query, for another thread to call.
    With `until_caught_up` a flow that another process runs already ends here at once, with a reason, unless that one
    ends by itself, too: it is waited for.
    """

    def __init__(
        self,
        settings: FlowSettings,
        build: Builder,
        take_out: Callable[[FlowRunner], Callable[[], None]],
        *,
        until_caught_up: bool,
        wake: Callable[[], None],
        roster: Roster | None = None,
        clock: Clock = SYSTEM,
        connect: Connect = ClusterAdmin,
    ) -> None:
        self._connect = connect
        self._clock = clock
        self.settings = settings
        self.flow: FlowRunner | None = None
        """The flow while this process runs it."""
        self._election = Election(
            settings, wake, roster or Roster(ready=True, clock=clock), until=until_caught_up, connect=connect
        )
        self._build = build
        self._take_out = take_out
        self._until = until_caught_up
        self._roster = roster
        self._term = 0
        self._away_since: float | None = None
        self._awaited: Term | None = None
        self._failure: str | None = None
        self.over = False
        """Whether the flow never runs here again: it failed, or has caught up."""
        self._flow_status = FlowStatus(clock.monotonic)
        self._lease_server: LeaseServer | None = None
        self._runs = False
        self._clearing: Callable[[], None] | None = None
        """The steps, under way or still to do, that end the flow here."""
        self._clearer: threading.Thread | None = None
        self._emptying = False
        self._logged = LogOnce(clock)
        self._put_off = PutOff(settings.name, clock)
        self._stored: StoredOffsets | None = None
        """What is read while another process runs the flow."""
        self._reading = PutOff(
            settings.name, clock, what="nothing is read ahead yet", level=logging.DEBUG, pause_s=READ_AGAIN_S
        )

    def start(self) -> None:
        """Start the election."""
        self._election.start()

    @property
    def running(self) -> FlowRunner | None:
        """The flow, if it runs here and is not being ended."""
        return self.flow if self._runs else None

    def attend(self, lease_server: LeaseServer) -> None:
        """Run the flow when this process is elected, and end it when it is not any more."""
        if self._clearing is not None:
            if self._clearer is None:
                self._begin_clearing()
            if self._clearer is None or self._clearer.is_alive():
                return
            self._clearing, self._clearer, self._emptying = None, None, False
        if self.over:
            return
        if self.flow is None:
            self._run_or_stand_by(lease_server)
        elif self.flow.state in (FlowState.DONE, FlowState.NOTHING):
            # Other processes may wait to see that all is copied, also while other flows go on here.
            self.over = True
            self._clear(lease_server, self._leave)
        elif self.flow.state is FlowState.FAILED:
            # Another process may have better luck, as when a fault is this machine's.
            self._fail(self.flow.reason or "")
            self._clear(lease_server, self._leave)
        elif self._election.term != self._term and not self.flow.ended:
            log.warning("%s: what this process still copies is cut off", self.settings.name)
            self._clear(lease_server, None)
        elif (heir := self._better_placed(self.flow)) is not None:
            log.warning(
                "%s: %s was not reached from here for %.0f s: handed over to %s, which may reach it",
                *(self.settings.name, self.settings.source, AWAY_S, heir),
            )
            self._away_since = None
            self.hand_over(heir, unfit_s=UNFIT_S)

    def _better_placed(self, flow: FlowRunner) -> ProcessName | None:
        """A process that may reach the source, which this one has not reached for long; None to wait for it here."""
        if flow.ended or not flow.source_away:
            self._away_since = None
            return None
        now = self._clock.monotonic()
        self._away_since = now if self._away_since is None else self._away_since
        roster, election = self._roster, self._election
        # A process that ends when all is copied must see that itself.
        if roster is None or self._until or now - self._away_since < AWAY_S or election.unfit:
            return None
        crew = roster.crews().get(self.settings.name)
        if crew is None or election.leads_for_s() <= VALID_S / 2:
            return None
        others = [process for process, ready in crew.ready.items() if ready and process != roster.name]
        counts = roster.loads(self.settings.name)
        return choose(self.settings.name, others, counts, pack=roster.packs) if others else None

    def _run_or_stand_by(self, lease_server: LeaseServer) -> None:
        # The term first: a standing that is older than it would be taken for its own.
        election, term = self._election, self._election.term
        if election.standing is not Standing.LEADING:
            self._put_off.over()
        if election.standing is Standing.LEADING:
            if self._put_off.is_due:
                self._take(lease_server, term)
        elif election.standing is Standing.REFUSED:
            self._withdraw(election.reason or "")
        elif self.stands_by:
            if election.standing is Standing.STANDBY and self._until:
                self._wait_for_turn(election.leadership)
            self._read_ahead()

    def _read_ahead(self) -> None:
        """Read positions and maps ahead: after months there are so many that a take-over would wait for them."""
        if self.over or self._stored is not None or not self._reading.is_due:
            return
        stored = None
        try:
            stored = StoredOffsets(self.settings, self._connect)
            stored.follow()
            self._stored = stored
        except (RuntimeError, OSError) as error:
            self._reading.because(error)
            if stored is not None:
                stored.close()

    def _read_no_further(self) -> None:
        stored, self._stored = self._stored, None
        if stored is not None:
            stored.close()

    def _take(self, lease_server: LeaseServer, term: int) -> None:
        flow: FlowRunner | None = None
        try:
            flow = self._build(self._election.leads_for_s, self._stored)
            flow.flow_status.count_on(self._flow_status)
            flow.start()
        except RuntimeError as error:
            if flow is not None:
                # With it the connections of what was read ahead.
                flow.close()
                self._stored = None
            self._put_off.because(error)
            return
        self._put_off.over()
        self._term, self._lease_server, self._away_since = term, lease_server, None
        self.flow, self._flow_status, self._stored = flow, flow.flow_status, None
        lease_server.flows[self.settings.name] = flow.leases
        self._runs = True

    def _wait_for_turn(self, leadership: Leadership | None) -> None:
        """Stand by for a runner that ends once it has caught up, too; then this process looks itself."""
        if leadership is None or not leadership.leader.until:
            self._withdraw(f"{leadership} runs this flow already, so this process cannot see when it has caught up")
        elif leadership.term != self._awaited:
            self._awaited = leadership.term
            log.info(
                "%s: %s catches up with this flow; once it has ended, this process copies what is left, if anything",
                *(self.settings.name, leadership.leader.name),
            )

    def _withdraw(self, reason: str) -> None:
        """Fail and leave the group: a member that never runs the flow must not be appointed to."""
        self._fail(reason)
        log.error("%s: FAILED: %s", self.settings.name, reason)
        self._clearing = self._leave
        self._begin_clearing()

    def _fail(self, reason: str) -> None:
        self._failure, self.over = reason, True

    def hand_over(self, heir: str, *, unfit_s: float = 0.0) -> None:
        """End in order what runs here, and leave the flow to another process; this one stands by then.

        With `unfit_s` it is not ready for the flow so long, see `Election`.
        """

        def give_up() -> None:
            self._election.give_up(heir, unfit_s=unfit_s)
            self.flow = None

        assert self._lease_server is not None
        self._emptying = True
        self._clear(self._lease_server, give_up)

    def _leave(self) -> None:
        self._election.stop(LEAVE_S)
        self._read_no_further()

    def _clear(self, lease_server: LeaseServer, then: Callable[[], None] | None) -> None:
        """End what runs here.

        With `then` in order, and it is called once no copier is left that may append; without, everything is cut off.
        """
        flow = self.flow
        assert flow is not None
        lease_server.flows.pop(self.settings.name, None)
        end_query = self._take_out(flow)

        def clear() -> None:
            try:
                if then is None:
                    flow.abandon()
                    self.flow = None
                else:
                    if not flow.stop(COPIERS_STOP_S):
                        flow.abandon()
                        # A copier that does not even get the message may append until its permission ends.
                        self._clock.sleep(VALID_S)
                    then()
            except Exception as error:
                log.exception("flow %s", self.settings.name)
                self._fail(f"internal error: {error!r}")
                # Its state is unknown: another process runs the flow once this one's session has ended.
                self._election.stop(LEAVE_S, leave=False)
            try:
                end_query()
            finally:
                flow.close()

        self._runs = False
        self._emptying = self._emptying or then is None
        self._clearing = clear
        self._begin_clearing()

    def _begin_clearing(self) -> None:
        """On a thread of its own: other flows must not wait for it. Where there is none now, `attend` tries again."""
        assert self._clearing is not None
        thread = threading.Thread(target=self._clearing, name=f"clearing {self.settings.name}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            if self._logged.is_new("threads", AGAIN_S):
                log.warning("%s: cannot be ended here yet, trying again: %s", self.settings.name, error)
        else:
            self._clearer = thread

    def stop(self) -> None:
        """End in order what runs here, then leave the flow to others."""
        released = True
        if self._clearer is not None:
            self._clearer.join(COPIERS_STOP_S + JOBS_STOP_S)
            released = not self._clearer.is_alive()
        elif self._clearing is not None:
            self._clearing()
        flow = self.running
        if flow is not None:
            released = flow.stop(COPIERS_STOP_S)
        # A new runner must not meet a copier that still appends: then the session ends by itself, after that copier.
        self._election.stop(LEAVE_S, leave=released)

    def close(self) -> None:
        """Close the connections to both clusters."""
        self._read_no_further()
        if self.flow is not None and self._clearing is None:
            self.flow.close()

    @property
    def copies(self) -> bool:
        """Whether copiers hold the flow's lease."""
        flow = self.flow
        return flow is not None and flow.leases.lease > 0 and not flow.leases.unclaimed

    @property
    def occupied(self) -> bool:
        """Whether the flow runs here, or is still being ended."""
        return self.flow is not None and (self._clearing is not None or not self.over)

    @property
    def clearing(self) -> bool:
        """Whether the flow is just being ended here."""
        return self._clearing is not None

    @property
    def can_hand_over(self) -> bool:
        """Whether the flow runs here without trouble, and its group is reachable."""
        flow = self.running
        if flow is None or self._clearing is not None or flow.state is not FlowState.RUNNING:
            return False
        return self._election.leads_for_s() > VALID_S / 2

    # What a table or a log line shows.

    @property
    def flow_status(self) -> FlowStatus:
        """What this process copied, also before another one took over."""
        return self._flow_status

    @property
    def state(self) -> FlowState:
        if self._failure is not None:
            return FlowState.FAILED
        return FlowState.STARTING if self.flow is None or self._emptying else self.flow.state

    @property
    def status(self) -> tuple[str, str | None]:
        """The status of the flow in a word, and the reason of a trouble or of its end."""
        if self.flow is None and self._failure is None:
            return (self._election.text, None) if self._put_off.why is None else ("starting", self._put_off.why)
        if self._failure is not None:
            return FlowState.FAILED.value, self._failure
        if self.flow is None or self._emptying:
            return FlowState.STARTING.value, None
        return self.flow.status

    @property
    def ended(self) -> bool:
        return self.state not in (FlowState.STARTING, FlowState.RUNNING)

    @property
    def stands_by(self) -> bool:
        """Whether another process, of twinlog or of MirrorMaker 2, runs the flow."""
        return self._election.standing in (Standing.STANDBY, Standing.WAITING)

    @property
    def has_read(self) -> bool:
        """Whether this process could run the flow without reading stored positions first."""
        return self.flow is not None or self.over or (self._stored is not None and self._stored.looked)

    @property
    def absent(self) -> bool:
        """Whether nothing runs here yet; `status` has the reason."""
        return self.flow is None and self._failure is None
