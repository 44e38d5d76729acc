"""An element is that of the bytes, whichever way its checksum was found; and it survives whatever brokers set."""

from __future__ import annotations

from typing import Any

import google_crc32c
import hypothesis.strategies as st
import pytest
from hypothesis import given

from tests.any_log import codecs, logs, records, rules
from tests.source_log import SourceLog
from twinlog.batches.prepare import prepare
from twinlog.errors import TwinlogError
from twinlog.kafka.producer.appends import CopyRules
from twinlog.kafka.producer.proof import (
    EMPTY_CHAIN,
    Element,
    block_crc,
    checked_element,
    element_of,
    extend_chain,
    identify_append,
)
from twinlog.kafka.record.batch import (
    CRC,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MAX_TIMESTAMP,
    checksum_of,
    scan,
)
from twinlog.kafka.record.builder import encode_batch, record_body
from twinlog.kafka.record.compression import NONE
from twinlog.kafka.record.stamp import stamp
from twinlog.model.types import SourceOffset


def by_bytes(data: bytes | bytearray | memoryview) -> Element:
    """The element by the bytes of the block alone."""
    header = HEADER.unpack_from(data, 0)
    crc = google_crc32c.value(bytes(data[HEADER_SIZE:]))
    return Element(header[12], header[1], header[5] & 7, header[7], crc)


@given(st.binary(max_size=100), st.binary(max_size=3_000), st.sampled_from([1, 1, 1, 400]))
def test_the_checksum_of_a_tail_follows_from_the_whole(head: bytes, tail: bytes, times: int) -> None:
    tail *= times
    assert block_crc(google_crc32c.value(head + tail), head, len(tail)) == google_crc32c.value(tail)


@given(st.lists(records, min_size=1, max_size=6), codecs, st.sampled_from([1, 1, 15, 300]))
def test_a_batch_of_any_codec_has_the_element_of_its_bytes(some: Any, codec: str, times: int) -> None:
    log = SourceLog(7)
    log.batch(some * times, codec=codec)
    fetched = log.fetch()
    (batch,) = scan(fetched)
    assert element_of(fetched, batch.start) == by_bytes(fetched[batch.start : batch.end])


@given(logs(), rules)
def test_all_appends_keep_their_elements_in_a_log(log: SourceLog, how: CopyRules) -> None:
    begin = SourceOffset(0)
    try:
        prepared = prepare(log.fetch(), begin, how, log.aborted())
    except TwinlogError:
        return
    for number, append in enumerate(prepared.appends):
        element = element_of(append.data)
        assert element == by_bytes(append.data)
        assert element.records == append.count
        for identity in (4_000 + number, 9):
            stamp(append.data, identity, 3, number, transactional=bool(number % 2))
            assert element_of(append.data) == element
        stored = memoryview(bytearray(append.data))
        as_a_broker(stored)
        assert element_of(stored) == element


@given(logs(), rules)
def test_a_checksum_made_once_is_that_of_the_stamped_bytes(log: SourceLog, how: CopyRules) -> None:
    begin = SourceOffset(0)
    try:
        ours, theirs = (prepare(log.fetch(), begin, how, log.aborted()).appends for _ in range(2))
    except TwinlogError:
        return
    for number, (identified, plain) in enumerate(zip(ours, theirs, strict=True)):
        assert identify_append(identified.data) == element_of(plain.data)
        for append in (identified, plain):
            stamp(append.data, 4_000, 3, number, transactional=bool(number % 2))
        assert bytes(identified.data) == bytes(plain.data)


@given(st.lists(st.binary(max_size=50), min_size=1, max_size=3), st.integers(0, 10**6))
def test_a_bit_that_changes_after_the_identification_spoils_the_checksum(values: list[bytes], place: int) -> None:
    built = encode_batch([(1, record_body(None, value)) for value in values], NONE)
    identify_append(built)
    bit = place % ((len(built) - HEADER_SIZE) * 8)
    built[HEADER_SIZE + bit // 8] ^= 1 << bit % 8
    stamp(built, 4_000, 3, 0)
    assert checksum_of(memoryview(built)[CRC_START:]) != int.from_bytes(built[CRC], "big")


def as_a_broker(batch: memoryview) -> None:
    """What a broker sets: offset, epoch, its own time, and the checksum of all that."""
    fields = list(HEADER.unpack_from(batch, 0))
    fields[0], fields[2], fields[5] = 77, 4, fields[5] | LOG_APPEND_TIME
    HEADER.pack_into(batch, 0, *fields)
    batch[MAX_TIMESTAMP] = (5_000).to_bytes(8, "big")
    batch[CRC] = checksum_of(batch[CRC_START:]).to_bytes(4, "big")


@given(st.lists(records, min_size=1, max_size=3), codecs, st.integers(0, 10**6))
def test_a_changed_bit_changes_the_element(some: Any, codec: str, place: int) -> None:
    log = SourceLog(0)
    log.batch(some, codec=codec)
    fetched = log.fetch()
    before = element_of(fetched)
    bit = place % ((len(fetched) - HEADER_SIZE) * 8)
    fetched[HEADER_SIZE + bit // 8] ^= 1 << bit % 8
    fetched[CRC] = checksum_of(fetched[CRC_START:]).to_bytes(4, "big")
    assert element_of(fetched) != before


@given(st.lists(records, min_size=1, max_size=3), codecs, st.integers(0, 10**6))
def test_an_element_is_read_from_whole_batches_alone(some: Any, codec: str, place: int) -> None:
    log = SourceLog(0)
    log.batch(some, codec=codec)
    fetched = log.fetch()
    (batch,) = scan(fetched)
    assert checked_element(fetched, batch) == element_of(fetched)
    bit = place % ((len(fetched) - CRC_START) * 8)
    fetched[CRC_START + bit // 8] ^= 1 << bit % 8
    assert checked_element(fetched, batch) is None
    fetched[CRC_START + bit // 8] ^= 1 << bit % 8
    fetched[CRC.start] ^= 1
    (batch,) = scan(fetched)
    assert checked_element(fetched, batch) is None


def test_a_chain_has_the_order_and_the_places() -> None:
    one, other = Element(1, 60, 0, 5, 6), Element(1, 60, 0, 5, 7)

    def chain(*elements: tuple[Element, int]) -> bytes:
        found = EMPTY_CHAIN
        for element, base in elements:
            found = extend_chain(found, element.encode(base))
        return found

    assert chain((one, 0), (other, 1)) == chain((one, 0), (other, 1))
    assert len({chain((one, 0), (other, 1)), chain((other, 0), (one, 1)), chain((one, 0), (other, 2))}) == 3


@pytest.mark.parametrize("size", [1, 1_000_000])
def test_the_largest_and_the_least_block(size: int) -> None:
    head, tail = bytes(range(40)), bytes(size)
    assert block_crc(google_crc32c.value(head + tail), head, size) == google_crc32c.value(tail)
