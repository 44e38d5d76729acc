"""The state of a flow by the facts that its target has: old reports, members of the election, heartbeats.

A flow that may be dead has another word than running. `ops.status.flow` reads the facts. The clock of the reporting
process is compared with the clock of the reader.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from twinlog.clock import Clock, wall_ms
from twinlog.errors.message_ids import with_id
from twinlog.model.amounts import shown_age
from twinlog.ops.status.readers import ConnectorSnapshot
from twinlog.worker.status.report import EVERY_S, DriverReport

LOOKS_ON_S = 2.5 * EVERY_S
"""The time that a reader watches for a new report, if the last report is stale by the reader's clock."""

LOOK_AGAIN_S = 0.25
SKEW_S = 2.0
"""Clocks that differ by less count as equal."""


class Clocks:
    """The clock of this process, and the known difference to the clock of the reporting process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.skew_ms = 0
        """How far the clock of the reporting process is behind."""
        self.reports_on: bool | None = None
        """Whether another report came while this process watched for it; None if the comparison was unnecessary."""

    @property
    def now_ms(self) -> int:
        """Unix time by the clock of who reports."""
        return wall_ms(self._clock) - self.skew_ms

    def compare(
        self, report: DriverReport, next_report: Callable[[], DriverReport | None], *, lives: bool = False
    ) -> None:
        """Watch for another report if `report` has a future time, or is old though its process seems to live. If
        `next_report` returns another report, that report is fresh by the other clock."""
        self.reports_on = None
        if report.state in ENDED:
            return
        age_s = (self.now_ms - report.at_ms) / 1000
        if -SKEW_S <= age_s <= STALE_S or (age_s > STALE_S and not lives):
            return
        until = self._clock.monotonic() + LOOKS_ON_S
        newest: DriverReport | None = report
        while newest is report and self._clock.monotonic() < until:
            self._clock.sleep(LOOK_AGAIN_S)
            newest = next_report()
        self.reports_on = newest is not None and newest is not report
        if newest is not None and self.reports_on:
            skew_ms = wall_ms(self._clock) - newest.at_ms
            self.skew_ms = skew_ms if abs(skew_ms) > SKEW_S * 1000 else 0


STALE_S = 5 * EVERY_S
"""After so long a silence, a process that runs a flow is gone, hangs, or has lost the target."""

BEATS_S = 30.0
"""How old a heartbeat may be, or as old as five of its intervals, while its flow counts as alive."""

ENDED = ("stopped", "failed", "caught up", "caught up, but for held partitions", "nothing to copy")
"""The last states of a flow, which its own process reports."""


BY_OTHERS = "run by others"
"""The word for a flow that another program runs."""


class FlowCondition(Enum):
    """The condition that scripts ask for first; the value is its name in JSON."""

    RUNNING = "running"
    NOT_YET = "not yet"
    """A process runs the flow or starts it, and copying is still to begin."""
    DOWN = "down"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ProcessSnapshot:
    """A process that takes part in the election of a flow; a process that is `ready` would copy at once."""

    name: str
    leads: bool = False
    ready: bool = False


@dataclass(frozen=True, slots=True)
class FlowStatusFacts:
    """The known facts of a flow `at_ms` (Unix); ages are by the clocks of the writing processes.

    `report` is the last report of the process that runs or ran the flow, `heartbeat_ms` the time of its last heartbeat.
    `processes` take part in its election; the leader among them leads `since_s` (Unix). The flows of a worker's
    connectors have an empty tuple. `others` names a program of another kind that has the group, for example MirrorMaker
    2. `target_trouble` is the reason why the target fails to answer. `connector` is the report of workers about the
    connector that this flow is, or that copies for it in another program.
    """

    at_ms: int
    report: DriverReport | None = None
    heartbeat_ms: int | None = None
    heartbeat_every_s: float | None = None
    elected: bool = True
    processes: tuple[ProcessSnapshot, ...] = field(default=())
    since_s: float | None = None
    others: str | None = None
    target_trouble: str | None = None
    connector: ConnectorSnapshot | None = None
    skew_s: float = 0.0
    """How far the clock of the reporting process is behind the reader's clock; `at_ms` is by the clock of the reporting
    process."""
    reports_on: bool | None = None
    """Whether another report came while a reader watched; None if the clocks agreed."""
    beside: tuple[DriverReport, ...] = ()
    """The fresh reports of processes that run a flow with the same name in other groups."""
    heartbeat_writer: bool = False
    """Whether this flow is a connector that only writes heartbeats."""

    def age_s(self, at_ms: int | None) -> float | None:
        """Seconds since a moment, 0 at least: clocks differ a little."""
        return None if at_ms is None else max(0.0, (self.at_ms - at_ms) / 1000)

    @property
    def report_age_s(self) -> float | None:
        return self.age_s(None if self.report is None else self.report.at_ms)

    @property
    def fresh(self) -> bool:
        """Whether the report is of now, and of who has the flow now."""
        if self.others is not None:
            return False
        if self.reports_on is not None:
            return self.target_trouble is None and self.reports_on
        age_s = self.report_age_s
        return self.target_trouble is None and age_s is not None and age_s <= STALE_S

    @property
    def running(self) -> DriverReport | None:
        """The report, if it is fresh and its process runs: an ended process misses later records."""
        report = self.report
        return report if self.fresh and report is not None and report.state not in ENDED else None

    @property
    def leader(self) -> str | None:
        """The process that leads by the group, None while the group lacks a leader."""
        return next((one.name for one in self.processes if one.leads), None)

    @property
    def beats(self) -> bool:
        """Whether the last heartbeat is of now."""
        age_s = self.age_s(self.heartbeat_ms)
        limit_s = max(BEATS_S, 5 * (self.heartbeat_every_s or 0.0))
        return self.target_trouble is None and age_s is not None and age_s <= limit_s


@dataclass(frozen=True, slots=True)
class ShownState:
    """A flow's state in a word or two, and the reason or detail."""

    condition: FlowCondition
    word: str
    detail: str | None = None


