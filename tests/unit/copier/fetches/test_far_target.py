"""Towards a far target batches are large as soon as more wait than may be on their way together."""

from __future__ import annotations

import pytest

from tests.source_log import New, SourceLog
from tests.unit.copier.partitions import NotedPartition
from twinlog.clock import SYSTEM
from twinlog.copier.partition.partition import PartitionCopy
from twinlog.kafka.protocol.fetch import FetchPosition, PartitionResponse
from twinlog.lease.messages import Grant
from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import TopicName, TopicPartition

AT = TopicPartition(TopicName("shop"), 0)
BIG = b"v" * 20_000


def copy(*, far: bool) -> PartitionCopy:
    return NotedPartition(Grant(AT, AT, None, 1 << 20, None), Position(0, 0), SYSTEM, far=far).part


def answered(part: PartitionCopy, log: SourceLog, batches: int) -> list[int]:
    """Records in each batch that waits after an answer with some of 20 KB."""
    begin = part.read.offset
    for _ in range(batches):
        log.batch([New(1, BIG)])
    records = log.fetch(begin)
    end = begin + batches
    part.add_answer(FetchPosition(begin, 0), PartitionResponse(0, 0, end, end, 0, (), records))
    return [append.count for append in part.queue.waiting()]


@pytest.mark.parametrize(("far", "waiting"), [(True, [40]), (False, [40])])
def test_a_large_answer_is_a_backlog(far: bool, waiting: list[int]) -> None:
    assert answered(copy(far=far), SourceLog(), 40) == waiting


def test_what_comes_alone_goes_on_as_it_is() -> None:
    part, log = copy(far=True), SourceLog()
    assert answered(part, log, 2) == [1, 1]
    # Now some wait, and what comes after them waits as well.
    assert answered(part, log, 5) == [1, 1, 5]
