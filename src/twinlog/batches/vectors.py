"""Vectors of numpy over the bytes of a fetch: their types, views of the bytes at each place, and sizes of records."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def windows(array: Bytes, size: int, kind: str = "V") -> Any:
    """`size` bytes from each place of an array on, as a view; `kind` is the type of these bytes, e.g. `<i`.

    To take or set the bytes at many places costs a copy for each place.
    """
    return np.ndarray((max(0, len(array) - size + 1),), dtype=f"{kind}{size}", buffer=array, strides=(1,))


@cache
def record_sizes() -> Longs:
    """The bytes of a record by its first two bytes, the first byte lowest.

    0 for a length of more than two bytes, and for a negative length.
    """
    word = np.arange(1 << 16)
    first, second = word & 255, word >> 8
    short, long = 1 + (first >> 1), 2 + ((first & 127 | second << 7) >> 1)
    return np.where(first & 1, 0, np.where(first < 128, short, np.where(second < 128, long, 0)))
