"""The appends of a remote partition on their way to the target: order, sequence numbers, acknowledged records.

The idempotent producer's rules (KIP-98, Kafka class ProducerStateManager) make a retry safe. At most five batches are
in flight, sequence numbers are consecutive, and a repeated batch keeps its bytes. The module does no I/O.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Protocol

from twinlog.clock import LONG_AGO
from twinlog.kafka.producer.appends import Append
from twinlog.kafka.producer.produce_errors import FEW_REPLICAS, UNVERIFIED, LateAppends, SendState, SentAppend
from twinlog.kafka.record.stamp import ProducerIdentity
from twinlog.model.types import TargetOffset, TopicPartition

MAX_WINDOW = 5
"""A broker remembers the last five batches of a producer per partition; with more in flight it misses a retry."""

KNOWN_S = 600.0
"""After so many seconds of silence the first batch is sent alone.

A broker forgets a producer that was silent for `producer.id.expiration.ms`, a day by default. A broker takes any first
sequence number of an unknown producer (Kafka class ProducerAppendInfo). If the broker refused the first batch, the
batches in flight after the first batch would overtake it.
"""


class Gate(Enum):
    """Controls which appends may leave a queue: all, only repeated appends, or none. Transactions close the gate."""

    OPEN = 1
    RETRIES = 2
    SHUT = 3


class QueueSender(Protocol):
    """Sends the appends of queues: at once, or within transactions."""

    def offer_queue(self, queue: AppendQueue) -> None:
        """A queue may have appends to send."""


class AppendQueue:
    """Appends of a remote partition in source order.

    `acknowledged(append, base_offset)` is called once per append, in order, after the target has the append on all
    in-sync replicas. `troubled(sent)` is called when the first batch in the window failed and no batch is in flight.
    The owner then calls `retry_failed`, `accept_first`, `replace_first`, `set_first_aside` or `clear`. `troubled` is
    called only before `end`. The owner does each `step`: it calls `set_first_aside`, then `finish_aside`.
    `few_replicas` is True from an answer that the partition has too few replicas in sync, until the next
    acknowledgement.

    `sequence` belongs to the first append: 0, unless this producer epoch appended to the partition before. `late` are
    appends of an earlier copier that may still arrive. An append whose records may be the earlier copier's gets the
    code `UNVERIFIED`.
    """

    __slots__ = (
        "_acknowledged",
        "_aside",
        "_ended",
        "_in_flight",
        "_known",
        "_looked_at",
        "_next_sequence",
        "_now",
        "_troubled",
        "_window",
        "few_replicas",
        "gate",
        "identity",
        "late",
        "limit",
        "not_before",
        "partition",
        "pending",
        "queued_bytes",
        "stopped",
        "waits_since",
    )

    def __init__(
        self,
        partition: TopicPartition,
        identity: ProducerIdentity,
        acknowledged: Callable[[Append, TargetOffset], None],
        troubled: Callable[[SentAppend], None],
        *,
        now: Callable[[], float],
        max_in_flight: int = MAX_WINDOW,
        sequence: int = 0,
    ) -> None:
        self.partition = partition
        self.identity = identity
        self.pending: deque[Append] = deque()
        self.queued_bytes = 0
        self.not_before = LONG_AGO
        self.waits_since = LONG_AGO
        self.stopped = False
        self.few_replicas = False
        self.gate = Gate.RETRIES if identity.transactional else Gate.OPEN
        self.limit = min(max_in_flight, MAX_WINDOW)
        self.late = LateAppends()
        self._acknowledged = acknowledged
        self._troubled = troubled
        self._window: deque[SentAppend] = deque()
        self._aside: Append | None = None
        self._in_flight = 0
        self._next_sequence = sequence
        self._known = False
        self._ended = False
        self._looked_at = LONG_AGO
        self._now = now

    @property
    def late_bytes_left(self) -> int | None:
        """The bytes that late appends may still have, if the target answered every sent append; otherwise None."""
        if not self._window or not all(sent.settled for sent in self._window):
            return None
        return max(0, self.late.bytes)

    def put(self, appends: list[Append]) -> None:
        """Queue appends after the queued appends."""
        if not self.pending and not self._window:
            self.waits_since = self._now()
        self.pending.extend(appends)
        for append in appends:
            self.queued_bytes += append.memory_bytes

    @property
    def idle(self) -> bool:
        """Whether the queue and the window are empty."""
        return not self.pending and not self._window

    @property
    def ready(self) -> bool:
        """Whether an unsent append waits only for its turn.

        It waits longer behind an append that was set aside, and behind an `OffsetStep`, which the owner of the queue
        does.
        """
        return bool(self.pending) and self.pending[0] is not self._aside and self.pending[0].step is None

    @property
    def step(self) -> Append | None:
        """The first append, if it is an `OffsetStep` that all earlier appends have made way for; otherwise None."""
        if self._window or not self.pending or self._aside is not None or self._ended:
            return None
        return None if self.pending[0].step is None else self.pending[0]

    @property
    def unsent(self) -> list[Append]:
        """The appends outside of the window, except for an append that was set aside."""
        return [append for append in self.pending if append is not self._aside]

    @property
    def first(self) -> Append:
        """The first unacknowledged append, which all later appends wait for; the queue must have an append."""
        return self._window[0].append if self._window else self.pending[0]

    def waiting(self) -> Iterator[Append]:
        """Every unacknowledged append, sent or unsent, in order."""
        yield from (sent.append for sent in self._window)
        yield from self.pending

    @property
    def ended(self) -> bool:
        """Whether the queue has stopped sending for good."""
        return self._ended

    @property
    def in_flight(self) -> int:
        return self._in_flight

    @property
    def all_acknowledged(self) -> bool:
        """Whether every sent append is acknowledged."""
        return not self._window

    @property
    def unanswered(self) -> bool:
        """Whether a sent append may still arrive, because its answer is missing."""
        return any(sent.unanswered for sent in self._window)

    @property
    def next_sequence(self) -> int:
        """Sequence number of the next append."""
        return self._next_sequence

    def overdue(self, now: float, limit_s: float) -> bool:
        """Whether the first append has waited for its acknowledgement longer than `limit_s` at a monotonic time."""
        return not self.idle and now - self.waits_since > limit_s

    def next_bytes(self, now: float) -> int:
        """Bytes of the next append of `take_append` at time `now` (monotonic seconds), 0 if all appends must wait."""
        if self.stopped or now < self.not_before or self.gate is Gate.SHUT:
            return 0
        again = self._next_again() if self._window else None
        if again is not None:
            return again.append.bytes if self._known or again is self._window[0] else 0
        if not self.ready or self.gate is not Gate.OPEN:
            return 0
        if self._window:
            if any(sent.state is SendState.FAILED for sent in self._window):
                return 0
        else:
            self._known = self._known and now - self._looked_at < KNOWN_S
        self._looked_at = now
        return self.pending[0].bytes if len(self._window) < (self.limit if self._known else 1) else 0

    def take_append(self) -> SentAppend:
        """The next append to send: a failed append, unchanged, or the next queued append, stamped."""
        again = self._next_again() if self._window else None
        if again is not None:
            again.state = SendState.IN_FLIGHT
            again.reached = True
            self._in_flight += 1
            return again
        append = self.pending.popleft()
        sent = SentAppend(append, self._next_sequence)
        if self.late.bytes > 0:
            self.late.count(sent)
        self._next_sequence = self.identity.stamp_batch(append.data, sent.sequence, append.count)
        self._window.append(sent)
        self._in_flight += 1
        return sent

    def record_response(self, sent: SentAppend, code: int, base_offset: TargetOffset, *, there: bool = False) -> None:
        """Note a broker's answer (code 0: appended at `base_offset`), and pass on acknowledged appends in order.

        With `there` the target may have had these sequence numbers before. The answer to an append that `clear` has
        dropped has no effect.
        """
        window = self._window
        if not (window and sent is window[0]) and all(sent is not one for one in window):
            return
        self._in_flight -= 1
        if there and not code and self.late.in_doubt(sent, base_offset):
            code = UNVERIFIED
        self.few_replicas = code in FEW_REPLICAS or (self.few_replicas and code != 0)
        sent.code = code
        sent.base_offset = base_offset
        sent.state = SendState.FAILED if code else SendState.DONE
        sent.behind = sent is not window[0]
        while window and window[0].state is SendState.DONE:
            done = window.popleft()
            self._known = True
            self.waits_since = self._now()
            self.queued_bytes -= done.append.memory_bytes
            self._acknowledged(done.append, done.base_offset)
        if not self._in_flight and window and window[0].state is SendState.FAILED:
            # Each remaining append has failed, or follows a failed append; the error of the first append counts.
            first = window[0]
            if first.overtook:
                self._again()
                return
            self.stopped = True
            first.count_failure()
            if not self._ended:
                self._troubled(first)

    def retry_failed(self, not_before: float) -> None:
        """Send the failed appends again from a monotonic time on, with their bytes and sequence numbers."""
        self.not_before = not_before
        self.stopped = self._ended
        # A recreated topic, or a leader that lost its log, may have forgotten the producer.
        self._known = False
        self._again()

    def accept_first(self, base_offset: TargetOffset) -> None:
        """Acknowledge the first append of the window, which the target already has at `base_offset`."""
        first = self._window[0]
        self.stopped = self._ended
        self._in_flight += 1
        self.record_response(first, 0, base_offset)

    def replace_first(self, parts: list[Append]) -> None:
        """Replace the first append, which the target refused, by `parts`; it is in the window, or was set aside.

        The target refused all later appends, too (out of order), so they are stamped again with new sequence numbers.
        """
        self._take_back_window()
        first = self.pending.popleft()
        self.pending.extendleft(reversed(parts))
        self.queued_bytes += sum(part.memory_bytes for part in parts) - first.memory_bytes
        self._aside = None
        self.stopped = self._ended

    def set_first_aside(self) -> None:
        """Take the first append, which the target refused, out of the window; all later appends wait until it leaves.

        An `OffsetStep` is set aside while it is done. The append leaves by `finish_aside`, `replace_first`, `clear` or
        a drop. A transaction may end meanwhile. The later appends of the window, which the target refused, too, wait
        behind it.
        """
        self._take_back_window()
        self._aside = self.pending[0]
        self.stopped = self._ended

    def finish_aside(self, base_offset: TargetOffset) -> None:
        """Acknowledge the append that was set aside, which is on the target at `base_offset`."""
        done = self.pending.popleft()
        assert done is self._aside
        self._aside = None
        self.waits_since = self._now()
        self.queued_bytes -= done.memory_bytes
        self.late.pass_over(done.first_source_offset, done.next_source_offset)
        self._acknowledged(done, base_offset)

    def drop_all(self) -> None:
        """Drop all waiting appends: the target refused the first append of the window, and so all later appends."""
        self._take_back_window()
        self._aside = None
        self.pending.clear()
        self.queued_bytes = 0

    def open(self) -> None:
        """Let all appends leave: the transaction has begun."""
        self.gate = Gate.OPEN

    def close(self) -> None:
        """Let only repeated appends leave: the transaction is about to end."""
        self.gate = Gate.RETRIES

    def close_gate(self) -> None:
        """Keep all appends until the gate is opened or the queue is cleared."""
        self.gate = Gate.SHUT

    def send_now(self) -> None:
        """Send appends that wait for a retry at once."""
        self.not_before = LONG_AGO

    def end(self) -> None:
        """Stop sending: new appends and retries remain in the queue.

        The target may still acknowledge appends in flight.
        """
        self._ended = True
        self.stopped = True

    def drop_pending(self) -> None:
        """Drop unsent appends, except for an append set aside, and for appends that a transform routed here from other
        partitions."""
        self.drop_appends(lambda append: append.route is None and append is not self._aside)

    def drop_appends(self, unwanted: Callable[[Append], bool]) -> None:
        """Drop the unwanted appends among the unsent appends."""
        self.pending = deque(append for append in self.pending if not unwanted(append))
        if self._aside is not None and unwanted(self._aside):
            self._aside = None
        self.queued_bytes = sum(append.memory_bytes for append in self.waiting())

    def set_owner(
        self, acknowledged: Callable[[Append, TargetOffset], None], troubled: Callable[[SentAppend], None]
    ) -> AppendQueue:
        """Give the queue another owner."""
        self._acknowledged, self._troubled = acknowledged, troubled
        return self

    def clear(self, identity: ProducerIdentity, sequence: int = 0) -> None:
        """Drop all queued appends and start again as `identity` with a sequence number."""
        self.gate = Gate.RETRIES if identity.transactional else Gate.OPEN
        self._empty_window()
        self._aside = None
        self.pending.clear()
        self.queued_bytes = 0
        self.not_before = LONG_AGO
        self.identity = identity
        self._next_sequence = sequence
        self._known = False
        self.late.clear()
        self.stopped = self._ended

    def _take_back_window(self) -> None:
        """Make all appends of the window unsent again; the target lacks them."""
        if self._window:
            self._next_sequence = self._window[0].sequence
            self.late.count_again(self._window)
            self.pending.extendleft(sent.append for sent in reversed(self._window))
            self._empty_window()

    def _empty_window(self) -> None:
        self._window.clear()
        self._in_flight = 0

    def _again(self) -> None:
        """Send failed appends again, in order."""
        for sent in self._window:
            if sent.state is SendState.FAILED:
                sent.state = SendState.AGAIN

    def _next_again(self) -> SentAppend | None:
        """The next append of the window to send again.

        None after a failed append, because the target would refuse the later appends, too.
        """
        for sent in self._window:
            if sent.state is SendState.AGAIN:
                return sent
            if sent.state is SendState.FAILED:
                return None
        return None
