"""A sent append until the target acknowledges it, and the remedy for each answer with which a broker refuses it.

All appenders use this table: copied records, routed records, replays, DataFrames and twinlog's own topics. The rules
are those of Kafka's producer (classes Sender and TransactionManager), with three additions. A batch that is too large
is split. A batch with refused records is cut around these records (KIP-467). A batch that stays corrupt is sent a few
times only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from twinlog.kafka.producer.appends import Append
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import REFUSED, RETRIABLE, Code
from twinlog.kafka.protocol.produce import Appended
from twinlog.kafka.retry import RetryPolicy
from twinlog.model.amounts import counted
from twinlog.model.types import SourceOffset, TargetOffset
from twinlog.settings.client import ClientSettings

NO_ANSWER = -2
"""Code of an append whose answer is missing: the target may have it, so it is sent again unchanged."""

UNVERIFIED = -3
"""Code of an append whose sequence numbers the target has already, perhaps with other records."""

CORRUPT_RETRIES = 5
"""The number of retries of a batch that the target finds corrupt: the network may have damaged the batch.

Kafka's producer continues for `delivery.timeout.ms` (class CorruptRecordException is retriable), which is unlimited
here.
"""

NOWHERE = TargetOffset(-1)
"""The append is unacknowledged, or its target offset is unknown."""


class Remedy(Enum):
    """The action of an appender after the target did not take an append."""

    RETRY = 1
    """Send the same bytes and sequence numbers again, to the partition's leader at that time."""
    ACCEPT = 2
    """Count the append as acknowledged: the target has it, and forgot its offset (Kafka's producer does the same)."""
    RESOLVE = 3
    """Read the log for the records that arrived: the target's state of the producer differs from the producer's."""
    FENCE = 4
    """Stop this producer: another producer has a newer epoch. Without transactions, `RESOLVE`."""
    ABORT = 5
    """Abort the transaction: it can only fail."""
    SPLIT = 6
    """Send the records in smaller batches: the batch exceeds a limit of the topic or the broker."""
    ISOLATE = 7
    """Send refused records in batches of their own: the topic refuses a record for its content."""
    AUTHORIZE = 8
    """Stop until the principal has the missing permission."""
    FAIL = 9
    """Stop: a retry cannot help."""


_OUT_OF_STEP = frozenset({Code.OUT_OF_ORDER_SEQUENCE_NUMBER, Code.UNKNOWN_PRODUCER_ID})
"""Codes of a batch whose sequence number contradicts the target's state of the producer."""

_REMEDIES: dict[int, Remedy] = {
    NO_ANSWER: Remedy.RETRY,
    **dict.fromkeys(RETRIABLE, Remedy.RETRY),
    UNVERIFIED: Remedy.RESOLVE,
    **dict.fromkeys(_OUT_OF_STEP, Remedy.RESOLVE),
    Code.DUPLICATE_SEQUENCE_NUMBER: Remedy.ACCEPT,
    Code.INVALID_PRODUCER_EPOCH: Remedy.FENCE,
    Code.MESSAGE_TOO_LARGE: Remedy.SPLIT,
    Code.RECORD_LIST_TOO_LARGE: Remedy.SPLIT,
    Code.INVALID_TIMESTAMP: Remedy.ISOLATE,
    Code.INVALID_RECORD: Remedy.ISOLATE,
    **dict.fromkeys(REFUSED, Remedy.AUTHORIZE),
}
"""The remedy for each error code of a produce response; `FAIL` for all other codes."""

_REMEDIES_IN_TRANSACTIONS = _REMEDIES | {
    Code.DUPLICATE_SEQUENCE_NUMBER: Remedy.ABORT,
    Code.INVALID_TXN_STATE: Remedy.ABORT,
    Code.TRANSACTION_ABORTABLE: Remedy.ABORT,
    Code.INVALID_PRODUCER_ID_MAPPING: Remedy.FENCE,
    Code.PRODUCER_FENCED: Remedy.FENCE,
}

IN_THE_LOG = frozenset({Code.REQUEST_TIMED_OUT, Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND})
"""Codes of records that are in the leader's log, and that followers may still get."""


FEW_REPLICAS = frozenset({Code.NOT_ENOUGH_REPLICAS, Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND})
"""Codes of a partition with fewer replicas in sync than `min.insync.replicas`."""


def remedy_for(code: int, *, transactional: bool = False) -> Remedy:
    """The remedy for an error code of a produce response, in a transaction or outside of transactions."""
    return (_REMEDIES_IN_TRANSACTIONS if transactional else _REMEDIES).get(code, Remedy.FAIL)


class SendState(Enum):
    """The state of a sent append; `AGAIN` is a failed append that may be sent again, in its turn."""

    IN_FLIGHT = 1
    DONE = 2
    FAILED = 3
    AGAIN = 4


