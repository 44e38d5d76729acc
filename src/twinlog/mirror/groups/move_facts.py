"""The facts of a consumer group and a partition before a move from the source to the target."""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.model.types import GroupId, SourceOffset, TargetOffset, TopicPartition


@dataclass(frozen=True, slots=True)
class GroupMove:
    """An offset of a group that a finished switchover committed on the target: `target`, for `source` on the source.

    Once the switchover is `released`, producers may write to the source, and the group may go back by itself.
    The switchover of `wave` began at `began_ms`, in milliseconds since 1970. `ended_by` is the command of a later
    switchover in the other direction, which has ended the move: a lost target lacks the note of this end until this
    command runs again.
    """

    source: SourceOffset
    target: TargetOffset
    released: bool = False
    began_ms: int = 0
    wave: str = ""
    ended_by: str = ""


@dataclass(frozen=True, slots=True)
class MoveFacts:
    """The facts about a group and a partition in which the group has committed on the source; None is unknown.

    `source` and `remote` are the partition on both clusters. `remote` is None for an unmirrored topic; `not_mirrored`
    is the reason. `committed` is the group's offset on the source. `copied` is the next source offset to copy; a topic
    that came from the target has `from_target` in place of `copied`. If the flow leaves out this topic, it commits
    nothing in the original, and the position is `left_to_switchover`.

    `translated` is the target offset of `committed`. With `exact` the group repeats no record from `translated` on,
    otherwise no record from `past_copies` on. `checkpoint_source` and `checkpoint_target` are the offsets of the last
    checkpoint. `target_committed` is the group's offset on the target. The starts are the first offsets of the logs,
    the ends are the next offsets. `source_start_there` is a target offset before which the target has no copy of a
    record in the source's log; only positions before `source_start` need it. If `target_leader` is False, the remote
    partition is unreadable now.

    `not_followed` is the reason why the flow leaves out the group. `hidden` is the missing right if the source hides
    the committed offset. `other_kind` is the kind of a target group of the same name, if the kind is another than
    consumer group. The group is active on a cluster when it has members there.
    With `checkpoints` the flow writes checkpoints, with `syncs` it commits offsets on the target. `move` is the commit
    of a finished switchover. `returned` is the move of a finished switchover in the other direction: the group stood at
    `returned.target` on the target, and continued at `returned.source` on the source. `repeat` is the command of an
    emergency that found the group by its last checkpoints: once the source answers again, this command commits the
    later offsets of the group, too.
    """

    group: GroupId
    source: TopicPartition
    remote: TopicPartition | None = None
    committed: SourceOffset | None = None
    source_start: SourceOffset | None = None
    source_end: SourceOffset | None = None
    source_start_there: TargetOffset | None = None
    copied: SourceOffset | None = None
    translated: TargetOffset | None = None
    exact: bool = False
    past_copies: TargetOffset | None = None
    checkpoint_source: SourceOffset | None = None
    checkpoint_target: TargetOffset | None = None
    target_committed: TargetOffset | None = None
    target_start: TargetOffset | None = None
    target_end: TargetOffset | None = None
    target_leader: bool = True
    from_target: bool = False
    left_to_switchover: bool = False
    not_mirrored: str | None = None
    not_followed: str | None = None
    hidden: str | None = None
    other_kind: str | None = None
    active_on_source: bool = False
    active_on_target: bool = False
    in_transaction: bool = False
    checkpoints: bool = True
    syncs: bool = True
    source_answers: bool = True
    target_answers: bool = True
    move: GroupMove | None = None
    returned: GroupMove | None = None
    repeat: str = ""

    @property
    def continues_on_target(self) -> bool:
        """Whether the group stands on the target at or after the commit of a switchover, and left the source then."""
        there, move = self.target_committed, self.move
        if move is None or there is None or move.ended_by:
            return False
        return there >= move.target and not self.active_on_source

    @property
    def read_on_target(self) -> TargetOffset:
        """The target offset before which the group has read all records by its last move to the source; 0 if unknown.

        A group that was reset on the source since then, to before its begin there, reads again.
        """
        known = self.returned is not None and self.committed is not None and self.committed >= self.returned.source
        return self.returned.target if known and self.returned is not None else TargetOffset(0)

    @property
    def source_lag(self) -> int | None:
        """The number of records (offsets) that the group has still to read on the source."""
        return distance(self.committed, self.source_end)

    @property
    def target_lag(self) -> int | None:
        """The number of records on the target that the group would still read there."""
        return distance(self.resumes, self.target_end)

    @property
    def copied_up_to(self) -> SourceOffset | None:
        """The next source offset to copy; an empty log is copied up to its end."""
        empty = self.source_end is not None and self.source_start == self.source_end
        return self.source_end if self.copied is None and empty else self.copied

    @property
    def both_empty(self) -> bool:
        """Whether both logs are empty: a group begins at the same offset by each `auto.offset.reset`."""
        source, target = (self.source_start, self.source_end), (self.target_start, self.target_end)
        return all(start is not None and start == end for start, end in (source, target))

    @property
    def before_source_start(self) -> bool:
        """Whether the source has deleted the group's position: a consumer there begins by `auto.offset.reset`."""
        return self.committed is not None and self.source_start is not None and self.committed < self.source_start

    @property
    def before_target_start(self) -> bool:
        """Whether the target has deleted the group's position there."""
        start, resumes = self.target_start, self.resumes
        return self.target_leader and start is not None and resumes is not None and resumes < start

    @property
    def unplaced(self) -> bool:
        """Whether the target lacks an offset of the group, and the flow has no offset to commit there."""
        known = (self.resumes, self.translated, self.checkpoint_target)
        return self.target_leader and all(offset is None for offset in known)

    @property
    def begins_alike(self) -> bool:
        """Whether the group begins by `auto.offset.reset` on both clusters, and the target lacks no record of the
        source's log: with `earliest` the group reads these records on either cluster, with `latest` on neither."""
        if not self.before_source_start or not (self.before_target_start or self.unplaced):
            return False
        first = self.source_start_there
        has_all = first is not None and self.target_start is not None and first >= self.target_start
        return has_all or self.source_start == self.source_end

    @property
    def resumes(self) -> TargetOffset | None:
        """The group's next offset if the group moves now.

        The group continues at its offset on the target. If the flow only writes checkpoints and the group's offset is
        missing there, the group continues at the offset of its checkpoint.
        """
        if self.target_committed is not None or self.syncs:
            return self.target_committed
        return self.checkpoint_target


def distance(from_: int | None, to: int | None) -> int | None:
    """The number of offsets between two offsets, 0 if `to` is the lower offset; None if an offset is unknown."""
    return None if from_ is None or to is None else max(0, to - from_)
