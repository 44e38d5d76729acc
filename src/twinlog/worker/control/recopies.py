"""Partitions that a `restart-from` has moved back, until they are at their former offset again.

The target has two copies of some source records of these partitions, and only the first copy of the remaining records.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from twinlog.model.types import SourceOffset, TargetOffset, TopicPartition
from twinlog.worker.control.model import CommandOutcome, CommandState, PartitionMove, TopicVerb


@dataclass(frozen=True, slots=True)
class RecopiedRange:
    """The source offsets from `low` up to, excluding, `high`, copied before a `restart-from` moved the partition back.

    Their copies are at target offset `first_target` and after it (None: unknown).
    """

    low: SourceOffset
    high: SourceOffset
    first_target: TargetOffset | None


def recopies(outcomes: Iterable[CommandOutcome], before: str = "") -> dict[TopicPartition, RecopiedRange]:
    """The last restart of each partition that is still in force after later moves.

    Only commands before the command `before` count. Meanwhile a partition may be at its former offset again.
    """
    found: dict[TopicPartition, RecopiedRange] = {}
    for outcome in outcomes:
        if outcome.command.id == before:
            break
        if outcome.result is not CommandState.APPLIED:
            continue
        for move in outcome.changed:
            known = found.pop(move.partition, None)
            if outcome.command.verb is TopicVerb.RESTART_FROM and move.before is not None and move.after is not None:
                found[move.partition] = _restarted(move, move.before, move.after, known)
    return found


def _restarted(
    move: PartitionMove, before: SourceOffset, after: SourceOffset, known: RecopiedRange | None
) -> RecopiedRange:
    if known is None or before >= known.high:
        return RecopiedRange(after, before, move.first_target)
    # The former restart was still below its former offset.
    firsts = (known.first_target, move.first_target)
    first = None if None in firsts else min(one for one in firsts if one is not None)
    return RecopiedRange(min(known.low, after), known.high, first)


def taken_back(move: PartitionMove, recopy: RecopiedRange | None) -> bool:
    """Whether a move passes over source offsets whose first copies the target has."""
    if recopy is None or move.before is None or move.after is None or not move.changes:
        return False
    return recopy.low <= move.before < min(recopy.high, move.after)


def counting_first_copies(move: PartitionMove, recopy: RecopiedRange | None) -> PartitionMove:
    """The move, which counts only source offsets without any copy as passed over."""
    if recopy is None or not taken_back(move, recopy):
        return move
    assert move.before is not None
    assert move.after is not None
    copied = min(recopy.high, move.after) - move.before
    text = f"{move.before} to {move.before + copied - 1} were copied before the restart-from, and are not copied again"
    return replace(move, passed=max(0, move.passed - copied), text="; ".join(filter(None, (move.text, text))))
