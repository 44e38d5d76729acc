"""What the transform of a flow works on, for those who wait for it meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.model.types import SourceOffset, TopicPartition


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a transform `since` a monotonic time, with so many `rows` of a partition from an offset on."""

    since: float
    source: TopicPartition
    offset: SourceOffset
    rows: int
