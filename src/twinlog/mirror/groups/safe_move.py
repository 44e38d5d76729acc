"""Whether a consumer group may move from a flow's source to its target: would it skip or repeat records?

`twinlog groups`, the proof of a switchover, and metrics share this judgement. The judgement takes facts and returns a
verdict; `ops.groups.reader` reads the clusters. MirrorMaker 2 lacks a judgement: an operator compares the output of
`kafka-consumer-groups.sh` of both clusters, whose offsets are different numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from twinlog.mirror.groups.move_facts import MoveFacts, distance
from twinlog.model.amounts import counted, shown_count
from twinlog.model.types import SourceOffset, TargetOffset


class Obstacle(Enum):
    """An obstacle that keeps a group from moving; the value is its name in JSON."""

    NOT_MIRRORED = "topic-not-mirrored"
    NOT_FOLLOWED = "group-not-followed"
    HIDDEN = "topic-hidden"
    NO_CHECKPOINTS = "no-checkpoints"
    SOURCE_SILENT = "source-silent"
    TARGET_SILENT = "target-silent"
    BEYOND_END = "beyond-end"
    NOT_COPIED = "not-copied"
    FLOW_BEHIND = "flow-behind"
    NOT_TRANSLATED = "not-translated"
    NOT_EXACT = "not-exact"
    CHECKPOINT_OLD = "checkpoint-old"
    NOT_COMMITTED = "not-committed"
    TARGET_BEHIND = "target-behind"
    LEFT_TO_SWITCHOVER = "left-to-switchover"
    TARGET_AHEAD = "target-ahead"
    BEFORE_START = "before-start"
    IN_TRANSACTION = "in-transaction"
    IN_USE = "in-use"
    NAME_TAKEN = "name-taken"


HEALING = frozenset(
    {
        Obstacle.NOT_COPIED,
        Obstacle.FLOW_BEHIND,
        Obstacle.CHECKPOINT_OLD,
        Obstacle.NOT_COMMITTED,
        Obstacle.TARGET_BEHIND,
        Obstacle.IN_TRANSACTION,
    }
)
"""The obstacles that disappear with time, as long as the flow runs; all other obstacles need an operator."""


@dataclass(frozen=True, slots=True)
class Reason:
    """An obstacle, in words for operators; `heals` if it passes with time."""

    obstacle: Obstacle
    text: str

    @property
    def heals(self) -> bool:
        return self.obstacle in HEALING


@dataclass(frozen=True, slots=True)
class MoveVerdict:
    """Whether a group may move, by the facts of a single partition.

    The group may move if `reasons` is empty. `moved` groups have members on the target only, or continued there after a
    switchover. `repeats` and `skips` are the most records that the group would read twice, or skip, if it moved now;
    None when unknown. With `repeats_exact` the group repeats no fewer records. The group skips `least_skips` or more,
    unless it has read these records on the target: then it skips none of them.
    """

    reasons: tuple[Reason, ...] = ()
    repeats: int | None = 0
    skips: int | None = 0
    moved: bool = False
    repeats_exact: bool = True
    least_skips: int = 0

    @property
    def safe(self) -> bool:
        return not self.reasons and not self.moved

    @property
    def done(self) -> bool:
        """Whether the wait is over: the group may move, or has moved."""
        return not self.reasons

    @property
    def heals(self) -> bool:
        """Whether every reason disappears with time."""
        return all(reason.heals for reason in self.reasons)


def judge(facts: MoveFacts, *, most_repeats: int = 0) -> MoveVerdict:
    """Return whether a group may move, by the facts of a partition; `most_repeats` repeated records are accepted."""
    if not facts.target_answers:
        return _unknown(Obstacle.TARGET_SILENT, "the target does not answer")
    if facts.other_kind is not None:
        text = f"on the target its name is that of {facts.other_kind}: no offset can be committed for it there"
        return _unknown(Obstacle.NAME_TAKEN, text)
    if facts.active_on_target and not facts.active_on_source:
        return MoveVerdict(moved=True)
    if facts.continues_on_target and facts.move is not None and (facts.committed or 0) <= facts.move.source:
        return MoveVerdict(moved=True)
    if facts.not_mirrored is not None or facts.remote is None:
        why = facts.not_mirrored or "it has no remote topic"
        return _unknown(Obstacle.NOT_MIRRORED, f"topic {facts.source.topic} is not mirrored: {why}")
    if facts.not_followed is not None:
        return _unknown(Obstacle.NOT_FOLLOWED, f"the flow does not follow the group: {facts.not_followed}")
    if facts.hidden is not None:
        return _unknown(Obstacle.HIDDEN, f"the source hides its offset in topic {facts.source.topic}: {facts.hidden}")
    if not facts.checkpoints and facts.target_committed is None:
        return _unknown(Obstacle.NO_CHECKPOINTS, "the flow writes no checkpoints, and so commits nothing on the target")
    if not facts.source_answers or facts.committed is None:
        return _without_source(facts)
    if facts.in_transaction:
        text = f"the group has committed {facts.committed}, and more in a transaction that is still open"
        return MoveVerdict((Reason(Obstacle.IN_TRANSACTION, text),), None, 0)
    in_use: tuple[Reason, ...] = ()
    if facts.active_on_target:
        in_use = (Reason(Obstacle.IN_USE, "the group has members on both clusters, its offset on the target stays"),)
    behind = _behind(facts, facts.committed)
    if behind is not None:
        return MoveVerdict((*in_use, behind), _left_on_target(facts), 0, repeats_exact=False)
    true, exact = true_offset(facts)
    start = facts.target_start
    if facts.begins_alike and start is not None:
        # By `latest` the group begins at the end of either log, and by `earliest` here.
        facts, true = replace(facts, target_committed=start), start if true is None else max(true, start)
    if true is None and facts.from_target and facts.both_empty:
        return MoveVerdict(in_use)
    if true is None:
        text = "the group has committed an offset older than any that can be translated"
        return MoveVerdict((*in_use, Reason(Obstacle.NOT_TRANSLATED, text)), None, None)
    return _compared(facts, true, exact, in_use, most_repeats)


def _behind(facts: MoveFacts, committed: SourceOffset) -> Reason | None:
    """Return the reason if the flow has still to copy records before the commit."""
    if facts.source_end is not None and committed > facts.source_end:
        text = f"the group has committed {committed}, and the source ends at {facts.source_end}: its log lost records, "
        return Reason(Obstacle.BEYOND_END, text + "or the topic was recreated")
    if facts.source_end is not None and facts.copied is not None and facts.copied > facts.source_end:
        text = f"the flow has copied up to {facts.copied}, and the source ends at {facts.source_end}: its log lost "
        return Reason(Obstacle.BEYOND_END, text + "records, or the topic was recreated")
    if facts.from_target:
        return None
    copied = facts.copied_up_to
    if copied is None:
        # An exact translation before the first copy means that the partition is empty up to the commit.
        if facts.translated is not None and facts.exact:
            return None
        return Reason(Obstacle.NOT_COPIED, "the flow has not copied this partition yet")
    if copied < committed:
        text = f"the flow has copied up to {copied}, {committed - copied} before the commit"
        return Reason(Obstacle.FLOW_BEHIND, text + _way_out(facts))
    return None


def true_offset(facts: MoveFacts) -> tuple[TargetOffset | None, bool]:
    """Return the target offset at which the group has to continue, and whether it is exact.

    A group at the end of a completely copied source log continues at the end of the target's log. The offset is exact,
    however offsets are translated.
    """
    if facts.exact and facts.translated is not None:
        return facts.translated, True
    # The copies in an empty log of a flow back may be deleted, or yet to come.
    at_end = not facts.from_target and facts.source_lag == 0 and distance(facts.copied_up_to, facts.source_end) == 0
    if at_end and facts.target_end is not None:
        return facts.target_end, True
    return _least_offset(facts), False


def _least_offset(facts: MoveFacts) -> TargetOffset | None:
    """Return the largest target offset before which the group has certainly read all records.

    A checkpoint of the same or an earlier commit gives an offset, too. MirrorMaker 2 may have written the checkpoint
    from offset syncs that newer syncs have replaced since. A checkpoint past all copies of records before the commit is
    of an earlier log.
    """
    known = [] if facts.translated is None else [facts.translated]
    if facts.checkpoint_target is not None and facts.checkpoint_source is not None and facts.committed is not None:
        later = facts.past_copies is not None and facts.checkpoint_target > facts.past_copies
        known += [facts.checkpoint_target] if facts.checkpoint_source <= facts.committed and not later else []
    return max(known, default=None)


def _compared(
    facts: MoveFacts, true: TargetOffset, exact: bool, reasons: tuple[Reason, ...], most_repeats: int
) -> MoveVerdict:
    """Return the verdict for a known target offset at which the group has to continue."""
    resumes = facts.resumes
    if facts.left_to_switchover:
        return _compared_with_own(facts, true, exact, reasons, most_repeats)
    if resumes is None:
        if facts.checkpoint_source is None and facts.copied is None and facts.both_empty:
            # MirrorMaker 2 writes no checkpoint before the first record.
            return MoveVerdict(reasons)
        text = "nothing is committed on the target for this partition"
        if facts.checkpoint_source is None:
            text = "there is no checkpoint of this partition yet"
        elif not facts.syncs:
            text += ", and the flow commits no offsets there"
        return MoveVerdict((*reasons, Reason(Obstacle.NOT_COMMITTED, text)), _left_on_target(facts), None)
    outside = _outside_the_log(facts, resumes)
    if outside is not None:
        return _begins_by_reset(facts, resumes, true, exact, (*reasons, outside))
    skips = least_skips = 0
    if resumes > true and facts.continues_on_target and facts.move is not None and not facts.move.released:
        # The group read on on both clusters, and further on the target.
        return MoveVerdict(moved=True)
    read = max(true, facts.read_on_target)
    if resumes > read:
        skips = resumes - read
        past = read if exact else None if facts.past_copies is None else max(read, facts.past_copies)
        least_skips = 0 if past is None else max(0, resumes - past)
        text = f"on the target the group continues at {resumes}, "
        if exact:
            text += f"{skips} after its position there: it would skip them, unless it has read them there"
        elif least_skips:
            text += f"and its position there is {read} to {past}: it would skip "
            text += f"{least_skips} to {counted(skips, 'record')}, unless it has read them there"
        else:
            text += f"and its position there is {read} or later: it may skip up to {counted(skips, 'record')}"
        reasons = (*reasons, Reason(Obstacle.TARGET_AHEAD, text))
    repeats = max(0, true - resumes) if exact else _most_repeated(facts, resumes)
    if resumes < true and (repeats is None or repeats > most_repeats):
        reasons = (*reasons, _late(facts, resumes, true, repeats, exact=exact))
    left = None if exact else _most_repeated(facts, max(resumes, true))
    if not exact and resumes <= read and (left is None or left > most_repeats):
        # A group before its inexact place repeats records from this place on, too.
        reasons = (*reasons, _inexact(facts, left))
    return MoveVerdict(reasons, repeats, skips, repeats_exact=exact or not repeats, least_skips=least_skips)


def _compared_with_own(
    facts: MoveFacts, true: TargetOffset, exact: bool, reasons: tuple[Reason, ...], most_repeats: int
) -> MoveVerdict:
    """Return the verdict on a position in a copy of a topic of the target, where the group has a position of its own.

    Only a switchover commits the position in the original, if the position there is earlier. A later position there is
    by the group itself: it has read the records between on the target.
    """
    resumes = facts.target_committed
    way = f"`topics` leaves out copy {facts.source.topic}, so only a switchover commits the position"
    if resumes is None:
        text = f"nothing is committed on the target for this partition; {way}"
        return MoveVerdict((*reasons, Reason(Obstacle.LEFT_TO_SWITCHOVER, text)), None, None)
    outside = _outside_the_log(facts, resumes)
    if outside is not None:
        return _begins_by_reset(facts, resumes, true, exact, (*reasons, outside))
    if facts.repeat and resumes > true and not facts.active_on_source:
        # An emergency has moved the group, and the group has read on in the original.
        return MoveVerdict(reasons, moved=not reasons)
    repeats = max(0, true - resumes) if exact else _most_repeated(facts, resumes)
    if not exact and resumes >= true and (repeats is None or repeats > most_repeats):
        # The position is committed already, as far as its translation goes.
        reasons = (*reasons, _inexact(facts, repeats))
    elif repeats is None or repeats > most_repeats:
        place = f"{repeats} before its position" if exact else f"and its position there is {true} or later"
        text = f"on the target the group stands at {resumes}, {place}; {way}{_way_out(facts)}"
        reasons = (*reasons, Reason(Obstacle.LEFT_TO_SWITCHOVER, text))
    return MoveVerdict(reasons, repeats, 0, repeats_exact=exact or not repeats)


def _inexact(facts: MoveFacts, repeats: int | None) -> Reason:
    """Return the reason that a position has no exact place; the group repeats at most `repeats` records."""
    more = "" if repeats is None else f", up to {counted(repeats, 'record')}"
    text = f"offset {facts.committed} has no exact translation: the group would repeat some{more}"
    text += _way_out(facts)
    return Reason(Obstacle.NOT_EXACT, text)


def _way_out(facts: MoveFacts) -> str:
    """The command that commits a later offset of a group which an emergency has moved, in words; empty without one."""
    return f"; run {facts.repeat} again, which commits this position" if facts.repeat else ""


def _outside_the_log(facts: MoveFacts, resumes: TargetOffset) -> Reason | None:
    """Return the reason if the target's log lacks the offset: a consumer there follows its auto.offset.reset."""
    if not facts.target_leader:
        return Reason(Obstacle.TARGET_SILENT, f"{facts.remote} is not on the target, or has no leader there")
    if (deleted := _before_the_log(facts, resumes)) is not None:
        return deleted
    if facts.target_end is not None and resumes > facts.target_end:
        text = f"on the target the group continues at {resumes}, and the log ends at {facts.target_end}: it lost "
        return Reason(Obstacle.BEYOND_END, text + "records, or the topic was recreated")
    return None


