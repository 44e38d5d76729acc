from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.kafka.record.varint import encode_varint, read_unsigned, read_varint


@pytest.mark.parametrize(
    ("number", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (-8_192, "ff7f"),
        (8_192, "808001"),
        (2**63 - 1, "feffffffffffffffff01"),
        (-(2**63), "ffffffffffffffffff01"),
    ],
)
def test_writes_protocol_buffers_sint64(number: int, encoded: str) -> None:
    assert encode_varint(number).hex() == encoded
    assert read_varint(bytes.fromhex("aa" + encoded), 1) == (number, 1 + len(encoded) // 2)


@given(st.integers(-(2**63), 2**63 - 1))
def test_reads_what_it_writes(number: int) -> None:
    encoded = encode_varint(number)
    assert read_varint(memoryview(encoded), 0) == (number, len(encoded))


def test_wraps_around_like_a_java_long() -> None:
    assert encode_varint(2**63) == encode_varint(-(2**63))


def test_unsigned_keeps_the_zigzag() -> None:
    assert read_unsigned(b"\x03", 0) == (3, 1)


def test_refuses_a_number_that_is_cut_off() -> None:
    with pytest.raises(IndexError):
        read_varint(b"\x80\x80", 0)
