"""Appends that an earlier copier left on their way to a remote partition, under the same producer id and epoch."""

from __future__ import annotations

from collections.abc import Sequence

from twinlog.kafka.producer.sent import Sent
from twinlog.model.types import SourceOffset


class LateAppends:
    """Which of our appends may meet a late one: the first ones, until as many `bytes` were sent as may be late.

    Of two appends with the same sequence numbers the target takes the first, and answers the second like a retry. Both
    hold the same records if ours continue without a hole, because a source only loses records; after a hole ours are
    unverified.
    """

    __slots__ = ("_next_source", "bytes")

    def __init__(self) -> None:
        self.bytes = 0
        self._next_source = -1

    @property
    def expected(self) -> bool:
        """Whether one may still arrive."""
        return self.bytes > 0

    def expect(self, next_source: SourceOffset, most_bytes: int) -> None:
        """Until `most_bytes` are appended late ones may arrive.

        `next_source` is the source offset after the last record that was found.
        """
        self.bytes = most_bytes
        self._next_source = next_source

    def count(self, sent: Sent) -> None:
        """One of ours is sent, and a late one may have its sequence numbers."""
        self.bytes -= sent.append.bytes
        sent.counted = True
        for first, count in sent.append.spans:
            sent.unverified = sent.unverified or first != self._next_source
            self._next_source = first + count

    def count_again(self, refused: Sequence[Sent]) -> None:
        """None of these was appended, so they are yet to be counted, and no hole is before the first."""
        self.bytes += sum(sent.append.bytes for sent in refused if sent.counted)
        first = refused[0]
        self._next_source = -1 if first.unverified else first.append.spans[0][0]

    def clear(self) -> None:
        """None is expected any more."""
        self.bytes = 0
