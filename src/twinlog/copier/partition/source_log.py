"""The fetch offset of a source partition, the end of its log, the amount read ahead of the target, and fetch errors."""

from __future__ import annotations

import uuid

from twinlog.clock import LONG_AGO
from twinlog.copier.partition.life import CheckSource, FailPartition, PauseFetch
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.fetch import FetchPosition, PartitionResponse
from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import SourceOffset, TopicPartition

BACKOFF_S = (2.0, 32.0)
"""How long a partition is not read after its memory was freed, at first and at most."""

TRIAL_RECORDS = 1 << 16
"""A trial ends at this number of records."""


class ReadAhead:
    """Limits how far a partition is read ahead of the target.

    `held_back` is True while the partition is not read because too many of its records wait, or because it backs off.

    On trial the partition reads a record, then twice as many records each time that the target has taken all read
    records. If the target refuses a record again, a transform has then routed only earlier records.
    """

    __slots__ = ("_backoffs", "_limit_bytes", "_trial", "_until", "held_back")

    def __init__(self, *, on_trial: bool = False) -> None:
        self.held_back = False
        self._trial = 1 if on_trial else 0
        self._limit_bytes = 0
        self._until = LONG_AGO
        self._backoffs = 0

    def is_full(self, queued_bytes: int, limit_bytes: int, now: float) -> bool:
        """Whether to wait, with `queued_bytes` in the queue and room for `limit_bytes` (`now` in monotonic seconds)."""
        self._limit_bytes = limit_bytes
        self.held_back = queued_bytes >= limit_bytes or now < self._until or bool(self._trial and queued_bytes)
        return self.held_back

    def next_records(self) -> int | None:
        """How many of the fetched records to take; None for all of them."""
        now = self._trial
        self._trial = now * 2 if now < TRIAL_RECORDS else 0
        return now or None

    @property
    def on_trial(self) -> bool:
        """Whether the partition takes a part of the read records only."""
        return bool(self._trial)

    def clear_hold(self) -> None:
        """The partition is not read for another reason."""
        self.held_back = False

    def back_off(self, now: float, first_s: float = BACKOFF_S[0]) -> None:
        """The waiting records were dropped at `now` (monotonic seconds), to free memory.

        The partition is read again once the target acknowledged an append, or after a pause. The pause is `first_s` at
        first, and doubles each time until the target takes an append of the partition.
        """
        _, most_s = BACKOFF_S
        self._until = now + min(first_s * 2**self._backoffs, most_s)
        self._backoffs += 1

    def reset(self) -> None:
        """The partition is read from another offset now."""
        self._until = LONG_AGO

    def acknowledged(self, queued_bytes: int) -> bool:
        """The target took an append, and `queued_bytes` are left.

        Returns whether the partition may be read again after a hold.
        """
        self._until, self._backoffs = LONG_AGO, 0
        if self.held_back and queued_bytes < self._limit_bytes and not (self._trial and queued_bytes):
            self.held_back = False
            return True
        return False


class SourcePosition:
    """`offset` is fetched next, `epoch` the leader epoch of the last batch read (KIP-320), `topic_id` None if unknown.

    `log_start` is the first offset of the log, and `end` the offset up to which a consumer may read, both -1 before the
    first answer. `answered_at` is the time of the source's last answer (monotonic seconds). `refusals` counts the
    fetches in a row that the source refused for now. `open_since` is the time since which an open transaction keeps the
    records from `end` on from a consumer that reads committed records (monotonic seconds). `open_since` is None while
    all records are readable. `unread_ms` is the timestamp of the record at `offset` (Unix ms) while the source has sent
    the record and the partition cannot take it, -1 otherwise.
    """

    __slots__ = (
        "answered_at",
        "end",
        "epoch",
        "log_start",
        "offset",
        "open_since",
        "refusals",
        "topic_id",
        "unread_ms",
    )

    def __init__(self, position: Position, topic_id: str | None) -> None:
        self.offset = position.next_source
        self.epoch = position.leader_epoch
        known = position.topic_id or topic_id
        self.topic_id = None if known is None else uuid.UUID(known)
        self.log_start = self.end = SourceOffset(-1)
        self.answered_at: float | None = None
        self.open_since: float | None = None
        self.refusals = 0
        self.unread_ms = -1

    def seek(self, position: Position) -> None:
        """Read on at a position."""
        if position.topic_id is not None:
            self.topic_id = uuid.UUID(position.topic_id)
        self.log_start = SourceOffset(-1)
        self.seek_offset(position.next_source)
        self.epoch = position.leader_epoch

    def seek_offset(self, offset: SourceOffset, first_ms: int = -1) -> None:
        """Read again from an offset on; `first_ms` is the timestamp of the record there, -1 if unknown."""
        self.offset, self.unread_ms = offset, first_ms

    def skip_to(self, offset: SourceOffset, epoch: int) -> None:
        """All records before an offset were read; an `epoch` of -1 is unknown."""
        self.offset, self.unread_ms = offset, -1
        if epoch >= 0:
            self.epoch = epoch

    def next_fetch(self) -> FetchPosition:
        """The position of the next fetch."""
        return FetchPosition(self.offset, 0, self.epoch, topic_id=self.topic_id)

    def record_fetch(self, fetched: PartitionResponse, *, read_committed: bool, now: float) -> None:
        """The source answered without an error."""
        self.refusals = 0
        self.answered_at = now
        self.log_start = SourceOffset(fetched.log_start)
        committed = read_committed and fetched.last_stable_offset >= 0
        end = SourceOffset(fetched.last_stable_offset if committed else fetched.high_watermark)
        if end >= fetched.high_watermark:
            self.open_since = None
        elif end != self.end or self.open_since is None:
            self.open_since = now
        self.end = end

    def refused(self) -> int:
        """The source refused a fetch for now; returns the number of refusals in a row."""
        self.refusals += 1
        return self.refusals


_OTHER_TOPIC = error_codes.OTHER_TOPIC | {Code.UNKNOWN_TOPIC_OR_PARTITION}


def decide_fetch_error(
    fetched: PartitionResponse, source: TopicPartition, client: ClusterClient
) -> PauseFetch | CheckSource | FailPartition:
    """Decide about an answer of the source cluster of `client` that is an error, or reports a diverging epoch."""
    code = fetched.error
    if error_codes.refused(code):
        return FailPartition(client.lacks("READ", f"topic {source.topic}", "copying it"))
    if fetched.diverging_epoch >= 0:
        return CheckSource(SourceOffset(fetched.diverging_end))
    if code == Code.OFFSET_OUT_OF_RANGE:
        return CheckSource(SourceOffset(-1))
    reason = f"source: {error_codes.name_of(code)}"
    return CheckSource(None, reason) if code in _OTHER_TOPIC else PauseFetch(reason)