@dataclass(slots=True)
class SentAppend:
    """An append in the window: its sequence number, and the broker's answer (`code`; `base_offset` on the target).

    `failures` counts the failures that held up later appends. `unreached` counts the failures for want of a connection,
    and `corrupt` the failures because the target found the batch corrupt. `reached`: the last try had a connection, as
    far as is known. `behind`: an earlier append was unacknowledged when the answer came. `unverified`: the target may
    have an earlier writer's append under these sequence numbers. `counted`: the append was subtracted from the bytes of
    late appends. `refusal` is the broker's last error.
    """

    append: Append
    sequence: int
    state: SendState = SendState.IN_FLIGHT
    code: int = 0
    base_offset: TargetOffset = NOWHERE
    failures: int = 0
    unreached: int = 0
    corrupt: int = 0
    reached: bool = True
    behind: bool = False
    unverified: bool = False
    counted: bool = False
    refusal: Appended | None = None

    @property
    def overtook(self) -> bool:
        """Whether the target refused the append only because an earlier append was missing.

        The earlier append has arrived since (Kafka's TransactionManager.canRetry).
        """
        return self.behind and self.code in _OUT_OF_STEP

    @property
    def unanswered(self) -> bool:
        """Whether the append may still arrive, because its answer is missing."""
        return self.state is SendState.IN_FLIGHT or self.code == NO_ANSWER

    @property
    def settled(self) -> bool:
        """Whether the target took the append, or has its sequence numbers already."""
        return self.state is not SendState.IN_FLIGHT and self.code in (Code.NONE, UNVERIFIED)

    def count_failure(self) -> None:
        """Count a failure that holds up later appends."""
        self.failures += 1
        self.unreached += not self.reached
        self.corrupt += self.code == Code.CORRUPT_MESSAGE


class LateAppends:
    """Marks the appends that may meet a late append: the first appends, until their size reaches `bytes`.

    Of two appends with the same sequence numbers the target takes the first, and answers the second like a retry. Both
    hold the same records if this copier's appends continue directly, because a source only loses records. After a hole
    this copier's appends are unverified.

    A late append is at the end of the log that was looked at, or after it. An answer with an earlier offset names an
    append that the copier has counted already: an earlier copier has used the epoch of this producer.
    """

    __slots__ = ("_log_end", "_next_source", "bytes")

    def __init__(self) -> None:
        self.bytes = 0
        self._next_source = -1
        self._log_end = TargetOffset(0)

    @property
    def expected(self) -> bool:
        """Whether a late append may still arrive."""
        return self.bytes > 0

    def expect_appends(self, next_source: SourceOffset, log_end: TargetOffset, most_bytes: int) -> None:
        """Expect late appends until `most_bytes` are appended.

        `next_source` is the source offset after the last record that was found. The remote log ended at `log_end`.
        """
        self.bytes = most_bytes
        self._next_source = next_source
        self._log_end = log_end

    def in_doubt(self, sent: SentAppend, base_offset: TargetOffset) -> bool:
        """Whether other records than those of an append may have its sequence numbers.

        The target had these sequence numbers before, at `base_offset`.
        """
        return sent.unverified or (sent.counted and base_offset < self._log_end)

    def count(self, sent: SentAppend) -> None:
        """Count an append of this copier; a late append may have its sequence numbers."""
        self.bytes -= sent.append.bytes
        sent.counted = True
        for first, count in sent.append.spans:
            sent.unverified = sent.unverified or first != self._next_source
            self._next_source = first + count

    def count_again(self, refused: Sequence[SentAppend]) -> None:
        """Count refused appends again when they are sent again; the first append keeps its verification."""
        self.bytes += sum(sent.append.bytes for sent in refused if sent.counted)
        first = refused[0]
        self._next_source = -1 if first.unverified else first.append.spans[0][0]

    def pass_over(self, first: SourceOffset, past: SourceOffset) -> None:
        """Source offsets from `first` up to `past` are on the target without an append of this producer."""
        if self._next_source == first:
            self._next_source = past

    def clear(self) -> None:
        """Stop expecting late appends."""
        self.bytes = 0
        self._log_end = TargetOffset(0)


@dataclass(frozen=True, slots=True)
class ProduceDecision:
    """The remedy for an append that the target did not take.

    `pause_s` are the seconds to wait before a retry. `reason` names the answer for operators.
    """

    remedy: Remedy
    reason: str
    pause_s: float = 0.0


def decide(
    sent: SentAppend, client: ClientSettings, *, transactional: bool, chance: float | None = None
) -> ProduceDecision:
    """Decide about the first append in the window; it was refused or got no answer, and all other appends are answered.

    `chance`, from 0 to 1, spreads the pauses of partitions that fail together; None draws a random number.
    """
    code, refusal = sent.code, sent.refusal
    reason = "no answer" if code == NO_ANSWER else error_codes.name_of(code)
    remedy = remedy_for(code, transactional=transactional)
    if code == Code.CORRUPT_MESSAGE:
        if sent.corrupt <= CORRUPT_RETRIES:
            remedy = Remedy.RETRY
        elif refusal is not None and not refusal.names_records:
            # Brokers before Kafka 2.4 answer so to a record without a key in a compacted topic.
            remedy = Remedy.ISOLATE
    if remedy is not Remedy.RETRY:
        return ProduceDecision(remedy, reason)
    return ProduceDecision(remedy, reason, RetryPolicy.of(client).pause_s(sent.failures, chance))


def explain_refusal(sent: SentAppend, place_of: Callable[[int], str] = "record {} of the batch".format) -> str:
    """The reason why the target refuses an append for good: the code, and the broker's own message (KIP-467).

    `place_of` names a refused record by its number in the batch.
    """
    text = error_codes.explain(sent.code)
    if sent.corrupt > CORRUPT_RETRIES:
        text += f", each of {sent.corrupt} times"
    refusal = sent.refusal
    if refusal is None:
        return text
    if refusal.message:
        text += f"; the broker: {refusal.message}"
    for error in refusal.record_errors[:1]:
        text += f"; {place_of(error.number)}: {error.message or 'no reason given'}"
    more = len(refusal.record_errors) - 1
    return text + (f", and {counted(more, 'more record')}" if more > 0 else "")
