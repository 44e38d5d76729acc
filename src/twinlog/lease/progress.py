"""Progress reports of a copier, about once a second: partitions, and counters of the copier as a whole.

The driver gets reports on its channel, also while the target refuses records. Other programs find them in a topic on
the target (`model.topic_names`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from twinlog.errors import MessageError
from twinlog.lease.codec import INLINE, LINE_ONLY, ReportCodec
from twinlog.lease.counters import CopierCounters, PartitionCounters
from twinlog.model.compact_json import ascii_json
from twinlog.model.reach import ClusterReachability
from twinlog.model.types import SourceOffset, TargetOffset


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """The progress of a source partition since the last report.

    `source_offset` is the next source offset to copy, `target_offset` the next offset on the target, `end` the source's
    end (-1 unknown). `counters` are those of the interval. `trouble` is the reason why the partition stalls, or None.
    `waiting_ms` is the timestamp of the first record that was read and still waits to be copied for good (Unix time, -1
    if all are copied).
    """

    topic: str
    partition: int
    source_offset: SourceOffset
    target_offset: TargetOffset
    end: SourceOffset
    counters: PartitionCounters = field(default_factory=PartitionCounters, metadata=INLINE)
    trouble: str | None = None
    waiting_ms: int = -1

    @property
    def lag(self) -> int:
        """The number of source offsets that remain to be copied, -1 while the end is unknown."""
        return -1 if self.end < 0 else max(0, self.end - self.source_offset)

    def followed_by(self, later: PartitionProgress) -> PartitionProgress:
        """Merge this report and a later report of the same partition."""
        return replace(later, counters=self.counters + later.counters)


@dataclass(frozen=True, slots=True)
class Report:
    """The progress of a copier in an interval of `seconds`; `busy` is the share in which its thread computed (0 to 1).

    `age_s` is the age of the oldest known `end` of its partitions; `source` and `target` tell whether the clusters
    answer. `counters` are for the driver only; a record in the topic leaves them out.
    """

    flow: str
    copier: str
    lease: int
    at_ms: int
    seconds: float
    busy: float
    age_s: float = 0.0
    source: ClusterReachability = field(default_factory=ClusterReachability)
    target: ClusterReachability = field(default_factory=ClusterReachability)
    partitions: tuple[PartitionProgress, ...] = ()
    events: tuple[tuple[str, str], ...] = field(default=())
    counters: CopierCounters = field(default_factory=CopierCounters, metadata=LINE_ONLY)

    def encode(self) -> bytes:
        """The report as the value of a record: a JSON object, with times in thousandths of a second."""
        rounded = replace(
            self,
            seconds=round(self.seconds, 3),
            busy=round(self.busy, 3),
            age_s=round(self.age_s, 3),
            source=self.source.rounded(),
            target=self.target.rounded(),
        )
        return ascii_json(_REPORT.encode(rounded))

    @classmethod
    def decode(cls, value: bytes) -> Report | None:
        """A report from a record's value, or None if the value is no report."""
        try:
            report: Report = _REPORT.decode(json.loads(value))
        except (ValueError, MessageError):
            return None
        return report


_REPORT, _PARTITION = ReportCodec(Report), ReportCodec(PartitionProgress)


def in_pieces(report: Report, most_bytes: int) -> Iterator[Report]:
    """Split a report into reports of at most `most_bytes`, as far as whole partitions and events allow.

    The first piece has the events that fit; each piece has at least a partition or an event, if there is any.
    """
    head = replace(report, partitions=(), events=())
    room = most_bytes - len(head.encode())
    parts: list[PartitionProgress] = []
    events: list[tuple[str, str]] = []
    size = 0
    for one in (*report.events, *report.partitions):
        part = one if isinstance(one, PartitionProgress) else None
        bytes_ = len(ascii_json(one if part is None else _PARTITION.encode(part))) + 1
        if size and size + bytes_ > room:
            yield replace(head, partitions=tuple(parts), events=tuple(events))
            parts, events, size = [], [], 0
        if part is None:
            assert isinstance(one, tuple)
            events.append(one)
        else:
            parts.append(part)
        size += bytes_
    yield replace(head, partitions=tuple(parts), events=tuple(events))
