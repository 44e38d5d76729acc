"""Appends that a target took at too small an offset, because it had lost acknowledged records before them."""

from __future__ import annotations

from dataclasses import dataclass, field

from twinlog.kafka.producer.appends import Append
from twinlog.mirror.offsets.runs import CopiedRuns
from twinlog.model.types import SourceOffset, TargetOffset


@dataclass(slots=True)
class Misplaced:
    """Appends at offsets before the acknowledged ones: the remote log had become shorter.

    `end` is where the log ended before them, `next_source` the source offset after them, `runs` where they are.
    """

    end: TargetOffset
    next_source: SourceOffset
    runs: CopiedRuns = field(default_factory=CopiedRuns)

    def reach(self, end: TargetOffset) -> None:
        """The log may have ended at `end` already."""
        self.end = min(self.end, end)

    def add(self, append: Append, base_offset: TargetOffset) -> None:
        """Add an append."""
        self.next_source = append.next_source_offset
        self.runs.add(append.spans, base_offset)
