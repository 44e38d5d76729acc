"""The bounds of a replay in each partition, and refusals of wrong bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from twinlog.errors import OptionError
from twinlog.model.types import TopicPartition
from twinlog.ops.inventory import LogOffsets

Side = Literal["start", "end"]
"""The first record of a range, or the record to end before."""

_OPTIONS = {
    ("start", "offset"): "--from-offset",
    ("start", "timestamp"): "--since",
    ("end", "offset"): "--to-offset",
    ("end", "timestamp"): "--until",
}

_A_TIME = 10**11
"""Numbers from here on are ms since 1970 rather than offsets: they mean 1973 or later."""


@dataclass(frozen=True, slots=True)
class ReplayBound:
    """A bound of a range, in each partition: an offset, a timestamp in ms, or an end of the log.

    `written` is the text of a time as the user wrote it.
    """

    kind: Literal["offset", "timestamp", "earliest", "latest"]
    value: int = 0
    written: str = ""

    def option(self, side: Side) -> str:
        """As it is written in a command line."""
        return f"{_OPTIONS[side, self.kind]} {self.written or self.value}"

    def __str__(self) -> str:
        if self.written:
            return self.written
        return f"{self.kind} {self.value}" if self.kind in ("offset", "timestamp") else self.kind


def require_order(start: ReplayBound, end: ReplayBound) -> None:
    """Raise OptionError if the range between two bounds is empty in any cluster."""
    comparable = start.kind == end.kind and start.kind in ("offset", "timestamp")
    if start.kind == "latest" or end.kind == "earliest" or (comparable and start.value >= end.value):
        raise OptionError(f"the range from {start} to {end} is empty: it has to begin before its end")


def offsets_of(
    bound: ReplayBound,
    logs: Mapping[TopicPartition, LogOffsets],
    hidden: Mapping[TopicPartition, LogOffsets],
    found: Mapping[TopicPartition, int],
    side: Side,
) -> dict[TopicPartition, int]:
    """The offset in each log that a bound means, within the log. Raises OptionError for an offset outside of the log.

    `hidden` are the records that an open transaction hides beyond the end of a log, `found` the first offset as new as
    a timestamp, or -1.
    """
    if bound.kind == "earliest":
        return {part: one.start for part, one in logs.items()}
    if bound.kind == "latest":
        return {part: one.end for part, one in logs.items()}
    if bound.kind == "offset":
        wanted = dict.fromkeys(logs, bound.value)
        _require_there(bound, logs, hidden, side)
    else:
        wanted = {part: max(found[part], one.start) for part, one in logs.items() if found.get(part, -1) >= 0}
    _require_seen(bound, logs, wanted, hidden, side)
    return {part: min(wanted.get(part, one.end), one.end) for part, one in logs.items()}


def _require_there(
    bound: ReplayBound,
    logs: Mapping[TopicPartition, LogOffsets],
    hidden: Mapping[TopicPartition, LogOffsets],
    side: Side,
) -> None:
    for part, one in sorted(logs.items()):
        if bound.value < one.start:
            raise OptionError(
                f"{bound.option(side)}: {part} begins at offset {one.start} by now (retention); begin there "
                "(leave the option out), into another topic (--into) if an earlier replay has copied older records, or "
                "choose partitions (--partition)"
            )
    beyond = all(bound.value > hidden.get(part, one).end for part, one in logs.items())
    if beyond and (side == "start" or bound.value >= _A_TIME):
        time = f"; a time is given by {_OPTIONS[side, 'timestamp']}" if bound.value >= _A_TIME else ""
        raise OptionError(f"{bound.option(side)}: every partition ends before this offset{time}")


def _require_seen(
    bound: ReplayBound,
    logs: Mapping[TopicPartition, LogOffsets],
    wanted: Mapping[TopicPartition, int],
    hidden: Mapping[TopicPartition, LogOffsets],
    side: Side,
) -> None:
    """Raise OptionError if a range ends beyond the records that readers of committed records see, or lies there as a
    whole."""
    if side == "start" and not all(wanted.get(part, -1) >= one.end for part, one in logs.items()):
        return
    for part, one in sorted(hidden.items()):
        first = wanted.get(part, -1)
        if first > one.start if side == "end" else first < one.end:
            raise OptionError(
                f"{bound.option(side)}: an open transaction of the source "
                f"hides {part} from offset {one.start} on (isolation.level = read_committed); replay that once the "
                f"transaction has ended{', or leave the option out to end before it' if side == 'end' else ''}"
            )
