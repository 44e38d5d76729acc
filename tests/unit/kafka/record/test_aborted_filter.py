from __future__ import annotations

from tests.source_log import New, SourceLog
from twinlog.kafka.record.aborted import AbortedFilter
from twinlog.kafka.record.batch import scan
from twinlog.kafka.record.records import is_abort_marker


def hidden_offsets(log: SourceLog, aborted: list[tuple[int, int]], position: int = 0) -> list[int]:
    data = log.fetch(position)
    hidden = AbortedFilter(aborted)
    return [batch.base_offset for batch in scan(data) if hidden.hides(batch, abort_marker=is_abort_marker(data, batch))]


def interleaved() -> SourceLog:
    log = SourceLog()
    log.batch([New(1)], producer_id=1, transactional=True)  # 0: aborted at 4
    log.batch([New(1)], producer_id=2, transactional=True)  # 1: committed at 5
    log.batch([New(1)], producer_id=1)  # 2: outside the transaction
    log.batch([New(1)], producer_id=1, transactional=True)  # 3: aborted at 4
    log.end_transaction(1, abort=True)
    log.end_transaction(2, abort=False)
    log.batch([New(1)], producer_id=1, transactional=True)  # 6: committed at 7
    log.end_transaction(1, abort=False)
    log.batch([New(1)], producer_id=1, transactional=True)  # 8: aborted at 9
    log.end_transaction(1, abort=True)
    return log


def test_hides_each_transaction_up_to_its_marker() -> None:
    log = interleaved()
    assert log.aborted() == [(1, 0), (1, 8)]
    assert hidden_offsets(log, log.aborted()) == [0, 3, 8]


def test_the_list_may_come_in_any_order() -> None:
    log = interleaved()
    assert hidden_offsets(log, list(reversed(log.aborted()))) == [0, 3, 8]


def test_a_transaction_may_have_begun_before_the_fetch() -> None:
    log = interleaved()
    assert hidden_offsets(log, log.aborted(3), position=3) == [3, 8]


def test_nothing_is_hidden_without_a_list() -> None:
    assert hidden_offsets(interleaved(), []) == []
