"""The role of this process for a flow: it runs the flow, is on standby for another process, or meets an obstacle."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from twinlog.clock import Clock
from twinlog.errors import RefusedError, TwinlogError
from twinlog.settings.flow import FlowSettings
from twinlog.worker.election.announcements import Announcements
from twinlog.worker.election.member import Leadership
from twinlog.worker.status.outage import clock_time

SILENT_S = 5.0
"""A standby process logs the silence of the group after this time."""


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
        """The reason, for users, while this process is neither leader nor on standby."""
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
            able = "ready" if ready else "not ready yet"
            if unfit:
                able = f"not ready, as {self._settings.source} was not reached from here"
            if self._clock.monotonic() - self._answered_at > SILENT_S:
                what = "refuses this process" if self._refused else "has not answered"
                since = clock_time(self._answered_wall, self._clock.wall())
                able = f"but {self._settings.target} {what} since {since}"
            return f"standing by for {self.leadership}, {able}{differences}"
        if self.standing is ElectionState.LEADING:
            return "this process runs the flow once Spark has started"
        return self.reason or "asking who runs this flow"
