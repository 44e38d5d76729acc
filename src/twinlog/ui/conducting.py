"""Switchovers that the console carries out: the same steps and the same journal as `twinlog switchover`.

Each switchover has a thread of its own, and a flow has a single switchover at a time. The journal has every step, so
that a console that ends leaves a switchover that the next console, or `twinlog switchover`, continues.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum

from twinlog.clock import Clock, wall_ms
from twinlog.errors import RequestError, TwinlogError
from twinlog.errors.message_ids import told, with_id
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.retry import COMMAND_CONNECT_S, LOOK_CONNECT_S
from twinlog.ops.status.readers import ClustersReader
from twinlog.ops.switchover.clusters import LiveClusters
from twinlog.ops.switchover.journal import JournalEntries, ended_by
from twinlog.ops.switchover.model import Data, NotReadyError, SwitchoverKind, SwitchoverOptions, TooLongError
from twinlog.ops.switchover.report import SwitchoverActions, report
from twinlog.ops.switchover.session import carry_out, claim_machine
from twinlog.ops.switchover.stage import stage, unchanged
from twinlog.settings.flow import FlowSettings
from twinlog.ui.audit import audit
from twinlog.ui.faults import log_fault
from twinlog.ui.sources import ConsoleSources

_LOG = logging.getLogger(__name__)
MOST_LINES = 200

CONTINUE, UNDO, RELEASE = "Continue", "Undo", "Lift the fence"
"""The titles of the actions on a begun switchover."""

ACTIONS = SwitchoverActions(f"choose {CONTINUE}", f"choose {UNDO}", UNDO, "switch over again", f"the action {RELEASE}")


class StopAskedError(TwinlogError):
    """A user undoes the switchover that runs."""


class SwitchoverMode(StrEnum):
    """What a switchover does: all steps that are left, the way back of each step, or the end of its fence."""

    RUN = "run"
    ABORT = "abort"
    RELEASE = "release"


@dataclass(frozen=True, slots=True)
class SwitchoverRequest:
    """A switchover that a user asks for; `user` and `address` are for the audit log."""

    flow: str
    mode: SwitchoverMode
    options: SwitchoverOptions
    take_over: bool
    user: str
    address: str


@dataclass(frozen=True, slots=True)
class ShownStep:
    """The words of a step at a moment (ms since 1970)."""

    at_ms: int
    step: str
    words: str


@dataclass(slots=True)
class ConductedSwitchover:
    """A switchover of this console: its shown steps so far, and its end."""

    request: SwitchoverRequest
    settings: FlowSettings
    runs: bool = True
    undone_by: SwitchoverRequest | None = None
    """The request that stops and undoes it while it runs."""
    trouble: str | None = None
    problems: tuple[str, ...] = ()
    lines: deque[ShownStep] = field(default_factory=lambda: deque(maxlen=MOST_LINES))
    version: int = 0

    @property
    def may_stop(self) -> bool:
        """Whether a request may stop and undo it now."""
        return self.runs and self.request.mode is SwitchoverMode.RUN and self.undone_by is None

    def show(self, line: ShownStep) -> None:
        """Add a line; further words of the last step replace its line, as on a terminal."""
        if self.lines and self.lines[-1].step == line.step:
            self.lines.pop()
        self.lines.append(line)
        self.version += 1


class SwitchoverConductor:
    """Carries switchovers out, for each flow a single switchover at a time."""

    def __init__(self, sources: ConsoleSources, clock: Clock) -> None:
        self._sources = sources
        self._clock = clock
        self._lock = threading.Lock()
        self._conducted: dict[str, ConductedSwitchover] = {}

    def find(self, flow: str) -> ConductedSwitchover | None:
        """The last switchover of a flow by this console."""
        return self._conducted.get(flow)

    def begin(self, request: SwitchoverRequest) -> None:
        """Begin, and return at once; a request to undo stops the switchover that runs, and undoes it.

        Raises RequestError 409 while this console works on another switchover of the two clusters, in either direction.
        """
        settings = self._sources.flow(request.flow)
        with self._lock:
            for one in self._conducted.values():
                same = {one.settings.source, one.settings.target} == {settings.source, settings.target}
                if one.may_stop and one.request.flow == request.flow and request.mode is SwitchoverMode.ABORT:
                    one.undone_by = request
                    _audit_begin(request)
                    return
                if one.runs and same:
                    raise RequestError(409, f"The console works on switchover {one.request.flow} already.")
            made = self._conducted[request.flow] = ConductedSwitchover(request, settings)
            _audit_begin(request)
        name = f"switchover {request.flow}"
        threading.Thread(target=self._conduct, args=(made,), name=name, daemon=True).start()

    def close(self) -> None:
        """Log the switchovers that the end of the process interrupts."""
        for one in self._conducted.values():
            if one.runs:
                flow = one.settings
                _LOG.warning(
                    "TW-SWITCH-17: switchover %s is interrupted; continue it on the page of the switchover, or by "
                    "`twinlog switchover FILE --from %s --to %s`",
                    *(one.request.flow, flow.source, flow.target),
                )

    def _conduct(self, made: ConductedSwitchover) -> None:
        request = made.request
        outcome = "done"
        try:
            self._act(made)
            outcome = made.trouble or outcome
        except TooLongError as error:
            made.trouble = f"{told(error)}; everything was undone, producers may write to {made.settings.source} again"
            outcome = "undone"
        except TwinlogError as error:
            outcome = made.trouble = told(error)
        except Exception as error:
            outcome = made.trouble = log_fault(error, f"SWITCHOVER {request.flow}")
        finally:
            # The line comes first: a page that shows the end has it in the log.
            last = made.undone_by or request
            audit(last.user, last.address, f"{last.mode} switchover", flow=last.flow, outcome=outcome)
            made.runs = False
            made.version += 1

    def _act(self, made: ConductedSwitchover) -> None:
        request = made.request
        clusters = self._sources.open_clusters(request.flow)
        try:
            lost = request.options.kind is SwitchoverKind.EMERGENCY
            clusters.connect(COMMAND_CONNECT_S, source_lost=lost)

            stopped = False

            def show(step: str, words: str) -> None:
                made.show(ShownStep(wall_ms(self._clock), step, words))
                # Once producers may write to the target, a switchover is completed.
                if made.undone_by is not None and not stopped and clusters.journal.entries.done("open") is None:
                    raise StopAskedError("a user undoes the switchover")

            machine = claim_machine(clusters, show, take_over=request.take_over, clock=self._clock)
            try:
                entries = carry_out(machine, request.mode, request.options)
                failed = report(entries, ACTIONS).get("failed", [])
                made.trouble = "; ".join(with_id(line, "TW-SWITCH-20") for line in failed) or None
            except StopAskedError:
                stopped = True
                carry_out(machine, SwitchoverMode.ABORT, request.options)
            except NotReadyError as error:
                made.problems = error.problems
                entries = clusters.journal.entries
                found = "nothing was changed" if unchanged(entries) else stage(entries)
                made.trouble = f"obstacles were found: {found}"
            if made.undone_by is not None and not stopped:
                made.trouble = "the undo came too late: producers may write to the target already"
        finally:
            clusters.close()


def _audit_begin(request: SwitchoverRequest) -> None:
    """A line for a switchover that begins, before the lines of its thread."""
    kind = request.options.kind
    audit(request.user, request.address, f"{request.mode} switchover", flow=request.flow, kind=kind, outcome="begins")


@dataclass(frozen=True, slots=True)
class SwitchoverReading:
    """The newest switchover of a journal, its report, {} before the first, and its stage in words."""

    entries: JournalEntries
    report: Data
    stands: str

    @classmethod
    def of(cls, entries: JournalEntries) -> SwitchoverReading:
        """The reading of these entries."""
        return cls(entries, report(entries, ACTIONS), stage(entries))

    def with_its_end(self, other: JournalEntries) -> SwitchoverReading:
        """The reading with the end by a later switchover in the `other` direction, as `--status` prints it: a cluster
        that was lost lacks the note of this end."""
        entries = ended_by(self.entries, other)
        return self if entries is self.entries else SwitchoverReading.of(entries)


class _OneClusterReader(ClustersReader):
    """Reads from one of the clusters of a switchover; a silent other cluster is accepted."""

    def __init__(self, clusters: LiveClusters, read_from: ClusterAdmin) -> None:
        self._both = clusters
        self._read_from = read_from
        self._connected = False
        super().__init__([])

    def close(self) -> None:
        self._both.close()

    def _connect(self) -> None:
        """Connect before the first reading. Raises ClusterError."""
        if not self._connected:
            self._read_from.connect(LOOK_CONNECT_S)
            self._connected = True


class SwitchoverReader(_OneClusterReader):
    """Reads the journal of a flow's switchovers from its target."""

    def __init__(self, clusters: LiveClusters) -> None:
        super().__init__(clusters, clusters.target)

    def read(self) -> SwitchoverReading:
        """Read the journal. Raises ClusterError."""
        self._connect()
        return SwitchoverReading.of(self._both.journal.read())


class OtherJournalReader(_OneClusterReader):
    """Reads from the source of a flow the journal of the other direction, with the note of a fence there."""

    def __init__(self, clusters: LiveClusters) -> None:
        super().__init__(clusters, clusters.source)

    def read(self) -> JournalEntries:
        """Read the journal. Raises ClusterError."""
        self._connect()
        return self._both.read_earlier_journal()