def state_of(facts: FlowStatusFacts) -> ShownState:
    """Return the state of a flow by its facts."""
    if facts.target_trouble is not None:
        return ShownState(
            FlowCondition.UNKNOWN, "unknown", with_id(f"the target is silent: {facts.target_trouble}", "TW-WAIT-01")
        )
    if facts.others is not None:
        return _of_others(facts, facts.others)
    report, age_s = facts.report, facts.report_age_s
    if facts.connector is not None and facts.running is None:
        return _of_connector(facts, facts.connector)
    if report is not None and age_s is not None and report.state in ENDED and facts.leader in (None, report.process):
        # The process reported its end itself; an old report of that is still true.
        return ShownState(FlowCondition.DOWN, report.state, report.detail)
    if report is not None and age_s is not None and facts.fresh:
        if not facts.elected or facts.leader == report.process:
            return _reported(report)
        if facts.leader is not None:
            text = f"{facts.leader} took over from {report.process} and its report is due"
            return ShownState(FlowCondition.NOT_YET, "starting", text)
        return ShownState(
            FlowCondition.DOWN, "no leader", f"{report.process} reported {age_s:.0f} s ago and has left the group"
        )
    last = "it is yet to report" if age_s is None else f"its last report is {shown_age(age_s)} old"
    if facts.leader is not None:
        who = "" if report is None or report.process == facts.leader else f", of {report.process}"
        return ShownState(FlowCondition.NOT_YET, "silent", f"{facts.leader} runs the flow, but {last}{who}")
    if facts.processes:
        return ShownState(FlowCondition.NOT_YET, "starting", "no process leads yet")
    if report is not None:
        return ShownState(
            FlowCondition.DOWN, "dead", f"no process runs it: {last}, when {report.process} had it {report.state}"
        )
    if facts.beats and not facts.elected:
        return ShownState(
            FlowCondition.RUNNING, "alive", "heartbeats are written, but reports of its state are missing"
        )
    return ShownState(FlowCondition.DOWN, "not running", f"no process runs it, {last}")


def _reported(report: DriverReport) -> ShownState:
    running = report.state in ("running", "idle")
    detail = report.detail
    if report.state == "starting" and detail is None:
        detail = "no Spark task copies for it yet"
    return ShownState(FlowCondition.RUNNING if running else FlowCondition.NOT_YET, report.state, detail)


def _of_connector(facts: FlowStatusFacts, seen: ConnectorSnapshot) -> ShownState:
    """The state of a connector that has stopped reporting: by the report of its workers."""
    report, reported = facts.report, seen.reported
    if seen.members == 0:
        word = "not running" if report is None else report.state if report.state in ENDED else "dead"
        return ShownState(FlowCondition.DOWN, word, f"group {seen.group} is empty")
    if reported is None:
        return ShownState(
            FlowCondition.DOWN, "not running", f"the workers of group {seen.group} lack a connector {seen.name}"
        )
    if seen.failure is not None:
        return ShownState(FlowCondition.DOWN, "failed", seen.failure)
    if reported.state == "STOPPED":
        return ShownState(FlowCondition.DOWN, "stopped", "the connector was stopped by a request")
    if reported.state == "PAUSED":
        return ShownState(FlowCondition.NOT_YET, "paused", "the connector was paused by a request")
    if reported.state != "RUNNING":
        return ShownState(FlowCondition.NOT_YET, "starting", f"the connector is {reported.state.lower()}")
    if report is not None and report.at_ms >= seen.at_ms and report.state not in ENDED:
        text = f"worker {reported.worker} has it, but its last report is {shown_age(facts.report_age_s or 0.0)} old"
        return ShownState(FlowCondition.NOT_YET, "silent", text)
    if facts.heartbeat_writer:
        word = "alive" if facts.beats else "silent"
        text = (
            f"worker {reported.worker} writes heartbeats"
            if facts.beats
            else f"worker {reported.worker} has stopped its heartbeats"
        )
        return ShownState(FlowCondition.RUNNING if facts.beats else FlowCondition.NOT_YET, word, text)
    text = (
        f"worker {reported.worker} of group {seen.group} runs it silently: a worker of Kafka, or a worker that begins"
    )
    return ShownState(FlowCondition.RUNNING, BY_OTHERS, text)


def _of_others(facts: FlowStatusFacts, others: str) -> ShownState:
    """The state while another program has the flow's group; this program reports only heartbeats and the states of its
    connectors."""
    failure = None if facts.connector is None else facts.connector.failure
    if failure is not None:
        return ShownState(FlowCondition.DOWN, "failed", f"{others}; {failure}")
    age_s = facts.age_s(facts.heartbeat_ms)
    if facts.beats:
        return ShownState(FlowCondition.RUNNING, BY_OTHERS, others)
    if facts.heartbeat_every_s is None and facts.connector is not None and facts.connector.reported is not None:
        state = facts.connector.reported.state
        condition = FlowCondition.RUNNING if state == "RUNNING" else FlowCondition.NOT_YET
        return ShownState(condition, BY_OTHERS, f"{others}, {facts.connector.name} is {state.lower()}")
    beat = "the first heartbeat is due" if age_s is None else f"the last heartbeat is {shown_age(age_s)} old"
    return ShownState(FlowCondition.NOT_YET, BY_OTHERS, f"{others}, but {beat}")
