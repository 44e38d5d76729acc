"""The commands for topics, and the level of the flow's log, as records of a compacted topic on the target.

Keys and values are JSON.

===========================================  ==========================================================================
key                                          value
===========================================  ==========================================================================
``["paused", FLOW, PATTERN, PARTITIONS]``    whether this is paused; the later record counts for common partitions
``["command", FLOW, ID]``                    the command
``["moves", FLOW, ID, NUMBER]``              the move of each partition, in a record or more
``["result", FLOW, ID]``                     the state of the command
``["level", FLOW]``                          the last request for a level of the log
===========================================  ==========================================================================
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from twinlog.errors import OptionError
from twinlog.kafka.producer.topic_writer import OwnRecord
from twinlog.model.compact_json import MALFORMED, ascii_json
from twinlog.model.types import SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.process.flow_levels import FlowLogLevel
from twinlog.worker.control.model import (
    CommandOutcome,
    CommandState,
    LevelRequest,
    LogPlace,
    LogPlaceKind,
    PartitionMove,
    PartitionSelector,
    TopicCommand,
    TopicPause,
    TopicPauses,
    TopicVerb,
)

MOVES_TOGETHER = 2000
"""The moves in a record, which then has 250 kB: the default limit of brokers is 1 MB."""


@dataclass(frozen=True, slots=True)
class ControlRecord:
    """A record of a flow: the kind in its key, the rest of the key, its offset and its value."""

    kind: str
    rest: tuple[Any, ...]
    offset: int
    value: dict[str, Any]


@dataclass(slots=True)
class ControlState:
    """The pauses and the commands for the topics of a flow, and the last request for a level of its log.

    The commands are in the order of their arrival.
    """

    pauses: TopicPauses = field(default_factory=TopicPauses)
    outcomes: tuple[CommandOutcome, ...] = ()
    level: LevelRequest | None = None

    def outcome(self, command_id: str) -> CommandOutcome | None:
        """The outcome of a command; None if the id is unknown."""
        return next((one for one in self.outcomes if one.command.id == command_id), None)

    @property
    def pending(self) -> list[CommandOutcome]:
        """The commands that wait or run."""
        return [one for one in self.outcomes if not one.result.over]


def pause_record(flow: str, pause: TopicPause) -> OwnRecord:
    """A record that pauses the partitions of a selector from now on, or resumes them."""
    return _pause_key(flow, pause.selector), ascii_json({"paused": pause.paused, "at_ms": pause.at_ms, "by": pause.by})


def without_pause(flow: str, pause: TopicPause) -> OwnRecord:
    """A record that deletes an entry of the pauses."""
    return _pause_key(flow, pause.selector), None


def _pause_key(flow: str, selector: PartitionSelector) -> bytes:
    partitions = None if selector.partitions is None else list(selector.partitions)
    return ascii_json(["paused", flow, selector.pattern, partitions])


def command_record(flow: str, command: TopicCommand) -> OwnRecord:
    """A record with a command."""
    place = command.place
    value = {
        "verb": command.verb.value,
        "topics": [
            [one.pattern, None if one.partitions is None else list(one.partitions)] for one in command.selectors
        ],
        "place": None if place is None else [place.kind.value, place.value],
        "at_ms": command.at_ms,
        "by": command.by,
    }
    return ascii_json(["command", flow, command.id]), ascii_json(value)


def move_records(flow: str, command: TopicCommand, moves: Sequence[PartitionMove]) -> list[OwnRecord]:
    """Records with the move of each partition; a reader needs all of them."""
    groups = [moves[at : at + MOVES_TOGETHER] for at in range(0, len(moves), MOVES_TOGETHER)] or [()]
    return [
        (
            ascii_json(["moves", flow, command.id, number]),
            ascii_json({"of": len(groups), "moves": [_move_json(move) for move in some]}),
        )
        for number, some in enumerate(groups)
    ]


def result_record(flow: str, outcome: CommandOutcome) -> OwnRecord:
    """A record with the state of a command."""
    value = {"result": outcome.result.value, "at_ms": outcome.at_ms, "by": outcome.by, "reason": outcome.reason}
    return ascii_json(["result", flow, outcome.command.id]), ascii_json(value)


def level_record(flow: str, request: LevelRequest) -> OwnRecord:
    """A record with a request for a level of the log."""
    value = {
        "id": request.id,
        "level": request.level.value,
        "for_s": request.for_s,
        "at_ms": request.at_ms,
        "by": request.by,
    }
    return ascii_json(["level", flow]), ascii_json(value)


def without_command(flow: str, outcome: CommandOutcome) -> list[OwnRecord]:
    """Records that delete a command, its moves and its result."""
    count = len(move_records(flow, outcome.command, outcome.moves or ()))
    return [
        *((ascii_json(["moves", flow, outcome.command.id, number]), None) for number in range(count)),
        (ascii_json(["result", flow, outcome.command.id]), None),
        (ascii_json(["command", flow, outcome.command.id]), None),
    ]


def _move_json(move: PartitionMove) -> list[Any]:
    return [
        *move.partition,
        move.before,
        move.after,
        move.changes,
        move.passed,
        move.repeated,
        move.text,
        move.before_target,
        move.first_target,
    ]


def stored(flow: str, key: bytes, offset: int, value: bytes | None) -> ControlRecord | None:
    """A record of this flow; None for records of other flows, and for foreign records."""
    try:
        kind, name, *rest = json.loads(key)
        found = None if value is None else json.loads(value)
    except MALFORMED:
        return None
    if name != flow or not isinstance(found, dict):
        return None
    return ControlRecord(str(kind), tuple(rest), offset, found)


def asked_by(records: Iterable[ControlRecord]) -> ControlState:
    """The state by these records; records that a newer version wrote in another form are passed over."""
    pauses: list[TopicPause] = []
    commands: dict[str, TopicCommand] = {}
    results: dict[str, dict[str, Any]] = {}
    moves: dict[str, dict[int, dict[str, Any]]] = {}
    level: LevelRequest | None = None
    for record in sorted(records, key=lambda one: one.offset):
        try:
            if record.kind == "paused":
                pauses.append(_pause(record))
            elif record.kind == "command":
                command = _command(record)
                commands[command.id] = command
            elif record.kind == "moves":
                moves.setdefault(record.rest[0], {})[record.rest[1]] = record.value
            elif record.kind == "result":
                results[record.rest[0]] = record.value
            elif record.kind == "level":
                level = _level(record.value)
        except (*MALFORMED, IndexError, OptionError):
            continue
    outcomes = [_outcome(one, results.get(one.id), moves.get(one.id, {})) for one in commands.values()]
    return ControlState(TopicPauses(tuple(pauses)), tuple(outcomes), level)


def _selector(pattern: str, partitions: list[int] | None) -> PartitionSelector:
    return PartitionSelector(pattern, None if partitions is None else tuple(partitions))


def _pause(record: ControlRecord) -> TopicPause:
    pattern, partitions = record.rest
    value = record.value
    return TopicPause(_selector(pattern, partitions), bool(value["paused"]), int(value["at_ms"]), str(value["by"]))


def _level(value: dict[str, Any]) -> LevelRequest:
    level, for_s = FlowLogLevel(value["level"]), float(value["for_s"])
    return LevelRequest(str(value["id"]), level, for_s, int(value["at_ms"]), str(value["by"]))


def _command(record: ControlRecord) -> TopicCommand:
    value, place = record.value, record.value["place"]
    return TopicCommand(
        str(record.rest[0]),
        TopicVerb(value["verb"]),
        tuple(_selector(*one) for one in value["topics"]),
        None if place is None else LogPlace(LogPlaceKind(place[0]), int(place[1])),
        int(value["at_ms"]),
        str(value["by"]),
    )


def _outcome(command: TopicCommand, result: dict[str, Any] | None, moves: dict[int, dict[str, Any]]) -> CommandOutcome:
    found = None
    if 0 in moves and len(moves) == moves[0]["of"]:
        found = tuple(_move(one) for number in sorted(moves) for one in moves[number]["moves"])
    if result is None:
        return CommandOutcome(command, moves=found)
    at_ms, by, reason = result.get("at_ms"), str(result.get("by", "")), str(result.get("reason", ""))
    return CommandOutcome(command, CommandState(result["result"]), at_ms, by, reason, found)


def _move(found: list[Any]) -> PartitionMove:
    topic, partition, before, after, changes, passed, repeated, text, before_target, first_target = found
    return PartitionMove(
        TopicPartition(TopicName(topic), partition),
        None if before is None else SourceOffset(before),
        None if after is None else SourceOffset(after),
        changes,
        passed,
        repeated,
        text,
        None if before_target is None else TargetOffset(before_target),
        None if first_target is None else TargetOffset(first_target),
    )
