"""Chooses which of several processes runs a flow: the leader of a group on the target. The others stand by.

The group is the one whose members MirrorMaker 2's workers are (`east-mm2` on west for the flow east->west), under
another protocol: neither can join while the other is there, so that the two never run a flow at the same time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from enum import Enum
from typing import Any, TypeVar

from twinlog.errors import ClusterError, GroupTakenError, RefusedError, TwinlogError
from twinlog.kafka.admin import ClusterAdmin
from twinlog.kafka.membership import SESSION_S, Generation, Membership, Pulse
from twinlog.run.fingerprint import differing
from twinlog.run.member import Leadership, Member
from twinlog.run.proof import Proof
from twinlog.settings import FlowSettings

T = TypeVar("T")

log = logging.getLogger(__name__)

PROTOCOL_TYPE = "twinlog"
CONNECT_PROTOCOL_TYPE = "connect"
BEAT_S = 0.5
"""How often a member says that it lives; also how late it may hear that another one joined or went."""

RETRY_S = 0.2
OTHERS_S = 0.5
REFUSED_S = 10.0
SAY_AFTER_S = 5.0
"""A coordinator may take seconds to come up on a new cluster; nobody needs to hear of that."""

SAY_AGAIN_S = 60.0


class Standing(Enum):
    """What this process is to a flow."""

    JOINING = "joining"
    WAITING = "waiting"
    STANDBY = "standing by"
    LEADING = "leading"
    REFUSED = "refused"


class Election:
    """This process's part in choosing who runs one flow; begins with `start` on a thread of its own.

    `changed` is called whenever `standing` has changed. A leader stays one while processes come and go, until it
    leaves or falls silent.
    """

    def __init__(self, settings: FlowSettings, changed: Callable[[], None]) -> None:
        self.settings = settings
        self.standing = Standing.JOINING
        self.leadership: Leadership | None = None
        """Who leads, once that is known."""
        self.reason: str | None = None
        """Why this process neither leads nor stands by, for people."""
        self.differences: tuple[str, ...] = ()
        """Keys in which this process differs from the leader it stands by for."""
        self.term = 0
        """Counts how often this process began or ceased to lead: a leader that was none in between has a new term."""
        self._member = Member.here(settings)
        self._changed = changed
        client = replace(settings.target_admin.client, client_id=f"{PROTOCOL_TYPE}-{self._member.name}")
        self._admin = ClusterAdmin(settings.target, client)
        self._loop = self._admin.client.loop
        self._membership = Membership(self._admin.client, settings.group_id, PROTOCOL_TYPE)
        self._proof = Proof()
        self._wake = self._loop.signal()
        self._synced = -1
        self._joining = self._void = False
        self._rejoin = False
        self._stopping = self._closed = False
        self._since = 0.0
        self._troubled_since: float | None = None
        self._said: dict[object, float] = {}
        self._ended = threading.Event()

    # For other threads.

    def start(self) -> None:
        self._loop.call_threadsafe(lambda: self._begin(self._run))

    def proven_s(self) -> float:
        """How many seconds this process is still the leader for certain; 0 when it may not be."""
        if self.standing is not Standing.LEADING:
            return 0.0
        return max(0.0, self._proof.until - time.monotonic())

    @property
    def text(self) -> str:
        """In a few words: who leads, or what is in the way."""
        if self.standing is Standing.STANDBY and self.leadership is not None:
            differences = f", its {', '.join(self.differences)} differ" if self.differences else ""
            return f"standing by for {self.leadership}{differences}"
        return "stopped" if self._closed else self.reason or "asking who runs this flow"

    def stop(self, timeout_s: float) -> None:
        """Leave, so that another process may lead at once; whatever the leader runs must have ended before."""
        if self._closed:
            return
        self._closed = True
        self._loop.call_threadsafe(self._ask_to_stop)
        self._ended.wait(timeout_s)
        self._admin.close()

    # Everything below runs on the loop's thread.

    def _ask_to_stop(self) -> None:
        self._stopping = True
        self._wake.set()

    def _begin(self, coroutine: Callable[[], Coroutine[Any, Any, None]]) -> None:
        # Of its end by a loop that closes nobody needs to hear.
        self._loop.spawn(coroutine).add_errback(self._crashed)

    def _crashed(self, error: BaseException) -> None:
        if isinstance(error, Exception):
            log.error("%s: the election ended", self.settings.name, exc_info=error)
            self._become(Standing.REFUSED, f"internal error: {error!r}")

    async def _run(self) -> None:
        try:
            self._begin(self._keep_beating)
            while not self._stopping:
                await self._try_to_take_part()
            self._become(Standing.JOINING)
            await self._membership.leave()
        except TwinlogError as error:
            log.debug("%s: left without a word: %s", self.settings.name, error)
        finally:
            self._ended.set()

    async def _try_to_take_part(self) -> None:
        try:
            await self._take_part()
        except GroupTakenError:
            await self._wait_for_others()
        except RefusedError as error:
            if self._news(str(error)):
                log.error("%s: %s", self.settings.name, error)
            # A leader keeps what it has until that is over: the right may come back.
            if self.standing is not Standing.LEADING:
                self._become(Standing.REFUSED, str(error))
            await self._wake.wait(REFUSED_S)
        except ClusterError as error:
            self._trouble(error)
            if self._membership.generation is None:
                self._lost()
            await self._wake.wait(RETRY_S)

    async def _take_part(self) -> None:
        """Join, hear or say who leads, and wait until that has to be done again."""
        if not self._admin.client.connected:
            await self._connect()
        self._rejoin = False
        if not await self._join():
            return
        self._troubled_since = None
        session_s = self._membership.session_s
        if session_s > SESSION_S and self._news("session"):
            log.info(
                "%s: the brokers want sessions of %.0f s at least, so another process takes over that late",
                self.settings.name,
                session_s,
            )
        while not (self._stopping or self._rejoin):
            await self._wake.wait()

    async def _connect(self) -> None:
        try:
            await self._admin.client.connect(SAY_AFTER_S)
        except RefusedError:
            raise
        except ClusterError as error:
            if self.standing is Standing.JOINING:
                self.reason = f"cannot connect yet: {error}"
            if self._news("connect", SAY_AFTER_S):
                log.warning("%s: cannot connect yet, trying again: %s", self.settings.name, error)
            raise
        if self.standing is Standing.JOINING:
            self.reason = None

    async def _join(self) -> bool:
        """Join the next generation; False when that came to nothing."""
        sent_at = time.monotonic()
        self._joining, self._void = True, False
        try:
            generation = await self._patiently(self._membership.join, self._member.encode())
        finally:
            self._joining = self._void = False
        if generation is None:
            return False
        self._membership.enter(generation)
        if generation.leads:
            self._proof.told(sent_at, self._membership.session_s, settled=False)
        else:
            self._lost()
        return await self._sync(generation)

    async def _sync(self, generation: Generation) -> bool:
        since = self._since or time.time()
        leadership = Leadership(self._member, since).encode()
        sent_at = time.monotonic()
        given = await self._patiently(self._membership.sync, dict.fromkeys(generation.members, leadership))
        if given is None:
            return False
        self._synced = generation.number
        if generation.leads:
            self._proof.told(sent_at, self._membership.session_s, settled=True)
            self._since = since
            self._lead(generation.members)
        else:
            self._stand_by(Leadership.decode(given))
        return True

    async def _patiently(self, step: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T | None:
        """A step that may wait for other members; None when this one need not wait any more."""
        outcome = self._loop.spawn(step, *args)
        outcome.add_both(lambda _: self._wake.set())
        while not outcome.is_done:
            await self._wake.wait()
            if self._stopping or self._void:
                return None
        result: T = await outcome
        return result

    async def _keep_beating(self) -> None:
        while not self._stopping:
            await self._loop.sleep(BEAT_S)
            generation = self._membership.generation
            if generation is None:
                continue
            sent_at = time.monotonic()
            try:
                pulse = await self._membership.beat()
            except TwinlogError as error:
                self._doubt(error)
                continue
            if self._membership.generation is generation:
                self._take(pulse, generation, sent_at)

    def _take(self, pulse: Pulse, generation: Generation, sent_at: float) -> None:
        if pulse is Pulse.STRANGER:
            # While a join is under way the new generation may have begun, of which its answer will tell.
            if not self._joining:
                self._membership.forget()
                self._lost()
                self._rejoin = True
                self._wake.set()
            return
        settled = pulse is Pulse.WELL and self._synced == generation.number
        self._proof.told(sent_at, self._membership.session_s, settled=settled)
        if pulse is Pulse.REBALANCE and not self._joining:
            self._rejoin = True
            self._wake.set()
        elif self._joining and settled:
            # Another broker has taken the group over as it was before: what this member waits for never comes.
            self._void = True
            self._wake.set()

    # What becomes of it.

    def _lead(self, members: Mapping[str, bytes]) -> None:
        others = [Member.decode(told) for name, told in members.items() if name != self._membership_id()]
        if self.standing is not Standing.LEADING:
            log.info("%s: this process (%s) runs the flow", self.settings.name, self._member.name)
        for other in others:
            differences = self._differences(other)
            if self._news((other.name, differences)):
                log.info("%s: %s stands by", self.settings.name, other.name)
                if differences:
                    log.warning(
                        "%s: %s stands by with other settings than this process: %s",
                        self.settings.name,
                        other.name,
                        ", ".join(differences),
                    )
        self.leadership = Leadership(self._member, self._since)
        self.differences = ()
        self._become(Standing.LEADING)

    def _stand_by(self, leadership: Leadership) -> None:
        differences = self._differences(leadership.leader)
        if self._news((leadership.leader.name, differences)):
            log.info("%s: standing by for %s", self.settings.name, leadership)
            if differences:
                log.warning(
                    "%s: the settings of this process differ from those of %s, which runs the flow: %s; "
                    "they take effect if this process takes over",
                    self.settings.name,
                    leadership.leader.name,
                    ", ".join(differences),
                )
        self.leadership, self.differences = leadership, differences
        self._become(Standing.STANDBY)

    def _differences(self, other: Member) -> tuple[str, ...]:
        return differing(self._member.settings, other.settings) if other.settings else ()

    def _membership_id(self) -> str | None:
        generation = self._membership.generation
        return None if generation is None else generation.member_id

    def _lost(self) -> None:
        """Another process may lead from now on."""
        self._since = 0.0
        self._proof.gone()
        if self.standing is Standing.LEADING:
            log.warning(
                "%s: this process was silent for too long, another one may run the flow now; it copies nothing more",
                self.settings.name,
            )
            self._become(Standing.JOINING)

    def _doubt(self, error: TwinlogError) -> None:
        if self.standing is Standing.LEADING and self._proof.until < time.monotonic() and self._news("doubt"):
            log.warning(
                "%s: nothing is copied until group %s of %s confirms again that this process runs the flow: %s",
                self.settings.name,
                self._membership.group,
                self.settings.target,
                error,
            )

    async def _wait_for_others(self) -> None:
        """Members of another kind are there: say who, and try again soon."""
        self._membership.forget()
        self._lost()
        group, target = self._membership.group, self.settings.target
        try:
            seen = await self._membership.describe()
        except ClusterError:
            await self._wake.wait(OTHERS_S)
            return
        who = ", ".join(seen.members) or "members that just left"
        if seen.protocol_type == CONNECT_PROTOCOL_TYPE:
            reason = (
                f"MirrorMaker 2 still runs this flow: group {group} of {target} has the members {who}; "
                "stop it, twinlog waits and takes over"
            )
        else:
            reason = (
                f"group {group} of {target} is used by others ({seen.protocol_type or 'no'} protocol: {who}); "
                f"stop them, or choose another group.id for {self.settings.name}; twinlog waits"
            )
        if seen.members and self._news(reason, SAY_AGAIN_S):
            log.warning("%s: %s", self.settings.name, reason)
        self._become(Standing.WAITING, reason)
        await self._wake.wait(OTHERS_S)

    def _trouble(self, error: ClusterError) -> None:
        now = time.monotonic()
        self._troubled_since = self._troubled_since or now
        # Of what cannot be connected to it was spoken already.
        if not self._admin.client.connected:
            return
        if now - self._troubled_since > SAY_AFTER_S and self._news("trouble", SAY_AFTER_S):
            log.warning("%s: cannot ask yet who runs this flow, trying again: %s", self.settings.name, error)

    def _become(self, standing: Standing, reason: str | None = None) -> None:
        self.reason = reason
        if standing is not self.standing:
            if Standing.LEADING in (standing, self.standing):
                self.term += 1
            self.standing = standing
            self._changed()

    def _news(self, what: object, again_s: float = float("inf")) -> bool:
        """Whether something was not said before, or not for `again_s` seconds."""
        now = time.monotonic()
        if now - self._said.get(what, float("-inf")) < again_s:
            return False
        self._said[what] = now
        return True
