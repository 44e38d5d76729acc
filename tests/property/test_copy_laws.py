"""Laws of `prepare`, over logs of every shape a source can have."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from tests.any_log import logs, rules
from tests.source_log import SourceLog, read_back
from twinlog.batches.prepare import prepare
from twinlog.batches.split import split_append
from twinlog.kafka.producer.appends import Append, CopyRules
from twinlog.kafka.record.compression import CODECS
from twinlog.kafka.record.records import Record
from twinlog.kafka.record.stamp import stamp


def copied(appends: Sequence[Append], limit: int) -> list[Record]:
    """What the appends hold, with source offsets; each of them is checked as the broker would (`LogValidator`)."""
    seen: list[Record] = []
    sequence = 0
    for append in appends:
        assert append.bytes == len(append.data) <= limit
        stamp(append.data, 9, 3, sequence)
        sequence += append.count
        header, inside = read_back(append.data)
        assert header.base_offset == 0
        assert header.leader_epoch == -1
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 3, sequence - append.count)
        assert header.attributes == header.compression_type
        assert header.last_offset_delta + 1 == header.records_count == append.count == len(inside) > 0
        assert [record.offset for record in inside] == list(range(append.count))
        assert header.max_timestamp == append.max_timestamp == max(record.timestamp for record in inside)
        offsets = [first + index for first, count in append.spans for index in range(count)]
        assert len(offsets) == append.count
        assert append.first_source_offset == offsets[0]
        assert append.next_source_offset > offsets[-1]
        assert all(first + count < later for (first, count), (later, _) in pairwise(append.spans))
        seen += [record._replace(offset=offset) for record, offset in zip(inside, offsets, strict=True)]
    for append, later in pairwise(appends):
        assert append.next_source_offset <= later.first_source_offset
    return seen


anything = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@anything
@given(log=logs(), rules=rules, data=st.data())
def test_copies_exactly_what_a_consumer_sees(log: SourceLog, rules: CopyRules, data: Any) -> None:
    position = data.draw(st.one_of(st.just(0), st.integers(0, log.next_offset)))
    prepared = prepare(log.fetch(position), position, rules, log.aborted(position))
    expected = log.visible(position, read_committed=rules.read_committed)
    assert copied(prepared.appends, rules.max_batch_bytes) == expected
    assert prepared.position == max([position, *log.ends[-1:]])
    assert prepared.leader_epoch == (log.leader_epochs[-1] if log.fetch(position) else -1)
    assert not prepared.oversized
    if rules.codec is not None:
        assert {append.data[22] & 7 for append in prepared.appends} <= {CODECS[rules.codec]}


@anything
@given(log=logs(), rules=rules, data=st.data())
def test_fetching_in_pieces_copies_the_same(log: SourceLog, rules: CopyRules, data: Any) -> None:
    """However the broker cuts its answers, and wherever it cuts the last batch off, the copy is the same."""
    seen: list[Record] = []
    position = 0
    for _ in range(100):
        fetched = log.fetch(position)
        if not fetched:
            break
        size = data.draw(st.integers(0, len(fetched)))
        prepared = prepare(fetched[:size], position, rules, log.aborted(position))
        seen += copied(prepared.appends, rules.max_batch_bytes)
        assert prepared.position >= position
        if prepared.position == position:
            # Not even one batch: a broker sends the first one whole.
            prepared = prepare(fetched, position, rules, log.aborted(position))
            seen += copied(prepared.appends, rules.max_batch_bytes)
        position = prepared.position
    else:
        pytest.fail("the position does not advance")
    assert seen == log.visible(read_committed=rules.read_committed)


@anything
@given(log=logs(), rules=rules, limit=st.sampled_from([9_000, 5_000]))
def test_splitting_an_append_keeps_its_records(log: SourceLog, rules: CopyRules, limit: int) -> None:
    prepared = prepare(log.fetch(), 0, rules, log.aborted())
    expected = copied(prepared.appends, rules.max_batch_bytes)
    parts: list[Append] = []
    for append in prepared.appends:
        split = split_append(append, CopyRules(max_batch_bytes=limit))
        assert split[-1].next_source_offset == append.next_source_offset
        assert {part.data[22] & 7 for part in split} == {append.data[22] & 7}
        parts += split
    assert copied(parts, limit) == expected


@anything
@given(log=logs(), rules=rules)
def test_changes_nothing_in_the_fetched_bytes(log: SourceLog, rules: CopyRules) -> None:
    fetched = log.fetch()
    prepare(fetched, 0, rules, log.aborted())
    assert fetched == log.data
