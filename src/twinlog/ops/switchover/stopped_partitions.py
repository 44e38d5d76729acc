"""The partitions that a flow leaves uncopied while it runs: partitions that its process holds, and paused partitions.

A switchover that waited for them would keep producers waiting until its timeout.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass

from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.model.amounts import counted, shown_moment
from twinlog.model.held import HeldPartition
from twinlog.model.topics import listed
from twinlog.model.types import Alias, SourceOffset, TopicName, TopicPartition
from twinlog.ops.status.last_report import LastReportReader
from twinlog.ops.switchover.model import CopiedPosition, NoteKind, PreflightNote, as_notes
from twinlog.ops.switchover.steps.step import uncopied_note
from twinlog.ops.switchover.steps.waiting import lag
from twinlog.settings.flow import FlowSettings
from twinlog.worker.control.journal import ControlJournal
from twinlog.worker.control.model import CommandOutcome, CommandState, TopicVerb
from twinlog.worker.status.held_and_paused import describe
from twinlog.worker.status.report import DriverReport

MOST_NAMED = 100
"""Paused partitions that are named; a report names as many held partitions."""


@dataclass(frozen=True, slots=True)
class PassedRange:
    """The source offsets from `first` up to, excluding, `end`, which a command passed over for good."""

    partition: TopicPartition
    verb: TopicVerb
    first: SourceOffset
    end: SourceOffset

    def __str__(self) -> str:
        return (
            f"{self.partition}: {self.verb} passed over source offsets {self.first} to {self.end - 1}, without a copy"
        )


def passed_ranges(outcomes: Iterable[CommandOutcome], partitions: Collection[TopicPartition]) -> list[PassedRange]:
    """The ranges of these partitions that commands passed over, less ranges that a later `restart-from` had copied."""
    found: list[PassedRange] = []
    for outcome in outcomes:
        if outcome.result is not CommandState.APPLIED:
            continue
        for move in outcome.changed:
            if move.before is None or move.after is None or move.partition not in partitions:
                continue
            if outcome.command.verb is TopicVerb.RESTART_FROM:
                found = [one for one in found if one.partition != move.partition or one.end <= move.after]
            if move.passed:
                found.append(PassedRange(move.partition, outcome.command.verb, move.before, move.after))
    return found


@dataclass(frozen=True, slots=True)
class StoppedPartitions:
    """The held and the paused partitions of a flow.

    `held` are the partitions that the last report names; the flow holds `more_held` further partitions. `reported` is
    False if the held partitions are unknown, as for a flow of MirrorMaker 2. `flow` is the flow as a value of `--flow`.
    `passed` are commands that passed over source offsets.
    """

    held: tuple[HeldPartition, ...] = ()
    more_held: int = 0
    paused: frozenset[TopicPartition] = frozenset()
    reported: bool = True
    flow: str = ""
    passed: tuple[PassedRange, ...] = ()
    report: DriverReport | None = None
    """The last report of the flow."""

    def losses(self, source: Alias, topics: Container[TopicName]) -> list[PreflightNote]:
        """The source records of `topics` without a copy, in notes, for a switchover that leaves the source behind."""
        left = [
            f"{one.source} was held at source offset {one.source_offset} ({one.reason}): its later records are on "
            f"{source} alone"
            for one in self.held[:MOST_NAMED]
            if one.topic in topics
        ]
        more = self.more_held + len(self.held[MOST_NAMED:])
        if more:
            left.append(f"{counted(more, 'more partition')} held, whose later records are on {source} alone")
        paused = sorted(self.paused)
        if paused:
            left.append(f"paused, so their later records are on {source} alone: {listed(map(str, paused))}")
        passed = [str(one) for one in self.passed[:MOST_NAMED]]
        if self.passed[MOST_NAMED:]:
            passed.append(f"{counted(len(self.passed) - MOST_NAMED, 'more range')} passed over, without a copy")
        return [
            uncopied_note(source, _waiting(self.report)),
            *(PreflightNote(text, NoteKind.LEFT) for text in left),
            *as_notes(passed),
        ]

    def obstacles(
        self,
        ends: Mapping[TopicPartition, int],
        starts: Mapping[TopicPartition, int],
        copied: Mapping[TopicPartition, CopiedPosition],
    ) -> list[str]:
        """A line for each of the partitions that has records to copy up to `ends`: its message id, and its way out."""
        left = lag(ends, starts, copied)
        held = [one for one in self.held if _waits(one, ends, left, copied)]
        found = [self._of_held(one) for one in held]
        if self.more_held and left.keys() - {one.source for one in held} - self.paused:
            found.append(
                f"TW-HELD-01: {counted(self.more_held, 'more partition')} held; `twinlog topics` shows them, mend the "
                "cause of each"
            )
        paused = sorted(self.paused & left.keys())
        found += [
            f"{where} is paused with {counted(left[where], 'record')} to copy; have it copied by `twinlog topics "
            f"resume FILE {where} --flow {self.flow}`"
            for where in paused[:MOST_NAMED]
        ]
        if len(paused) > MOST_NAMED:
            found.append(
                f"{counted(len(paused) - MOST_NAMED, 'more partition')} paused with records to copy; resume them by "
                f"`twinlog topics resume FILE TOPIC --flow {self.flow}`"
            )
        return found

    def _of_held(self, held: HeldPartition) -> str:
        text = describe(held)
        if held.way_out:
            return text
        skip = f"twinlog topics skip-to FILE {held.source} --flow {self.flow} --to-offset OFFSET"
        return f"{text}; mend the cause, or leave its records out by `{skip}`"


def _waiting(report: DriverReport | None) -> str:
    """The records that waited for their copy by the last report, and the moment up to which all are copied."""
    if report is None:
        return "unknown, as the flow lacks a report: MirrorMaker 2 writes none"
    paused = report.paused_lag or 0
    waited = "an unknown number of records" if report.lag < 0 else counted(report.lag + paused, "record")
    at = shown_moment(report.at_ms)
    text = f"{waited} at the last report of the flow ({at}), and all later records"
    if report.unknown and report.lag >= 0:
        text += f"; of {counted(report.unknown, 'partition')} the number is unknown"
    if report.paused and report.paused_lag is None:
        text += f"; of {counted(report.paused, 'paused partition')} the number is unknown"
    until = report.copied_until_ms
    if until is None:
        return text
    apart = " outside paused partitions" if report.paused and report.paused_lag != 0 else ""
    return f"{text}; records{apart} that were written before {shown_moment(until)} are copied"


def _waits(
    held: HeldPartition,
    ends: Mapping[TopicPartition, int],
    left: Mapping[TopicPartition, int],
    copied: Mapping[TopicPartition, CopiedPosition],
) -> bool:
    """Whether a held partition still has records to copy."""
    where = held.source
    if where not in ends:
        return False
    if held.reason == "difference":
        # All its records may be copied: some copy differs from its source.
        return True
    position = copied[where].source if where in copied else 0
    # A log that was created again or cut back is copied from an earlier offset than its position.
    if 0 <= held.resume_at < min(position, ends[where]):
        return True
    # A later process may copy the partition by now, and report nothing, as MirrorMaker 2 does.
    return where in left and position <= max(held.source_offset, 0)


class StoppedPartitionsReader:
    """Reads the held and the paused partitions of a flow, over a borrowed connection to its target."""

    def __init__(self, flow: FlowSettings, target: ClusterAdmin) -> None:
        self.reports = LastReportReader(flow, target)
        """The reports as of the last read."""
        self._control = ControlJournal(flow, target)
        self._flow = flow.as_option

    def read_stopped(self, partitions: Collection[TopicPartition]) -> StoppedPartitions:
        """The held partitions of the flow, and the paused partitions among `partitions`; a repeated read reads only the
        new records. Raises ClusterError, and RefusedError if the right to read one of both topics is missing."""
        report = self.reports.read_report()
        asked = self._control.read()
        paused = asked.pauses.paused(partitions)
        passed = tuple(passed_ranges(asked.outcomes, partitions))
        if report is None:
            return StoppedPartitions(paused=paused, reported=False, flow=self._flow, passed=passed)
        more = max(0, report.held - len(report.held_partitions))
        return StoppedPartitions(report.held_partitions, more, paused, flow=self._flow, passed=passed, report=report)
