"""Runs of records that were copied in step, from a copier's acknowledged appends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from twinlog.mirror.offsets.exact_map import CopiedRun
from twinlog.model.types import SourceOffset, TargetOffset


class CopiedRuns:
    """The runs of a partition since they were last taken; an append that continues a run costs little."""

    __slots__ = ("_count", "_next_source", "_next_target", "_runs", "_source", "_target")

    def __init__(self) -> None:
        self._runs: list[CopiedRun] = []
        self._source, self._target, self._count = SourceOffset(0), TargetOffset(0), 0
        self._next_source = self._next_target = -1

    def add(self, spans: Iterable[tuple[SourceOffset, int]], base_offset: TargetOffset) -> None:
        """Add an append: (first source offset, count) of its runs, its first record at target offset `base_offset`.

        Records that a transform adds (source offset -1) count as records of a foreign producer.
        """
        for source, count in spans:
            if source < 0:
                base_offset = TargetOffset(base_offset + count)
                continue
            if source == self._next_source and base_offset == self._next_target:
                self._count += count
            else:
                if self._count:
                    self._runs.append(CopiedRun(self._source, self._target, self._count))
                self._source, self._target, self._count = source, base_offset, count
            self._next_source = source + count
            self._next_target = base_offset = TargetOffset(base_offset + count)

    def add_runs(self, runs: Iterable[CopiedRun]) -> None:
        """Add consecutive runs that were found on the target."""
        for run in runs:
            if run.records:
                self.add(((run.source, run.records),), run.target)
            else:
                self.add_jump(run.source, run.target)

    def add_jump(self, next_source: SourceOffset, next_target: TargetOffset) -> None:
        """Continue at these offsets; the copies in between are unknown. The jump is a run of 0 records."""
        self._flush()
        self._runs.append(CopiedRun(next_source, next_target, 0))

    def take_runs(self) -> list[CopiedRun]:
        """The runs since the last call, in the order of copying."""
        self._flush()
        runs, self._runs = self._runs, []
        return runs

    def _flush(self) -> None:
        if self._count:
            self._runs.append(CopiedRun(self._source, self._target, self._count))
            self._count = 0
            self._next_source = -1


def joined(runs: Iterable[CopiedRun]) -> Iterator[tuple[list[tuple[SourceOffset, int]], TargetOffset]]:
    """Join runs that are adjacent on the target; yields spans and base offset as of an append."""
    spans: list[tuple[SourceOffset, int]] = []
    base = end = TargetOffset(-1)
    for run in runs:
        if spans and (run.target != end or not run.records):
            yield spans, base
            spans = []
        if run.records:
            if not spans:
                base = run.target
            spans.append((run.source, run.records))
            end = TargetOffset(run.target + run.records)
    if spans:
        yield spans, base
