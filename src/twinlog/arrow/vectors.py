"""Numbers of many records at once: vectors of places in a buffer, and the varints that stand there."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_POSITIVE = np.int64(2**63 - 1)
_LAST_SHIFT = 63


class UnusualError(Exception):
    """The bytes do not look as a broker's do, so the exact way has to decide what is wrong with them, if anything."""


def read_varints(data: Bytes, at: Longs) -> tuple[Longs, Longs]:
    """The zigzag varints that begin at the places `at`, and the places after them.

    Raises UnusualError where one is longer than 64 bits, or runs past the end of `data`.
    """
    try:
        byte = data[at].astype(np.int64)
        value = byte & 127
        at = at + 1
        longer = np.flatnonzero(byte >= 128)
        shift = 7
        while longer.size:
            byte = data[at[longer]].astype(np.int64)
            if shift == _LAST_SHIFT and (byte > 1).any():
                raise UnusualError("a number of more than 64 bits")
            value[longer] |= (byte & 127) << shift
            at[longer] += 1
            longer = longer[byte >= 128]
            shift += 7
    except IndexError:
        raise UnusualError("a number runs past the end") from None
    # The shift of a negative number would fill in ones.
    return (value >> 1 & _POSITIVE) ^ -(value & 1), at


def per_record(values: list[int], counts: list[int]) -> Longs:
    """A value of each batch for each of its records."""
    return np.repeat(np.asarray(values, dtype=np.int64), counts)
