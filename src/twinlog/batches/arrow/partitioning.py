"""Chooses partitions for many records at once, by the rules of Kafka's producer (class BuiltInPartitioner)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from twinlog.batches.vectors import Bytes, Longs

Words = npt.NDArray[np.uint32]

_SEED = np.uint32(0x9747B28C)
_M = np.uint32(0x5BD1E995)
_R = np.uint32(24)


def key_partitions(keys: Any, partitions: int) -> Longs:
    """The partition of each key in a topic of so many partitions.

    `keys` is a binary column with a value in each row.
    """
    return (_murmur2(keys) & np.uint32(0x7FFFFFFF)).astype(np.int64) % partitions


def _murmur2(keys: Any) -> Words:
    """The hash of each key (Kafka class Utils); all keys take each step together, four bytes a step."""
    count = len(keys)
    bounds = np.frombuffer(keys.buffers()[1], dtype=np.int32)[keys.offset : keys.offset + count + 1].astype(np.int64)
    buffer = keys.buffers()[2]
    data = np.frombuffer(buffer, dtype=np.uint8) if buffer is not None and buffer.size else np.zeros(1, np.uint8)
    at, sizes = bounds[:-1], bounds[1:] - bounds[:-1]
    found = _SEED ^ sizes.astype(np.uint32)
    words = sizes >> 2
    going_on = np.flatnonzero(words)
    step = 0
    while going_on.size:
        word = _read(data, at[going_on] + 4 * step, 4) * _M
        word = (word ^ word >> _R) * _M
        found[going_on] = found[going_on] * _M ^ word
        step += 1
        going_on = going_on[words[going_on] > step]
    left = sizes & 3
    for size in (1, 2, 3):
        having = np.flatnonzero(left == size)
        if having.size:
            tail = _read(data, at[having] + 4 * words[having], size)
            found[having] = (found[having] ^ tail) * _M
    found = (found ^ found >> np.uint32(13)) * _M
    return found ^ found >> np.uint32(15)


def _read(data: Bytes, at: Longs, size: int) -> Words:
    """Numbers of `size` bytes, the lowest first."""
    value = data[at].astype(np.uint32)
    for byte in range(1, size):
        value |= data[at + byte].astype(np.uint32) << np.uint32(8 * byte)
    return value