def _before_the_log(facts: MoveFacts, resumes: TargetOffset) -> Reason | None:
    """Return the reason if the target has deleted the records after the offset."""
    if not facts.before_target_start or facts.target_start is None:
        return None
    deleted = f"{counted(facts.target_start - resumes, 'record')} before are deleted there"
    if facts.before_source_start and facts.source_start_there is not None:
        # The group lacks the earlier records on the source, too.
        kept = facts.target_start - max(resumes, facts.source_start_there)
        deleted = f"it lacks up to {counted(kept, 'record')} of the source's log"
    text = f"on the target the group continues at {resumes}, and the log begins at {facts.target_start}: {deleted}, "
    return Reason(Obstacle.BEFORE_START, text + "and auto.offset.reset may skip the rest")


def _begins_by_reset(
    facts: MoveFacts, resumes: TargetOffset, true: TargetOffset, exact: bool, reasons: tuple[Reason, ...]
) -> MoveVerdict:
    """Return the verdict on a group whose offset the target's log lacks."""
    start = facts.target_start
    if not facts.target_leader or start is None or resumes >= start:
        return MoveVerdict(reasons, None, None)
    # The group begins at the first record, or with auto.offset.reset = latest after the last record.
    repeats = max(0, true - start) if exact else distance(start, facts.past_copies)
    skips = distance(max(true, resumes), facts.target_end)
    return MoveVerdict(reasons, repeats, skips, repeats_exact=not repeats)


