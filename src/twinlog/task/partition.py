"""One source partition while a task copies it: where it is read, what is on its way, what is acknowledged."""

from __future__ import annotations

import uuid
from dataclasses import replace

from twinlog.clock import Clock, wall_ms
from twinlog.errors import RecordTooLargeError, TwinlogError
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.fetch_request import FetchPosition
from twinlog.kafka.protocol.fetch_response import PartitionResponse
from twinlog.lease.grant import Grant
from twinlog.model.types import TopicPartition
from twinlog.offsets.positions import Position, Writer
from twinlog.offsets.runs import CopiedRuns
from twinlog.settings.flow import ProducerSettings
from twinlog.task.astray import Astray
from twinlog.task.counts import CopyCounts
from twinlog.task.hooks import Hooks
from twinlog.task.produce_errors import ProduceErrors
from twinlog.write.appends import Append, CopyRules
from twinlog.write.prepare import prepare
from twinlog.write.queue import MAX_WINDOW, SEQUENCE_MASK, AppendQueue, Gate, ProducerIdentity

SURE_S = 5.0
"""How long an answer about the remote topic's limit counts."""

ASIDE_S = (2.0, 32.0)
"""For how long a partition that gave way is not read, at first and at most."""


class PartitionCopy:
    """Reads, prepares and appends one partition; what it cannot do itself it asks of its copier through `hooks`."""

    def __init__(
        self,
        grant: Grant,
        position: Position,
        rules: CopyRules,
        identity: ProducerIdentity,
        *,
        producer: ProducerSettings,
        hooks: Hooks,
        clock: Clock,
        sequence: int = 0,
    ) -> None:
        """`sequence` is that of the next record that `identity` appends here."""
        self._clock = clock
        self._now = clock.monotonic
        self.grant = grant
        self.source: TopicPartition = grant.source
        self.remote: TopicPartition = grant.remote
        self.rules = replace(rules, max_batch_bytes=min(rules.max_batch_bytes, grant.max_batch_bytes))
        self.limit = grant.max_batch_bytes
        """What the remote topic takes, as far as is known."""
        topic_id = position.topic_id or grant.topic_id
        self.topic_id = None if topic_id is None else uuid.UUID(topic_id)
        self.delivery = ProduceErrors(self, producer, hooks, clock.monotonic)
        self.queue = AppendQueue(
            self.remote,
            identity,
            self._acknowledged,
            self.delivery.troubled,
            now=clock.monotonic,
            max_in_flight=producer.max_in_flight,
            sequence=sequence,
        )
        self.transactional = identity.transactional
        self.acknowledged = position
        self.committed = position
        """Up to here no crash takes anything back: behind `acknowledged` while a transaction is open."""
        self.counts = CopyCounts()
        self.copied_bytes = 0
        """What is on the target for good since this copier took the partition."""
        self.runs = CopiedRuns()
        """What was acknowledged since somebody took it."""
        self.high_watermark = -1
        self.end = -1
        self.heard_at: float | None = None
        """When the source last said where it ends (monotonic seconds)."""
        self.paused = False
        self.left = False
        self.failed = False
        self.trouble: str | None = None
        self._most_bytes = rules.max_batch_bytes
        self._sure_until = 0.0
        self._hooks = hooks
        self._fetch_offset = position.next_source
        self._last_epoch = position.leader_epoch
        self._refusals = 0
        self.held_back = False
        self._unstored = False
        self.astray: Astray | None = None
        """Set when the target took an append further in front than it may: what is lost is copied again first."""
        self._read_ahead = 0
        self._aside_until = 0.0
        self._gave_way = 0
        self._uncommitted: list[tuple[Append, int, int]] = []
        self._leeway = identity.transactional

    # Read.

    def fetch_position(self, read_ahead: int) -> FetchPosition | None:
        self._read_ahead = read_ahead
        self.held_back = not self.paused and (self.queue.queued_bytes >= read_ahead or self._now() < self._aside_until)
        if self.paused or self.held_back:
            return None
        return FetchPosition(self._fetch_offset, 0, self._last_epoch, topic_id=self.topic_id)

    @property
    def fetch_offset(self) -> int:
        return self._fetch_offset

    @property
    def lag(self) -> int:
        """Source offsets up to the end that a consumer may read; -1 before the first fetch."""
        return -1 if self.end < 0 else max(0, self.end - self.settled.next_source)

    @property
    def settled(self) -> Position:
        """How far this partition is copied for good."""
        return self.committed if self.transactional else self.acknowledged

    def restart(self, position: Position) -> None:
        """Read on from `position`, after a gap or a resolve; what was queued must be cleared before."""
        self._move(position)
        self.go_on()

    def _move(self, position: Position) -> None:
        if position.topic_id is not None:
            self.topic_id = uuid.UUID(position.topic_id)
        if position.next_target is not None and position.next_target != self.acknowledged.next_target:
            self.runs.jumped(position.next_source, position.next_target)
        self.acknowledged = position
        self._fetch_offset = position.next_source
        self._last_epoch = position.leader_epoch
        self._aside_until = 0.0
        self.trouble = None

    def go_on(self) -> None:
        """Read again, unless this partition failed, was released, or is not known to be right on the target."""
        if not self.left and not self.failed and not self._unstored and self.astray is None:
            self.paused = False
            self._hooks.more(self.source)

    def leave(self) -> None:
        """Stop reading and drop what was read but not sent; what is in flight is still waited for."""
        self.left = True
        self.paused = True
        self.queue.drop_pending()

    def grant_again(self) -> Grant:
        """The grant to take this partition up from what is known to have arrived; more may be on its way."""
        return replace(self.grant, position=self.acknowledged, settled=False)

    def become(self, writer: Writer, position: Position) -> None:
        """Be about to append as `writer` from `position` on; what was queued is forgotten.

        This writer, here or elsewhere, may have left appends on their way. Until `stored` nothing is read.
        """
        self.paused = self._unstored = True
        self.astray = None
        identity = ProducerIdentity(writer.producer_id, writer.epoch)
        # What the target answered to all that was sent is in the log that was just read, and counts.
        most_bytes = self.queue.doubt_left if identity == self.queue.identity else None
        self.queue.clear(identity, writer.sequence)
        self.doubt(position, most_bytes)
        self._move(replace(position, writer=writer))

    def stored(self) -> None:
        """Whoever comes next knows what this partition became: go on."""
        self._unstored = False
        self.go_on()

    def doubt(self, position: Position, most_bytes: int | None = None) -> None:
        """Appends of this partition's writer from before `position` may still arrive, of so many bytes at most."""
        if most_bytes is None:
            most_bytes = MAX_WINDOW * self.rules.max_batch_bytes
        self.queue.doubt(position.next_source, most_bytes)

    def deliver(self, asked: FetchPosition, fetched: PartitionResponse) -> None:
        """Take one answer of the source."""
        if self.paused or asked.offset != self._fetch_offset or asked.topic_id != self.topic_id:
            return
        if fetched.error or fetched.diverging_epoch >= 0:
            self._refused(fetched)
            return
        if self.trouble is not None and not self.trouble.startswith("target"):
            self.trouble = None
        self._refusals = 0
        self.heard_at = self._now()
        self.high_watermark = fetched.high_watermark
        committed = self.rules.read_committed and fetched.last_stable_offset >= 0
        self.end = fetched.last_stable_offset if committed else fetched.high_watermark
        if not fetched.records:
            return
        try:
            prepared = prepare(
                fetched.records, self._fetch_offset, self._rules_for(len(fetched.records)), fetched.aborted
            )
        except RecordTooLargeError as error:
            if self._doubts_limit():
                return
            self.fail(self._named(error))
            return
        except TwinlogError as error:
            self.fail(self._named(error))
            return
        if prepared.oversized and self._doubts_limit():
            return
        self._fetch_offset = prepared.position
        if prepared.leader_epoch >= 0:
            self._last_epoch = prepared.leader_epoch
        self.counts.aborted += prepared.aborted
        self.counts.control += prepared.control
        for record in prepared.oversized:
            self._hooks.event(
                "oversized",
                f"{self.source}: source offset {record.source_offset} is left out: {record.size} bytes",
            )
        if prepared.appends:
            self._hooks.keep(prepared.appends)
            self.queue.put(prepared.appends)
            self._hooks.offer(self.queue)
        elif self.queue.idle:
            self.catch_up()

    def _rules_for(self, size: int) -> CopyRules:
        # Of so few batches that may be on their way together each has to be large, when more wait than may fly.
        rules = self.rules
        behind = self.queue.pending or size > rules.merge_batch_bytes
        return rules.merging_all() if behind and self._hooks.far_target() else rules

    def give_way(self, now: float) -> None:
        """Make room for other partitions: what was not sent yet is dropped.

        It is read again once the target acknowledged something, or after a while from `now` (monotonic seconds) on that
        doubles each time, for as long as the target takes nothing of it.
        """
        if self.queue.pending and not self.left:
            self._fetch_offset = self.queue.pending[0].first_source_offset
            self.queue.drop_pending()
            self._aside_until = now + min(ASIDE_S[0] * 2**self._gave_way, ASIDE_S[1])
            self._gave_way += 1
            # Where it stands now is news to the reader, which may wait at the end of its log.
            self._hooks.more(self.source)

    def _doubts_limit(self) -> bool:
        """Whether the remote topic has to be asked first; what was read is read again then."""
        if self._now() < self._sure_until:
            return False
        self.paused = True
        self._hooks.limit(self)
        return True

    def take_limit(self, limit: int | None) -> None:
        """Go on with what the remote topic takes now, None if it does not tell."""
        if limit is not None and limit != self.limit:
            self.limit = limit
            self.rules = replace(self.rules, max_batch_bytes=min(self._most_bytes, limit))
        self._sure_until = self._now() + SURE_S
        self.go_on()

    def _refused(self, fetched: PartitionResponse) -> None:
        code = fetched.error
        if fetched.diverging_epoch >= 0 or code == Code.OFFSET_OUT_OF_RANGE:
            self.paused = True
            self._hooks.check(self, fetched.diverging_end if fetched.diverging_epoch >= 0 else -1)
        elif code in (Code.UNKNOWN_TOPIC_ID, Code.INCONSISTENT_TOPIC_ID, Code.UNKNOWN_TOPIC_OR_PARTITION):
            self.paused = True
            self.trouble = f"source: {error_codes.name_of(code)}"
            self._hooks.check(self, None)
        elif error_codes.refused(code):
            self.fail(self._hooks.source_lacks("READ", f"topic {self.source.topic}", "copying it"))
        else:
            self.trouble = f"source: {error_codes.name_of(code)}"
            self._refusals += 1
            self.paused = True
            self._hooks.pause(self, self._refusals)

    # Append.

    def _acknowledged(self, append: Append, base_offset: int) -> None:
        expected = self.acknowledged.next_target
        if self.astray is not None or (expected is not None and base_offset < expected):
            self._went_astray(append, base_offset)
            return
        # In front of a transactional producer's first record may be what other transactions left: markers, aborted
        # records.
        if expected is not None and base_offset > expected and not self._leeway:
            self._hooks.foreign(self.remote, expected, base_offset)
        self.trouble = None
        self._leeway = False
        self.runs.add(append.spans, base_offset)
        self.acknowledged = replace(
            self.acknowledged,
            next_source=append.next_source_offset,
            next_target=base_offset + append.count,
            leader_epoch=self._last_epoch,
            writer=_behind(self.acknowledged.writer, append.count),
        )
        if self.transactional:
            self._uncommitted.append((replace(append, data=memoryview(b"")), append.bytes, base_offset))
        else:
            self._copied(append, append.bytes, base_offset)
        if self.queue.idle:
            self.catch_up()
        self._hooks.moved()
        self._aside_until, self._gave_way = 0.0, 0
        if self.held_back and self.queue.queued_bytes < self._read_ahead:
            self.held_back = False
            self._hooks.more(self.source)

    def _went_astray(self, append: Append, base_offset: int) -> None:
        """The target lost what it had acknowledged, and the sequence numbers with it: it took an append too early."""
        first = self.astray is None
        if self.astray is None:
            self.paused = True
            self.queue.gate = Gate.SHUT
            self.trouble = f"target: it appended at offset {base_offset} before what it had acknowledged"
            self.astray = Astray(base_offset, append.next_source_offset)
        self.astray.add(append, base_offset)
        if first:
            self._hooks.resolve(self)
        self._hooks.moved()

    def _copied(self, append: Append, size: int, base_offset: int) -> None:
        """An append is on the target for good: `size` bytes from `base_offset` on."""
        counts = self.counts
        counts.records += append.count
        counts.bytes += size
        self.copied_bytes += size
        if append.max_timestamp >= 0:
            counts.latency_ms = max(counts.latency_ms, wall_ms(self._clock) - append.max_timestamp)

    def in_transaction(self, *, marked: bool) -> Position:
        """The position that the open transaction reaches; everything sent is acknowledged.

        `marked` says that the partition takes part, so that behind the records comes the transaction's marker.
        """
        position = self.acknowledged
        if not marked or position.next_target is None:
            return position
        return replace(position, next_target=position.next_target + 1)

    def commit(self, position: Position) -> None:
        """The transaction with this position was committed."""
        uncommitted, self._uncommitted = self._uncommitted, []
        for append, size, base_offset in uncommitted:
            self._copied(append, size, base_offset)
        self.committed = position
        self.acknowledged = replace(self.acknowledged, next_target=position.next_target, generation=position.generation)

    def mark(self, generation: int) -> None:
        """The exact map of this partition is in another generation."""
        if self.acknowledged.generation != generation:
            self.acknowledged = replace(self.acknowledged, generation=generation)

    def roll_back(self, identity: ProducerIdentity) -> None:
        """The transaction was aborted, nothing of it is in flight: copy on from the last committed position."""
        rested = self.queue.idle and self.acknowledged == self.committed
        self.queue.clear(identity)
        self._uncommitted.clear()
        self._leeway = True
        if self.astray is not None:
            self._move(self.committed)
            self._hooks.lost(self)
        elif not rested:
            self.restart(self.committed)

    def lost_behind(self, end: int | None) -> None:
        """Of what was committed the target has nothing from its offset `end` on, or all of it (None)."""
        if end is None:
            self.astray = None
            return
        self.paused = True
        if self.astray is None:
            self.astray = Astray(end, self.committed.next_source)
        self.astray.end = min(self.astray.end, end)

    def copy_again(self, position: Position) -> None:
        """What the target lost of committed transactions lies behind `position`: go on there."""
        self.astray = None
        self.committed = position
        self.restart(position)

    @property
    def at_rest(self) -> bool:
        """Nothing is on its way or being looked at, and no transaction with something of this partition is open."""
        return self.queue.idle and not self._uncommitted and self.astray is None and not self._unstored

    @property
    def arrived(self) -> bool:
        """All that was sent is acknowledged, and is where it belongs."""
        return self.queue.idle and self.astray is None

    def catch_up(self) -> None:
        """Nothing is on its way: what was skipped since the last append is behind us too."""
        if self.left:
            return
        if self.acknowledged.next_source != self._fetch_offset:
            self.acknowledged = replace(
                self.acknowledged, next_source=self._fetch_offset, leader_epoch=self._last_epoch
            )
            self._hooks.moved()

    def fail(self, error: TwinlogError) -> None:
        """Stop this partition for good and say why."""
        self.paused = True
        self.failed = True
        self.queue.end()
        self.trouble = str(error)
        self._hooks.failed(self.source, error)

    def _named(self, error: TwinlogError) -> TwinlogError:
        if isinstance(error, RecordTooLargeError):
            return RecordTooLargeError(
                f"{self.source}: the record at source offset {error.source_offset} needs {error.size} bytes, "
                f"{self.remote} takes {error.limit}; raise max.message.bytes of {self.remote.topic}, or set "
                f"twinlog.oversized.record.policy = skip to leave such records out",
                source_offset=error.source_offset,
                size=error.size,
                limit=error.limit,
            )
        error.args = (f"{self.source}: {error}",)
        error.message = f"{self.source}: {error.message}"
        return error


def _behind(writer: Writer | None, count: int) -> Writer | None:
    """The writer when its next `count` records have arrived."""
    if writer is None:
        return None
    return Writer(writer.producer_id, writer.epoch, (writer.sequence + count) & SEQUENCE_MASK)
