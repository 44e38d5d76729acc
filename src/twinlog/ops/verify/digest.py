"""Digests of what was compared, one a side: they are equal where the records are."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

Content = Sequence[bytes | memoryview]
"""Parts of some records, each of which goes into a hash of its own; so their batches do not matter."""

_PARTS = 4
"""Timestamps, lengths and bodies of records; and blocks of records that both sides have as they are."""


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
