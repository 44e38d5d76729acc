"""Finds the reason and the start of a standstill of a flow, from copiers' reports and the driver's clients."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from twinlog.clock import LONG_AGO, SYSTEM, Clock
from twinlog.errors.message_ids import with_id
from twinlog.kafka.auth.refusal import cause_id
from twinlog.model.reach import ClusterReachability
from twinlog.settings.flow import FlowSettings
from twinlog.worker.status.flow_status import FlowStatus

log = logging.getLogger(__name__)

SUSPENDED_S = 5.0
"""A process whose last look is longer ago than this was suspended; its requests will be answered soon."""

WATCH_S = 0.5
LOG_AFTER_S = 2.0
"""An outage is logged after this duration; the move of a leader is shorter."""

THROTTLED_S = 60.0
"""A quota lets requests through in turns with pauses: within this time a pause counts as normal."""

JITTER_S = 2.0
"""The start of an outage may differ by this time between two reports."""


HELD_UP = "every partition is held up"
NO_TASK = "no task of Spark runs"
UNCONFIRMED = "the group coordinator has not confirmed that this process runs the flow"

_FAULT_IDS = {HELD_UP: "TW-WAIT-02", NO_TASK: "TW-WAIT-03", UNCONFIRMED: "TW-WAIT-04"}


@dataclass(frozen=True, slots=True)
class Outage:
    """A standstill of a flow: the fault `what`, its start `since` (seconds since 1970), and its reason `why`, if known.

    `cluster` is the silent side, `source` or `target`, None if both sides answer.
    """

    what: str
    since: float
    why: str | None = None
    cluster: str | None = None

    @property
    def message_id(self) -> str:
        """The id of the cause: of the cluster's reason, or of the fault."""
        if self.cluster is not None:
            return cause_id(self.why or "", "TW-WAIT-01")
        return _FAULT_IDS[self.what]

    def __str__(self) -> str:
        return f"{self.what} since {clock_time(self.since)}, nothing is copied{self._because}"

    @property
    def without_time(self) -> str:
        """The text for a log line, which has a time of its own; the same for each flow of the cluster."""
        return f"{self.what}, nothing is copied{self._because}"

    @property
    def _because(self) -> str:
        return f" ({self.why})" if self.why else ""


def clock_time(at: float, now: float | None = None) -> str:
    """A moment for users: the time of day, with the date for other days than today."""
    then, today = time.localtime(at), time.localtime(now)
    same_day = then[:3] == today[:3]
    return time.strftime("%H:%M:%S" if same_day else "%Y-%m-%d %H:%M:%S", then)


