"""Digests of compared records: of all records of a side, and of ranges of records that both sides have."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from twinlog.batches.arrow.bodies import Bodies, runs
from twinlog.batches.vectors import Flags
from twinlog.ops.verify.model import ComparedRange

Content = Sequence[bytes | memoryview]
"""Parts of some records. Each part goes into a hash of its own, so the result is independent of batches."""

_PARTS = 4
"""Timestamps, lengths and bodies of records; and blocks of records that both sides store alike."""

NORMAL_RANGES = 1_000
"""The most ranges of a partition whose records follow each other: with more records its ranges are larger."""

MOST_RANGES = 10_000
"""The most ranges of a partition. Compaction and differences cut ranges; the equal records after the last range are
only counted."""


class RecordDigest:
    """SHA-256 of records in their order: of four digests, see `docs/verify.md`."""

    def __init__(self) -> None:
        self._hashes: list[Any] = [hashlib.sha256() for _ in range(_PARTS)]

    def add(self, content: Content) -> None:
        """Add records, by their `Bodies.content`."""
        for one, part in zip(self._hashes, content, strict=False):
            one.update(part)

    def add_block(self, header: bytes, block: memoryview) -> None:
        """Add the block of a batch as it is stored, after a header with its number of records and its timestamps."""
        self._hashes[3].update(header)
        self._hashes[3].update(block)

    def duplicate(self) -> RecordDigest:
        """Return a digest of the same records, to which other records can be added."""
        found = RecordDigest()
        found._hashes = [one.copy() for one in self._hashes]
        return found

    def result(self) -> str:
        """The digest in hexadecimal digits."""
        return hashlib.sha256(b"".join(one.digest() for one in self._hashes)).hexdigest()


class SideDigests:
    """The digest of each side. As long as both are equal, each byte is hashed once."""

    def __init__(self) -> None:
        self._source = RecordDigest()
        self._target: RecordDigest | None = None

    def same_block(self, block: memoryview, header: bytes) -> None:
        """A records block that is the same on both sides, in a batch with this count and these timestamps."""
        for one in self._sides():
            one.add_block(header, block)

    def same(self, content: Content) -> None:
        """Records that are the same on both sides."""
        for one in self._sides():
            one.add(content)

    def of_source(self, content: Content) -> None:
        """Records that only the source has, or has so."""
        self._part()
        self._source.add(content)

    def of_target(self, content: Content) -> None:
        """Records that only the target has, or has so."""
        self._part().add(content)

    def result(self) -> tuple[str, str]:
        """The digest of either side, in hexadecimal digits."""
        source = self._source.result()
        return source, source if self._target is None else self._target.result()

    def _sides(self) -> list[RecordDigest]:
        return [self._source] if self._target is None else [self._source, self._target]

    def _part(self) -> RecordDigest:
        if self._target is None:
            self._target = self._source.duplicate()
        return self._target


@dataclass(slots=True)
class _OpenRange:
    source_start: int
    target_start: int
    timestamps: bool
    source_end: int = -1
    target_end: int = -1
    records: int = 0
    digest: RecordDigest = field(default_factory=RecordDigest)

    def add(self, ours: Bodies, theirs: Bodies) -> None:
        self.source_end, self.target_end = int(ours.offsets[-1]) + 1, int(theirs.offsets[-1]) + 1
        self.records += len(ours)
        content = ours.content()
        self.digest.add(content if self.timestamps else (b"", *content[1:]))

    def closed(self) -> ComparedRange:
        return ComparedRange(
            self.source_start,
            self.source_end,
            self.target_start,
            self.target_end,
            self.records,
            self.timestamps,
            self.digest.result(),
        )


class EqualRanges:
    """Divides the equal records of a partition into ranges, each with its digest: `least` records or more in a range.

    Among some `records` of a partition at most `NORMAL_RANGES` ranges are full. With `least` 0 the list stays empty.
    """

    def __init__(self, least: int, records: int = 0) -> None:
        self.found: list[ComparedRange] = []
        self._size = max(least, -(-records // NORMAL_RANGES)) if least else 0
        self._open: _OpenRange | None = None

    def add(self, ours: Bodies, theirs: Bodies, dated: Flags) -> None:
        """Add records that are equal at each place, with comparable timestamps where `dated`.

        They follow the records of the last call directly on both sides, or `cut` was called before.
        """
        if not self._size:
            return
        for start, end in runs(dated):
            self._add_run(ours.part(start, end), theirs.part(start, end), timestamps=bool(dated[start]))

    def _add_run(self, ours: Bodies, theirs: Bodies, *, timestamps: bool) -> None:
        if self._open is not None and self._open.timestamps != timestamps:
            self.cut()
        start = 0
        while start < len(ours):
            if self._open is None:
                self._open = _OpenRange(int(ours.offsets[start]), int(theirs.offsets[start]), timestamps)
            past = min(len(ours), start + self._size - self._open.records)
            self._open.add(ours.part(start, past), theirs.part(start, past))
            if self._open.records == self._size:
                self.cut()
            start = past

    def cut(self) -> None:
        """End the present range, because a side has a further record here."""
        if self._open is not None and len(self.found) < MOST_RANGES:
            self.found.append(self._open.closed())
        self._open = None
