"""Where one source partition is read, and where it ends as far as is known."""

from __future__ import annotations

import uuid

from twinlog.kafka.protocol.fetch_request import FetchPosition
from twinlog.kafka.protocol.fetch_response import PartitionResponse
from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import SourceOffset


class SourcePosition:
    """`offset` is fetched next, `epoch` the leader epoch of the last batch read (KIP-320), `topic_id` None if unknown.

    `end` is up to where a consumer may read, -1 before the first answer, and `answered_at` when the source last
    answered (monotonic seconds). `refusals` counts the fetches in a row that the source refused for now. `open_since`
    is the moment since which a transaction keeps the records from `end` on from a consumer that reads committed records
    (monotonic seconds), None where no record is kept.
    """

    __slots__ = ("answered_at", "end", "epoch", "offset", "open_since", "refusals", "topic_id")

    def __init__(self, position: Position, topic_id: str | None) -> None:
        self.offset = position.next_source
        self.epoch = position.leader_epoch
        known = position.topic_id or topic_id
        self.topic_id = None if known is None else uuid.UUID(known)
        self.end = SourceOffset(-1)
        self.answered_at: float | None = None
        self.open_since: float | None = None
        self.refusals = 0

    def seek(self, position: Position) -> None:
        """Read on at a position."""
        if position.topic_id is not None:
            self.topic_id = uuid.UUID(position.topic_id)
        self.offset = position.next_source
        self.epoch = position.leader_epoch

    def back(self, offset: SourceOffset) -> None:
        """Read again from an offset on."""
        self.offset = offset

    def passed(self, offset: SourceOffset, epoch: int) -> None:
        """Everything before an offset was read; -1 is no epoch."""
        self.offset = offset
        if epoch >= 0:
            self.epoch = epoch

    def next_fetch(self) -> FetchPosition:
        """What to ask the source for."""
        return FetchPosition(self.offset, 0, self.epoch, topic_id=self.topic_id)

    def answered(self, fetched: PartitionResponse, *, read_committed: bool, now: float) -> None:
        """The source answered without an error."""
        self.refusals = 0
        self.answered_at = now
        committed = read_committed and fetched.last_stable_offset >= 0
        end = SourceOffset(fetched.last_stable_offset if committed else fetched.high_watermark)
        if end >= fetched.high_watermark:
            self.open_since = None
        elif end != self.end or self.open_since is None:
            self.open_since = now
        self.end = end

    def refused(self) -> int:
        """The source refused a fetch for now; returns how often in a row."""
        self.refusals += 1
        return self.refusals
