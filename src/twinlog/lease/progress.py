"""Progress reports of a copier, about once a second: partitions, and figures of the copier as a whole.

The driver gets reports on its channel, also while the target refuses records. Other programs find them in a topic on
the target (`model.topic_names`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from twinlog.model.compact_json import ascii_json
from twinlog.model.reach import ClusterReachability
from twinlog.model.types import SourceOffset, TargetOffset

AGE_BOUNDS_MS = (
    *(5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000),
    *(30_000, 60_000, 300_000, 3_600_000, 86_400_000),
)
"""Upper bounds of the buckets of record ages, in milliseconds; a further bucket has all older records."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Counts since the last report, and the amounts that wait now.

    `ages` counts records by their age when the target acknowledged them: a count for each bound of `AGE_BOUNDS_MS`, and
    a count of all older records. `age_sum_ms` is the sum of these ages. `roads` are the numbers of batches made on each
    road (`kafka.producer.appends.Road`). `read_bytes` and `written_bytes` went over the network. `polls` counts answers
    of the source with records: `read_records` in all, and `most_read` in the largest answer.

    Positions were stored `commits` times, in `commit_ms` in all and `most_commit_ms` at most, and the store failed
    `failed_commits` times. `waiting_records` were read and still wait for the acknowledgement; `free_bytes` are left of
    the memory for waiting records.

    A transform `dropped` records, was skipped for the records that it `failed` on, and `routed` rows to other
    partitions. A policy `left_out` records. `dead_letters` records were meant for the dead-letter topic, which failed
    `dead_letter_failures` times.
    """

    ages: tuple[int, ...] = ()
    age_sum_ms: int = 0
    roads: tuple[tuple[str, int], ...] = ()
    read_bytes: int = 0
    written_bytes: int = 0
    polls: int = 0
    read_records: int = 0
    most_read: int = 0
    commits: int = 0
    failed_commits: int = 0
    commit_ms: int = 0
    most_commit_ms: int = 0
    waiting_records: int = 0
    free_bytes: int = 0
    dropped: int = 0
    failed: int = 0
    routed: int = 0
    left_out: int = 0
    dead_letters: int = 0
    dead_letter_failures: int = 0


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """The progress of a source partition since the last report.

    `source_offset` is the next source offset to copy, `target_offset` the next offset on the target, `end` the source's
    end (-1 unknown). `records` and `bytes` count the records acknowledged in the interval. `latency_ms` is the highest
    age of a record at its acknowledgement (-1 unknown). `trouble` is the reason why the partition stalls, or None.
    `waiting_ms` is the timestamp of the first record that was read and still waits to be copied for good (Unix time, -1
    if all are copied).

    Each batch counts with its youngest record, as often as it has records. For acknowledged batches there are the age
    of the last batch (`last_latency_ms`), the least age, and the sum over records. There are the same ages (`_age_ms`)
    of the `read_records` that the source sent in the interval.
    """

    topic: str
    partition: int
    source_offset: SourceOffset
    target_offset: TargetOffset
    end: SourceOffset
    records: int = 0
    bytes: int = 0
    latency_ms: int = -1
    trouble: str | None = None
    waiting_ms: int = -1
    last_latency_ms: int = -1
    least_latency_ms: int = -1
    latency_sum_ms: int = 0
    read_records: int = 0
    last_age_ms: int = -1
    least_age_ms: int = -1
    most_age_ms: int = -1
    age_sum_ms: int = 0

    @property
    def lag(self) -> int:
        """The number of source offsets that remain to be copied, -1 while the end is unknown."""
        return -1 if self.end < 0 else max(0, self.end - self.source_offset)

    def as_json(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "partition": self.partition,
            "source_offset": self.source_offset,
            "target_offset": self.target_offset,
            "end": self.end,
            "records": self.records,
            "bytes": self.bytes,
            "latency_ms": self.latency_ms,
            "trouble": self.trouble,
            "waiting_ms": self.waiting_ms,
        }

    def followed_by(self, later: PartitionProgress) -> PartitionProgress:
        """Merge this report and a later report of the same partition."""
        return replace(
            later,
            records=self.records + later.records,
            bytes=self.bytes + later.bytes,
            latency_ms=max(self.latency_ms, later.latency_ms),
            last_latency_ms=later.last_latency_ms if later.last_latency_ms >= 0 else self.last_latency_ms,
            least_latency_ms=least_known(self.least_latency_ms, later.least_latency_ms),
            latency_sum_ms=self.latency_sum_ms + later.latency_sum_ms,
            read_records=self.read_records + later.read_records,
            last_age_ms=later.last_age_ms if later.last_age_ms >= 0 else self.last_age_ms,
            least_age_ms=least_known(self.least_age_ms, later.least_age_ms),
            most_age_ms=max(self.most_age_ms, later.most_age_ms),
            age_sum_ms=self.age_sum_ms + later.age_sum_ms,
        )


@dataclass(frozen=True, slots=True)
class Report:
    """The progress of a copier in an interval of `seconds`; `busy` is the share in which its thread computed (0 to 1).

    `age_s` is the age of the oldest known `end` of its partitions; `source` and `target` tell whether the clusters
    answer. `figures` are for the driver only; a record in the topic leaves them out.
    """

    flow: str
    copier: str
    lease: int
    at_ms: int
    seconds: float
    busy: float
    partitions: tuple[PartitionProgress, ...] = ()
    events: tuple[tuple[str, str], ...] = field(default=())
    age_s: float = 0.0
    source: ClusterReachability = field(default_factory=ClusterReachability)
    target: ClusterReachability = field(default_factory=ClusterReachability)
    figures: Figures = field(default_factory=Figures)

    def encode(self) -> bytes:
        """The report as the value of a record: a JSON object."""
        return ascii_json(self.as_json())

    def as_json(self) -> dict[str, Any]:
        return {
            "flow": self.flow,
            "copier": self.copier,
            "lease": self.lease,
            "at_ms": self.at_ms,
            "seconds": round(self.seconds, 3),
            "busy": round(self.busy, 3),
            "age_s": round(self.age_s, 3),
            "source": self.source.as_json(),
            "target": self.target.as_json(),
            "partitions": [part.as_json() for part in self.partitions],
            "events": [list(event) for event in self.events],
        }

    @classmethod
    def decode(cls, value: bytes) -> Report | None:
        """A report from a record's value, or None if the value is no report."""
        try:
            fields = dict(json.loads(value))
            parts = tuple(PartitionProgress(**part) for part in fields.pop("partitions"))
            events = tuple((str(kind), str(text)) for kind, text in fields.pop("events"))
            source, target = (ClusterReachability(**fields.pop(side, {})) for side in ("source", "target"))
            return cls(partitions=parts, events=events, source=source, target=target, **fields)
        except (ValueError, TypeError, KeyError):
            return None


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
        bytes_ = len(ascii_json(one if part is None else part.as_json())) + 1
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


def least_known(one: int, other: int) -> int:
    """The smaller of two ages; an age of -1 is unknown."""
    return min(one, other) if one >= 0 and other >= 0 else max(one, other)
