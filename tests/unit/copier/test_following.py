"""What is found after a stored position after a crash, and what of it goes into the exact map."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from tests.source_log import New, SourceLog
from twinlog.batches.prepare import prepare
from twinlog.copier.start.copy_matching import CopyMatcher
from twinlog.copier.start.first_look import LogBounds
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.producer.appends import Append, CopyRules
from twinlog.kafka.record.batch import scan
from twinlog.lease.messages import Grant
from twinlog.mirror.offsets.exact_map import CopiedRun, ExactMap, Translated
from twinlog.mirror.offsets.positions import Position, Writer
from twinlog.mirror.offsets.segments import SegmentWriter
from twinlog.model.types import TopicName, TopicPartition

SOURCE, REMOTE = TopicPartition(TopicName("t"), 0), TopicPartition(TopicName("north.t"), 0)
STORED = Position(100, 100)


class Expected:
    """What the source still has."""

    whole = False
    leader_epoch = 0

    def __init__(self, log: SourceLog) -> None:
        self._appends: deque[Append] = deque(prepare(log.fetch(), 0, CopyRules()).appends)

    async def next(self) -> Append | None:
        return self._appends.popleft() if self._appends else None


def log_of(*batches: tuple[int, int], producer_id: int = -1) -> SourceLog:
    """Batches of (first offset, count); the record at each offset is the same in every log."""
    log = SourceLog()
    for first, count in batches:
        log.next_offset = first
        log._numbers = first
        log.batch([New(1000 + first + number) for number in range(count)], producer_id=producer_id)
    return log


def found(loop: Loop, source: SourceLog, target: SourceLog, stored: Position = STORED) -> list[CopiedRun]:
    """The runs that are met in a target's log."""
    nobody: Any = None
    follower = CopyMatcher(
        nobody, Grant(SOURCE, REMOTE, None, 1 << 20, stored), stored, LogBounds(0, 0, 0), CopyRules(), prepare
    )
    expected: Any = Expected(source)
    follower._expected = expected

    async def follow() -> None:
        log = memoryview(target.fetch())
        for batch in scan(log):
            await follower.follow(log[batch.start : batch.end], batch)

    loop.run(follow)
    return follower.runs.take_runs()


def known_of(runs: list[CopiedRun]) -> ExactMap:
    writer = SegmentWriter.take_over(
        SOURCE, Position(150, 150), STORED, None, found=runs, complete=False, segment_points=1000
    )
    return writer._map


def test_records_are_where_they_were_found(loop: Loop) -> None:
    runs = found(loop, log_of((100, 20), (130, 30)), log_of((100, 20), (130, 30)))
    assert runs == [CopiedRun(100, 100, 20), CopiedRun(130, 130, 30)]


def test_a_copy_of_what_the_source_lost_since_is_not_passed_over(loop: Loop) -> None:
    runs = found(loop, log_of((125, 25)), log_of((100, 25), (125, 25)))
    assert [run for run in runs if run.records] == [CopiedRun(125, 125, 25)]
    known = known_of(runs)
    for offset in (100, 110, 124):
        translated = known.to_target(offset)
        assert translated is not None
        assert translated.offset <= offset
    assert known.to_target(110) != Translated(125, True)
    assert known.to_target(130) == Translated(130, True)


@pytest.mark.parametrize("producer_id", [-1, 7])
def test_what_another_producer_wrote_is_no_copy_though_it_is_the_same(loop: Loop, producer_id: int) -> None:
    """A transform routed it here. It would have counted for the source's own record, which was then never copied."""
    stored = Position(100, 100, writer=Writer(7, 0, 0))
    assert found(loop, log_of((100, 1)), log_of((100, 1), producer_id=8), stored) == []
    # MirrorMaker 2 writes without a producer id.
    assert found(loop, log_of((100, 1)), log_of((100, 1), producer_id=producer_id), stored) == [CopiedRun(100, 100, 1)]
    # Of a position of MirrorMaker 2 nobody knows who writes after it.
    assert found(loop, log_of((100, 1)), log_of((100, 1), producer_id=8)) == [CopiedRun(100, 100, 1)]
