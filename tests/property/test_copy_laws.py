"""Laws of `prepare`, over logs of every shape a source can have."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from tests.source_log import New, SourceLog, read_back
from twinlog.read.codecs import CODECS
from twinlog.read.records import Record
from twinlog.write.appends import Append, CopyRules
from twinlog.write.prepare import prepare
from twinlog.write.split import split_append
from twinlog.write.stamp import stamp

PRODUCERS = (4_000, 4_001)
NOW = 1_700_000_000_000

times = st.one_of(
    st.integers(NOW, NOW + 50),
    st.integers(NOW - 10**6, NOW + 10**6),
    st.integers(-1, 2**45),
)
names = st.text(max_size=5)
blobs = st.one_of(st.none(), st.binary(max_size=40))
values = st.one_of(
    blobs,
    # Around the sizes where a length takes one byte more, and one that fills a small batch quickly.
    st.builds(
        lambda seed, size: seed * size, st.binary(min_size=1, max_size=3), st.sampled_from([30, 58, 64, 90, 1_100])
    ),
)
records = st.builds(New, times, values, blobs, st.lists(st.tuples(names, blobs), max_size=2).map(tuple))
codecs = st.sampled_from(list(CODECS))


@st.composite
def offset_deltas(draw: st.DrawFn, count: int) -> tuple[list[int], int]:
    """What compaction leaves of a batch: rising deltas, and the batch's own last one."""
    steps = draw(st.lists(st.sampled_from([1, 1, 1, 2, 3, 70, 9_000]), min_size=count, max_size=count))
    deltas: list[int] = []
    at = draw(st.sampled_from([-1, -1, 0, 5]))
    for step in steps:
        at += step
        deltas.append(at)
    return deltas, at + draw(st.sampled_from([0, 0, 1, 100]))


@st.composite
def logs(draw: st.DrawFn) -> SourceLog:
    log = SourceLog(draw(st.sampled_from([0, 1, 77, 2**40])))
    kinds = ["single", "single", "single", "single", "row", "batch", "holes", "time", "horizon", "gap"]
    kinds += ["transaction", "transaction", "end", "empty", "v0", "v1", "wrapper"]
    for kind in draw(st.lists(st.sampled_from(kinds), max_size=14)):
        _add(draw, log, kind)
    for producer_id in PRODUCERS:
        if producer_id in log._open:
            log.end_transaction(producer_id, abort=draw(st.booleans()))
    return log


def _add(draw: st.DrawFn, log: SourceLog, kind: str) -> None:
    some = draw(st.lists(records, min_size=1, max_size=6))
    codec = draw(codecs)
    producer_id = draw(st.sampled_from(PRODUCERS))
    if kind == "single":
        log.batch(some[:1], leader_epoch=draw(st.integers(-1, 3)), producer_id=draw(st.sampled_from([-1, 7])))
    elif kind == "row":
        for _ in range(draw(st.integers(2, 5))):
            log.batch(draw(st.lists(records, min_size=1, max_size=3)), codec=codec)
    elif kind == "batch":
        log.batch(some * draw(st.sampled_from([1, 1, 15])), codec=codec)
    elif kind == "holes":
        deltas, last = draw(offset_deltas(len(some)))
        log.batch(some, codec=codec, deltas=deltas, last_delta=last)
    elif kind == "time":
        log.batch(some, codec=codec, append_time=draw(times))
    elif kind == "horizon":
        log.batch(some, codec=codec, delete_horizon=draw(times))
    elif kind == "gap":
        log.gap(draw(st.integers(1, 300)))
    elif kind == "transaction":
        deltas, last = draw(st.one_of(st.just((list(range(len(some))), len(some) - 1)), offset_deltas(len(some))))
        log.batch(some, codec=codec, producer_id=producer_id, transactional=True, deltas=deltas, last_delta=last)
    elif kind == "end":
        log.end_transaction(producer_id, abort=draw(st.booleans()), append_time=draw(st.sampled_from([None, NOW])))
    elif kind == "empty":
        log.batch([], last_delta=draw(st.integers(0, 9)), producer_id=producer_id)
    elif kind in ("v0", "v1"):
        log.message(int(kind[1]), some[0]._replace(headers=()), append_time=kind == "v1" and draw(st.booleans()))
    else:
        magic = draw(st.sampled_from([0, 1]))
        log.wrapper(
            magic,
            [record._replace(headers=()) for record in some],
            draw(st.sampled_from(["gzip", "snappy", "lz4"])),
            deltas=draw(offset_deltas(len(some)))[0],
            append_time=draw(st.sampled_from([None, NOW])) if magic else None,
        )


rules = st.builds(
    CopyRules,
    max_batch_bytes=st.sampled_from([1_048_588, 1_048_588, 9_000]),
    read_committed=st.booleans(),
    codec=st.one_of(st.none(), st.none(), codecs),
    merge_batch_bytes=st.sampled_from([524_288, 524_288, 700]),
    merge_below=st.sampled_from([16_384, 16_384, 150, 0]),
    merge_records=st.sampled_from([64, 2]),
    check_crcs=st.booleans(),
)


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
    assert prepared.position == max(position, *log._pasts, 0) if log._pasts else prepared.position == position
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
