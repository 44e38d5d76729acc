"""The running call of a flow's transform, for operators who wait for the transform."""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.model.types import SourceOffset, TopicPartition


@dataclass(frozen=True, slots=True)
class TransformCall:
    """A call of a transform `since` a monotonic time, with the first offset and the number of `rows` of a partition."""

    since: float
    source: TopicPartition
    offset: SourceOffset
    rows: int

    def shown(self, lasted_s: float) -> str:
        """The call, for operators, after so many seconds."""
        records = "the record" if self.rows == 1 else f"{self.rows} records from that"
        where = f"{records} at offset {self.offset}{'' if self.rows == 1 else ' on'}"
        return f"{self.source}: the transform has worked for {lasted_s:.0f} s on {where}"


@dataclass(frozen=True, slots=True)
class TransformImport:
    """The import of the transform called `name`, since a monotonic time."""

    since: float
    name: str

    def shown(self, lasted_s: float) -> str:
        """The import, for operators, after so many seconds."""
        return f"the transform {self.name} has been imported for {lasted_s:.0f} s"
