"""The group offsets that finished switchovers committed on the target, from the journals there.

A group that continued on the target from there has moved: records after its offset on the source were read on the
target. Without this knowledge each momentarily empty group would look as if it skipped those records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from twinlog.errors import RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.consumer.topic_reader import TopicReader
from twinlog.kafka.record.last_records import LastRecords, taken
from twinlog.mirror.groups.move_facts import GroupMove
from twinlog.model.types import Alias, GroupId, SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.ops.switchover.journal import TOPIC, JournalEntries, read_all_waves
from twinlog.ops.switchover.model import SwitchoverState
from twinlog.ops.switchover.steps.group_step import COMMITTED, THERE
from twinlog.settings.flow import FlowSettings

GroupMoves = Mapping[tuple[GroupId, TopicPartition], GroupMove]
"""The moves, or the returns, by group and target partition."""


def group_moves(entries: JournalEntries) -> dict[tuple[GroupId, TopicPartition], GroupMove]:
    """The moved group offsets of the newest switchover of a journal; empty until producers may write to the target, and
    after a way back."""
    run = entries.run
    if run is None or entries.done("open") is None or run.state not in (SwitchoverState.RUNNING, SwitchoverState.DONE):
        return {}
    released = entries.done("release") is not None
    found = {}
    for name, group in (entries.done("groups") or {}).get("groups", {}).items():
        for one in group["offsets"]:
            # What an earlier run committed counts on if this run left the offset.
            left = one["result"] not in (COMMITTED, THERE) or one["to_offset"] is None
            move = one.get("moved") if left else (one["offset"], one["to_offset"])
            if move is not None:
                place = TopicPartition(TopicName(one["to_topic"]), int(one["partition"]))
                found[GroupId(name), place] = GroupMove(SourceOffset(move[0]), TargetOffset(move[1]), released)
    return found


def group_returns(entries: JournalEntries) -> dict[tuple[GroupId, TopicPartition], GroupMove]:
    """The offsets at which the newest switchover of a journal found groups, seen from the flow in the other direction.

    The group stood at `target` on this flow's target, and continued at `source` on this flow's source.
    """
    run = entries.run
    if run is None or entries.done("open") is None or run.state not in (SwitchoverState.RUNNING, SwitchoverState.DONE):
        return {}
    return {
        (GroupId(name), TopicPartition(TopicName(one["topic"]), int(one["partition"]))): GroupMove(
            SourceOffset(one["to_offset"]), TargetOffset(one["offset"])
        )
        for name, group in (entries.done("groups") or {}).get("groups", {}).items()
        for one in group["offsets"]
        if one["to_offset"] is not None
    }


class _JournalsReader:
    """Reads the journals of switchovers on the connected `cluster`, a repeated `read` only new entries."""

    def __init__(
        self,
        ends: tuple[Alias, Alias],
        cluster: ClusterAdmin,
        find: Callable[[JournalEntries], Mapping[tuple[GroupId, TopicPartition], GroupMove]],
    ) -> None:
        self._ends = ends
        self._find = find
        # Entries of a killed process are read, too: it committed the offsets before it wrote them.
        self._reader = TopicReader(cluster, TOPIC, optional=True)
        self._news: LastRecords = {}
        self._records: dict[bytes, bytes | None] = {}
        self._moves: GroupMoves = {}

    def read(self) -> GroupMoves:
        """The offsets of all waves; empty without a journal, or without the right to read it. Raises ClusterError."""
        with suppress(RefusedError):
            self._reader.read_last(self._news)
        if self._news:
            self._records |= taken(self._news, lambda kept: kept.value())
            found: dict[tuple[GroupId, TopicPartition], GroupMove] = {}
            for entries in read_all_waves(*self._ends, self._records.items()):
                found |= self._find(entries)
            self._moves = found
        return self._moves


class GroupMovesReader(_JournalsReader):
    """Reads the moves of a flow's switchovers on its connected `target`."""

    def __init__(self, flow: FlowSettings, target: ClusterAdmin) -> None:
        super().__init__((flow.source, flow.target), target, group_moves)


class GroupReturnsReader(_JournalsReader):
    """Reads the moves of switchovers in the other direction on the connected `source` of a flow."""

    def __init__(self, flow: FlowSettings, source: ClusterAdmin) -> None:
        super().__init__((flow.target, flow.source), source, group_returns)
