"""Neighbours of a backlog that are joined: which batches, up to which size, and where a row ends."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

from tests.source_log import New, SourceLog
from tests.unit.batches.batches import all_records, codec_of
from twinlog.batches import large_batches
from twinlog.batches.large_batches import _find_at_once, _find_in_turn
from twinlog.batches.prepare import prepare
from twinlog.errors import CorruptBatchError
from twinlog.kafka.producer.appends import JOIN_RECORDS, CopyRules, PreparedFetch
from twinlog.kafka.record.batch import Batch
from twinlog.kafka.record.builder import BatchBuilder
from twinlog.kafka.record.varint import encode_varint

VALUE = b"v" * 1_000
RULES = CopyRules(max_batch_bytes=1_048_588).joining()


def log_of(batches: int, records: int = 20, value: bytes = VALUE, *, first: int = 7) -> SourceLog:
    """Each record has a time of its own, in ms."""
    log = SourceLog(first)
    for number in range(batches):
        log.batch([New(1_000 + number * records + index, value, b"key") for index in range(records)], leader_epoch=3)
    return log


def counts(prepared: PreparedFetch) -> list[int]:
    return [append.count for append in prepared.appends]


def test_neighbours_become_batches_of_a_megabyte() -> None:
    log = log_of(80)
    prepared = prepare(log.fetch(), 7, RULES)
    assert counts(prepared) == [1_020, 580]
    assert all(append.bytes <= RULES.join_batch_bytes for append in prepared.appends)
    assert [append.spans for append in prepared.appends] == [((7, 1_020),), ((1_027, 580),)]
    assert prepared.roads == {"merged": 2}
    assert (prepared.position, prepared.leader_epoch) == (1_607, 3)
    assert all_records(prepared) == log.visible()


@pytest.mark.parametrize("records", [JOIN_RECORDS, JOIN_RECORDS + 1])
def test_batches_of_many_records_stay_as_they_are(records: int) -> None:
    log = log_of(4, records, bytes(400))
    joined = records <= JOIN_RECORDS
    assert counts(prepare(log.fetch(), 7, RULES)) == ([4 * records] if joined else [records] * 4)
    assert counts(prepare(log.fetch(), 7, CopyRules())) == [records] * 4, "without a backlog"


def test_joined_records_are_written_into_their_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second copy of a megabyte would cost as much as the first."""
    written: list[bytearray] = []
    add = BatchBuilder.add_records

    def add_records(builder: BatchBuilder, batch: bytearray, *rest: Any) -> None:
        written.append(batch)
        add(builder, batch, *rest)

    monkeypatch.setattr(BatchBuilder, "add_records", add_records)
    log = log_of(80)
    prepared = prepare(log.fetch(), 7, RULES)
    assert [id(append.data) for append in prepared.appends] == [id(batch) for batch in written]
    assert all_records(prepared) == log.visible()


def test_a_batch_of_two_rows_has_the_records_of_both() -> None:
    """Of two rows, each is written by itself."""
    log = log_of(3)
    log.batch([New(9_000, VALUE, b"key")] * 3, leader_epoch=4)
    log.batch([New(9_001, VALUE, b"key")] * 60, leader_epoch=4)
    log.batch([New(9_002, VALUE, b"key")] * 60, leader_epoch=4)
    prepared = prepare(log.fetch(), 7, RULES)
    assert counts(prepared) == [183]
    assert all_records(prepared) == log.visible()


def test_a_batch_that_is_alone_stays_as_it_is() -> None:
    prepared = prepare(log_of(1).fetch(), 7, RULES)
    assert prepared.roads == {"as it is": 1}


