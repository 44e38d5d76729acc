"""Runs of records that were copied in step, from a copier's acknowledged appends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from twinlog.mirror.offsets.exact_map import CopiedRun
from twinlog.model.types import SourceOffset, TargetOffset


class CopiedRuns:
    """Runs of one partition since they were last taken; appends that continue a run cost next to nothing."""

    __slots__ = ("_count", "_next_source", "_next_target", "_runs", "_source", "_target")

    def __init__(self) -> None:
        self._runs: list[CopiedRun] = []
        self._source, self._target, self._count = SourceOffset(0), TargetOffset(0), 0
        self._next_source = self._next_target = -1

    def add(self, spans: Iterable[tuple[SourceOffset, int]], base_offset: TargetOffset) -> None:
        """An append arrived: (first source offset, count) of its runs, its first record at target `base_offset`.

        Records without a source offset (-1), as a transform adds them, are like those of somebody else.
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
        """These runs, which follow each other, were found to have arrived."""
        for run in runs:
            if run.records:
                self.add(((run.source, run.records),), run.target)
            else:
                self.add_jump(run.source, run.target)

    def add_jump(self, next_source: SourceOffset, next_target: TargetOffset) -> None:
        """Copying continues here; what arrived in between was not noted. That is a run of no records."""
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
    """Runs as if those without a hole on the target between them were one append: its spans and its base offset."""
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
