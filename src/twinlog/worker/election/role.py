"""The role of this process for a flow: it runs the flow, is on standby for another process, or meets an obstacle.

The log has each change of the role once, and an obstacle once a minute.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum

from twinlog.clock import SYSTEM, Clock
from twinlog.errors import ClusterError, RefusedError, TwinlogError
from twinlog.errors.message_ids import id_of, with_id
from twinlog.kafka.coordinator.membership import SESSION_S
from twinlog.process.log_once import AGAIN_S, LogOnce
from twinlog.settings.flow import FlowSettings
from twinlog.worker.election.member import Leadership
from twinlog.worker.status.outage import clock_time

log = logging.getLogger(__name__)


LOG_AFTER_S = 5.0
"""A coordinator may take seconds to start on a new cluster; this time is left out of the log."""


SILENT_S = 5.0
"""A standby process logs the silence of the group after this time."""


class Announcements:
    """The log messages of a flow's election; `name` is the name of this process.

    `is_twin` returns whether a member of the group is another flow of this process, with an alias of the same target.
    """

    def __init__(
        self,
        settings: FlowSettings,
        name: str,
        group: str,
        clock: Clock = SYSTEM,
        is_twin: Callable[[str], bool] = lambda member: False,
    ) -> None:
        self._is_twin = is_twin
        self._clock = clock
        self._flow = settings.name
        self._target = settings.target
        self._name = name
        self._group = group
        self._logged = LogOnce(clock)
        self._troubled_since: float | None = None
        self._unanswered = False

    def refused(self, error: TwinlogError) -> None:
        """The target refuses this process in the group."""
        if self._logged.is_new(str(error), AGAIN_S):
            log.error("%s: %s: %s", id_of(error, "TW-LEADER-13"), self._flow, error)

    def unreachable(self, error: ClusterError) -> None:
        """All brokers of the target are silent."""
        if self._logged.is_new("connect", AGAIN_S):
            log.warning("%s: %s: cannot connect yet, trying again: %s", id_of(error, "TW-NET-13"), self._flow, error)

    def trouble(self, error: ClusterError, *, connected: bool) -> None:
        """The group is silent; a target that is out of reach was logged already."""
        now = self._clock.monotonic()
        self._troubled_since = now if self._troubled_since is None else self._troubled_since
        if connected and now - self._troubled_since > LOG_AFTER_S and self._logged.is_new("trouble", AGAIN_S):
            log.warning("TW-LEADER-14: %s: cannot ask yet who runs this flow, trying again: %s", self._flow, error)

    def log_joined(self, session_s: float) -> None:
        """This process is a member; its membership ends `session_s` seconds after its last heartbeat."""
        self._troubled_since = None
        if session_s > SESSION_S and self._logged.is_new("session"):
            log.info(
                "%s: the brokers want sessions of %.0f s at least, so another process takes over only after that time",
                *(self._flow, session_s),
            )

    def log_leading(self, leadership: Leadership, me: str, *, anew: bool) -> None:
        """This process, the member `me`, runs the flow; `anew` is true at the start of its leadership."""
        if anew:
            log.info("%s: this process (%s) runs the flow", self._flow, self._name)
        for member, other in leadership.mates.items():
            # The twin, in this process too, logs its own standby.
            if member == me or self._is_twin(member):
                continue
            if self._logged.is_new((other.name, other.differs)):
                log.info("%s: %s stands by", self._flow, other.name)
                if other.differs:
                    log.warning(
                        "TW-LEADER-10: %s: %s stands by with other settings than this process: %s",
                        *(self._flow, other.name, ", ".join(other.differs)),
                    )

    def stands_by(self, leadership: Leadership, differences: tuple[str, ...]) -> None:
        """Another process runs the flow, with settings that differ from this process's settings in some keys."""
        if self._is_twin(leadership.term.runner):
            return
        if not self._logged.is_new(("standing by", leadership.term, differences)):
            return
        log.info("%s: standing by for %s", self._flow, leadership)
        if differences:
            log.warning(
                "TW-LEADER-10: %s: the settings of this process differ from those of %s, which runs the flow: %s; "
                "they take effect if this process takes over",
                *(self._flow, leadership.leader.name, ", ".join(differences)),
            )

    def log_lost(self) -> None:
        """This process ran the flow, and by now another process may run it."""
        log.warning(
            "TW-LEADER-11: %s: this process was silent for too long, and another process may run the flow now: this "
            "process stops copying",
            self._flow,
        )

    def unconfirmed(self, error: TwinlogError) -> None:
        """This process runs the flow, and the coordinator's confirmation is missing."""
        if self._logged.is_new("unconfirmed", AGAIN_S):
            log.warning(
                "TW-LEADER-12: %s: nothing is copied until group %s of %s confirms again that this process runs the "
                "flow: %s",
                *(self._flow, self._group, self._target, error),
            )

    def unanswered(self, error: TwinlogError) -> None:
        """This process is on standby, and the group is silent, or refuses it."""
        self._unanswered = True
        refused = isinstance(error, RefusedError)
        if not self._logged.is_new(("unanswered", refused), AGAIN_S):
            return
        if refused:
            log.warning(
                "TW-LEADER-08: %s: %s refuses this process: the leader of the flow is unknown here, and a take-over is "
                "impossible; trying again: %s",
                *(self._flow, self._target, error),
            )
        else:
            log.warning(
                "TW-LEADER-09: %s: %s is silent: the leader of the flow is unknown here, and a take-over is "
                "impossible; trying again: %s",
                *(self._flow, self._target, error),
            )

    def log_answer(self) -> None:
        """The group has answered."""
        if self._unanswered:
            self._unanswered = False
            log.info("%s: %s answers again", self._flow, self._target)

    def taken(self, reason: str) -> None:
        """Members of another kind are in the group."""
        if self._logged.is_new(reason, AGAIN_S):
            log.warning("%s", with_id(f"{self._flow}: {reason}", "TW-LEADER-15"))


