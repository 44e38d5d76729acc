"""The group offsets that finished switchovers committed on the target, from the journals there.

A group that continued on the target from there has moved: records after its offset on the source were read on the
target. Without this knowledge each momentarily empty group would look as if it skipped those records.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from twinlog.errors import RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.consumer.topic_reader import TopicReader
from twinlog.kafka.record.last_records import LastRecords, taken
from twinlog.mirror.groups.move_facts import GroupMove
from twinlog.model.types import GroupId, SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.ops.switchover.journal import TOPIC, JournalEntries, read_all_waves
from twinlog.ops.switchover.model import SwitchoverState
from twinlog.ops.switchover.steps.group_step import COMMITTED, THERE
from twinlog.settings.flow import FlowSettings

GroupMoves = Mapping[tuple[GroupId, TopicPartition], GroupMove]
"""The moves by group and target partition."""


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


class GroupMovesReader:
    """Reads the journals of a flow's switchovers, a repeated `read` only new entries; `target` is connected."""

    def __init__(self, flow: FlowSettings, target: ClusterAdmin) -> None:
        self._flow = flow
        # Entries of a killed process are read, too: it committed the offsets before it wrote them.
        self._reader = TopicReader(target, TOPIC, optional=True)
        self._news: LastRecords = {}
        self._records: dict[bytes, bytes | None] = {}
        self._moves: GroupMoves = {}

    def read(self) -> GroupMoves:
        """The moves of all waves; empty without a journal, or without the right to read it. Raises ClusterError."""
        with suppress(RefusedError):
            self._reader.read_last(self._news)
        if self._news:
            self._records |= taken(self._news, lambda kept: kept.value())
            found: dict[tuple[GroupId, TopicPartition], GroupMove] = {}
            for entries in read_all_waves(self._flow.source, self._flow.target, self._records.items()):
                found |= group_moves(entries)
            self._moves = found
        return self._moves
