"""A flow in this process: it runs here once this process is elected, and is on standby otherwise."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from twinlog.clock import SYSTEM, Clock
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect
from twinlog.kafka.retry import READ_AHEAD
from twinlog.lease.channel import VALID_S
from twinlog.lease.lease_server import LeaseServer
from twinlog.settings.flow import FlowSettings
from twinlog.worker.election.election import Election
from twinlog.worker.election.member import Leadership, LeaderTerm
from twinlog.worker.election.role import ElectionState
from twinlog.worker.election.roster import ElectionRegistry
from twinlog.worker.flow.flow import FlowRunner
from twinlog.worker.flow.flow_lifecycle import Builder, FlowLifecycle
from twinlog.worker.placement.processes import ProcessName, choose_process
from twinlog.worker.put_off import RetryDelay
from twinlog.worker.read_ahead import StoredOffsets
from twinlog.worker.status.flow_state import FlowState
from twinlog.worker.status.flow_status import FlowStatus

log = logging.getLogger(__name__)

AWAY_S = 60.0
"""After this time out of reach of the source, a flow passes to another process, perhaps behind the right firewall."""

UNFIT_S = 600.0
"""The least time for which this process then gets the flow only if no other process is ready.

The source may be unreachable for all processes.
"""

LEAVE_S = 0.5
"""How long a clean stop waits until the coordinator has the leave request."""


class ElectedFlow:
    """A flow that copies. `poll_flow` is called every moment; other threads may read the other members.

    `take_out(flow)` ends the copying of a flow and returns a function that ends its query; another thread calls this
    function. With `until_caught_up`, a flow that another process already runs ends here at once, with a reason. If that
    process also ends once it has caught up, this process waits for it.
    """

    def __init__(
        self,
        settings: FlowSettings,
        build: Builder,
        take_out: Callable[[FlowRunner], Callable[[], None]],
        *,
        until_caught_up: bool,
        wake: Callable[[], None],
        roster: ElectionRegistry | None = None,
        clock: Clock = SYSTEM,
        connect: Connect = ClusterAdmin,
    ) -> None:
        self._connect = connect
        self._clock = clock
        self._settings = settings
        self._asked_to_end = False
        self._lifecycle = FlowLifecycle(settings, build, take_out, self._crashed, clock)
        self.election = Election(
            settings, wake, roster or ElectionRegistry(ready=True, clock=clock), until=until_caught_up, connect=connect
        )
        self._until = until_caught_up
        self._roster = roster
        self._term = 0
        self._away_since: float | None = None
        self._awaited: LeaderTerm | None = None
        self.failure: str | None = None
        """The reason why the flow has ended here for good."""
        self.over = False
        """Whether the flow has ended here for good: it failed, or has caught up."""
        self._stored: StoredOffsets | None = None
        """The positions that are read ahead while another process runs the flow."""
        self._reading = RetryDelay(
            settings.name, clock, what="nothing is read ahead yet", level=logging.DEBUG, policy=READ_AHEAD
        )

    def start(self) -> None:
        """Start the election."""
        self.election.start()

    @property
    def settings(self) -> FlowSettings:
        """The settings with which the flow runs here, or would run."""
        flow = self.flow
        return self._settings if flow is None else flow.settings

    @property
    def wanted(self) -> FlowSettings:
        """The settings with which the flow shall run."""
        return self._settings

    def change_settings(self, settings: FlowSettings, flows: Sequence[FlowSettings]) -> None:
        """Continue with changed settings of this flow, or of all `flows`, here or once this process is elected."""
        self._settings = settings
        self.election.change_settings(settings)
        if self.flow is not None:
            self.flow.changes.request_change(settings, flows)

    @property
    def changing(self) -> bool:
        """Whether the flow that runs here still has to take over changed settings."""
        flow = self.running
        return flow is not None and not flow.ended and flow.changes.pending

    def end(self) -> None:
        """End the running flow in order and leave the flow for good; afterwards `gone` is true."""
        self._asked_to_end = True

    @property
    def gone(self) -> bool:
        """Whether all parts of the flow have ended here after `end`."""
        return self._asked_to_end and self.over and not self._lifecycle.clearing

    @property
    def flow(self) -> FlowRunner | None:
        """The flow while this process runs it."""
        return self._lifecycle.flow

    @property
    def running(self) -> FlowRunner | None:
        """The flow, if it runs here, until its end begins."""
        return self._lifecycle.running

    def poll_flow(self, lease_server: LeaseServer) -> None:
        """Run the flow when this process is elected, and end it when this process loses the election."""
        if not self._lifecycle.poll_ending() or self.over:
            return
        if self._asked_to_end:
            self.over = True
            self._lifecycle.run_steps(self._leave) if self.flow is None else self._lifecycle.clear(self._leave)
        elif self.flow is None:
            self._run_or_stand_by(lease_server)
        elif self.flow.state in (FlowState.DONE, FlowState.HELD, FlowState.NOTHING):
            # Other processes may wait for the end of the copying, also while other flows still run here.
            self.over = True
            self._lifecycle.clear(self._leave)
        elif self.flow.state is FlowState.FAILED:
            # Another process may succeed, for example when the fault is this machine's.
            self._fail(self.flow.reason or "")
            self._lifecycle.clear(self._leave)
        elif self.election.term != self._term and not self.flow.ended:
            log.warning(
                "%s: another process may run the flow now, the copiers of this one are cut off", self.settings.name
            )
            self._lifecycle.clear(None)
        elif (heir := self._better_placed(self.flow)) is not None:
            log.warning(
                "%s: %s was not reached from here for %.0f s: handed over to %s, which may reach it",
                *(self.settings.name, self.settings.source, AWAY_S, heir),
            )
            self._away_since = None
            self.hand_over(heir, unfit_s=UNFIT_S)

    def _better_placed(self, flow: FlowRunner) -> ProcessName | None:
        """A process that may reach the source, while the source is out of reach here; None to keep the flow here."""
        if flow.ended or not flow.source_away:
            self._away_since = None
            return None
        now = self._clock.monotonic()
        self._away_since = now if self._away_since is None else self._away_since
        roster, election = self._roster, self.election
        # With `--until caught-up` this process has to see the end itself, so it keeps the flow.
        if roster is None or self._until or now - self._away_since < AWAY_S or election.unfit:
            return None
        crew = roster.crews().get(self.settings.name)
        if crew is None or election.leads_for_s() <= VALID_S / 2:
            return None
        others = [process for process, ready in crew.ready.items() if ready and process != roster.name]
        counts = roster.count_flows(self.settings.name)
        return choose_process(self.settings.name, others, counts, pack=roster.packs) if others else None

    def _run_or_stand_by(self, lease_server: LeaseServer) -> None:
        # The term is read first: an election state that was read before it could belong to an earlier term.
        election, term = self.election, self.election.term
        if election.standing is not ElectionState.LEADING:
            self._lifecycle.put_off.clear_delay()
        if election.standing is ElectionState.LEADING:
            if self._lifecycle.put_off.is_due:
                self._take(lease_server, term)
        elif election.standing is ElectionState.REFUSED:
            self._withdraw(election.reason or "")
        elif (twin := election.twin) is not None:
            settings = self.settings
            self._withdraw(
                f"this process runs {twin} from {settings.source} into the same cluster already: {settings.target} is "
                f"another alias of it, so that both have one group, {settings.group_id}, and the same positions; set "
                f"{settings.name}.enabled = false and give {twin} the topics of both, or correct the bootstrap.servers "
                "of one of the two"
            )
        elif self.stands_by:
            if election.standing is ElectionState.STANDBY and self._until:
                self._wait_for_turn(election.leadership)
            self._read_ahead()

    def _read_ahead(self) -> None:
        """Read positions and maps ahead: after months there are so many that a take-over would wait for them."""
        if self.over or self._stored is not None or not self._reading.is_due:
            return
        stored = None
        try:
            stored = StoredOffsets(self.settings, self._connect)
            stored.start_reading()
            self._stored = stored
        except (RuntimeError, OSError) as error:
            self._reading.set_failure(error)
            if stored is not None:
                stored.close()

    def _read_no_further(self) -> None:
        stored, self._stored = self._stored, None
        if stored is not None:
            stored.close()

    def _take(self, lease_server: LeaseServer, term: int) -> None:
        stored, self._stored = self._stored, None
        if self._lifecycle.start_flow(lease_server, self.election.leads_for_s, stored):
            self._term, self._away_since = term, None

    def _wait_for_turn(self, leadership: Leadership | None) -> None:
        """Wait for a process that also ends once it has caught up; then this process checks for remaining records."""
        if leadership is None or not leadership.leader.until:
            self._withdraw(f"{leadership} runs this flow already, so this process cannot see when it has caught up")
        elif leadership.term != self._awaited:
            self._awaited = leadership.term
            log.info(
                "%s: %s catches up with this flow; once it has ended, this process copies what is left, if anything",
                *(self.settings.name, leadership.leader.name),
            )

    def _withdraw(self, reason: str) -> None:
        """Fail and leave the group: the election must never appoint a member that has given the flow up."""
        self._fail(reason)
        log.error("%s: FAILED: %s", self.settings.name, reason)
        self._lifecycle.run_steps(self._leave)

    def _fail(self, reason: str) -> None:
        self.failure, self.over = reason, True

    def hand_over(self, heir: str, *, unfit_s: float = 0.0) -> None:
        """End the flow here in order, and leave it to another process; this process is then on standby.

        With `unfit_s`, this process reports itself unready for the flow for these seconds, see `Election`.
        """

        def give_up() -> None:
            self.election.give_up(heir, unfit_s=unfit_s)
            self._lifecycle.flow = None

        self._lifecycle.clear(give_up, emptying=True)

    def _leave(self) -> None:
        self.election.stop(LEAVE_S)
        self._read_no_further()

    def _crashed(self, reason: str) -> None:
        self._fail(reason)
        # The state of the flow is unknown: another process runs it once the session of this process has ended.
        self.election.stop(LEAVE_S, leave=False)

    def stop(self) -> None:
        """End the flow here in order, then leave it to other processes."""
        released = self._lifecycle.stop()
        # A new runner must never meet a copier that still appends: the session then expires by itself, after that
        # copier's end.
        self.election.stop(LEAVE_S, leave=released)

    def close(self) -> None:
        """Close the connections to both clusters."""
        self._read_no_further()
        self._lifecycle.close()

    @property
    def copies(self) -> bool:
        """Whether copiers hold the flow's lease."""
        return self._lifecycle.copies

    @property
    def occupied(self) -> bool:
        """Whether the flow runs here, or is still being ended."""
        return self.flow is not None and (self._lifecycle.clearing or not self.over)

    @property
    def clearing(self) -> bool:
        """Whether the flow is just being ended here."""
        return self._lifecycle.clearing

    @property
    def can_hand_over(self) -> bool:
        """Whether the flow runs here free of trouble, with a reachable group."""
        flow = self.running
        if flow is None or self._lifecycle.clearing or flow.state is not FlowState.RUNNING:
            return False
        return self.election.leads_for_s() > VALID_S / 2

    # Values for tables and log lines.

    @property
    def flow_status(self) -> FlowStatus:
        """The records that this process copied, also before another process took over."""
        return self._lifecycle.flow_status

    @property
    def ready_others(self) -> int:
        """The number of other processes that could take the flow over at once."""
        roster = self._roster
        crew = None if roster is None else roster.crews().get(self.settings.name)
        return (
            0
            if roster is None or crew is None
            else sum(ready for process, ready in crew.ready.items() if process != roster.name)
        )

    @property
    def begun(self) -> int:
        """The number of times that the flow began here."""
        return self._lifecycle.begun

    @property
    def state(self) -> FlowState:
        if self.failure is not None:
            return FlowState.FAILED
        return FlowState.STARTING if self.flow is None or self._lifecycle.emptying else self.flow.state

    @property
    def status(self) -> tuple[str, str | None]:
        """The status of the flow in a word, and the reason of a trouble or of its end."""
        if self.flow is None and self.failure is None:
            return (
                (self.election.text, None)
                if self._lifecycle.put_off.why is None
                else ("starting", self._lifecycle.put_off.why)
            )
        if self.failure is not None:
            return FlowState.FAILED.value, self.failure
        if self.flow is None or self._lifecycle.emptying:
            return FlowState.STARTING.value, None
        return self.flow.status

    @property
    def ended(self) -> bool:
        return self.state not in (FlowState.STARTING, FlowState.RUNNING)

    @property
    def stands_by(self) -> bool:
        """Whether another process, of twinlog or of MirrorMaker 2, runs the flow."""
        return self.election.standing in (ElectionState.STANDBY, ElectionState.WAITING)

    @property
    def has_read(self) -> bool:
        """Whether this process could run the flow at once, with stored positions already read."""
        return self.flow is not None or self.over or (self._stored is not None and self._stored.looked)

    @property
    def absent(self) -> bool:
        """Whether the flow has neither begun nor failed here; `status` has the reason."""
        return self.flow is None and self.failure is None