def _late(facts: MoveFacts, resumes: TargetOffset, true: TargetOffset, repeats: int | None, *, exact: bool) -> Reason:
    """Return the reason why a group would continue before its position."""
    records = "an unknown number of records" if repeats is None else shown_count(repeats, exact=exact)
    committed, checkpoint = facts.committed, facts.checkpoint_source
    if committed is not None and (checkpoint is None or checkpoint < committed):
        if checkpoint is None:
            text = f"there is no checkpoint of this partition yet; the group would repeat {records}"
        else:
            text = f"the last checkpoint is of {checkpoint}, the group has committed {committed}: {records} to repeat"
        return Reason(Obstacle.CHECKPOINT_OLD, text + _way_out(facts))
    off = "" if facts.syncs else "; the flow commits no offsets there"
    before = f"{'' if exact else 'at least '}{true - resumes}"
    text = f"on the target the group stands at {resumes}, {before} before its position{off}"
    return Reason(Obstacle.TARGET_BEHIND, text + _way_out(facts))


def _without_source(facts: MoveFacts) -> MoveVerdict:
    """Return the verdict from the target's facts alone: the source is silent about the group's offset."""
    where, checkpoint = facts.resumes, facts.checkpoint_target
    deleted = None if where is None else _before_the_log(facts, where)
    if deleted is not None:
        text = "the source is silent about the committed offset of the group"
        skips = distance(where, facts.target_end)
        repeats = distance(facts.target_start, facts.target_end)
        return MoveVerdict((deleted, Reason(Obstacle.SOURCE_SILENT, text)), repeats, skips, repeats_exact=False)
    if where is not None and facts.left_to_switchover:
        left = _left_on_target(facts)
        most = "" if left is None else f", up to {counted(left, 'record')}"
        text = (
            f"only the source has the position in copy {facts.source.topic}; on the target the group continues at "
            f"{where}: it repeats the records that it has read in the copy{most}"
        )
        return MoveVerdict((Reason(Obstacle.SOURCE_SILENT, text),), left, 0, repeats_exact=False)
    if where is not None and facts.committed is not None and facts.translated is not None and where <= facts.translated:
        return _since_checkpoint(facts, where)
    if where is None:
        text = (
            "the source is silent about the committed offset of the group, and the target lacks an offset of the group"
        )
    elif checkpoint is None:
        text = (
            "the source is silent about the committed offset of the group; on the target the group continues at "
            f"{where}"
        )
    else:
        text = (
            "the source is silent about the committed offset of the group; by the last checkpoint it was "
            f"{facts.checkpoint_source}, {checkpoint} on the target, where the group continues at {where}"
        )
    return _unknown(Obstacle.SOURCE_SILENT, text)


def _since_checkpoint(facts: MoveFacts, where: TargetOffset) -> MoveVerdict:
    """Return the verdict on a group that continues at, or before, the place of its last checkpoint."""
    left = _left_on_target(facts)
    if left == 0:
        return MoveVerdict()
    most = "" if left is None else f", up to {counted(left, 'record')}"
    text = (
        f"the last checkpoint is of {facts.committed}, and on the target the group continues at {where}: it repeats "
        f"the records that it read on the source after the checkpoint{most}"
    )
    return MoveVerdict((Reason(Obstacle.SOURCE_SILENT, text),), left, 0, repeats_exact=False)


def _unknown(obstacle: Obstacle, text: str) -> MoveVerdict:
    return MoveVerdict((Reason(obstacle, text),), None, None)


def _left_on_target(facts: MoveFacts) -> int | None:
    """Return how many records on the target the group would read: this is the most that it can repeat."""
    return distance(facts.resumes, facts.target_end)


def _most_repeated(facts: MoveFacts, resumes: TargetOffset) -> int | None:
    """Return how many records the group would repeat at most, when its translation is inexact."""
    known = (_left_on_target(facts), distance(resumes, facts.past_copies))
    return min((many for many in known if many is not None), default=None)
