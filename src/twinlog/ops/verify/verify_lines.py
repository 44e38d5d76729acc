"""The text of `twinlog verify`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

from twinlog.console.table import shown_duration, table
from twinlog.errors.message_ids import with_id
from twinlog.model.amounts import counted
from twinlog.ops.verify.model import Side, UncomparedRange, Verdict
from twinlog.ops.verify.recheck import RecheckVerdict, SideFindings
from twinlog.ops.verify.sections import NOT_YET

_HEAD = ("TOPIC", "COPY", "PARTITIONS", "RECORDS", "BYTES", "DIFFERENCES", "")
_RECHECK_HEAD = ("TOPIC", "COPY", "PARTITIONS", "STATED", "SOURCE", "TARGET", "GONE", "NEWER", "")
_SIDES: tuple[Side, ...] = ("source", "target")
_NONE: Mapping[str, str] = {}
SHOWN = 5
"""The uncompared ranges of a topic, and different partitions, to print; `--all` prints all of them."""


def verdict_lines(
    found: Sequence[Verdict],
    seconds: float,
    failed: Mapping[str, str] = _NONE,
    *,
    everything: bool,
    identical: Callable[[str, str], bool] = lambda flow, topic: False,
) -> list[str]:
    """A table of topics, below it the differences and the uncompared ranges; it names flows if there are several.

    `failed` are wholly uncompared flows, each with the reason. `identical` says whether the copies of a flow and topic
    keep the offsets of their sources.
    """
    several = len({one.flow for one in found} | failed.keys()) > 1
    rows: list[tuple[str, ...]] = [("FLOW", *_HEAD) if several else _HEAD]
    for (flow, topic, remote), group in groupby(found, key=lambda one: (one.flow, one.topic, one.remote_topic)):
        parts = list(group)
        rows.append(
            (
                *([flow] if several else []),
                topic,
                remote,
                str(len(parts)),
                str(sum(one.records for one in parts)),
                str(sum(one.bytes for one in parts)),
                str(sum(one.differences for one in parts)),
                word_of(parts) + (", identical offsets" if identical(flow, topic) else ""),
            )
        )
    names = _names(found, several)
    lines = table(rows, numbers=tuple(number + several for number in (2, 3, 4, 5)))
    lines += _some(
        [_different(names[id(one)], one) for one in found if one.first is not None], everything, "differences"
    )
    foreign = [one for one in found if one.first is None and one.foreign]
    lines += _some([_foreign(names[id(one)], one) for one in foreign], everything, "partitions with such records")
    # Ranges that are still to copy come last: each partition of a running flow has a range of this kind.
    ranges = [(left.reason == NOT_YET, _left(names[id(one)], left)) for one in found for left in one.left]
    lines += _some(
        [line for _, line in sorted(ranges, key=lambda one: one[0])], everything, "ranges that were not compared"
    )
    problems = [
        with_id(f"{names[id(one)]} was not compared: {one.problem}", "TW-VERIFY-03") for one in found if one.problem
    ]
    lines += _some(problems, everything, "partitions that were not compared")
    lines += _failed(failed)
    return [*lines, _sum(found, seconds, len(failed))]


def _names(found: Sequence[Verdict] | Sequence[RecheckVerdict], several: bool) -> dict[int, str]:
    """The names of the partitions of rows, by the ids of the rows."""
    return {
        id(one): f"{one.flow} {one.topic}-{one.partition}" if several else f"{one.topic}-{one.partition}"
        for one in found
    }


def _failed(failed: Mapping[str, str]) -> list[str]:
    return [with_id(f"flow {name} was not compared: {problem}", "TW-VERIFY-03") for name, problem in failed.items()]


def _sum(found: Sequence[Verdict], seconds: float, failed: int) -> str:
    """The last line. Many people read only this line, so problems come first."""
    records, size = sum(one.records for one in found), sum(one.bytes for one in found)
    rate = size / seconds / 1e6 if seconds > 0 else 0.0
    different = [one for one in found if one.equal is False]
    unknown = sum(one.equal is None or bool(one.equal and one.problem) for one in found)
    parts = [
        f"{counted(records, 'record')}, {counted(size, 'byte')} are equal",
        f"{shown_duration(seconds)}, {rate:.0f} MB/s",
    ]
    if unknown:
        parts.insert(0, f"not compared: {unknown} of {counted(len(found), 'partition')}")
    if failed:
        parts.insert(0, f"flows not compared: {failed}")
    if different:
        differences = sum(one.differences for one in different)
        parts.insert(0, f"differences: {differences}, in {len(different)} of {counted(len(found), 'partition')}")
    if len(parts) == 2:
        parts[0] += f" in {counted(len(found), 'partition')}"
    return "; ".join(parts)


def word_of(parts: Sequence[Verdict]) -> str:
    """In a word how a topic is."""
    if any(one.equal is False for one in parts):
        return "different"
    if any(one.problem or one.equal is None for one in parts):
        return "not compared"
    if not any(one.records for one in parts):
        return "no records"
    return "equal" if not any(one.left for one in parts) else "equal where compared"


def _different(name: str, one: Verdict) -> str:
    first = one.first
    assert first is not None
    foreign = f", {one.foreign} of them of somebody else" if one.foreign else ""
    text = f": {first.text}" if first.text else ""
    return (
        f"TW-VERIFY-01: {name}: {one.differences} different{foreign}; the first ({first.what}) at source "
        f"offset {first.source_offset}, target offset {first.target_offset}{text}"
    )


def _foreign(name: str, one: Verdict) -> str:
    return f"{name}: {counted(one.foreign, 'record')} of somebody else, which do not count"


def _left(name: str, left: UncomparedRange) -> str:
    text = f"{name}: not compared: {_range(left)}: {left.reason}"
    return text if left.reason == NOT_YET else f"TW-VERIFY-02: {text}"


def _range(left: UncomparedRange) -> str:
    return f"{left.side} offsets {left.start} to {left.end - 1}"


def _some(lines: Sequence[str], everything: bool, what: str) -> list[str]:
    if everything or len(lines) <= SHOWN:
        return list(lines)
    return [*lines[:SHOWN], f"and {len(lines) - SHOWN} more {what}; --all prints them"]


def recheck_lines(found: Sequence[RecheckVerdict], failed: Mapping[str, str] = _NONE, *, everything: bool) -> list[str]:
    """A table of the topics of a statement as they are now, below it the differences and the lost records.

    `failed` are wholly uncompared flows, each with the reason.
    """
    several = len({one.flow for one in found} | failed.keys()) > 1
    rows: list[tuple[str, ...]] = [("FLOW", *_RECHECK_HEAD) if several else _RECHECK_HEAD]
    for (flow, topic, remote), group in groupby(found, key=lambda one: (one.flow, one.topic, one.remote_topic)):
        parts = list(group)
        sides = [side for one in parts for side in one.sides]
        rows.append(
            (
                *([flow] if several else []),
                topic,
                remote,
                str(len(parts)),
                str(sum(one.records for one in parts)),
                _equal_on(sides, "source"),
                _equal_on(sides, "target"),
                str(sum(side.gone for side in sides)),
                str(sum(side.newer for side in sides if side.side == "target")),
                _state_of(parts),
            )
        )
    names = _names(found, several)
    lines = table(rows, numbers=tuple(number + several for number in range(2, 8)))
    sides_of = [(names[id(one)], side) for one in found for side in one.sides]
    lines += _some(
        [_changed(name, side) for name, side in sides_of if side.first is not None], everything, "differences"
    )
    lines += _some([_gone(name, side) for name, side in sides_of if side.gone], everything, "partitions with losses")
    problems = [
        with_id(f"{name} was not compared: {side.problem}", "TW-VERIFY-03") for name, side in sides_of if side.problem
    ]
    lines += _some(problems, everything, "partitions that were not compared")
    return [*lines, *_failed(failed), _recheck_sum(found, len(failed))]


def _equal_on(sides: Sequence[SideFindings], side: Side) -> str:
    """The number of equal records of a side; a dash for an unread side."""
    read = [one.equal for one in sides if one.side == side]
    return str(sum(read)) if read else "-"


def _state_of(parts: Sequence[RecheckVerdict]) -> str:
    if any(one.equal is False for one in parts):
        return "different"
    if any(one.equal is None for one in parts):
        return "not compared"
    if not any(one.records for one in parts):
        return "no records"
    return "equal where compared" if any(side.gone for one in parts for side in one.sides) else "equal"


def _changed(name: str, one: SideFindings) -> str:
    first = one.first
    assert first is not None
    return (
        f"TW-VERIFY-05: {name}: {one.side} differs from the statement in {counted(one.different, 'range')}, first at "
        f"offsets {first.start} to {first.end - 1}: {counted(first.found, 'record')}, stated {first.stated}"
    )


def _gone(name: str, one: SideFindings) -> str:
    by = " and ".join(text for text, count in (("retention", one.trimmed), ("compaction", one.compacted)) if count)
    rest = f"; not compared in these ranges: {counted(one.unproved, 'record')}" if one.unproved else ""
    return (
        f"TW-VERIFY-06: {name}: {one.side} lacks {counted(one.gone, 'record')} of the statement, deleted by {by}{rest}"
    )


def _recheck_sum(found: Sequence[RecheckVerdict], failed: int) -> str:
    """The last line, with problems first."""
    sides = [side for one in found for side in one.sides]
    changed = sum(one.equal is False for one in found)
    unknown = sum(one.equal is None for one in found)
    parts = [f"{counted(sum(one.records for one in found), 'stated record')} in {counted(len(found), 'partition')}"]
    parts += [f"equal on the {side}: {equal}" for side in _SIDES if (equal := _equal_on(sides, side)) != "-"]
    if gone := sum(one.gone for one in sides):
        parts.insert(0, f"gone: {counted(gone, 'record')}")
    if unknown:
        parts.insert(0, f"not compared: {unknown} of {counted(len(found), 'partition')}")
    if failed:
        parts.insert(0, f"flows not compared: {failed}")
    if changed:
        ranges = counted(sum(one.different for one in sides), "range")
        parts.insert(0, f"differences: {ranges}, in {changed} of {counted(len(found), 'partition')}")
    return "; ".join(parts)
