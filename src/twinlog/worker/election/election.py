"""Elects the process that runs a flow, among the members of a group on the target; the other members are on standby.

The group's leader appoints the runner, and every member gets the assignment. The group is also the group of MirrorMaker
2's workers (`east-mm2` on west for the flow east->west), with another protocol. While either program is a member, the
other program is unable to join. So the two never run a flow at the same time.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any

from twinlog.errors import ClusterError, GroupTakenError, RefusedError, TwinlogError
from twinlog.errors.message_ids import told
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.coordinator.membership import Generation, GroupDescription
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.retry import ELECTION, MEMBER_CONNECT_S, REFUSED
from twinlog.model.groups import CONNECT_PROTOCOL, TWINLOG_PROTOCOL, client_id_of
from twinlog.settings.flow import FlowSettings
from twinlog.worker.election.member import Leadership, LeaderTerm, Member, appoint, fingerprint
from twinlog.worker.election.role import Announcements, ElectionRole, ElectionState
from twinlog.worker.election.roster import ElectionRegistry
from twinlog.worker.group_membership import GroupMembership
from twinlog.worker.placement.processes import FlowMembers

log = logging.getLogger(__name__)


def why_taken(seen: GroupDescription, group: str, flow: str, target: str) -> str:
    """The reason that keeps this process from taking part, and the way out."""
    who = ", ".join(seen.members) or "members that just left"
    if seen.protocol_type == TWINLOG_PROTOCOL:
        return (
            f"TW-LEADER-02: another version of twinlog runs this flow: group {group} of {target} has the members "
            f"{who}; stop it, this version waits and takes over"
        )
    if seen.protocol_type == CONNECT_PROTOCOL:
        return (
            f"TW-LEADER-01: MirrorMaker 2 still runs this flow: group {group} of {target} has the members {who}; "
            "stop it, twinlog waits and takes over; to run twinlog beside it, write a canary: twinlog canary FILE "
            "--topic TOPIC --output-dir DIR"
        )
    return (
        f"TW-LEADER-15: group {group} of {target} is used by other programs ({seen.protocol_type or 'no'} protocol: "
        f"{who}); stop them, or choose another group.id for {flow}; twinlog waits"
    )


OTHERS_S = 0.5

GIVE_UP_S = 1.0

REACH_S = 10.0
"""Seconds between two tries to reach the source, for a process that gave a flow up because of the source."""


class Election(GroupMembership):
    """This process's part in the election for a flow; begins with `start` on a thread of its own.

    `changed` is called after each change of `standing`. The leader, which runs the flow, stays while processes join and
    leave, until it leaves, loses its membership or gives the flow up. The elections of a process share `roster`, and
    each election adds its news to it. With `until`, the other members know that this process ends once it has caught
    up.
    """

    def __init__(
        self,
        settings: FlowSettings,
        changed: Callable[[], None],
        roster: ElectionRegistry,
        *,
        until: bool = False,
        connect: Connect = ClusterAdmin,
    ) -> None:
        self.settings = settings
        self._roster = roster
        self._member = Member(self._roster.name, fingerprint(settings), packs=self._roster.packs, until=until)
        client = replace(settings.target_admin.client, client_id=client_id_of(self._member.name))
        super().__init__(connect(settings.target, client), settings.group_id)
        self._announce = Announcements(
            settings,
            self._member.name,
            settings.group_id,
            self._clock,
            is_twin=lambda member: roster.flow_of(member) not in (None, settings.name),
        )
        self._role = ElectionRole(settings, self._announce, self._clock, changed)
        self._fitness = SourceProbe(self._loop, settings, self._begin, self._wake.set)
        self._last_term: LeaderTerm | None = None
        self._given_up: tuple[LeaderTerm, str | None] | None = None
        """The term that this process ended itself, and the process to which it left the flow."""
        self._sent_ready = False

    # For other threads.

    def start(self) -> None:
        self._roster.on_ready(self._look_again)
        super().start()

    def leads_for_s(self) -> float:
        """The number of seconds for which this process is surely the only leader; 0 if another process may lead."""
        return self.lease_s if self.standing is ElectionState.LEADING else 0.0

    @property
    def unfit(self) -> bool:
        """Whether this process gave the flow up because the source was out of reach, and is still out of reach."""
        return self._fitness.unfit

    @property
    def joining(self) -> bool:
        """Whether the leader is still to be chosen."""
        return self.standing is ElectionState.JOINING

    @property
    def standing(self) -> ElectionState:
        return self._role.standing

    @property
    def leadership(self) -> Leadership | None:
        """The leader and its term, once they are known."""
        return self._role.leadership

    @property
    def reason(self) -> str | None:
        """The obstacle, for users, that keeps this process from leading and from standby."""
        return self._role.reason

    @property
    def twin(self) -> str | None:
        """Another flow of this process that leads the same group, as its target is the same cluster."""
        leadership = self.leadership
        if self.standing is not ElectionState.STANDBY or leadership is None:
            return None
        flow = self._roster.flow_of(leadership.term.runner)
        return None if flow == self.settings.name else flow

    @property
    def term(self) -> int:
        """Counts the starts and ends of this process's leadership: a leader that was on standby has a new term."""
        return self._role.term

    @property
    def text(self) -> str:
        """The leader in a few words, or the obstacle."""
        if self._closed and self.standing is not ElectionState.STANDBY:
            return "stopped"
        return self._role.text(ready=self._ready, unfit=self.unfit)

    def change_settings(self, settings: FlowSettings) -> None:
        """Use other settings for the flow from now on, and tell the other processes about them."""

        def change() -> None:
            known, self._member = self._member, replace(self._member, settings=fingerprint(settings))
            if self._member != known:
                self._session.rejoin()

        self._loop.call_threadsafe(change)

    def give_up(self, heir: str | None, *, unfit_s: float = 0.0) -> None:
        """End the term of this process and stay a member: the flow goes to the process `heir`, or to any ready process.

        The flow must have ended here before. With `unfit_s` this process is unready for this number of seconds, and
        until it reaches the source: meanwhile every other ready process gets the flow before it.
        """
        ended = threading.Event()

        def end() -> None:
            if self.standing is ElectionState.LEADING and self._last_term is not None:
                self._given_up = (self._last_term, heir)
                self._roster.hand_over_flow(self.settings.name, heir)
                if unfit_s:
                    self._fitness.mark_unreachable(unfit_s)
                self._lease.expire_lease()
                self._role.set_state(ElectionState.JOINING)
                self._session.rejoin()
            ended.set()

        self._loop.call_threadsafe(end)
        # The caller continues once the loop has ended the term, regardless of the time that takes.
        while not (self._clock.wait(ended, GIVE_UP_S) or self._ended.is_set()):
            log.debug("%s: still waiting for the event loop to end the term", self.settings.name)

    def _look_again(self) -> None:
        if not self._closed:
            self._loop.call_threadsafe(self._wake.set)

    # Everything below runs on the loop's thread.

    def _ask_to_stop(self) -> None:
        self._fitness.stop()
        super()._ask_to_stop()

    def _crash(self, error: Exception) -> None:
        log.error("TW-FAULT-01: %s: the election ended", self.settings.name, exc_info=error)
        self._role.set_state(ElectionState.REFUSED, f"internal error: {error!r}")

    def _note_heartbeat(self, error: TwinlogError | None) -> None:
        if error is None:
            self._role.record_answer()
        else:
            self._role.unanswered(error, self._lease.until)

    async def _leave(self) -> None:
        self._role.set_state(ElectionState.JOINING)
        self._roster.set_members(self.settings.name, None)
        await super()._leave()

    async def _wait_out(self, error: ClusterError) -> None:
        if isinstance(error, GroupTakenError):
            await self._wait_for_others()
        elif isinstance(error, RefusedError):
            if self.standing is ElectionState.LEADING:
                # A leader keeps the flow until its lease ends: the permission may come back.
                self._announce.refused(error)
            else:
                # The flow of this election logs the reason.
                self._role.set_state(ElectionState.REFUSED, told(error, "TW-LEADER-13"))
            await self._wake.wait(REFUSED.first_s)
        else:
            self._announce.trouble(error, connected=self._admin.client.connected)
            if self._membership.generation is None:
                self._lose_membership()
            await self._wake.wait(ELECTION.first_s)

    async def _connect(self) -> None:
        try:
            await super()._connect()
        except RefusedError:
            raise
        except ClusterError as error:
            if self.standing is ElectionState.JOINING:
                self._role.reason = f"cannot connect yet: {error}"
            self._announce.unreachable(error)
            raise
        if self.standing is ElectionState.JOINING:
            self._role.reason = None

    async def _remain(self) -> None:
        self._announce.log_joined(self._membership.session_s)
        while not (self._stopping or self._session.again or self._sent_ready != self._ready):
            await self._wake.wait()

    @property
    def _ready(self) -> bool:
        return self._roster.ready and not self.unfit

    def _metadata(self) -> bytes:
        self._sent_ready = self._ready
        over = self._given_up is not None and self._given_up[0] == self._last_term
        heir = self._given_up[1] if over and self._given_up is not None else None
        return replace(self._member, ready=self._sent_ready, term=self._last_term, over=over, heir=heir).encode()

    def _assignments(self, generation: Generation) -> Mapping[str, bytes]:
        self._role.record_answer()
        self._roster.set_member_id(self.settings.name, generation.member_id)
        if not generation.leads:
            return {}
        members = {member: Member.decode(data) for member, data in generation.members.items()}
        flow = self.settings.name
        appointed = appoint(flow, generation.number, members, self._roster.count_flows(flow), self._clock.wall())
        # The elections of this process's other flows count this appointment from now on.
        self._note(appointed)
        return dict.fromkeys(members, appointed.encode())

    async def _accept(self, generation: Generation, given: bytes) -> None:
        leadership = Leadership.decode(given)
        self._last_term = leadership.term
        if self._given_up is None or self._given_up[0] != leadership.term:
            self._note(leadership)
        if leadership.term.runner != generation.member_id:
            self._lose_membership()
            self._role.stand_by(leadership, generation.member_id)
        elif self._given_up is not None and self._given_up[0] == leadership.term:
            # The group's leader is yet to learn that this process gave the flow up.
            await self._wake.wait(ELECTION.first_s)
            self._session.again = True
        else:
            self._given_up = None
            self._role.begin_leading(leadership, generation.member_id)

    def _note(self, leadership: Leadership) -> None:
        ready: dict[str, bool] = {}
        for mate in leadership.mates.values():
            ready[mate.name] = mate.ready or ready.get(mate.name, False)
        self._roster.set_members(self.settings.name, FlowMembers(leadership.leader.name, ready))

    def _lose_membership(self) -> None:
        """End this process's leadership, because another process may lead from now on."""
        self._lease.expire_lease()
        self._role.lose_leadership()

    async def _wait_for_others(self) -> None:
        """Log the members of another kind that the group has, and try again soon."""
        self._membership.reset_member()
        self._lose_membership()
        self._roster.set_members(self.settings.name, None)
        group, target = self._membership.group, self.settings.target
        try:
            seen = await self._membership.describe()
        except ClusterError:
            await self._wake.wait(OTHERS_S)
            return
        reason = why_taken(seen, group, self.settings.name, target)
        if seen.members:
            self._announce.taken(reason)
        self._role.set_state(ElectionState.WAITING, reason)
        await self._wake.wait(OTHERS_S)


