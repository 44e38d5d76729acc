"""Decides the source offset at which a partition continues after an operator's command, and the cost of that move.

Two laws keep a slip harmless. `restart-from` never passes over a record that the source still has. `skip-to` never
repeats a record. A partition that would need the other verb keeps its position.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from twinlog.mirror.gaps import UNKNOWN, find_gap
from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import SourceOffset, TopicPartition
from twinlog.worker.control.model import (
    CommandOutcome,
    CommandState,
    LogPlace,
    LogPlaceKind,
    PartitionMove,
    TopicCommand,
    TopicVerb,
)


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """The log of a source partition now: its first offset, its end, and whether its topic was recreated since copying.

    `at_time` is the first offset of the requested time, None if all records are older. `diverging_end` is the offset
    from which the log differs from the copied log (-1: the logs agree).
    """

    start: SourceOffset
    end: SourceOffset
    recreated: bool = False
    at_time: SourceOffset | None = None
    diverging_end: SourceOffset = UNKNOWN


KEEPS_OFFSETS = (
    "its copies keep the offsets of their sources, so it continues at the end of its remote log; to copy the topic "
    "again, delete the remote topic"
)
UNREPORTED = "the source is silent about its offsets now; ask again"


def decide(
    command: TopicCommand, partition: TopicPartition, position: Position | None, log: PartitionLog | None
) -> PartitionMove:
    """The move of a partition whose stored position is `position`; `log` is None if the source fails to report it.

    If the partition keeps its position, the text has the reason.
    """
    before = None if position is None else position.next_source
    if not command.verb.moves:
        return PartitionMove(partition, before, before)
    if log is None:
        return _stays(partition, before, UNREPORTED)
    if command.verb is TopicVerb.ACCEPT_GAP:
        return _accept_gap(partition, position, log)
    assert command.place is not None
    if command.place.kind is LogPlaceKind.OFFSET and command.place.value > log.end:
        return _stays(partition, before, f"the source ends at offset {log.end}, before {command.place.value}")
    wanted = _place(command.place, log)
    if before is None or log.recreated:
        return _first(command, partition, before, wanted, log)
    if command.verb is TopicVerb.RESTART_FROM:
        return _restart(partition, before, wanted, log)
    return _skip(partition, before, wanted)


def _place(place: LogPlace, log: PartitionLog) -> SourceOffset:
    """The requested offset, limited to offsets of the source and its end."""
    if place.kind is LogPlaceKind.EARLIEST:
        return log.start
    if place.kind is LogPlaceKind.LATEST:
        return log.end
    if place.kind is LogPlaceKind.OFFSET:
        return SourceOffset(max(place.value, log.start))
    return log.end if log.at_time is None else SourceOffset(max(log.at_time, log.start))


def stays_with_offsets(partition: TopicPartition, position: Position | None) -> PartitionMove:
    """The move of a partition whose copies keep the offsets of their sources: it always continues at the end of its
    remote log."""
    return _stays(partition, None if position is None else position.next_source, KEEPS_OFFSETS)


def _stays(partition: TopicPartition, before: SourceOffset | None, why: str) -> PartitionMove:
    return PartitionMove(partition, before, before, text=why)


def _first(
    command: TopicCommand,
    partition: TopicPartition,
    before: SourceOffset | None,
    wanted: SourceOffset,
    log: PartitionLog,
) -> PartitionMove:
    """The move of a partition whose present log is still uncopied."""
    passed = wanted - log.start
    text = "nothing of it was copied yet" if before is None else "the topic was created again since it was copied"
    if command.verb is TopicVerb.RESTART_FROM and passed:
        return _stays(partition, before, f"{text}: skip-to passes over offsets {log.start} to {wanted - 1}")
    return PartitionMove(partition, before, wanted, changes=True, passed=passed, text=text)


def _restart(partition: TopicPartition, before: SourceOffset, wanted: SourceOffset, log: PartitionLog) -> PartitionMove:
    if wanted < before:
        copied_to = min(before, log.end)
        return PartitionMove(partition, before, wanted, changes=True, repeated=max(0, copied_to - wanted))
    if wanted == before:
        return _stays(partition, before, "it is there already")
    if wanted == log.start:
        gone = f"offsets {before} to {wanted - 1} are gone from the source"
        return PartitionMove(partition, before, wanted, changes=True, passed=wanted - before, text=gone)
    return _stays(partition, before, f"it is at offset {before}, before {wanted}: skip-to passes over what is between")


def _skip(partition: TopicPartition, before: SourceOffset, wanted: SourceOffset) -> PartitionMove:
    if wanted > before:
        return PartitionMove(partition, before, wanted, changes=True, passed=wanted - before)
    if wanted == before:
        return _stays(partition, before, "it is there already")
    return _stays(partition, before, f"it is at offset {before}, after {wanted}: restart-from copies again")


def _accept_gap(partition: TopicPartition, position: Position | None, log: PartitionLog) -> PartitionMove:
    if position is None:
        return _stays(partition, None, "nothing of it was copied yet, so there is no gap")
    before = position.next_source
    gap = find_gap(before, log.start, log.end, diverging_end=log.diverging_end, recreated=log.recreated)
    if gap is None:
        return _stays(partition, before, "there is no gap: the source has what comes next")
    # In a truncated or recreated log, those offsets now belong to other records.
    passed = gap.resume_at - before if gap.kind == "retention" else 0
    return PartitionMove(partition, before, gap.resume_at, changes=True, passed=passed, text=gap.describe(partition))


def earlier_command(
    command: TopicCommand, move: PartitionMove, outcomes: Iterable[CommandOutcome]
) -> CommandOutcome | None:
    """The command that moved the partition last, if a repetition of it explains why the partition now stays; else None.

    The partition stays at the offset of that move, or was copied further since.
    """
    if move.changes or move.before is None or move.text == UNREPORTED:
        return None
    applied = [
        (outcome, one)
        for outcome in outcomes
        if outcome.result is CommandState.APPLIED
        for one in outcome.changed
        if one.partition == move.partition
    ]
    if not applied:
        return None
    outcome, last = applied[-1]
    same = (outcome.command.verb, outcome.command.place) == (command.verb, command.place)
    return outcome if same and last.after is not None and last.after <= move.before else None
