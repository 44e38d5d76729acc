"""With kept offsets the appends have every offset of the source, up to the first one that no copy can have."""

from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st
from hypothesis import given

from tests.any_log import logs, rules
from tests.source_log import SourceLog
from tests.unit.batches.batches import copied_keeping_offsets
from twinlog.kafka.producer.appends import CopyRules


@given(logs(), rules, st.data())
def test_every_offset_up_to_the_first_hole(log: SourceLog, how: CopyRules, data: st.DataObject) -> None:
    plain = {record.offset: record for record in log.outside_transactions()}
    if not plain:
        return
    begin = data.draw(st.sampled_from(sorted(plain)))
    hole = begin
    while hole in plain:
        hole += 1
    records, end, why = copied_keeping_offsets(log, begin, replace(how, keep_offsets=True))
    assert end == max([begin, *(past for past in log.ends if past <= hole)])
    assert records == [plain[offset] for offset in range(begin, end)]
    # A hole at the end of the log shows with the next batch.
    assert bool(why) == (end < log.ends[-1])
