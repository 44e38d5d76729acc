"""The plan of a comparison of a partition, and its result. Travels between the driver and tasks: plain values only."""

from __future__ import annotations

import uuid
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from twinlog.model.types import TopicPartition
from twinlog.settings.client import ConsumerSettings

Side = Literal["source", "target"]

Kind = Literal["exact", "by content", "not copied", "foreign", "copied from"]
"""How a section is compared.

`exact`: by offsets, which grow in step. `by content`: only the records show the original of a copy. `copied from`: by
content, and the first common record has still to be found. `not copied` are source offsets that lack copies by the
exact map, `foreign` are target offsets of other records.
"""


@dataclass(frozen=True, slots=True)
class Section:
    """Source offsets from `source` to below `source_end`, whose copies lie from `target` to below `target_end`.

    With `open_end` the target may have copies of later records, too, which are on the source below `source_past`. The
    logs of the `retained` sides begin here, after the records deleted by retention.
    """

    kind: Kind
    source: int
    source_end: int
    target: int
    target_end: int
    open_end: bool = False
    retained: tuple[Side, ...] = ()
    source_past: int = -1


@dataclass(frozen=True, slots=True)
class UncomparedRange:
    """Uncompared offsets of a side, and the reason."""

    side: Side
    start: int
    end: int
    reason: str


@dataclass(frozen=True, slots=True)
class ComparedRange:
    """Offsets of both sides, from each start to below each end, that hold the same records in the same order.

    A side has exactly these records in its range. `digest` is the SHA-256 of the records; if `timestamps` is false, it
    leaves out their timestamps, which may differ.
    """

    source_start: int
    source_end: int
    target_start: int
    target_end: int
    records: int
    timestamps: bool
    digest: str

    def span(self, side: Side) -> tuple[int, int]:
        """The offsets of a side."""
        return (self.source_start, self.source_end) if side == "source" else (self.target_start, self.target_end)


@dataclass(frozen=True, slots=True)
class PartitionToVerify:
    """A partition of a flow, in sections in the order of their offsets.

    `left` are ranges that are known in advance to be incomparable.

    `syncs` are pairs of offsets of the same record. A compacted side may lack records of the other side. A partition
    with a `problem` has an empty tuple of sections.
    """

    flow: str
    source: TopicPartition
    remote: TopicPartition
    sections: tuple[Section, ...] = ()
    left: tuple[UncomparedRange, ...] = ()
    syncs: tuple[tuple[int, int], ...] = ()
    source_id: uuid.UUID | None = None
    target_id: uuid.UUID | None = None
    source_compacted: bool = False
    target_compacted: bool = False
    problem: str | None = None

    @property
    def compacted(self) -> bool:
        """Whether either side may lack records of the other side."""
        return self.source_compacted or self.target_compacted

    @property
    def offsets(self) -> int:
        """How many offsets of both sides it has; a measure of the work."""
        return sum(one.source_end - one.source + one.target_end - one.target for one in self.sections)


@dataclass(frozen=True, slots=True)
class VerifyRules:
    """How tasks read the clusters of a flow, and which differences count.

    `every_record` decodes all records, so that digests are independent of batches. With `ignore_foreign`, foreign
    records in a remote topic are counted, but ignored as differences. A task gives a partition up when it
    stalls for `patience_s`. With `range_records` above 0 a row has the ranges of equal records, each with that many
    records or more, and all records are decoded, too.
    """

    source: ConsumerSettings
    target: ConsumerSettings
    source_alias: str
    target_alias: str
    every_record: bool = False
    ignore_foreign: bool = False
    patience_s: float = 120.0
    range_records: int = 0

    @property
    def decodes_all(self) -> bool:
        """Whether also batches with equal bytes are decoded."""
        return self.every_record or self.range_records > 0


@dataclass(frozen=True, slots=True)
class RecordDifference:
    """The first difference: `what` names fields of a record, or missing, doubled, extra, order or damaged.

    Both offsets are the actual or the expected places of the record.
    """

    what: str
    source_offset: int
    target_offset: int
    text: str = ""


@dataclass(slots=True)
class Verdict:
    """A row: the compared ranges of offsets of a partition on both sides, and their differences.

    `records` counts the equal records of both sides; `bytes` are their stored bytes on the source. `equal` is None if
    all offsets are uncompared. `differences` counts records that are changed, missing or too many. `ranges` have the
    equal records, for a statement.
    """

    flow: str
    topic: str
    remote_topic: str
    partition: int
    source_start: int = -1
    source_end: int = -1
    target_start: int = -1
    target_end: int = -1
    records: int = 0
    bytes: int = 0
    source_digest: str = ""
    target_digest: str = ""
    equal: bool | None = None
    differences: int = 0
    foreign: int = 0
    first: RecordDifference | None = None
    left: list[UncomparedRange] = field(default_factory=list)
    problem: str | None = None
    span: tuple[float, float] | None = None
    """From when to when it was compared, in seconds since 1970."""
    ranges: list[ComparedRange] = field(default_factory=list)

    @classmethod
    def of(cls, part: PartitionToVerify) -> Verdict:
        """Return a row about a partition before its comparison."""
        return cls(
            part.flow, part.source.topic, part.remote.topic, part.source.partition, left=list(part.left),
            problem=part.problem,
        )  # fmt: skip

    def without_sections(self) -> Verdict:
        """Return the row of a partition with an empty comparison: equal if the source is empty, else unknown."""
        unknown = self.problem is not None or any(one.side == "source" for one in self.left)
        self.equal = None if unknown else True
        return self

    def add_uncompared(self, side: Side, start: int, end: int, reason: str) -> None:
        """Note uncompared offsets."""
        if end <= start:
            return
        for place, one in enumerate(self.left):
            if (one.side, one.end, one.reason) == (side, start, reason):
                self.left[place] = replace(one, end=end)
                return
        if len(self.left) < MOST_LEFT:
            self.left.append(UncomparedRange(side, start, end, reason))
            return
        # Readers of a report want the whole range; each hole of a compacted log would be too much.
        for place in range(len(self.left) - 1, -1, -1):
            one = self.left[place]
            if one.side == side and one.reason == reason:
                self.left[place] = replace(one, start=min(one.start, start), end=max(one.end, end))
                return
        self.left.append(UncomparedRange(side, start, end, reason))

    def as_json(self) -> dict[str, Any]:
        """The row as a JSON object; ranges end after their last offset."""
        return {
            "flow": self.flow,
            "topic": self.topic,
            "remote_topic": self.remote_topic,
            "partition": self.partition,
            "source_start": self.source_start,
            "source_end": self.source_end,
            "target_start": self.target_start,
            "target_end": self.target_end,
            "records": self.records,
            "bytes": self.bytes,
            "source_digest": self.source_digest,
            "target_digest": self.target_digest,
            "equal": self.equal,
            "differences": self.differences,
            "foreign": self.foreign,
            "first_difference": None if self.first is None else asdict(self.first),
            "not_compared": [asdict(one) for one in self.left],
            "problem": self.problem,
            "id": self.message_id,
        }

    @property
    def message_id(self) -> str | None:
        """The id of the first message about the partition; None if its records are equal where they were compared."""
        if self.first is not None:
            return "TW-VERIFY-01"
        return None if self.problem is None else "TW-VERIFY-03"


MOST_LEFT = 100
"""The number of uncompared ranges that are listed of a partition; further ranges are joined."""
