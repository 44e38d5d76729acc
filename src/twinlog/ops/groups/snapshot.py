"""The consumer groups of a flow at a moment, by partition, with the verdict on their move to the target."""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.mirror.groups.move_facts import MoveFacts
from twinlog.mirror.groups.safe_move import MoveVerdict, Obstacle, Reason
from twinlog.mirror.unlisted_topics import HiddenOffsets
from twinlog.model.types import GroupId


@dataclass(frozen=True, slots=True)
class GroupPartitionStatus:
    """A partition of a group: its facts, the verdict, and the time of its last checkpoint (Unix ms)."""

    facts: MoveFacts
    verdict: MoveVerdict
    checkpoint_ms: int | None = None


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """A group by its partitions; the states come from its coordinators, and are None if the group is unknown there."""

    group: GroupId
    partitions: tuple[GroupPartitionStatus, ...]
    source_state: str | None = None
    target_state: str | None = None

    @property
    def safe(self) -> bool:
        """Whether the group may move now; it may have moved in a part of its partitions. A group is either `safe`,
        `moved`, or has to wait."""
        return self.done and not self.moved

    @property
    def moved(self) -> bool:
        """Whether its members are on the target already, or were there after a switchover; its positions in copies from
        the target need no move of their own."""
        own = [part for part in self.partitions if not part.facts.left_to_switchover] or self.partitions
        return self.done and all(part.verdict.moved for part in own)

    @property
    def done(self) -> bool:
        """Whether it may move, or has moved."""
        return bool(self.partitions) and all(part.verdict.done for part in self.partitions)

    @property
    def reasons(self) -> list[Reason]:
        """The obstacles of the group, each kind once."""
        found: dict[Obstacle, Reason] = {}
        for part in self.partitions:
            for reason in part.verdict.reasons:
                found.setdefault(reason.obstacle, reason)
        return list(found.values())


@dataclass(frozen=True, slots=True)
class GroupsSnapshot:
    """The groups of a flow at a moment (`at_ms`, Unix).

    `left_out` are groups with offsets in mirrored topics that the flow leaves out; it is empty if groups were asked for
    by name.

    `source_trouble` is the reason why the source fails to answer, None if it answers; with a reason, the target alone
    decides. `unlisted` counts the leaderless partitions of the source's topic of groups: groups in these partitions are
    only shown if they have checkpoints. `hidden` are copied topics whose offsets the source hides from the login;
    groups in these topics are only shown if they have checkpoints there.
    """

    flow: str
    at_ms: int
    groups: tuple[GroupStatus, ...] = ()
    left_out: tuple[GroupId, ...] = ()
    source_trouble: str | None = None
    unlisted: int = 0
    hidden: HiddenOffsets | None = None

    @property
    def moved_back(self) -> dict[str, list[GroupId]]:
        """The groups that a later switchover moved back to the source while the journal on the target counts them as
        moved, by the command of this switchover: its repeat ends the entry of the journal."""
        found: dict[str, list[GroupId]] = {}
        for one in self.groups:
            moves = (part.facts.move for part in one.partitions)
            for command in sorted({move.ended_by for move in moves if move is not None and move.ended_by}):
                found.setdefault(command, []).append(one.group)
        return found
