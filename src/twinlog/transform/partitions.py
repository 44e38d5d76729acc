"""To which partition records belong by their keys: Kafka's default partitioner, for many keys at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

_SEED = 0x9747B28C
_M = np.uint32(0x5BD1E995)
_R = np.uint32(24)


def partitions_by_key(keys: Any, partitions: int, without: int) -> npt.NDArray[np.int64]:
    """The partition of each key of a binary column (Kafka class BuiltInPartitioner.partitionForKey).

    A record without a key goes to partition number `without`, or where that wraps round.
    """
    chosen = (murmur2(keys).astype(np.int64) & 0x7FFFFFFF) % partitions
    if keys.null_count:
        chosen[np.asarray(pc.is_null(keys).cast("uint8")).astype(np.bool_)] = without % partitions
    return chosen


def murmur2(keys: Any) -> npt.NDArray[np.uint32]:
    """The hash of each key (Kafka class Utils.murmur2); of a null that of no bytes."""
    count = len(keys)
    sizes = np.asarray(pc.fill_null(pc.binary_length(keys), 0)).astype(np.int64)
    _, bounds, data = keys.buffers()
    starts = np.frombuffer(bounds, dtype=np.int32)[keys.offset : keys.offset + count].astype(np.int64)
    # Words are read past the end of the last key, and count only up to it.
    raw = np.frombuffer(data, dtype=np.uint8) if data is not None else np.zeros(0, dtype=np.uint8)
    padded = np.concatenate([raw, np.zeros(4, dtype=np.uint8)])
    found: npt.NDArray[np.uint32] = np.uint32(_SEED) ^ sizes.astype(np.uint32)
    whole = sizes // 4
    for word in range(int(whole.max(initial=0))):
        has = np.flatnonzero(whole > word)
        mixed = _word(padded, starts[has] + 4 * word, 4) * _M
        mixed = (mixed ^ mixed >> _R) * _M
        found[has] = found[has] * _M ^ mixed
    rest = sizes % 4
    for left in (1, 2, 3):
        has = np.flatnonzero(rest == left)
        if len(has):
            found[has] = (found[has] ^ _word(padded, starts[has] + 4 * whole[has], left)) * _M
    found ^= found >> np.uint32(13)
    found *= _M
    found ^= found >> np.uint32(15)
    return found


def _word(data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.uint32]:
    """Numbers of `size` bytes, the least significant one first."""
    word = np.zeros(len(at), dtype=np.uint32)
    for byte in range(size):
        word |= data[at + byte].astype(np.uint32) << np.uint32(8 * byte)
    return word