class SourceProbe:
    """The probe of this process for a flow, on the election's loop; `begin` starts a coroutine there.

    `regained()` is called when the source has been reached from here.
    """

    def __init__(
        self,
        loop: Loop,
        settings: FlowSettings,
        begin: Callable[[Callable[[], Coroutine[Any, Any, None]]], None],
        regained: Callable[[], None],
    ) -> None:
        self.unfit = False
        """Whether this process gave the flow up because the source was out of reach, and is still out of reach."""
        self._loop = loop
        self._settings = settings
        self._begin = begin
        self._regained = regained
        self._stopped = False

    def mark_unreachable(self, at_least_s: float) -> None:
        """Be unfit for this number of seconds, and until the source is reached."""
        if not self.unfit:
            self.unfit = True
            self._begin(lambda: self._regain(at_least_s))

    def stop(self) -> None:
        """Stop the tries."""
        self._stopped = True

    async def _regain(self, wait_s: float) -> None:
        while not self._stopped:
            await self._loop.sleep(wait_s)
            wait_s = REACH_S
            source = ClusterClient(self._loop, self._settings.source, self._settings.source_admin.client)
            try:
                await source.connect(MEMBER_CONNECT_S)
            except Exception as error:
                # Any error is possible here, and the election must be independent of it.
                log.debug("%s: still not ready: %r", self._settings.name, error)
            else:
                self.unfit = False
                self._regained()
                break
            finally:
                source.close()
