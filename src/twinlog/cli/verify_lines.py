"""What `twinlog verify` prints for people."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from twinlog.cli.rate import shown_duration
from twinlog.cli.table import table
from twinlog.verify.model import Left, Verdict

_HEAD = ("TOPIC", "COPY", "PARTITIONS", "RECORDS", "BYTES", "DIFFERENCES", "")
SHOWN = 5
"""Ranges of a topic that were not compared, and different partitions; `--all` prints all of them."""


def verdict_lines(found: Sequence[Verdict], seconds: float, *, everything: bool) -> list[str]:
    """A table of topics, below it what differs, and what was not compared."""
    rows: list[tuple[str, ...]] = [_HEAD]
    for (topic, remote), group in groupby(found, key=lambda one: (one.topic, one.remote_topic)):
        parts = list(group)
        rows.append(
            (
                topic,
                remote,
                str(len(parts)),
                str(sum(one.records for one in parts)),
                str(sum(one.bytes for one in parts)),
                str(sum(one.differences for one in parts)),
                word_of(parts),
            )
        )
    lines = table(rows, numbers=(2, 3, 4, 5))
    lines += _some([line for one in found for line in _different(one)], everything, "differences")
    lines += _some([line for one in found for line in _left(one)], everything, "ranges that were not compared")
    lines += [f"{one.topic}-{one.partition} was not compared: {one.problem}" for one in found if one.problem]
    records, size = sum(one.records for one in found), sum(one.bytes for one in found)
    rate = size / seconds / 1e6 if seconds > 0 else 0.0
    lines.append(
        f"{records} records, {size} bytes are equal in {len(found)} partitions; "
        f"{shown_duration(seconds)}, {rate:.0f} MB/s"
    )
    return lines


def word_of(parts: Sequence[Verdict]) -> str:
    """In a word how a topic is."""
    if any(one.equal is False for one in parts):
        return "different"
    if any(one.problem for one in parts):
        return "not compared"
    if any(one.equal is None for one in parts):
        return "not compared"
    return "equal" if not any(one.left for one in parts) else "equal where compared"


def _different(one: Verdict) -> list[str]:
    foreign = f", {one.foreign} of them of somebody else" if one.foreign and one.differences else ""
    lines = []
    if one.first is not None:
        first = one.first
        text = f": {first.text}" if first.text else ""
        lines.append(
            f"{one.topic}-{one.partition}: {one.differences} different{foreign}; the first is {first.what}, at source "
            f"offset {first.source_offset}, target offset {first.target_offset}{text}"
        )
    elif one.foreign:
        lines.append(f"{one.topic}-{one.partition}: {one.foreign} records of somebody else, which do not count")
    return lines


def _left(one: Verdict) -> list[str]:
    return [f"{one.topic}-{one.partition}: not compared: {_range(left)}: {left.reason}" for left in one.left]


def _range(left: Left) -> str:
    return f"{left.side} offsets {left.start} to {left.end - 1}"


def _some(lines: Sequence[str], everything: bool, what: str) -> list[str]:
    if everything or len(lines) <= SHOWN:
        return list(lines)
    return [*lines[:SHOWN], f"and {len(lines) - SHOWN} more {what}; --all prints them"]
