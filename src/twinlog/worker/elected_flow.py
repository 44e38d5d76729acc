"""A flow of `twinlog run`: it runs in this process once this process is elected, and is on standby otherwise."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Mapping, Sequence

from twinlog.kafka.retry import READ_AHEAD
from twinlog.lease.channel import VALID_S
from twinlog.lease.lease_server import LeaseServer
from twinlog.settings.flow import FlowSettings
from twinlog.worker.election.election import Election
from twinlog.worker.election.member import Leadership, LeaderTerm
from twinlog.worker.election.role import ElectionState
from twinlog.worker.election.roster import ElectionRegistry
from twinlog.worker.flow.flow import FlowRunner
from twinlog.worker.flow.flow_host import FlowBuilder, FlowHost, HostState
from twinlog.worker.placement.processes import (
    FlowMembers,
    FlowName,
    ProcessName,
    choose_process,
    loads,
    next_gathering,
    next_move,
)
from twinlog.worker.read_ahead import StoredOffsets
from twinlog.worker.retrying import RetryDelay
from twinlog.worker.status.report import FlowState

log = logging.getLogger(__name__)

AWAY_S = 60.0
"""After this time out of reach of the source, a flow passes to another process, perhaps behind the right firewall."""

UNFIT_S = 600.0
"""The least time for which every other ready process then gets the flow before this process.

The source may be unreachable for all processes.
"""

LEAVE_S = 0.5
"""How long a clean stop waits until the coordinator has the leave request."""

CALM_S = 3.0
"""The calm that must precede a move: seconds since the last change."""

PATIENCE_S = 15.0
"""The time after which a process with more flows counts as unable to hand a flow over.