class ElectionState(Enum):
    """The role of this process for a flow."""

    JOINING = "joining"
    WAITING = "waiting"
    STANDBY = "standing by"
    LEADING = "leading"
    REFUSED = "refused"


class ElectionRole:
    """Changed by the election, read by any thread. `changed` is called after each change of `standing`."""

    def __init__(
        self, settings: FlowSettings, announce: Announcements, clock: Clock, changed: Callable[[], None]
    ) -> None:
        self.standing = ElectionState.JOINING
        self.leadership: Leadership | None = None
        """The leader and its term, once they are known."""
        self.reason: str | None = None
        """The obstacle, for users, that keeps this process from leading and from standby."""
        self.term = 0
        """Counts the starts and ends of this process's leadership: a leader that was on standby has a new term."""
        self._settings = settings
        self._announce = announce
        self._clock = clock
        self._changed = changed
        self._differences: tuple[str, ...] = ()
        """Keys in which this process differs from its leader, while it is on standby."""
        self._answered_at, self._answered_wall = clock.monotonic(), clock.wall()
        """The time of the group's last answer."""
        self._refused = False
        """Whether the target has refused this process since that answer."""

    def set_state(self, standing: ElectionState, reason: str | None = None) -> None:
        self.reason = reason
        if standing is not self.standing:
            leads_or_led = ElectionState.LEADING in (standing, self.standing)
            self.standing = standing
            if leads_or_led:
                self.term += 1
            self._changed()

    def begin_leading(self, leadership: Leadership, me: str) -> None:
        """This process, the member `me`, runs the flow."""
        self._announce.log_leading(leadership, me, anew=self.standing is not ElectionState.LEADING)
        self.leadership, self._differences = leadership, ()
        self.set_state(ElectionState.LEADING)

    def stand_by(self, leadership: Leadership, me: str) -> None:
        """Another process runs the flow."""
        mine = leadership.mates.get(me)
        differences = () if mine is None else mine.differs
        self._announce.stands_by(leadership, differences)
        self.leadership, self._differences = leadership, differences
        self.set_state(ElectionState.STANDBY)

    def lose_leadership(self) -> None:
        """Another process may lead from now on."""
        if self.standing is ElectionState.LEADING:
            self._announce.log_lost()
            self.set_state(ElectionState.JOINING)

    def record_answer(self) -> None:
        """The group has answered."""
        self._answered_at, self._answered_wall = self._clock.monotonic(), self._clock.wall()
        self._refused = False
        self._announce.log_answer()

    def unanswered(self, error: TwinlogError, lease_until: float) -> None:
        """A heartbeat is unanswered; a leading process surely leads until `lease_until` (monotonic seconds)."""
        now = self._clock.monotonic()
        # A refusal stays noted, because a later timeout explains less.
        self._refused = self._refused or isinstance(error, RefusedError)
        if self.standing is ElectionState.LEADING and lease_until < now:
            self._announce.unconfirmed(error)
        elif self.standing is ElectionState.STANDBY and now - self._answered_at > SILENT_S:
            self._announce.unanswered(error)

    def text(self, *, ready: bool, unfit: bool) -> str:
        """The leader in a few words, or the obstacle."""
        if self.standing is ElectionState.STANDBY and self.leadership is not None:
            differences = f", its {', '.join(self._differences)} differ" if self._differences else ""
            message_id, able = "", "ready" if ready else "not ready yet"
            if unfit:
                message_id = "TW-LEADER-05: "
                able = f"not ready, as {self._settings.source} was out of reach from here"
            if self._clock.monotonic() - self._answered_at > SILENT_S:
                message_id = "TW-LEADER-08: " if self._refused else "TW-LEADER-09: "
                what = "refuses this process" if self._refused else "has not answered"
                since = clock_time(self._answered_wall, self._clock.wall())
                able = f"but {self._settings.target} {what} since {since}"
            return f"{message_id}standing by for {self.leadership}, {able}{differences}"
        if self.standing is ElectionState.LEADING:
            return "this process runs the flow once Spark has started"
        return self.reason or "asking who runs this flow"
