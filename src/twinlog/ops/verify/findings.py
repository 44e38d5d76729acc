"""The findings of a comparison of a partition: its row, and the digests of both sides."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any

from twinlog.arrow.bodies import NO_TIMESTAMP, Bodies
from twinlog.kafka.record.batch import LOG_APPEND_TIME, Batch
from twinlog.ops.verify.alignment import NearbyRecords
from twinlog.ops.verify.model import RecordDifference, Verdict

Content = Sequence[bytes | memoryview]
"""Parts of some records. Each part goes into a hash of its own, so the result is independent of batches."""

_PARTS = 4
"""Timestamps, lengths and bodies of records; and blocks of records that both sides store alike."""


class Digests:
    """SHA-256 of both sides. As long as they are equal, each byte is hashed once."""

    def __init__(self) -> None:
        self._source = [hashlib.sha256() for _ in range(_PARTS)]
        self._target: list[Any] | None = None

    def same_block(self, block: memoryview, header: bytes) -> None:
        """A records block that is the same on both sides, in a batch with this count and these timestamps."""
        for hashes in self._sides():
            hashes[3].update(header)
            hashes[3].update(block)

    def same(self, content: Content) -> None:
        """Records that are the same on both sides."""
        for hashes in self._sides():
            _add(hashes, content)

    def of_source(self, content: Content) -> None:
        """Records that only the source has, or has so."""
        self._part()
        _add(self._source, content)

    def of_target(self, content: Content) -> None:
        """Records that only the target has, or has so."""
        _add(self._part(), content)

    def result(self) -> tuple[str, str]:
        """The digest of either side, in hexadecimal digits."""
        source = _joined(self._source)
        return source, source if self._target is None else _joined(self._target)

    def _sides(self) -> list[list[Any]]:
        return [self._source] if self._target is None else [self._source, self._target]

    def _part(self) -> list[Any]:
        if self._target is None:
            self._target = [one.copy() for one in self._source]
        return self._target


def _add(hashes: list[Any], content: Content) -> None:
    for one, part in zip(hashes, content, strict=False):
        one.update(part)


def _joined(hashes: list[Any]) -> str:
    return hashlib.sha256(b"".join(one.digest() for one in hashes)).hexdigest()


_SHAPE = Struct(">qqi")


class VerifyFindings:
    """Adds up equal and different records in `verdict`. `nearby` is the source, for a search around a copy."""

    def __init__(self, verdict: Verdict, nearby: NearbyRecords, *, ignore_foreign: bool) -> None:
        self.verdict = verdict
        self.digests = Digests()
        self.compared = False
        self._nearby = nearby
        self._ignore_foreign = ignore_foreign

    def same_batch(self, batch: Batch, copy: Batch, block: memoryview) -> None:
        """A batch that both sides have as it is; `block` are its records as they are stored."""
        self.compared = True
        self.verdict.records += batch.record_count
        self.verdict.bytes += batch.size
        timestamp = 0 if copy.attributes & LOG_APPEND_TIME else batch.base_timestamp
        self.digests.same_block(block, _SHAPE.pack(timestamp, batch.record_count, batch.codec))

    def same(self, ours: Bodies, theirs: Bodies) -> None:
        """Count equal records of both sides."""
        self.count(ours, 0)
        if theirs.timed.all() and not (ours.timestamps == NO_TIMESTAMP).any():
            self.digests.same(ours.content())
        else:
            # Timestamps were skipped in the comparison, so both digests leave them out.
            self.digests.same((b"", *ours.content()[1:]))

    def count(self, ours: Bodies, different: int) -> None:
        """Records that were compared, of which so many differ."""
        self.compared = True
        self.verdict.records += len(ours) - different
        self.verdict.bytes += ours.size

    def differs(self, count: int, make: Callable[[], RecordDifference]) -> None:
        """So many records differ; `make` describes the first of them."""
        if self.verdict.first is None:
            self.verdict.first = make()
        self.verdict.differences += count

    def extra(self, theirs: Bodies, source_offset: int) -> None:
        """Count target records that are foreign, or are second copies."""
        doubled = self._nearby.count_known(theirs, source_offset)
        self.verdict.foreign += len(theirs) - doubled
        if self._ignore_foreign and not doubled:
            return
        at = int(theirs.offsets[0])
        what = "doubled" if doubled else "extra"
        self.differs(
            doubled if self._ignore_foreign else len(theirs), lambda: RecordDifference(what, source_offset, at)
        )
        self.digests.of_target(theirs.content())

    def result(self) -> Verdict:
        """The row as far as it is known."""
        self.verdict.source_digest, self.verdict.target_digest = self.digests.result()
        return self.verdict
