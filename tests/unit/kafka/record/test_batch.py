"""Batches are found by their headers, and those of aborted transactions are hidden."""

from __future__ import annotations

import struct

import pytest

from tests.source_log import New, SourceLog
from twinlog.errors import CorruptBatchError
from twinlog.kafka.record.batch import AbortedFilter, check_crc, read_batch, scan, timestamp_at
from twinlog.kafka.record.records import is_abort_marker


def log_of_three() -> SourceLog:
    log = SourceLog(100)
    log.batch([New(1_000, b"a"), New(1_005, b"b")], leader_epoch=7, producer_id=4_000, transactional=True, codec="zstd")
    log.gap(10)
    log.batch([New(990)], append_time=2_000, delete_horizon=900)
    log.end_transaction(4_000, abort=False)
    return log


def test_lists_batches_with_their_header() -> None:
    log = log_of_three()
    first, second, third = scan(log.fetch())
    assert first.start == 0
    assert first.end == second.start == first.size
    assert third.end == len(log.data)
    assert (first.base_offset, first.last_offset, first.record_count) == (100, 101, 2)
    assert (first.base_timestamp, first.max_timestamp) == (1_000, 1_005)
    assert (first.producer_id, first.producer_epoch, first.base_sequence, first.leader_epoch) == (4_000, 0, 0, 7)
    assert (first.magic, first.codec, first.is_transactional) == (2, 4, True)
    assert (first.is_control, first.is_log_append_time) == (False, False)
    assert (second.base_offset, second.base_timestamp, second.max_timestamp) == (112, 900, 2_000)
    assert second.is_log_append_time
    assert third.is_control


@pytest.mark.parametrize(("offset", "at_ms"), [(99, 1_000), (101, 1_000), (102, 2_000), (112, 2_000), (200, -1)])
def test_the_timestamp_at_an_offset_is_that_of_its_batch_or_of_the_next(offset: int, at_ms: int) -> None:
    assert timestamp_at(log_of_three().fetch(), offset) == at_ms


def test_a_batch_that_is_damaged_or_cut_off_has_no_timestamp() -> None:
    data = log_of_three().fetch()
    second = scan(data)[1]
    assert timestamp_at(data[: second.end - 1], 112) == -1
    data[second.start + 16] = 9
    assert timestamp_at(data, 101) == 1_000
    assert timestamp_at(data, 112) == -1


def test_starts_at_the_given_byte() -> None:
    log = log_of_three()
    everything = scan(log.fetch())
    assert scan(log.fetch(), everything[1].start) == everything[1:]


def test_leaves_out_a_batch_that_is_cut_off_at_any_byte() -> None:
    log = log_of_three()
    log.message(1, New(5, b"value"))
    log.message(0, New(5))
    ends = [batch.end for batch in scan(log.fetch())]
    assert len(ends) == 5
    for size in range(len(log.data)):
        assert [batch.end for batch in scan(log.fetch()[:size])] == [end for end in ends if end <= size]


def test_old_messages_are_batches_of_their_own() -> None:
    log = SourceLog(5)
    log.message(0, New(1, b"zero"))
    log.message(1, New(77, b"one"), append_time=True)
    log.wrapper(1, [New(80), New(81)], "gzip")
    zero, one, wrapper = scan(log.fetch())
    assert (zero.magic, zero.base_offset, zero.last_offset, zero.record_count, zero.max_timestamp) == (0, 5, 5, 1, -1)
    assert (one.magic, one.base_timestamp, one.is_log_append_time, one.producer_id) == (1, 77, True, -1)
    assert (wrapper.record_count, wrapper.codec, wrapper.last_offset, wrapper.max_timestamp) == (-1, 1, 8, 81)


@pytest.mark.parametrize("kind", ["v0", "v1", "v2"])
def test_every_changed_bit_is_noticed(kind: str) -> None:
    log = SourceLog(40)
    if kind == "v2":
        log.batch([New(1, b"value"), New(2, b"value")])
    else:
        log.message(int(kind[1]), New(1, b"value"))
    (batch,) = scan(log.fetch())
    check_crc(log.fetch(), batch)
    covered = 21 if kind == "v2" else 16
    for at in range(covered, batch.end):
        damaged = log.fetch()
        damaged[at] ^= 0x10
        with pytest.raises(CorruptBatchError, match=r"source offsets 40 to 4[01] "):
            check_crc(damaged, batch)


def test_names_the_corrupt_batch_and_its_offsets() -> None:
    log = log_of_three()
    damaged = log.fetch()
    second = scan(damaged)[1]
    damaged[second.end - 1] ^= 1
    with pytest.raises(CorruptBatchError) as raised:
        check_crc(damaged, second)
    assert "source offsets 112 to 112" in str(raised.value)
    assert f"{second.size} bytes" in str(raised.value)
    assert not raised.value.retriable


@pytest.mark.parametrize("magic", [3, -1])
def test_refuses_a_magic_it_does_not_know(magic: int) -> None:
    log = log_of_three()
    data = log.fetch()
    struct.pack_into(">b", data, 16, magic)
    with pytest.raises(CorruptBatchError, match=f"source offset 100 has magic {magic}"):
        scan(data)


@pytest.mark.parametrize(
    ("at", "layout", "value"),
    [(8, ">i", 48), (8, ">i", -1), (22, ">B", 5), (22, ">B", 7), (57, ">i", -1)],
    ids=["short", "negative length", "codec 5", "codec 7", "negative count"],
)
def test_refuses_an_impossible_header(at: int, layout: str, value: int) -> None:
    data = log_of_three().fetch()
    struct.pack_into(layout, data, at, value)
    with pytest.raises(CorruptBatchError, match="source offset 100 has an impossible header"):
        read_batch(data, 0)


@pytest.mark.parametrize("length", [21, 0, -5])
def test_refuses_an_old_message_shorter_than_its_header(length: int) -> None:
    log = SourceLog(9)
    log.message(1, New(1, b"x" * 50))
    data = log.fetch()
    struct.pack_into(">i", data, 8, length)
    with pytest.raises(CorruptBatchError, match=f"source offset 9 claims {length} bytes"):
        scan(data)


def test_nothing_is_no_batch() -> None:
    assert scan(b"") == []
    assert read_batch(b"", 0) is None


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
