"""The last batch of a fetch, without a look at the batches before it."""

from __future__ import annotations

import pytest

from tests.source_log import New, SourceLog
from twinlog.kafka.record.batch import HEADER_SIZE, read_last_batch


def log_of(batches: int) -> SourceLog:
    log = SourceLog(7)
    for number in range(batches):
        log.batch([New(1_000 + number, b"v")] * 3, leader_epoch=number)
    return log


@pytest.mark.parametrize("batches", [1, 2, 9])
def test_it_is_the_last_whole_batch(batches: int) -> None:
    log = log_of(batches)
    found = read_last_batch(log.fetch(), 9)
    assert found is not None
    assert (found.last_offset, found.leader_epoch) == (6 + 3 * batches, batches - 1)
    cut = read_last_batch(log.fetch()[:-1], 9)
    assert (None if cut is None else cut.leader_epoch) == (batches - 2 if batches > 1 else None)


def test_more_batches_have_no_last_batch() -> None:
    assert read_last_batch(log_of(10).fetch(), 9) is None
    assert read_last_batch(log_of(10).fetch(), 10) is not None


def test_a_fetch_without_a_whole_batch_has_none() -> None:
    assert read_last_batch(memoryview(b""), 9) is None
    assert read_last_batch(log_of(1).fetch()[:HEADER_SIZE], 9) is None
