"""Progress reports: what every task says about once a second, wherever it runs, into a topic on the target.

Metrics, status and the live table all read this one topic. Its name begins with `mm2` and ends with `internal`, so that
neither twinlog nor MirrorMaker 2 mirrors it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from twinlog.types import Alias


def progress_topic(source: Alias) -> str:
    """The topic of reports about flows from `source`, on their target."""
    return f"mm2-twinlog-progress.{source}.internal"


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """One source partition since the last report.

    `source_offset` is the next source offset to copy, `target_offset` the next one on the target, `end` the source's
    end (-1 unknown), `records` and `bytes` what was acknowledged in the interval, `latency_ms` the worst age of a
    record when it was acknowledged (-1 none), `trouble` what keeps it from going on.
    """

    topic: str
    partition: int
    source_offset: int
    target_offset: int
    end: int
    records: int = 0
    bytes: int = 0
    latency_ms: int = -1
    trouble: str | None = None

    @property
    def lag(self) -> int:
        """Source offsets still to be copied, -1 while the end is unknown."""
        return -1 if self.end < 0 else max(0, self.end - self.source_offset)


@dataclass(frozen=True, slots=True)
class Report:
    """What one copier did in one interval of `seconds`; `busy` is the share of it that its thread computed (0 to 1)."""

    flow: str
    copier: str
    lease: int
    at_ms: int
    seconds: float
    busy: float
    partitions: tuple[PartitionProgress, ...] = ()
    events: tuple[tuple[str, str], ...] = field(default=())

    def encode(self) -> bytes:
        """The report as the value of a record: one JSON object."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def decode(cls, value: bytes) -> Report | None:
        """A report from a record's value; None when it is none."""
        try:
            fields: dict[str, Any] = json.loads(value)
            parts = tuple(PartitionProgress(**part) for part in fields.pop("partitions"))
            events = tuple((str(kind), str(text)) for kind, text in fields.pop("events"))
            return cls(partitions=parts, events=events, **fields)
        except (ValueError, TypeError, KeyError):
            return None
