"""Topics of a flow, and commands for topics, as text and as JSON: for `twinlog topics` and the REST API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twinlog.console.table import table
from twinlog.errors.message_ids import ID, with_id
from twinlog.model.amounts import counted
from twinlog.ops.topics.snapshot import PartitionSnapshot, TopicSnapshot, TopicsSnapshot, TopicState
from twinlog.worker.control.model import (
    CommandOutcome,
    CommandState,
    PartitionMove,
    TopicCommand,
    TopicPause,
    TopicVerb,
    selected,
)

_TOPICS = ("TOPIC", "PARTITIONS", "LAG", "STATE")
_PARTITIONS = ("TOPIC", "PARTITION", "COPIED TO", "SOURCE END", "LAG", "TARGET", "STATE")
_MOVES = ("TOPIC", "PARTITION", "FROM", "TO", "COPIED AGAIN", "PASSED OVER", "")
MOST_MOVES = 50
"""Partitions that a preview and an outcome name; JSON has all."""


def lines(seen: TopicsSnapshot, *, partitions: bool) -> list[str]:
    """The topics of a flow, or their partitions, and the pending commands."""
    detail = f": {seen.flow.state.detail}" if seen.flow.state.detail else ""
    found = [f"{seen.flow.settings.name}: {seen.flow.state.word}{detail}"]
    if seen.trouble:
        found.append(f"  topics and offsets are unknown: {seen.trouble}")
    rows: list[Sequence[str]] = []
    for topic in seen.topics:
        rows += _partition_rows(topic) if partitions else [_topic_row(topic)]
    if rows:
        head, numbers = (_PARTITIONS, range(1, 6)) if partitions else (_TOPICS, range(1, 3))
        found += [f"  {line}" for line in table([head, *rows], numbers)]
    elif not seen.trouble:
        found.append("  it mirrors no topic")
    found += [_pause_line(entry, seen) for entry in seen.asked.pauses.entries if entry.paused]
    found += [
        f"  asked by {one.command.by} and not done yet: {one.command} (id {one.command.id})"
        for one in seen.asked.pending
    ]
    return found


def _pause_line(entry: TopicPause, seen: TopicsSnapshot) -> str:
    """A pause; a later resume of its partitions leaves it in force for partitions that are yet to come."""
    meant = selected([entry.selector], (part.partition for topic in seen.topics for part in topic.partitions))
    overruled = meant and not seen.asked.pauses.paused(meant)
    later = f"; only for later partitions: `twinlog topics resume FILE {entry.selector}` ends that" if overruled else ""
    return f"  paused by {entry.by}: {entry.selector}{later}"


def _topic_row(topic: TopicSnapshot) -> tuple[str, ...]:
    if topic.left_out:
        return topic.topic, "-", "-", f"{TopicState.LEFT_OUT}: {topic.left_out}"
    states = topic.states
    texts = []
    for state, parts in states.items():
        detail = next((part.detail for part in parts if part.detail), "")
        count = "" if len(states) == 1 else f"{len(parts)} "
        texts.append(f"{count}{state}{f': {detail}' if detail else ''}")
    return topic.topic, str(len(topic.partitions)), _number(topic.lag), ", ".join(texts)


def _partition_rows(topic: TopicSnapshot) -> list[tuple[str, ...]]:
    if topic.left_out:
        return [(topic.topic, *"-----", f"{TopicState.LEFT_OUT}: {topic.left_out}")]
    return [_partition_row(part) for part in topic.partitions]


def _partition_row(part: PartitionSnapshot) -> tuple[str, ...]:
    detail = f": {part.detail}" if part.detail else ""
    numbers = (part.copied, part.end, part.lag, part.target)
    return (part.partition.topic, str(part.partition.partition), *map(_number, numbers), f"{part.state}{detail}")


def move_lines(verb: TopicVerb, moves: Sequence[PartitionMove], *, done: bool) -> list[str]:
    """The moves of partitions, planned or done, and their total cost."""
    if not verb.moves:
        names = [str(move.partition) for move in moves]
        more = len(names) - MOST_MOVES
        return [f"  {', '.join(names[:MOST_MOVES])}{f' and {more} more' if more > 0 else ''}"] if names else []
    # Moves with a cost come first.
    ordered = sorted(moves, key=lambda move: (not move.changes, -move.passed, -move.repeated, move.partition))
    rows = [
        (
            move.partition.topic,
            str(move.partition.partition),
            "none" if move.before is None else str(move.before),
            str(move.after) if move.changes else "stays",
            f"{move.repeated:,}",
            f"{move.passed:,}",
            move.text,
        )
        for move in ordered[:MOST_MOVES]
    ]
    found = [f"  {line}" for line in table([_MOVES, *rows], range(1, 6))] if rows else []
    if len(ordered) > MOST_MOVES:
        found.append(f"  and {counted(len(ordered) - MOST_MOVES, 'more partition')}")
    return [*found, f"  {costs(moves, done=done)}"]


def costs(moves: Sequence[PartitionMove], *, done: bool = False) -> str:
    """The cost of moves, in a sentence."""
    passed, repeated = sum(move.passed for move in moves), sum(move.repeated for move in moves)
    changed = sum(move.changes for move in moves)
    if not changed:
        return "nothing changes"
    texts = []
    for count, becomes in ((repeated, "copied again"), (passed, "passed over and never copied")):
        if count:
            verb = "will be" if not done else "is" if count == 1 else "are"
            texts.append(f"{counted(count, 'source offset')} {verb} {becomes}")
    if not texts:
        texts.append("no record is copied again, and none is passed over")
    return f"{counted(changed, 'partition')}: {'; '.join(texts)}"


def outcome_lines(flow: str, outcome: CommandOutcome) -> list[str]:
    """The outcome of a command."""
    command = outcome.command
    by = f" by {outcome.by}" if outcome.by else ""
    reason = f": {outcome.reason}" if outcome.reason else ""
    line = f"{flow}: {command}: {outcome.result}{by}{reason} (id {command.id})"
    found = [with_id(line, "TW-COMMAND-02") if outcome.result is CommandState.REFUSED else line]
    if outcome.moves is not None:
        found += move_lines(command.verb, outcome.moves, done=outcome.result.over)
    return found


def _number(value: int | None) -> str:
    return "?" if value is None else f"{value}"


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
        "message_id": _message_id(outcome),
        "done_at_ms": outcome.at_ms if outcome.result.over else None,
        "done_by": outcome.by or None,
    }
    return {**found, "partitions": moves_json(outcome.moves or ())} if moves else found


def _message_id(outcome: CommandOutcome) -> str | None:
    """The id of the reason; of a refusal that lacks an id of its own, the id of a refusal."""
    found = ID.search(outcome.reason)
    if found is not None:
        return found[0]
    return "TW-COMMAND-02" if outcome.result is CommandState.REFUSED else None


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
