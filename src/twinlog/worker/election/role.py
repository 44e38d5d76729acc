"""What this process is for a flow: whether it runs the flow, stands by for another one, or what is in the way."""

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
"""After so long without an answer a process that stands by logs it."""


class ElectionState(Enum):
    """The role of this process for a flow."""

    JOINING = "joining"
    WAITING = "waiting"
    STANDBY = "standing by"
    LEADING = "leading"
    REFUSED = "refused"


class ElectionRole:
    """Changed by the election, read by any thread. `changed` is called whenever `standing` has changed."""

    def __init__(
        self, settings: FlowSettings, announce: Announcements, clock: Clock, changed: Callable[[], None]
    ) -> None:
        self.standing = ElectionState.JOINING
        self.leadership: Leadership | None = None
        """Who leads, once that is known."""
        self.reason: str | None = None
        """Why this process neither leads nor stands by, for users."""
        self.term = 0
        """Counts how often this process began or ceased to lead, so that a leader that stood by has a new term."""
        self._settings = settings
        self._announce = announce
        self._clock = clock
        self._changed = changed
        self._differences: tuple[str, ...] = ()
        """Keys in which this process differs from the leader it stands by for."""
        self._answered_at, self._answered_wall = clock.monotonic(), clock.wall()
        """When the group has answered last."""
        self._refused = False
        """Whether the target has refused this process since."""

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
        """A heartbeat got no answer; this process certainly leads until then (monotonic seconds), if it leads."""
        now = self._clock.monotonic()
        # Once refused, it stays so: a later timeout explains less.
        self._refused = self._refused or isinstance(error, RefusedError)
        if self.standing is ElectionState.LEADING and lease_until < now:
            self._announce.unconfirmed(error)
        elif self.standing is ElectionState.STANDBY and now - self._answered_at > SILENT_S:
            self._announce.unanswered(error)

    def text(self, *, ready: bool, unfit: bool) -> str:
        """In a few words: who leads, or what is in the way."""
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
