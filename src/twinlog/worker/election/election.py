"""Elects the process that runs a flow, among the members of a group on the target; the other members are on standby.

The group's leader appoints the runner, and every member gets the assignment. The group is also the group of MirrorMaker
2's workers (`east-mm2` on west for the flow east->west), with another protocol. While either program is a member, the
other program is unable to join. So the two never run a flow at the same time.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from twinlog.errors import ClusterError, GroupTakenError, RefusedError, TwinlogError
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect
from twinlog.kafka.coordinator.group_session import GroupSession
from twinlog.kafka.coordinator.leadership_lease import LeadershipLease
from twinlog.kafka.coordinator.membership import Generation, GroupDescription, Membership
from twinlog.metrics.window import RecentTimes
from twinlog.model.groups import CONNECT_PROTOCOL, TWINLOG_PROTOCOL
from twinlog.settings.flow import FlowSettings
from twinlog.worker.election.announcements import Announcements
from twinlog.worker.election.fingerprint import fingerprint
from twinlog.worker.election.fitness import SourceProbe
from twinlog.worker.election.member import Leadership, LeaderTerm, Member, appoint
from twinlog.worker.election.role import ElectionRole, ElectionState
from twinlog.worker.election.roster import ElectionRegistry
from twinlog.worker.placement.processes import FlowMembers

log = logging.getLogger(__name__)


def why_taken(seen: GroupDescription, group: str, flow: str, target: str) -> str:
    """The reason that keeps this process from taking part, and the way out."""
    who = ", ".join(seen.members) or "members that just left"
    if seen.protocol_type == TWINLOG_PROTOCOL:
        return (
            f"another version of twinlog runs this flow: group {group} of {target} has the members {who}; "
            "stop it, this one waits and takes over"
        )
    if seen.protocol_type == CONNECT_PROTOCOL:
        return (
            f"MirrorMaker 2 still runs this flow: group {group} of {target} has the members {who}; "
            "stop it, twinlog waits and takes over"
        )
    return (
        f"group {group} of {target} is used by others ({seen.protocol_type or 'no'} protocol: {who}); "
        f"stop them, or choose another group.id for {flow}; twinlog waits"
    )


RETRY_S = 0.2
OTHERS_S = 0.5
REFUSED_S = 10.0
CONNECT_S = 5.0

GIVE_UP_S = 1.0


class Election:
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
        client = replace(settings.target_admin.client, client_id=f"{TWINLOG_PROTOCOL}-{self._member.name}")
        self._admin = connect(settings.target, client)
        self._loop = self._admin.client.loop
        self._membership = Membership(self._admin.client, settings.group_id, TWINLOG_PROTOCOL)
        self._announce = Announcements(
            settings,
            self._member.name,
            settings.group_id,
            self._admin.clock,
            is_twin=lambda member: roster.flow_of(member) not in (None, settings.name),
        )
        self._role = ElectionRole(settings, self._announce, self._admin.clock, changed)
        self._lease = LeadershipLease()
        self._session = GroupSession(
            *(self._loop, self._membership, self._lease),
            lost=self._lost,
            answered=self._role.record_answer,
            unanswered=lambda error: self._role.unanswered(error, self._lease.until),
        )
        self._wake = self._session.wake
        self._fitness = SourceProbe(self._loop, settings, self._begin, self._wake.set)
        self._last_term: LeaderTerm | None = None
        self._given_up: tuple[LeaderTerm, str | None] | None = None
        """The term that this process ended itself, and the process to which it left the flow."""
        self.epoch = 0
        """The number of the group's present generation."""
        self.rebalances = 0
        """The number of generations of the group in which this process has taken part."""
        self.synced_at: float | None = None
        """The start of the last of these generations, in monotonic seconds."""
        self.rebalance_times = RecentTimes()
        """The time from joining until the leader was known."""
        self._sent_ready = False
        self._stopping = self._closed = False
        self._leaves = True
        self._ended = threading.Event()

    # For other threads.

    def start(self) -> None:
        self._roster.on_ready(self._look_again)
        self._loop.call_threadsafe(lambda: self._begin(self._run))

    def leads_for_s(self) -> float:
        """The number of seconds for which this process is surely the only leader; 0 if another process may lead."""
        if self.standing is not ElectionState.LEADING:
            return 0.0
        return max(0.0, self._lease.until - self._admin.clock.monotonic())

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
        """The reason, for users, while this process is neither leader nor on standby."""
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
        until it reaches the source: it gets the flow again only if no other process is ready.
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
        while not (self._admin.clock.wait(ended, GIVE_UP_S) or self._ended.is_set()):
            log.debug("%s: still waiting for the event loop to end the term", self.settings.name)

    def stop(self, timeout_s: float, *, leave: bool = True) -> None:
        """Leave, so that another process may lead at once; the flow must have ended here before.

        If that is uncertain, set `leave` to false: another process then leads once the session of this process has
        ended.
        """
        if self._closed:
            return
        self._closed, self._leaves = True, leave
        self._loop.call_threadsafe(self._ask_to_stop)
        self._admin.clock.wait(self._ended, timeout_s)
        self._admin.close()

    def _look_again(self) -> None:
        if not self._closed:
            self._loop.call_threadsafe(self._wake.set)

    # Everything below runs on the loop's thread.

    def _ask_to_stop(self) -> None:
        self._stopping = True
        self._fitness.stop()
        self._session.stop()

    def _begin(self, coroutine: Callable[[], Coroutine[Any, Any, None]]) -> None:
        # The loop ends the coroutine when it closes; this end is expected.
        self._loop.spawn(coroutine).add_errback(self._crashed)

    def _crashed(self, error: BaseException) -> None:
        if isinstance(error, Exception):
            log.error("%s: the election ended", self.settings.name, exc_info=error)
            self._role.set_state(ElectionState.REFUSED, f"internal error: {error!r}")

    async def _run(self) -> None:
        try:
            self._begin(self._session.send_heartbeats)
            while not self._stopping:
                await self._try_to_take_part()
            self._role.set_state(ElectionState.JOINING)
            self._roster.set_members(self.settings.name, None)
            if self._leaves:
                await self._membership.leave_group()
        except TwinlogError as error:
            log.debug("%s: could not leave the group: %s", self.settings.name, error)
        finally:
            self._ended.set()

    async def _try_to_take_part(self) -> None:
        try:
            await self._take_part()
        except GroupTakenError:
            await self._wait_for_others()
        except RefusedError as error:
            self._announce.refused(error)
            # A leader keeps the flow until its lease ends: the permission may come back.
            if self.standing is not ElectionState.LEADING:
                self._role.set_state(ElectionState.REFUSED, str(error))
            await self._wake.wait(REFUSED_S)
        except ClusterError as error:
            self._announce.trouble(error, connected=self._admin.client.connected)
            if self._membership.generation is None:
                self._lost()
            await self._wake.wait(RETRY_S)

    async def _take_part(self) -> None:
        """Join, send or get the assignment, and wait until the next rebalance."""
        if not self._admin.client.connected:
            await self._connect()
        self._session.again = False
        if not await self._join():
            return
        self._announce.log_joined(self._membership.session_s)
        while not (self._stopping or self._session.again or self._sent_ready != self._ready):
            await self._wake.wait()

    async def _connect(self) -> None:
        try:
            await self._admin.client.connect(CONNECT_S)
        except RefusedError:
            raise
        except ClusterError as error:
            if self.standing is ElectionState.JOINING:
                self._role.reason = f"cannot connect yet: {error}"
            self._announce.unreachable(error)
            raise
        if self.standing is ElectionState.JOINING:
            self._role.reason = None

    async def _join(self) -> bool:
        """Join the next generation; False if the session gave up."""
        begun = self._admin.clock.monotonic()
        generation = await self._session.join(self._present().encode())
        if generation is None:
            return False
        self._role.record_answer()
        return await self._sync(generation, begun)

    @property
    def _ready(self) -> bool:
        return self._roster.ready and not self.unfit

    def _present(self) -> Member:
        """The metadata of this process for the group's leader."""
        self._sent_ready = self._ready
        over = self._given_up is not None and self._given_up[0] == self._last_term
        heir = self._given_up[1] if over and self._given_up is not None else None
        return replace(self._member, ready=self._sent_ready, term=self._last_term, over=over, heir=heir)

    async def _sync(self, generation: Generation, begun: float) -> bool:
        assignments: dict[str, bytes] = {}
        self._roster.set_member_id(self.settings.name, generation.member_id)
        if generation.leads:
            members = {member: Member.decode(data) for member, data in generation.members.items()}
            flow = self.settings.name
            appointed = appoint(
                flow, generation.number, members, self._roster.count_flows(flow), self._admin.clock.wall()
            )
            # The elections of this process's other flows count this appointment from now on.
            self._note(appointed)
            assignments = dict.fromkeys(members, appointed.encode())
        given = await self._session.sync(generation, assignments)
        if given is None:
            return False
        self.rebalances, self.epoch = self.rebalances + 1, generation.number
        self.synced_at = self._admin.clock.monotonic()
        self.rebalance_times.add(begun, self.synced_at)
        leadership = Leadership.decode(given)
        self._last_term = leadership.term
        if self._given_up is None or self._given_up[0] != leadership.term:
            self._note(leadership)
        if leadership.term.runner != generation.member_id:
            self._lost()
            self._role.stand_by(leadership, generation.member_id)
        elif self._given_up is not None and self._given_up[0] == leadership.term:
            # The group's leader is yet to learn that this process gave the flow up.
            await self._wake.wait(RETRY_S)
            self._session.again = True
        else:
            self._given_up = None
            self._role.begin_leading(leadership, generation.member_id)
        return True

    def _note(self, leadership: Leadership) -> None:
        ready: dict[str, bool] = {}
        for mate in leadership.mates.values():
            ready[mate.name] = mate.ready or ready.get(mate.name, False)
        self._roster.set_members(self.settings.name, FlowMembers(leadership.leader.name, ready))

    def _lost(self) -> None:
        """End this process's leadership, because another process may lead from now on."""
        self._lease.expire_lease()
        self._role.lose_leadership()

    async def _wait_for_others(self) -> None:
        """Log the members of another kind that the group has, and try again soon."""
        self._membership.reset_member()
        self._lost()
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
