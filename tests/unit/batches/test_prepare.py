"""One case of `prepare` at a time; the laws over all of them together are in tests/property."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace

import google_crc32c
import pytest

from tests.source_log import New, SourceLog, read_back
from tests.unit.batches.batches import BIG, ONE_BY_ONE, all_records, codec_of, records_of, rows
from twinlog.batches import merge, rebatching
from twinlog.batches import prepare as preparing
from twinlog.batches.prepare import prepare
from twinlog.errors import CorruptBatchError, RecordTooLargeError
from twinlog.kafka.producer.appends import Append, CopyRules, OversizedRecord
from twinlog.kafka.record.batch import read_batch, scan
from twinlog.kafka.record.builder import MAX_RECORDS
from twinlog.kafka.record.compression import CODECS
from twinlog.kafka.record.stamp import stamp
from twinlog.model.types import SourceOffset

# Batches that go on as they are.


@pytest.mark.parametrize("codec", CODECS)
def test_a_dense_batch_is_a_part_of_the_fetch(codec: str) -> None:
    log = SourceLog(500)
    log.batch([New(3, BIG), New(2)], codec=codec, leader_epoch=6)
    fetched = log.fetch()
    prepared = prepare(fetched, 500, ONE_BY_ONE)
    (append,) = prepared.appends
    assert isinstance(append.data, memoryview)
    assert append.data.obj is fetched.obj
    assert bytes(append.data) == bytes(fetched)
    assert (append.count, append.first_source_offset, append.next_source_offset) == (2, 500, 502)
    assert (append.max_timestamp, append.spans, append.bytes) == (3, ((500, 2),), len(fetched))
    assert (prepared.position, prepared.leader_epoch) == (502, 6)


def test_a_small_batch_alone_is_not_opened() -> None:
    log = SourceLog()
    log.batch([New(1)])
    (append,) = prepare(log.fetch(), 0, CopyRules()).appends
    assert isinstance(append.data, memoryview)


@pytest.mark.parametrize("codec", [None, "none", "zstd"])
@pytest.mark.parametrize("position", [0, 40, 41, 43])
@pytest.mark.parametrize(
    "kind", ["plain", "zstd", "hole", "append time", "transaction", "marker", "damaged", "large", "cut off", "legacy"]
)
def test_a_batch_alone_is_prepared_as_in_any_fetch(
    kind: str, position: int, codec: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = SourceLog(40)
    if kind == "marker":
        log.end_transaction(7, abort=False)
    elif kind == "legacy":
        log.message(1, New(5))
    else:
        log.batch(
            [New(1, b"x" * (3_000 if kind == "large" else 10)), New(2), New(3)],
            codec="zstd" if kind == "zstd" else "none",
            deltas=(0, 2, 3) if kind == "hole" else None,
            append_time=9 if kind == "append time" else None,
            producer_id=7 if kind == "transaction" else -1,
            transactional=kind == "transaction",
        )
    rules = CopyRules(codec=codec, max_batch_bytes=2_000)

    def outcome() -> object:
        fetched = log.fetch(40)
        if kind == "damaged":
            fetched[-1] ^= 1
        try:
            return prepare(fetched[:-1] if kind == "cut off" else fetched, SourceOffset(position), rules)
        except (CorruptBatchError, RecordTooLargeError) as error:
            return str(error)

    alone = outcome()
    monkeypatch.setattr(preparing, "_prepare_alone", lambda *_: None)
    assert alone == outcome()


def test_nothing_fetched_leaves_the_position() -> None:
    prepared = prepare(memoryview(bytearray()), 77, CopyRules())
    assert (prepared.position, prepared.appends, prepared.leader_epoch) == (77, [], -1)


def test_a_batch_cut_off_is_left_for_the_next_fetch() -> None:
    log = SourceLog()
    log.batch([New(1, BIG)])
    log.batch([New(2, BIG)])
    prepared = prepare(log.fetch()[:-1], 0, CopyRules())
    assert (prepared.position, len(prepared.appends)) == (1, 1)


def test_batches_before_the_position_are_left_out() -> None:
    log = SourceLog()
    rows(log, 3)
    prepared = prepare(log.fetch(), 2, CopyRules())
    assert [append.spans for append in prepared.appends] == [((2, 1),)]


# Batches that are left out.


def test_control_and_empty_batches_move_the_position() -> None:
    log = SourceLog()
    log.batch([New(1)], producer_id=9, transactional=True)
    log.end_transaction(9, abort=False)
    log.batch([], last_delta=4, producer_id=9)
    prepared = prepare(log.fetch(), 0, CopyRules())
    assert [append.spans for append in prepared.appends] == [((0, 1),)]
    assert prepared.appends[0].next_source_offset == 1
    assert (prepared.position, prepared.control, prepared.aborted) == (7, 1, 0)


def aborted_log() -> SourceLog:
    log = SourceLog()
    log.batch([New(1, b"aborted")] * 2, producer_id=9, transactional=True)
    log.batch([New(2, b"plain")], producer_id=8)
    log.batch([New(3, b"kept")], producer_id=8, transactional=True)
    log.end_transaction(9, abort=True)
    log.end_transaction(8, abort=False)
    log.batch([New(4, b"later")], producer_id=9, transactional=True)
    log.end_transaction(9, abort=False)
    return log


@pytest.mark.parametrize("rules", [CopyRules(), ONE_BY_ONE], ids=["merging", "one by one"])
def test_aborted_records_are_left_out_under_read_committed(rules: CopyRules) -> None:
    log = aborted_log()
    prepared = prepare(log.fetch(), 0, replace(rules, read_committed=True), log.aborted())
    assert [record.value for record in all_records(prepared)] == [b"plain", b"kept", b"later"]
    assert (prepared.aborted, prepared.control, prepared.position) == (2, 3, 8)


def test_aborted_records_are_copied_under_read_uncommitted() -> None:
    log = aborted_log()
    prepared = prepare(log.fetch(), 0, CopyRules(), log.aborted())
    assert [record.value for record in all_records(prepared)] == [b"aborted", b"aborted", b"plain", b"kept", b"later"]
    assert prepared.aborted == 0


# Batches that are encoded anew.


@pytest.mark.parametrize("codec", CODECS)
def test_holes_are_closed(codec: str) -> None:
    log = SourceLog(10)
    log.batch([New(5, b"a"), New(4, b"b"), New(9, b"c")], deltas=[1, 2, 700], last_delta=800, codec=codec)
    (append,) = prepare(log.fetch(), 0, CopyRules()).appends
    assert append.spans == ((11, 2), (710, 1))
    assert (append.first_source_offset, append.next_source_offset, append.max_timestamp) == (11, 811, 9)
    assert codec_of(append) == CODECS[codec]
    assert records_of(append) == log.visible()


def test_a_fetch_into_the_middle_of_a_batch() -> None:
    log = SourceLog(10)
    log.batch([New(9, b"a"), New(5, b"b"), New(6, b"c")])
    (append,) = prepare(log.fetch(), 11, CopyRules()).appends
    assert (append.spans, append.max_timestamp) == (((11, 2),), 6)
    assert records_of(append) == log.visible(11)


def test_a_compacted_batch_may_have_nothing_left_from_the_position_on() -> None:
    log = SourceLog(10)
    log.batch([New(9)], last_delta=50)
    prepared = prepare(log.fetch(), 30, CopyRules())
    assert (prepared.appends, prepared.position) == ([], 61)


def test_append_time_becomes_each_records_time() -> None:
    log = SourceLog()
    log.batch([New(5, b"a"), New(4, b"b")], append_time=1_234)
    (append,) = prepare(log.fetch(), 0, CopyRules()).appends
    assert append.max_timestamp == 1_234
    assert [record.timestamp for record in records_of(append)] == [1_234, 1_234]
    assert append.data[22] & 0x08 == 0


@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_become_v2(magic: int) -> None:
    log = SourceLog(30)
    log.message(magic, New(5, b"a", b"k"))
    log.message(magic, New(6, None))
    log.wrapper(magic, [New(7, b"b"), New(8, b"c")], "gzip", deltas=[0, 3])
    plain, wrapped = prepare(log.fetch(), 0, CopyRules()).appends
    assert (plain.spans, codec_of(plain)) == (((30, 2),), 0)
    assert (wrapped.spans, codec_of(wrapped)) == (((32, 1), (35, 1)), 1)
    assert records_of(plain) + records_of(wrapped) == log.visible()


def test_more_records_than_one_batch_is_built_of(monkeypatch: pytest.MonkeyPatch) -> None:
    most = 500
    assert most < MAX_RECORDS
    for module in (merge, rebatching):
        monkeypatch.setattr(module, "MAX_RECORDS", most)
    log = SourceLog()
    count = most + 5
    log.batch([New(1)] * count, append_time=3)
    prepared = prepare(log.fetch(), 0, CopyRules())
    assert [append.count for append in prepared.appends] == [most, 5]
    assert [append.next_source_offset for append in prepared.appends] == [most, count]
    assert len(all_records(prepared)) == count


# Sizes.


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_above_the_limit_is_split(codec: str) -> None:
    log = SourceLog(40)
    noise = [bytes((number * 7 + place * place) % 251 for place in range(900)) for number in range(30)]
    log.batch([New(1_000 - number, value) for number, value in enumerate(noise)], codec=codec)
    limit = len(log.data) // 3
    prepared = prepare(log.fetch(), 0, CopyRules(max_batch_bytes=limit))
    assert len(prepared.appends) >= 3
    assert all(append.bytes <= limit for append in prepared.appends)
    assert [append.max_timestamp for append in prepared.appends] == [
        max(record.timestamp for record in records_of(append)) for append in prepared.appends
    ]
    assert all_records(prepared) == log.visible()
    assert prepared.position == prepared.appends[-1].next_source_offset == 70


def test_a_part_of_a_split_batch_has_the_times_of_its_own_records() -> None:
    log = SourceLog(5)
    log.batch([New(1_000, BIG), New(9_000, BIG), New(2_000, BIG)])
    prepared = prepare(log.fetch(), 5, CopyRules(max_batch_bytes=25_000))
    assert [append.max_timestamp for append in prepared.appends] == [1_000, 9_000, 2_000]
    batches = [read_batch(memoryview(append.data), 0) for append in prepared.appends]
    assert [batch and batch.max_timestamp for batch in batches] == [1_000, 9_000, 2_000]


def test_a_record_too_large_alone_stops_the_partition() -> None:
    log = SourceLog(10)
    log.batch([New(1, BIG)])
    with pytest.raises(RecordTooLargeError, match="source offset 10 needs a batch of 20") as raised:
        prepare(log.fetch(), 0, CopyRules(max_batch_bytes=10_000))
    assert (raised.value.source_offset, raised.value.limit) == (10, 10_000)
    assert raised.value.size == len(log.data)


@pytest.mark.parametrize("codec", CODECS)
def test_what_comes_before_a_record_too_large_is_copied(codec: str) -> None:
    log = SourceLog(10)
    noise = bytes((place * place + place // 7) % 251 for place in range(30_000))
    log.batch([New(1, b"a"), New(2, b"b"), New(3, noise), New(4, b"c")], codec=codec)
    rules = CopyRules(max_batch_bytes=min(12_000, len(log.data) // 2))
    if codec != "none":
        rules = replace(rules, max_batch_bytes=len(log.data) * 3 // 4)
    prepared = prepare(log.fetch(), 0, rules)
    assert [record.value for record in all_records(prepared)] == [b"a", b"b"]
    assert prepared.position == 12
    with pytest.raises(RecordTooLargeError) as raised:
        prepare(log.fetch(), prepared.position, rules)
    assert raised.value.source_offset == 12


def test_a_record_too_large_can_be_skipped_with_a_note() -> None:
    log = SourceLog(10)
    log.batch([New(1, b"a"), New(2, BIG), New(3, b"b"), New(4, BIG)])
    prepared = prepare(log.fetch(), 0, CopyRules(max_batch_bytes=10_000, oversized="skip"))
    assert [record.value for record in all_records(prepared)] == [b"a", b"b"]
    assert [append.spans for append in prepared.appends] == [((10, 1),), ((12, 1),)]
    assert [record.source_offset for record in prepared.oversized] == [11, 13]
    assert isinstance(prepared.oversized[0], OversizedRecord)
    assert prepared.oversized[0].size > 20_000
    assert prepared.position == 14


# Another codec.


@pytest.mark.parametrize("source", CODECS)
@pytest.mark.parametrize("target", CODECS)
def test_the_codec_can_be_changed_without_touching_records(source: str, target: str) -> None:
    log = SourceLog(10)
    log.batch([New(1, BIG), New(2, b"b")], codec=source)
    (append,) = prepare(log.fetch(), 0, replace(ONE_BY_ONE, codec=target)).appends
    assert codec_of(append) == CODECS[target]
    batch = read_batch(memoryview(append.data), 0)
    assert batch is not None
    assert (batch.base_timestamp, batch.max_timestamp, batch.record_count) == (1, 2, 2)
    assert records_of(append) == log.visible()


def test_the_level_is_used() -> None:
    log = SourceLog()
    log.batch([New(1, b"%d" % (number * number)) for number in range(5_000)])
    sizes = [prepare(log.fetch(), 0, CopyRules(codec="gzip", codec_level=level)).appends[0].bytes for level in (1, 9)]
    assert sizes[0] > sizes[1]


def test_what_grows_above_the_limit_is_split() -> None:
    log = SourceLog()
    log.batch([New(1, b"x" * 1_000)] * 50, codec="zstd")
    prepared = prepare(log.fetch(), 0, CopyRules(codec="none", max_batch_bytes=8_000))
    assert all(append.bytes <= 8_000 for append in prepared.appends)
    assert all_records(prepared) == log.visible()


# Damage.


def damage(log: SourceLog, number: int) -> memoryview:
    """The log with one bit changed in the last byte of a batch."""
    fetched = log.fetch()
    fetched[scan(fetched)[number].end - 1] ^= 1
    return fetched


@pytest.mark.parametrize("rules", [CopyRules(), ONE_BY_ONE], ids=["merging", "one by one"])
def test_what_comes_before_a_corrupt_batch_is_copied(rules: CopyRules) -> None:
    log = SourceLog()
    rows(log, 5)
    fetched = damage(log, 3)
    prepared = prepare(fetched, 0, rules)
    assert all_records(prepared) == log.visible()[:3]
    assert prepared.position == 3
    with pytest.raises(CorruptBatchError, match="source offsets 3 to 3 "):
        prepare(damage(log, 3), 3, rules)


@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
@pytest.mark.parametrize("rules", [CopyRules(), ONE_BY_ONE], ids=["merging", "one by one"])
@pytest.mark.parametrize(("offset", "named"), [(1, "1 to 1 "), (1 << 56 | 2, "3 to 3 ")], ids=["back", "far ahead"])
def test_nothing_is_copied_where_offsets_do_not_rise(rules: CopyRules, offset: int, named: str, *, large: bool) -> None:
    """The checksum of a batch does not cover its offset, so that the one before it may be the wrong one as well."""
    log = SourceLog()
    for number in range(6):
        log.batch([New(number, b"v" * (20_000 if large else 20))])
    fetched = log.fetch()
    at = scan(fetched)[2].start
    fetched[at : at + 8] = offset.to_bytes(8, "big")
    with pytest.raises(CorruptBatchError, match=f"source offsets {named}.*the batch before it ends at source offset"):
        prepare(fetched, 0, rules)


def opened(log: SourceLog, kind: str) -> None:
    if kind == "holes":
        log.batch([New(1, b"value")] * 2, deltas=[0, 5])
    elif kind == "old":
        log.message(1, New(1, b"value"))
    elif kind == "another codec":
        log.batch([New(1, BIG)])
    else:
        rows(log, 2)


@pytest.mark.parametrize("kind", ["holes", "old", "another codec", "small"])
def test_a_batch_that_is_opened_is_checked_in_any_case(kind: str) -> None:
    log = SourceLog(20)
    opened(log, kind)
    rules = CopyRules(check_crcs=False, codec="gzip" if kind == "another codec" else None)
    with pytest.raises(CorruptBatchError, match=r"source offsets? 20 "):
        prepare(damage(log, 0), 0, rules)


def test_unchecked_a_corrupt_batch_goes_on_with_its_wrong_checksum() -> None:
    log = SourceLog()
    log.batch([New(1, BIG)])
    (append,) = prepare(damage(log, 0), 0, CopyRules(check_crcs=False)).appends
    stamp(append.data, 1, 0, 0)
    with pytest.raises(AssertionError):
        read_back(append.data)


def nonsense(log: SourceLog, count: int) -> memoryview:
    """The log's last batch claims `count` records too many or too few, under a right checksum."""
    fetched = log.fetch()
    at = scan(fetched)[-1].start
    for place in (23, 57):
        (old,) = struct.unpack_from(">i", fetched, at + place)
        struct.pack_into(">i", fetched, at + place, old + count)
    struct.pack_into(">I", fetched, at + 17, google_crc32c.value(bytes(fetched[at + 21 :])))
    return fetched