class OutageWatch:
    """Looks periodically; the beginning of an outage is the first reported time."""

    def __init__(self, status: FlowStatus, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._flow_status = status
        self._last: Outage | None = None
        self._looked_at = self._clock.monotonic()
        self._awake_at = LONG_AGO
        self._throttled_since: float | None = None

    def detect_outage(
        self, source: ClusterReachability, target: ClusterReachability, *, leads: bool = True
    ) -> Outage | None:
        """The reason of a standstill, None while records may be copied.

        `source` and `target` are the driver's reachability of the clusters, `leads` is whether this process holds the
        leadership lease.
        """
        now, wall = self._clock.monotonic(), self._clock.wall()
        if now - self._looked_at > SUSPENDED_S:
            # A suspended process has missed the answers; the clusters were reachable.
            self._awake_at = now
        self._looked_at = now
        found = self._find(now, wall, source, target)
        if found is None and not leads:
            found = Outage(UNCONFIRMED, wall)
        last = self._last
        if found is not None and last is not None and found.what == last.what:
            found = Outage(found.what, min(last.since, found.since), found.why, found.cluster)
        self._last = found
        return found

    def _find(self, now: float, wall: float, source: ClusterReachability, target: ClusterReachability) -> Outage | None:
        since, self._throttled_since = self._throttled_since, None
        holders = self._flow_status.holders()
        alive = [one for one in holders if one.gone_at is None]
        alive = [one for one in alive if one.held] or alive
        for side, reach in (("target", target), ("source", source)):
            seen = [(getattr(one, side), now - one.heard_at) for one in alive]
            out = _out(reach, seen)
            if out is not None and (now - self._awake_at > SUSPENDED_S or out[0] <= now - self._awake_at):
                out_s, why = out
                return Outage(f"{side} cluster unreachable", wall - out_s, why, side)
        if not self._flow_status.planned() or not holders:
            return None
        if not alive:
            went = max(one.gone_at for one in holders if one.gone_at is not None)
            return Outage(NO_TASK, wall - (now - went))
        stuck, trouble = self._flow_status.stuck()
        held_up = stuck > 0 and stuck >= self._flow_status.planned()
        if not (held_up and self._flow_status.stuck_by_quota()):
            return Outage(HELD_UP, wall, trouble) if held_up else None
        self._throttled_since = now if since is None else since
        throttled_s = now - self._throttled_since
        return None if throttled_s < THROTTLED_S else Outage(HELD_UP, wall - throttled_s, trouble)


def _out(
    driver: ClusterReachability, copiers: Sequence[tuple[ClusterReachability, float]]
) -> tuple[float, str | None] | None:
    """The time for which a cluster is out of reach for all copiers, and the reason; each report has an age."""
    if copiers and all(reach.out for reach, _ in copiers):
        reach, age_s = min(copiers, key=lambda one: one[0].out_s + one[1])
        return reach.out_s + age_s, reach.why
    if not driver.out:
        return None
    # Copiers without requests to the cluster prove nothing; a copier with a later answer proves that it is reachable.
    answered_s = min((reach.heard_s + age_s for reach, age_s in copiers if reach.heard_s >= 0), default=None)
    if answered_s is not None and answered_s < driver.out_s - JITTER_S:
        return None
    return driver.out_s, driver.why


class OutageDetector:
    """Detects the start and the end of a flow's standstill, and logs both once.

    `source()` and `target()` return the driver's reachability of both clusters, `leads()` whether this process holds
    the leadership lease. `over()` is called when an outage ends.
    """

    def __init__(
        self,
        settings: FlowSettings,
        status: FlowStatus,
        *,
        source: Callable[[], ClusterReachability],
        target: Callable[[], ClusterReachability],
        leads: Callable[[], bool],
        over: Callable[[], None],
        clock: Clock = SYSTEM,
    ) -> None:
        self._clock = clock
        self.outage: Outage | None = None
        """The present outage; None while records may be copied."""
        self._settings = settings
        self._outages = OutageWatch(status, clock)
        self._source = source
        self._target = target
        self._leads = leads
        self._over = over
        self._logged: Outage | None = None

    def start(self, stopping: threading.Event) -> None:
        """Watch on a thread of its own, until `stopping` is set."""

        def watch() -> None:
            while not self._clock.wait(stopping, WATCH_S):
                self.check_outage()

        threading.Thread(target=watch, name=f"outages {self._settings.name}", daemon=True).start()

    def check_outage(self) -> None:
        """Look once."""
        outage = self._outages.detect_outage(self._source(), self._target(), leads=self._leads())
        before, self.outage = self.outage, outage
        if before is not None and outage is None:
            self._over()
        logged = self._logged
        if logged is not None and (outage is None or outage.what != logged.what):
            log.info("%s: %s", self._settings.name, self._ended(logged))
            self._logged = logged = None
        if outage is not None and logged is None and self._clock.wall() - outage.since >= LOG_AFTER_S:
            self._logged = outage
            text = f"{self._settings.name}: waiting: {self._named(outage).without_time}"
            log.warning("%s", with_id(text, outage.message_id))

    def _named(self, outage: Outage) -> Outage:
        """An outage with the name of the cluster, in the same words for each flow of the cluster."""
        if outage.cluster is None:
            return outage
        return replace(outage, what=outage.what.replace(f"{outage.cluster} cluster", self._cluster(outage.cluster)))

    def _ended(self, outage: Outage) -> str:
        lasted_s = self._clock.wall() - outage.since
        if outage.cluster is None:
            return f"continues after {lasted_s:.0f} s: {outage.what}"
        return f"{self._cluster(outage.cluster)} answers again after {lasted_s:.0f} s"

    def _cluster(self, side: str) -> str:
        return f"cluster {self._settings.source if side == 'source' else self._settings.target}"
