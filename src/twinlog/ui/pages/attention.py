"""The troubles of flows for an operator: message id, begin, and way out, the worst trouble first.

The texts are those of the log and of `twinlog status`; the way out of a message comes from the table of `twinlog
explain`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any

from twinlog.errors.message_ids import ID
from twinlog.model.amounts import counted
from twinlog.ops.explain.table import MESSAGES
from twinlog.ops.status.flow import FlowSnapshot
from twinlog.ops.status.state import FlowCondition

MOST_HELD = 20
"""Held partitions of a flow that the list names."""


class Urgency(IntEnum):
    """How urgent a trouble is; lower numbers come first."""

    DOWN = 0
    UNKNOWN = 1
    HELD = 2
    WAITS = 3
    NOTE = 4


WORDS = {
    Urgency.DOWN: "down",
    Urgency.UNKNOWN: "unknown",
    Urgency.HELD: "held",
    Urgency.WAITS: "waits",
    Urgency.NOTE: "note",
}
_CONDITIONS = {
    FlowCondition.DOWN: Urgency.DOWN,
    FlowCondition.UNKNOWN: Urgency.UNKNOWN,
    FlowCondition.NOT_YET: Urgency.WAITS,
}


@dataclass(frozen=True, slots=True)
class Attention:
    """A trouble of a flow: `text` as the log has it, the id of its message or "", its begin in Unix ms if it is known,
    and the next step."""

    urgency: Urgency
    flow: str
    text: str
    message_id: str = ""
    since_ms: int | None = None
    way_out: str = ""
    topic: str = ""

    def data(self) -> dict[str, Any]:
        """The trouble as values of JSON."""
        return {**asdict(self), "urgency": WORDS[self.urgency]}


def attentions(name: str, seen: FlowSnapshot | None, trouble: str | None) -> list[Attention]:
    """The troubles of a flow by its last snapshot; `trouble` is the reason why the last read failed."""
    found = [] if trouble is None else [_said(Urgency.UNKNOWN, name, trouble)]
    if seen is not None:
        found += _of_state(name, seen)
        found += _of_held(name, seen)
        found += _of_report(name, seen)
    return sorted(found, key=lambda one: (one.urgency, one.flow, one.since_ms or 0))


def sorted_by_urgency(found: Iterable[Attention]) -> list[Attention]:
    """The troubles of several flows, the worst first."""
    return sorted(found, key=lambda one: (one.urgency, one.flow, one.since_ms or 0))


def _of_state(name: str, seen: FlowSnapshot) -> list[Attention]:
    urgency = _CONDITIONS.get(seen.state.condition)
    if urgency is None:
        return []
    text = f"{seen.state.word}: {seen.state.detail}" if seen.state.detail else seen.state.word
    report = seen.facts.report
    since = None if report is None else report.at_ms
    return [_said(urgency, name, text, since)]


def _of_held(name: str, seen: FlowSnapshot) -> list[Attention]:
    holds = seen.held_report
    if holds is None:
        return []
    found = [
        Attention(
            Urgency.HELD,
            name,
            f"{held.source} is held at source offset {held.source_offset}: {held.text}",
            held.message_id,
            held.since_ms,
            held.way_out or _mend(held.message_id),
            held.topic,
        )
        for held in holds.held_partitions[:MOST_HELD]
    ]
    more = holds.held - len(found)
    if more > 0:
        found.append(Attention(Urgency.HELD, name, f"{counted(more, 'more partition')} held", "TW-HELD-01"))
    return found


def _of_report(name: str, seen: FlowSnapshot) -> list[Attention]:
    report = seen.report
    found = []
    if seen.lag_trouble:
        found.append(_said(Urgency.NOTE, name, f"the lag is unknown: {seen.lag_trouble}"))
    if report is None:
        return found
    for topic, reason in report.missing_topics:
        found.append(
            _said(Urgency.WAITS, name, f"the remote topic of {topic} is missing, or has too few partitions: {reason}")
        )
    if report.groups is not None and report.groups.trouble:
        found.append(_said(Urgency.WAITS, name, f"groups: {report.groups.trouble}"))
    troubled = [one for one in report.topics if one.trouble and not one.held]
    found += [_said(Urgency.WAITS, name, f"{one.topic}: {one.trouble}", one.oldest_ms) for one in troubled[:MOST_HELD]]
    error = report.last_error if report.last_error_over_ms is None else None
    if error is not None and not any(held.text in error for held in report.held_partitions):
        found.append(_said(Urgency.NOTE, name, f"last error: {error}", report.last_error_ms))
    return found


def _said(urgency: Urgency, flow: str, text: str, since_ms: int | None = None) -> Attention:
    """A trouble by a text that may have the id of its message in it."""
    match = ID.search(text)
    message_id = "" if match is None else match[0]
    return Attention(urgency, flow, text, message_id, since_ms, _mend(message_id))


def _mend(message_id: str) -> str:
    message = MESSAGES.get(message_id)
    return "" if message is None else message.mend


def attention_rows(found: Sequence[Attention]) -> list[dict[str, Any]]:
    """Troubles as values of JSON."""
    return [one.data() for one in found]
