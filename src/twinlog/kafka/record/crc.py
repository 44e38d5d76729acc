"""Corrects a batch's CRC32C after a change to its header, without reading the records again.

A CRC is linear: what a changed header does to the checksum depends on the header alone and on how many bytes follow.
So a batch that was damaged on its way keeps a wrong checksum, and the target's broker refuses it.
"""

from __future__ import annotations

from functools import cache

from google_crc32c import value

_POLYNOMIAL = 0x82F63B78  # CRC32C, bits reflected (RFC 3720, appendix B.4)

_Tables = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def replace_head(crc: int, old: bytes, new: bytes, rest: int) -> int:
    """Return the CRC32C of `new` + tail, given `crc` of `old` + tail; the tail has `rest` bytes, `old` and `new` are
    of one length."""
    return crc ^ _past_zeros(value(old) ^ value(new), rest)


def _past_zeros(crc: int, zeros: int) -> int:
    power = 0
    while zeros:
        if zeros & 1:
            first, second, third, fourth = _tables_past(power)
            crc = first[crc & 255] ^ second[crc >> 8 & 255] ^ third[crc >> 16 & 255] ^ fourth[crc >> 24]
        zeros >>= 1
        power += 1
    return crc


@cache
def _tables_past(power: int) -> _Tables:
    """Move a checksum past 2**power zero bytes: one table for each of its four bytes."""
    images = []
    for bit in range(32):
        image = 1 << bit
        if power:
            half = 1 << power - 1
            image = _past_zeros(_past_zeros(image, half), half)
        else:
            for _ in range(8):
                image = image >> 1 ^ (_POLYNOMIAL if image & 1 else 0)
        images.append(image)
    first, second, third, fourth = (_table(images[byte * 8 : byte * 8 + 8]) for byte in range(4))
    return first, second, third, fourth


def _table(images: list[int]) -> tuple[int, ...]:
    table = [0]
    for image in images:
        table += [entry ^ image for entry in table]
    return tuple(table)
