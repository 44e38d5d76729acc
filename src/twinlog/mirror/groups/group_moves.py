"""The group offsets that finished switchovers committed on the target, from the journals there.

A group that continued on the target from there has moved: records after its offset on the source were read on the
target. Without this knowledge each momentarily empty group would look as if it skipped those records.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from twinlog.errors import RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.consumer.topic_reader import TopicReader
from twinlog.kafka.record.last_records import LastRecords, taken
from twinlog.mirror.groups.move_facts import GroupMove
from twinlog.mirror.topics.journal_keys import (
    RUN,
    JournalKey,
    StepPhase,
    SwitchoverState,
    direction_name,
    direction_options,
)
from twinlog.model.compact_json import MALFORMED, object_of
from twinlog.model.topic_names import SWITCHOVERS
from twinlog.model.types import Alias, GroupId, SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings

GroupMoves = Mapping[tuple[GroupId, TopicPartition], GroupMove]
"""The moves, or the returns, by group and target partition."""

COMMITTED, THERE = "committed", "there"
"""The results of an offset at which a group continues on the target: committed now, or committed before."""

DoneStep = Callable[[str], Mapping[str, Any] | None]
"""Returns the result of a step in the journal; None before the step was done."""

_OPENED = frozenset({SwitchoverState.RUNNING, SwitchoverState.DONE, SwitchoverState.RETURNED})

_STEPS = frozenset({"open", "groups", "release"})


def group_moves(state: SwitchoverState, done: DoneStep) -> dict[tuple[GroupId, TopicPartition], GroupMove]:
    """The moved group offsets of a switchover; empty until producers may write to the target, and after a way back."""
    if not _has_moved(state, done):
        return {}
    released = done("release") is not None
    found = {}
    for name, group in (done("groups") or {}).get("groups", {}).items():
        for one in group["offsets"]:
            # What an earlier run committed counts on if this run left the offset.
            left = one["result"] not in (COMMITTED, THERE) or one["to_offset"] is None
            move = one.get("moved") if left else (one["offset"], one["to_offset"])
            if move is not None:
                place = TopicPartition(TopicName(one["to_topic"]), int(one["partition"]))
                found[GroupId(name), place] = GroupMove(SourceOffset(move[0]), TargetOffset(move[1]), released)
    return found


def group_returns(state: SwitchoverState, done: DoneStep) -> dict[tuple[GroupId, TopicPartition], GroupMove]:
    """The offsets at which a switchover found groups, seen from the flow in the other direction.

    The group stood at `target` on this flow's target, and continued at `source` on this flow's source.
    """
    if not _has_moved(state, done):
        return {}
    return {
        (GroupId(name), TopicPartition(TopicName(one["topic"]), int(one["partition"]))): GroupMove(
            SourceOffset(one["to_offset"]), TargetOffset(one["offset"])
        )
        for name, group in (done("groups") or {}).get("groups", {}).items()
        for one in group["offsets"]
        if one["to_offset"] is not None
    }


def _has_moved(state: SwitchoverState, done: DoneStep) -> bool:
    return done("open") is not None and state in (SwitchoverState.RUNNING, SwitchoverState.DONE)


class LaterOffsets(NamedTuple):
    """The command of an emergency, its begin in milliseconds since 1970, and its wave.

    The emergency found groups by their checkpoints; its repeat also commits the later offsets of the returned source.
    """

    command: str
    began_ms: int
    wave: str


class _JournalsReader:
    """Reads the journals of switchovers on the connected `cluster`, a repeated `read` only new entries.

    A missing journal is looked for again after `missing_s` seconds at most, by default at each `read`. The reader keeps
    the offsets, and of each wave the records that tell the offsets of its newest switchover.
    """

    def __init__(
        self,
        ends: tuple[Alias, Alias],
        cluster: ClusterAdmin,
        find: Callable[[SwitchoverState, DoneStep], GroupMoves],
        missing_s: float,
    ) -> None:
        self._ends = ends
        self._direction = direction_name(*ends)
        self._find = find
        # Entries of a killed process are read, too: it committed the offsets before it wrote them.
        self._reader = TopicReader(cluster, SWITCHOVERS, optional=True, missing_s=missing_s)
        self._news: LastRecords = {}
        self._topic_id: uuid.UUID | None = None
        self._values: dict[JournalKey, bytes] = {}
        self._moves: GroupMoves = {}
        self.opened: dict[str, tuple[int, str]] = {}
        """The begin and the command of the newest switchover of each wave after which producers may write."""
        self.repeats: dict[GroupId, LaterOffsets] = {}
        """The groups of emergencies whose command commits their later offsets, too."""

    def read(self) -> GroupMoves:
        """The offsets of all waves; empty without a journal, or without the right to read it. Raises ClusterError.

        Malformed records, and records of a form unknown to this version, are left out.
        """
        with suppress(RefusedError):
            self._reader.read_last(self._news)
        recreated = self._reader.topic_id != self._topic_id
        if recreated:
            self._topic_id = self._reader.topic_id
            self._values.clear()
        if self._news or recreated:
            self._take_news()
            found: dict[tuple[GroupId, TopicPartition], GroupMove] = {}
            self.opened.clear()
            self.repeats.clear()
            for wave in sorted({key.wave for key in self._values}):
                with suppress(*MALFORMED):
                    found |= self._found_in(wave)
            self._moves = found
        return self._moves

    def _take_news(self) -> None:
        for key, value in taken(self._news, lambda kept: kept.value()):
            where = JournalKey.decode(key)
            if where is None or where.direction != self._direction:
                continue
            if where.step != RUN and not (where.step in _STEPS and where.phase == StepPhase.DONE):
                continue
            if value is None:
                self._values.pop(where, None)
            else:
                self._values[where] = value

    def _found_in(self, wave: str) -> GroupMoves:
        run = object_of(self._values.get(JournalKey(self._direction, wave, RUN)))

        def done(step: str) -> Mapping[str, Any] | None:
            entry = object_of(self._values.get(JournalKey(self._direction, wave, step, StepPhase.DONE)))
            # A step of an earlier switchover stays until a later switchover writes over it.
            return entry.get("data", {}) if entry.get("run") == run["run"] else None

        state, began_ms = SwitchoverState(run["state"]), int(run.get("began_ms", 0))
        if done("open") is not None and state in _OPENED:
            self.opened[wave] = began_ms, self._command(wave, run)
        if run.get("options", {}).get("kind") == "emergency" and _has_moved(state, done) and done("release") is None:
            one = LaterOffsets(self._command(wave, run), began_ms, wave)
            self.repeats |= dict.fromkeys(map(GroupId, (done("groups") or {}).get("groups", {})), one)
        return {where: replace(move, began_ms=began_ms, wave=wave) for where, move in self._find(state, done).items()}

    def _command(self, wave: str, run: Mapping[str, Any]) -> str:
        kind = run.get("options", {}).get("kind")
        name = "switchback" if kind == "back" else "switchover"
        command = f"twinlog {name} FILE {direction_options(*self._ends, wave)}"
        return f"{command} --emergency" if kind == "emergency" else command


class GroupMovesReader(_JournalsReader):
    """Reads the moves of a flow's switchovers on its connected `target`."""

    def __init__(self, flow: FlowSettings, target: ClusterAdmin, *, missing_s: float = 0.0) -> None:
        super().__init__((flow.source, flow.target), target, group_moves, missing_s)


class GroupReturnsReader(_JournalsReader):
    """Reads the moves of switchovers in the other direction on the connected `source` of a flow."""

    def __init__(self, flow: FlowSettings, source: ClusterAdmin, *, missing_s: float = 0.0) -> None:
        super().__init__((flow.target, flow.source), source, group_returns, missing_s)

    def mark_ended(self, moves: GroupMoves) -> GroupMoves:
        """The `moves` of the flow; moves that a later switchover in the other direction has ended name its command.

        The last `read` counts. The note of the end is missing on a target that was lost during the later switchover.
        """
        ended = {}
        for where, move in moves.items():
            command = self._ended_by(move.wave, move.began_ms)
            ended[where] = replace(move, ended_by=command) if command else move
        return ended

    def valid_repeats(self, repeats: Mapping[GroupId, LaterOffsets]) -> dict[GroupId, str]:
        """The commands of `repeats` by group, but for emergencies that a later switchover has ended."""
        return {name: one.command for name, one in repeats.items() if not self._ended_by(one.wave, one.began_ms)}

    def _ended_by(self, wave: str, since_ms: int) -> str:
        began_ms, command = self.opened.get(wave, (since_ms, ""))
        return command if began_ms > since_ms else ""