def test_few_bytes_are_merged_by_the_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of a few hundred bytes cost more than their records."""

    def join(*_: object, **_options: object) -> None:
        raise AssertionError("arrays are made of few bytes")

    monkeypatch.setattr(large_batches, "join_large", join)
    assert counts(prepare(log_of(6, 1).fetch(), 7, RULES)) == [6]


@pytest.mark.parametrize("size", [100, 127, 128, 5_000, 8_191, 9_000, 70_000])
def test_records_of_any_length_keep_their_bytes(size: int) -> None:
    log = log_of(5, 3, bytes(range(256)) * (size // 256) + bytes(size % 256))
    prepared = prepare(log.fetch(), 7, CopyRules(max_batch_bytes=4 << 20).merging_all())
    assert counts(prepared) == [15]
    assert all_records(prepared) == log.visible()


def test_gaps_between_batches_are_kept_in_the_spans() -> None:
    log = log_of(2)
    log.gap(5)
    log.batch([New(9, VALUE)] * 20, leader_epoch=3)
    (append,) = prepare(log.fetch(), 7, RULES).appends
    assert append.spans == ((7, 40), (52, 20))


@pytest.mark.parametrize(
    ("kind", "first"), [("epoch", 60), ("time", 80), ("codec", 60), ("holes", 80), ("transaction", 60)]
)
def test_an_unusual_batch_ends_a_row(kind: str, first: int) -> None:
    """The loops add a batch that they build again anyway to the same batch."""
    log = log_of(3)
    log.batch(
        [New(9, VALUE)] * 20,
        leader_epoch=4 if kind == "epoch" else 3,
        append_time=77 if kind == "time" else None,
        codec="gzip" if kind == "codec" else "none",
        deltas=range(0, 40, 2) if kind == "holes" else None,
        producer_id=5 if kind == "transaction" else -1,
        transactional=kind == "transaction",
    )
    rules = CopyRules(max_batch_bytes=1_048_588, read_committed=True).joining()
    if kind == "transaction":
        log.end_transaction(5, abort=True)
    prepared = prepare(log.fetch(), 7, rules, log.aborted())
    assert counts(prepared)[0] == first
    assert all_records(prepared) == log.visible(read_committed=True)


def test_damage_ends_a_row_right_before_it() -> None:
    log = log_of(6)
    fetched = log.fetch()
    fetched[log.starts[4] + 500] ^= 1
    prepared = prepare(fetched, 7, RULES)
    assert (counts(prepared), prepared.position) == ([80], 87)
    with pytest.raises(CorruptBatchError, match="source offsets 87 to 106"):
        prepare(fetched[log.starts[4] :], 87, RULES)


def test_times_that_are_far_apart_are_joined_by_the_loops_or_not_at_all() -> None:
    log = SourceLog(7)
    for at in (0, 1 << 40, 5):
        log.batch([New(at, VALUE)] * 20, leader_epoch=3)
    prepared = prepare(log.fetch(), 7, RULES)
    assert all_records(prepared) == log.visible()


@pytest.mark.parametrize("size", [1_048_564, 1_048_565, 1_048_567, 1_048_568])
def test_records_of_a_megabyte_keep_their_times(size: int) -> None:
    """In another batch the length of such a record may need a byte more, beside a time that needs four bytes."""
    log = SourceLog(7)
    for number in range(3):
        log.batch([New(3_600_000 * number, bytes(size))], leader_epoch=3)
    prepared = prepare(log.fetch(), 7, CopyRules(max_batch_bytes=8 << 20).merging_all())
    assert all_records(prepared) == log.visible()


@pytest.mark.parametrize("first", ["gzip", "none"])
def test_neighbours_of_another_codec_stay_apart(first: str) -> None:
    log = SourceLog(7)
    for codec in ("gzip", "none") if first == "gzip" else ("none", "gzip"):
        for _ in range(3):
            log.batch([New(9, VALUE)] * 3, codec=codec, leader_epoch=3)
    found = [(codec_of(append), append.count) for append in prepare(log.fetch(), 7, RULES).appends]
    assert found == ([(1, 9), (0, 9)] if first == "gzip" else [(0, 9), (1, 9)])


def test_where_joining_is_in_vain_batches_become_as_many_as_without_it() -> None:
    """Times that lie years apart within a batch of small records."""
    log = SourceLog(7)
    for _ in range(40):
        log.batch([New(at, b"v" * 20) for at in (0, 2 * 86_400_000 << 10)], leader_epoch=3)
    joining, without = prepare(log.fetch(), 7, RULES), prepare(log.fetch(), 7, CopyRules(max_batch_bytes=1_048_588))
    assert counts(joining) == counts(without) == [80]
    assert all_records(joining) == log.visible()


@pytest.mark.parametrize("size", [1, 40_000, 100_000])
def test_a_smaller_batch_size_of_the_user_counts(size: int) -> None:
    log = log_of(8)
    prepared = prepare(log.fetch(), 7, CopyRules(max_batch_bytes=1_048_588, merge_batch_bytes=size).joining())
    assert counts(prepared) == ([80, 80] if size == 100_000 else [20] * 8)


def test_records_of_many_batches_are_found_at_once_as_they_are_in_turn() -> None:
    """Lengths of one, two and three bytes, batches of different counts, and batches whose lengths are wrong."""
    draw = random.Random(20261130)
    met = Counter[bool]()
    for _ in range(200):
        window, begins, ends, counts = bytearray(), [], [], []
        for _ in range(draw.randrange(1, 60)):
            begins.append(len(window))
            counts.append(draw.randrange(1, 9))
            for _ in range(counts[-1]):
                size = draw.choice((draw.randrange(8, 63), draw.randrange(64, 8_191), draw.randrange(8_192, 20_000)))
                window += encode_varint(size) + bytes(size)
            ends.append(len(window) + draw.choice((0,) * 60 + (1, -1)))
        if draw.random() < 0.2:
            window[draw.choice(begins)] ^= draw.randrange(1, 256)
        if draw.random() < 0.1:
            at = draw.choice(begins)
            window[at : at + 3] = b"\xff\xff\xff"
        columns = [np.array(column) for column in (begins, ends, counts)]
        in_turn: list[int] = []
        usual = 0
        for begin, end, count in zip(begins, ends, counts, strict=True):
            before = len(in_turn)
            if not _find_in_turn(window, begin, end, count, in_turn):
                del in_turn[before:]
                break
            usual += 1
        at_once = _find_at_once(memoryview(window), *columns)
        met[at_once is None] += 1
        if at_once is not None:
            places, found = at_once
            assert (places.tolist(), found) == (in_turn, usual)
    assert met[False] > 150
    assert met[True] > 0


def test_the_rest_of_a_row_begins_a_batch_when_the_last_batch_is_full() -> None:
    """A single reading serves both the batch in the making and the next batch."""
    log = log_of(40, 64)
    prepared = prepare(log.fetch(), 7, RULES)
    assert all_records(prepared) == log.visible()
    read = []
    neighbours = large_batches._neighbours

    def noting(records: memoryview, first: Batch, **limits: Any) -> list[Batch]:
        read.append(first.start)
        return neighbours(records, first, **limits)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_batches, "_neighbours", noting)
        prepare(log_of(200, 64).fetch(), 7, RULES)
    assert len(read) == len(set(read))