@pytest.mark.parametrize("count", [1, -1])
@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_records_that_make_no_sense_are_refused_and_those_before_copied(count: int, codec: str) -> None:
    log = SourceLog()
    rows(log, 3, each=2, codec=codec)
    prepared = prepare(nonsense(log, count), 0, CopyRules())
    assert all_records(prepared) == log.visible()[:4]
    assert prepared.position == 4
    second = SourceLog(4)
    rows(second, 1, each=3, codec=codec)
    with pytest.raises(CorruptBatchError, match="source offsets 4 to"):
        prepare(nonsense(second, count), 5, CopyRules())


def spans_of(appends: Sequence[Append]) -> list[tuple[int, int]]:
    return [span for append in appends for span in append.spans]


def test_everything_in_one_stream() -> None:
    log = SourceLog(1_000)
    log.message(0, New(1, b"oldest"))
    log.wrapper(1, [New(2, b"old"), New(3, b"old")], "snappy")
    rows(log, 3)
    log.batch([New(4, BIG)], codec="lz4")
    log.batch([New(5), New(6)], producer_id=3, transactional=True)
    log.end_transaction(3, abort=True)
    log.batch([New(7)], append_time=70)
    log.gap(100)
    log.batch([New(8), New(9)], deltas=[0, 9])
    log.batch([New(10, BIG), New(11, BIG), New(12, BIG)])
    rules = CopyRules(read_committed=True, max_batch_bytes=50_000)
    prepared = prepare(log.fetch(), 1_000, rules, log.aborted())
    assert all_records(prepared) == log.visible(read_committed=True)
    assert spans_of(prepared.appends) == [
        *[(1_000, 1), (1_001, 2), (1_003, 3), (1_006, 1)],
        *[(1_010, 1), (1_111, 1), (1_120, 1), (1_121, 2), (1_123, 1)],
    ]
    assert (prepared.aborted, prepared.control, prepared.position) == (2, 1, 1_124)
