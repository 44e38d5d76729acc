"""Laws of rows: whatever a log holds and wherever a fetch is cut, Arrow has what the decoder of single records has."""

from __future__ import annotations

import random
import re
import struct
from typing import Any

import google_crc32c
import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, assume, given, settings

from tests.any_log import NOW, logs, records
from tests.source_log import New, SourceLog
from twinlog.batches.arrow.decode import RowRules, decode
from twinlog.errors import CorruptBatchError
from twinlog.kafka.record.batch import scan
from twinlog.kafka.record.compression import CODECS
from twinlog.kafka.record.records import Record, decode_records
from twinlog.model.types import TopicName, TopicPartition

WHERE = TopicPartition(TopicName("päge"), 7)
END = 2**62

anything = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def rows(found: Any) -> list[Record]:
    """What Arrow has, as records; each Arrow record batch is valid, and the same in every other column."""
    seen = []
    for batch in found.batches:
        batch.validate(full=True)
        assert batch.num_rows
        assert set(batch.column("topic").to_pylist()) == {WHERE.topic}
        assert set(batch.column("partition").to_pylist()) == {WHERE.partition}
        plain = batch.to_pydict()
        headers = plain.get("headers", [None] * batch.num_rows)
        times = batch.column("timestamp").cast("int64").to_pylist()
        assert all(one is None or one for one in headers)
        seen += [
            Record(offset, time // 1000, key, value, tuple((one["key"], one["value"]) for one in some or ()))
            for offset, time, key, value, some in zip(
                plain["offset"], times, plain["key"], plain["value"], headers, strict=True
            )
        ]
    return seen


def kinds(found: Any) -> list[int]:
    return [kind for batch in found.batches for kind in batch.column("timestampType").to_pylist()]


def one_by_one(fetched: memoryview) -> tuple[list[Record], str | None]:
    """What the decoder of single records makes of all batches, or why it refuses one of them."""
    batches = [batch for batch in scan(fetched) if not batch.is_control]
    try:
        return [record for batch in batches for record in decode_records(fetched, batch)], None
    except CorruptBatchError as reason:
        return [], str(reason)


@anything
@given(log=logs(), read_committed=st.booleans(), headers=st.booleans(), data=st.data())
def test_has_exactly_what_a_consumer_sees(log: SourceLog, read_committed: bool, headers: bool, data: Any) -> None:
    position = data.draw(st.one_of(st.just(0), st.integers(0, log.next_offset)))
    end = data.draw(st.one_of(st.just(END), st.integers(position, log.next_offset + 5)))
    fetched = log.fetch(position)
    found = decode(fetched, WHERE, position, end, RowRules(headers, read_committed), log.aborted(position))
    expected = [record for record in log.visible(position, read_committed=read_committed) if record.offset < end]
    if not headers:
        expected = [record._replace(headers=()) for record in expected]
    assert rows(found) == expected
    assert found.position == min(end, max([position, *log.ends[-1:]]))


@anything
@given(log=logs(), data=st.data())
def test_fetching_in_pieces_has_the_same(log: SourceLog, data: Any) -> None:
    seen: list[Record] = []
    position = 0
    rules = RowRules(headers=True, read_committed=True)
    for _ in range(100):
        fetched = log.fetch(position)
        if not fetched:
            break
        size = data.draw(st.integers(0, len(fetched)))
        found = decode(fetched[:size], WHERE, position, END, rules, log.aborted(position))
        if found.position == position:
            found = decode(fetched, WHERE, position, END, rules, log.aborted(position))
        seen += rows(found)
        position = found.position
    else:
        pytest.fail("the position does not advance")
    assert seen == log.visible(read_committed=True)


@anything
@given(
    some=st.lists(records, min_size=1, max_size=4),
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=80),
    codec=st.sampled_from(list(CODECS)),
    append_time=st.one_of(st.none(), st.just(NOW)),
)
def test_many_small_batches_are_the_same(
    some: list[New], sizes: list[int], codec: str, append_time: int | None
) -> None:
    """From some number of batches on their records are found in another way."""
    log = SourceLog()
    for number, size in enumerate(sizes):
        few = [some[(number + each) % len(some)] for each in range(size)]
        log.batch(few, codec=codec if number % 3 else "none", append_time=append_time if number % 2 else None)
    found = decode(log.fetch(), WHERE, 0, END, RowRules(headers=True))
    assert rows(found) == log.visible()
    stamped = [
        int(append_time is not None and number % 2 == 1) for number, size in enumerate(sizes) for _ in range(size)
    ]
    assert kinds(found) == stamped


@anything
@given(log=logs(), more=st.lists(records, min_size=1, max_size=6), data=st.data())
def test_damage_is_refused_or_read_as_the_decoder_of_single_records_reads_it(
    log: SourceLog, more: list[New], data: Any
) -> None:
    """Bytes of records change, and the checksum with them, so that only the layout can show it."""
    log.batch(more)
    plain = [batch for batch in scan(log.data) if batch.magic == 2 and not batch.codec and batch.record_count]
    batch = data.draw(st.sampled_from([batch for batch in plain if not batch.is_control]))
    damaged = bytearray(log.data)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(batch.start + 61, batch.end - 1))
        damaged[at] = data.draw(st.one_of(st.sampled_from([0, 1, 127, 128, 129, 255]), st.integers(0, 255)))
    struct.pack_into(">I", damaged, batch.start + 17, google_crc32c.value(bytes(damaged[batch.start + 21 : batch.end])))
    fetched = memoryview(damaged)
    expected, refusal = one_by_one(fetched)
    if refusal is not None:
        with pytest.raises(CorruptBatchError, match=f"^{re.escape(refusal)}$"):
            decode(fetched, WHERE, 0, END, RowRules(headers=True))
    else:
        assume(all(0 <= record.offset < END and abs(record.timestamp) < 2**53 for record in expected))
        assert rows(decode(fetched, WHERE, 0, END, RowRules(headers=True))) == expected


def test_a_wrong_checksum_is_refused(chance: random.Random) -> None:
    log = SourceLog()
    log.batch([New(NOW, b"value")])
    log.data[chance.randrange(61, len(log.data))] ^= 1 << chance.randrange(8)
    with pytest.raises(CorruptBatchError, match="its CRC is"):
        decode(log.fetch(), WHERE, 0, END, RowRules())


def test_a_damaged_record_is_refused_though_its_offset_is_not_asked_for() -> None:
    """Its offset delta is -1, and it has 60 headers of which there is no byte."""
    log = SourceLog()
    log.batch([New(NOW, b"first"), New(NOW, b"second")])
    damaged = bytearray(log.data)
    damaged[61 + 3] = 1
    damaged[61 + 11] = 120
    struct.pack_into(">I", damaged, 17, google_crc32c.value(bytes(damaged[21:])))
    fetched = memoryview(damaged)
    _, refusal = one_by_one(fetched)
    assert refusal is not None
    with pytest.raises(CorruptBatchError, match=f"^{re.escape(refusal)}$"):
        decode(fetched, WHERE, 0, END, RowRules(headers=True))
