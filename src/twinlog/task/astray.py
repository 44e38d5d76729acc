"""What a target appended too early, because it had lost what it had acknowledged and track of the producer with it."""

from __future__ import annotations

from dataclasses import dataclass, field

from twinlog.model.types import SourceOffset, TargetOffset
from twinlog.offsets.runs import CopiedRuns
from twinlog.write.appends import Append


@dataclass(slots=True)
class Astray:
    """Appends that the target took further in front than it may, as its log had become shorter.

    `end` is where its log ended before them, `next_source` the source offset behind them, `runs` where they are.
    """

    end: TargetOffset
    next_source: SourceOffset
    runs: CopiedRuns = field(default_factory=CopiedRuns)

    def reach(self, end: TargetOffset) -> None:
        """The log may have ended at `end` already."""
        self.end = min(self.end, end)

    def add(self, append: Append, base_offset: TargetOffset) -> None:
        """One more of them."""
        self.next_source = append.next_source_offset
        self.runs.add(append.spans, base_offset)