The next process then stops waiting for it, and waits as long again for each further process that precedes it.
"""

LOOK_S = 1.0


class ElectedFlow(FlowHost):
    """A flow that copies here once this process is elected.

    With `until_caught_up` of the builder, a flow that another process already runs ends here at once, with a reason. If
    that process also ends once it has caught up, this process waits for it.
    """

    returns = True

    def __init__(
        self,
        settings: FlowSettings,
        builder: FlowBuilder,
        flows: Callable[[], Sequence[FlowSettings]],
        take_out: Callable[[FlowRunner], Callable[[], None]],
        roster: ElectionRegistry | None = None,
    ) -> None:
        super().__init__(settings, builder, flows, take_out)
        self._connect = builder.connect
        self._until = builder.until_caught_up
        self._roster = roster
        own = roster or ElectionRegistry(ready=True, clock=self._clock)
        self.election = Election(settings, builder.wake, own, until=self._until, connect=self._connect)
        self._term = 0
        self._away_since: float | None = None
        self._awaited: LeaderTerm | None = None
        self._stored: StoredOffsets | None = None
        """The positions that are read ahead while another process runs the flow."""
        self._reading = RetryDelay(
            settings.name,
            self._clock,
            what="reading ahead failed, trying again",
            level=logging.DEBUG,
            policy=READ_AHEAD,
        )

    def start(self) -> None:
        """Start the election."""
        self.election.start()

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

    @property
    def gone(self) -> bool:
        """Whether all parts of the flow have ended here after `end`."""
        return self._asked_to_end and self.host_state is HostState.OVER

    def poll_flow(self, lease_server: LeaseServer) -> None:
        """Run the flow when this process is elected, and end it when this process loses the election."""
        super().poll_flow(lease_server)
        flow = self.running
        heir = None if flow is None else self._better_placed(flow)
        if heir is not None:
            log.warning(
                "TW-LEADER-04: %s: %s was out of reach from here for %.0f s: handed over to %s, which may reach it",
                *(self.settings.name, self.settings.source, AWAY_S, heir),
            )
            self._away_since = None
            self.hand_over(heir, unfit_s=UNFIT_S)

    def _has_lost(self, flow: FlowRunner) -> bool:
        return self.election.term != self._term and not flow.ended

    def _end_absent(self) -> None:
        super()._end_absent()
        self._run_steps(self._leave)

    def _better_placed(self, flow: FlowRunner) -> ProcessName | None:
        """A process that may reach the source, while the source is out of reach here; None to keep the flow here."""
        if flow.ended or not flow.source_away:
            self._away_since = None
            return None
        now = self._clock.monotonic()
        self._away_since = now if self._away_since is None else self._away_since
        roster, election = self._roster, self.election
        # With `--until-caught-up` this process has to see the end itself, so it keeps the flow.
        if roster is None or self._until or now - self._away_since < AWAY_S or election.unfit:
            return None
        crew = roster.crews().get(self.settings.name)
        if crew is None or election.leads_for_s() <= VALID_S / 2:
            return None
        others = [process for process, ready in crew.ready.items() if ready and process != roster.name]
        counts = roster.count_flows(self.settings.name)
        return choose_process(self.settings.name, others, counts, pack=roster.packs) if others else None

    def _poll_absent(self, lease_server: LeaseServer) -> None:
        # The term is read first: an election state that was read before it could belong to an earlier term.
        election, term = self.election, self.election.term
        if election.standing is not ElectionState.LEADING:
            self._put_off.clear_delay()
        if election.standing is ElectionState.LEADING:
            if self._put_off.is_due:
                self._take(lease_server, term)
        elif election.standing is ElectionState.REFUSED:
            self._withdraw(election.reason or "")
        elif (twin := election.twin) is not None:
            settings = self.settings
            self._withdraw(
                f"this process runs {twin} from {settings.source} into the same cluster already: {settings.target} is "
                f"another alias of it, so that both have one group, {settings.group_id}, and the same positions; set "
                f"{settings.name}.enabled = false and give {twin} the topics of both, or correct the "
                "bootstrap.servers of either alias"
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
        if self._start_flow(lease_server, self.election.leads_for_s, stored):
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

    def hand_over(self, heir: str, *, unfit_s: float = 0.0) -> None:
        """End the flow here in order, and leave it to another process; this process is then on standby.

        With `unfit_s`, this process reports itself unready for the flow for these seconds, see `Election`.
        """

        def give_up() -> None:
            self.election.give_up(heir, unfit_s=unfit_s)
            self.flow = None

        self._clear(give_up, emptying=True)

    def _leave(self) -> None:
        # The election must never appoint a member that has given the flow up.
        self.election.stop(LEAVE_S)
        self._read_no_further()

    def _crash(self, reason: str) -> None:
        self._fail(reason)
        # The state of the flow is unknown: another process runs it once the session of this process has ended.
        self.election.stop(LEAVE_S, leave=False)

    def stop(self) -> None:
        """End the flow here in order, then leave it to other processes."""
        released = self._stop_runner()
        # A new runner must never meet a copier that still appends: the session then expires by itself, after that
        # copier's end.
        self.election.stop(LEAVE_S, leave=released)

    def close(self) -> None:
        """Close the connections to both clusters."""
        self._read_no_further()
        super().close()

    @property
    def can_hand_over(self) -> bool:
        """Whether the flow runs here free of trouble, with a reachable group."""
        flow = self.running
        if flow is None or flow.state is not FlowState.RUNNING:
            return False
        return self.election.leads_for_s() > VALID_S / 2

    # Values for tables and log lines.

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
    def state(self) -> FlowState:
        if self.failure is not None:
            return FlowState.FAILED
        return FlowState.STARTING if self.flow is None or self.emptying else self.flow.state

    @property
    def status(self) -> tuple[str, str | None]:
        """The status of the flow in a word, and the reason of a trouble or of its end."""
        if self.flow is None and self.failure is None:
            return (self.election.text, None) if self._put_off.why is None else ("starting", self._put_off.why)
        if self.failure is not None:
            return FlowState.FAILED.value, self.failure
        if self.flow is None or self.emptying:
            return FlowState.STARTING.value, None
        return self.flow.status

    @property
    def ended(self) -> bool:
        return self.state not in (FlowState.STARTING, FlowState.RUNNING)

    @property
    def stands_by(self) -> bool:
        return self.election.standing in (ElectionState.STANDBY, ElectionState.WAITING)

    @property
    def has_read(self) -> bool:
        return self.flow is not None or self.over or (self._stored is not None and self._stored.looked)

    @property
    def absent(self) -> bool:
        """Whether the flow has neither begun nor failed here; `status` has the reason."""
        return self.flow is None and self.failure is None


def hand_over_flows(roster: ElectionRegistry, hosted_flows: Sequence[ElectedFlow]) -> None:
    """Hand over a flow if a ready process runs at least two flows fewer; called every moment.

    If processes pack, the receiver is the process that runs the most flows.
    """
    if any(hosted.clearing for hosted in hosted_flows):
        roster.restart_calm()
        return
    if not roster.may_move or roster.calm_s < CALM_S:
        return
    crews = roster.crews()
    able = {hosted.settings.name: hosted for hosted in hosted_flows if hosted.can_hand_over}
    move = _next(roster, crews, able, overlook=float("inf"))
    waits_s = roster.wait(move is not None)
    if move is not None:
        move = _next(roster, crews, able, overlook=waits_s // PATIENCE_S)
    if move is not None:
        flow, heir = move
        counts = loads(crews)
        log.info(
            "%s: handed over to %s, which runs %d of the flows, this process %d",
            *(flow, heir, counts.get(heir, 0), counts.get(roster.name, 0)),
        )
        able[flow].hand_over(heir)
        # The group appoints the new runner later; until then this process would hand over another flow.
        roster.hand_over_flow(flow, heir)
    elif _next(roster, crews, crews, overlook=float("inf")) is None:
        roster.mark_balanced(crews)
    else:
        # A flow that is tied to this process now may become free silently.
        roster.pause_moves(LOOK_S)


def _next(
    roster: ElectionRegistry, crews: Mapping[FlowName, FlowMembers], able: Container[FlowName], *, overlook: float
) -> tuple[FlowName, ProcessName] | None:
    if roster.packs:
        return next_gathering(crews, roster.name, able)
    return next_move(crews, roster.name, able, overlook=overlook)
