"""Topics of a flow, and the commands for them, as JSON: for `twinlog topics --json` and the REST API of a worker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twinlog.ops.topics.reader import PartitionSnapshot, TopicSnapshot, TopicsSnapshot
from twinlog.worker.control.model import CommandOutcome, PartitionMove, TopicCommand, TopicPause


def topics_json(seen: TopicsSnapshot) -> dict[str, Any]:
    """The topics of a flow."""
    return {
        "flow": seen.flow.settings.name,
        "source": seen.flow.settings.source,
        "target": seen.flow.settings.target,
        "condition": seen.flow.state.condition.value,
        "state": seen.flow.state.word,
        "detail": seen.flow.state.detail,
        "trouble": seen.trouble or None,
        "topics": [_topic_json(topic) for topic in seen.topics],
        "paused": [_pause_json(entry) for entry in seen.asked.pauses.entries],
        "commands": [outcome_json(one, moves=False) for one in seen.asked.outcomes],
    }


def _topic_json(topic: TopicSnapshot) -> dict[str, Any]:
    return {
        "topic": topic.topic,
        "remote_topic": topic.remote,
        "states": {state.value: len(parts) for state, parts in topic.states.items()},
        "left_out": topic.left_out or None,
        "lag": topic.lag,
        "partitions": [_partition_json(part) for part in topic.partitions],
    }


def _partition_json(part: PartitionSnapshot) -> dict[str, Any]:
    return {
        "partition": part.partition.partition,
        "state": part.state.value,
        "detail": part.detail or None,
        "source_offset": part.copied,
        "target_offset": part.target,
        "source_start": part.start,
        "source_end": part.end,
        "lag": part.lag,
    }


def _pause_json(entry: TopicPause) -> dict[str, Any]:
    partitions = entry.selector.partitions
    return {
        "topics": entry.selector.pattern,
        "partitions": None if partitions is None else list(partitions),
        "paused": entry.paused,
        "at_ms": entry.at_ms,
        "by": entry.by,
    }


def outcome_json(outcome: CommandOutcome, *, moves: bool = True) -> dict[str, Any]:
    """A command and its outcome, with `moves` partition by partition."""
    found = {
        **command_json(outcome.command),
        "result": outcome.result.value,
        "reason": outcome.reason or None,
        "done_at_ms": outcome.at_ms if outcome.result.over else None,
        "done_by": outcome.by or None,
    }
    return {**found, "partitions": moves_json(outcome.moves or ())} if moves else found


def command_json(command: TopicCommand) -> dict[str, Any]:
    """A command."""
    place = command.place
    return {
        "id": command.id,
        "verb": command.verb.value,
        "topics": [str(one) for one in command.selectors],
        "to": None if place is None else str(place),
        "asked_at_ms": command.at_ms or None,
        "asked_by": command.by,
    }


def moves_json(moves: Sequence[PartitionMove]) -> list[dict[str, Any]]:
    """The moves of partitions."""
    return [
        {
            "topic": move.partition.topic,
            "partition": move.partition.partition,
            "changes": move.changes,
            "from": move.before,
            "to": move.after,
            "passed_over": move.passed,
            "copied_again": move.repeated,
            "text": move.text or None,
        }
        for move in moves
    ]
