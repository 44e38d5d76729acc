"""Encodes the numbers of many records as varints, a field of all records at a time.

The comparison of built batches needs them, too, and does without pyarrow.compute, which takes long to import.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from twinlog.batches.vectors import Longs


@dataclass(slots=True)
class Varints:
    """Some fields of many records, a row for each field.

    `rests` are the numbers of a field in zigzag, `sizes` the bytes of each number as a varint.
    """

    rests: npt.NDArray[np.uint64]
    sizes: npt.NDArray[np.uint8]

    @classmethod
    def of(cls, fields: Longs) -> Varints:
        rests = (fields << 1 ^ fields >> 63).view(np.uint64)
        sizes = np.ones(fields.shape, dtype=np.uint8)
        most = int(rests.max(initial=0))
        bound = 1 << 7
        while most >= bound:
            sizes += rests >= np.uint64(bound)
            bound <<= 7
        return cls(rests, sizes)

    def some(self, fields: slice) -> Varints:
        return Varints(self.rests[fields], self.sizes[fields])

    def cells(self, room: int = 0) -> Any:
        """A binary cell of each record with its varints in order; `room` empty bytes precede the first cell."""
        count = self.rests.shape[1]
        longest = self.sizes.max(axis=1, initial=1).tolist()
        width = sum(longest)
        data = np.empty((count, width), dtype=np.uint8)
        has = np.empty((count, width), dtype=np.bool_)
        # For each byte the mark that the next byte belongs to the same number.
        goes_on = np.zeros(width - 1, dtype=np.uint8)
        at = 0
        for rests, sizes, most in zip(self.rests, self.sizes, longest, strict=True):
            for byte in range(most):
                np.right_shift(rests, np.uint64(7 * byte), out=data[:, at], casting="unsafe")
                np.greater(sizes, byte, out=has[:, at])
                if byte:
                    goes_on[at - 1] = 128
                at += 1
        data &= 127
        if width > len(longest):
            data[:, :-1] |= has[:, 1:] * goes_on
        bounds = np.zeros(count + 1, dtype=np.int32)
        np.cumsum(self.sizes.sum(axis=0, dtype=np.int32), out=bounds[1:])
        kept = data.reshape(-1) if int(bounds[-1]) == data.size else data[has]
        if room:
            bounds[1:] += room
            kept = np.concatenate((np.zeros(room, dtype=np.uint8), kept))
        return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(bounds), pa.py_buffer(kept)])

    def cells_with(self, behind: Varints, room: int) -> Any:
        """As `cells`, with the fields `behind` of the same records after the own fields."""
        rests, sizes = np.concatenate((self.rests, behind.rests)), np.concatenate((self.sizes, behind.sizes))
        return Varints(rests, sizes).cells(room)
