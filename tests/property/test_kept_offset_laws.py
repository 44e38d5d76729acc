"""With kept offsets the appends have every offset of the source, and the records that each consumer sees."""

from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st
from hypothesis import given

from tests.any_log import logs, rules
from tests.source_log import SourceLog
from tests.unit.batches.batches import copied_keeping_offsets
from twinlog.kafka.producer.appends import CopyRules


@given(logs(), rules, st.data())
def test_every_offset_has_its_record_or_a_marker(log: SourceLog, how: CopyRules, data: st.DataObject) -> None:
    everything = log.visible()
    if not everything:
        return
    begin = data.draw(st.sampled_from([record.offset for record in everything]))
    found = copied_keeping_offsets(log, begin, replace(how, keep_offsets=True, read_committed=True))
    assert (found.end, found.why) == (log.ends[-1], "")
    assert found.records == log.visible(begin, read_committed=True)
    seen = sorted([*found.records, *(record for _, record in found.aborted)], key=lambda record: record.offset)
    assert seen == log.visible(begin)
    ends = {(end.producer_id, end.first_offset): end.marker for end in log.transactions if end.aborted}
    assert found.aborts == [
        (transaction, ends[transaction]) for transaction, _ in found.aborts if ends[transaction] >= begin
    ]
    # A transaction whose records come before the begin has its marker only.
    assert {transaction for transaction, _ in found.aborted} <= {transaction for transaction, _ in found.aborts}
    records = {record.offset for record in seen}
    assert {*found.markers, *(marker for _, marker in found.aborts)} == set(range(begin, found.end)) - records
